use super::*;

fn workers(count: u128) -> Vec<WorkerId> {
    (0..count)
        .map(|n| WorkerId::from_random(n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)))
        .collect()
}

fn rescue() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

fn members(me: WorkerId, live: &[WorkerId]) -> Member {
    let peer = |worker: &WorkerId| Peer { worker: *worker, duties: vec![rescue()] };
    Membership::of(me, &[rescue()], &live.iter().map(peer).collect::<Vec<_>>()).of_duty(&rescue())
}

#[test]
fn of_a_thousand_the_same_three_stand_by_in_every_process() {
    let live = workers(1_000);
    let standing: Vec<_> = live.iter().filter(|me| members(**me, &live).stands_by()).collect();
    assert_eq!(standing.len(), STAND_BYS);
    let reversed: Vec<_> = live.iter().rev().copied().collect();
    assert!(standing.iter().all(|me| members(**me, &reversed).stands_by()));
}

#[test]
fn when_one_that_stood_by_is_gone_another_takes_its_place() {
    let live = workers(10);
    let gone = *live.iter().find(|me| members(**me, &live).stands_by()).unwrap();
    let left: Vec<_> = live.iter().copied().filter(|worker| *worker != gone).collect();
    assert_eq!(left.iter().filter(|me| members(**me, &left).stands_by()).count(), STAND_BYS);
}

#[test]
fn who_missed_more_than_one_beat_does_not_count() {
    let second = Duration::from_secs(1);
    assert!(is_live(second * 15, second * 30));
    assert!(!is_live(second * 16, second * 30));
}

#[test]
fn for_each_duty_some_stand_by_who_can_do_it() {
    let (prune, report) = (DutyName::parse("prune").unwrap(), DutyName::parse("report").unwrap());
    let can =
        |index: usize| if index < 50 { vec![prune.clone()] } else { vec![prune.clone(), report.clone()] };
    let all = workers(60).into_iter().enumerate();
    let peers: Vec<_> = all.map(|(index, worker)| Peer { worker, duties: can(index) }).collect();
    let stand_by = |duty: &DutyName| {
        let able = peers.iter().filter(|peer| peer.duties.contains(duty));
        able.filter(|peer| Membership::of(peer.worker, &peer.duties, &peers).of_duty(duty).stands_by())
            .count()
    };
    assert_eq!((stand_by(&prune), stand_by(&report)), (STAND_BYS, STAND_BYS));
}

#[test]
fn one_that_sees_no_other_stands_by() {
    let members = members(WorkerId::from_random(7), &[]);
    assert!(members.stands_by() && members.is_alone());
    assert!(Membership::alone().of_duty(&rescue()).stands_by());
}

#[test]
fn all_that_do_not_stand_by_look_at_most_once_a_second_together() {
    for count in [4_u32, 50, 1_000] {
        let live = workers(count.into());
        let membership: Vec<_> = live.iter().map(|me| members(*me, &live)).collect();
        let others = membership.iter().filter(|members| !members.stands_by());
        let a_second: f64 = others.map(|members| 1.0 / members.round().as_secs_f64()).sum();
        assert!(a_second <= 1.0, "{count} workers send {a_second} requests a second");
    }
}

#[test]
fn that_goes_too_if_each_can_do_something_else() {
    let duty = |index: usize| vec![DutyName::parse(&format!("duty-{}", index % 20)).unwrap()];
    let all = workers(1_000).into_iter().enumerate();
    let peers: Vec<_> = all.map(|(index, worker)| Peer { worker, duties: duty(index) }).collect();
    let membership =
        peers.iter().map(|peer| Membership::of(peer.worker, &peer.duties, &peers).of_duty(&peer.duties[0]));
    let others = membership.filter(|members| !members.stands_by());
    let a_second: f64 = others.map(|members| 1.0 / members.round().as_secs_f64()).sum();
    assert!(a_second <= 1.0, "they send {a_second} requests a second");
}

#[test]
fn the_first_looks_of_many_are_spread_over_a_round() {
    let live = workers(1_000);
    let mut late = 0;
    for me in &live {
        let members = members(*me, &live);
        assert!(members.first_look_after() < members.round());
        late += u32::from(members.first_look_after() * 2 > members.round());
    }
    assert!((350..650).contains(&late), "{late} of 1,000 poll in the second half");
}
