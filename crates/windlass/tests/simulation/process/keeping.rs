//! The duties of a process. The real duty status decides which duties it does; each duty sends one request
//! after another.

use windlass::duties::status::{Begin, DutyStatus, DutyStatusEffect, DutyStatusEvent, Entry, RunReport};
use windlass::duties::{DutyMode, DutySpec, LeaseTiming};
use windlass::maintenance::{Answer as Heard, Ask, Role};
use windlass::worker::Moment;
use windlass_core::duty::runner::RunId;
use windlass_core::lease::TermId;
use windlass_core::lease::lease_client::LeaseCall;
use windlass_core::names::DutyName;
use windlass_core::worker::{HeartbeatAnswer, Liveness};

use super::{Body, Part, Wish};
use crate::plan::SWEEP_EVERY;
use crate::store::{Answer, Call, Reply};

/// A duty of the simulated processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chore {
    Rescue,
    Sweep,
    Prune,
    Watch,
}

/// A run of a duty, with its current request.
pub(super) struct Doing {
    run: RunId,
    asked: Ask,
    role: Role,
}

impl Chore {
    const ALL: [Self; 4] = [Self::Rescue, Self::Sweep, Self::Prune, Self::Watch];

    /// The duties that one process at a time does.
    pub(super) fn led() -> Vec<DutyName> {
        [Self::Rescue, Self::Sweep, Self::Prune].map(Self::name).to_vec()
    }

    fn name(self) -> DutyName {
        let name = match self {
            Self::Rescue => "rescue",
            Self::Sweep => "sweep",
            Self::Prune => "prune",
            Self::Watch => "watch",
        };
        DutyName::parse(name).expect("the names are valid")
    }

    fn entry(self) -> Entry {
        let mode = if self == Self::Watch { DutyMode::EveryWorker } else { DutyMode::Lease };
        let interval = if self == Self::Prune { SWEEP_EVERY * 12 } else { SWEEP_EVERY };
        Entry { spec: DutySpec { name: self.name(), interval, mode, rotation: None }, at_once: true }
    }

    fn first(self) -> Ask {
        match self {
            Self::Rescue | Self::Watch => Ask::Look,
            Self::Sweep => Ask::Sweep,
            Self::Prune => Ask::Prune,
        }
    }
}

impl Body {
    pub(super) fn on_members(
        &mut self,
        heartbeat_answer: &HeartbeatAnswer,
        now: Moment,
        out: &mut Vec<Wish>,
    ) {
        if heartbeat_answer.beat == Liveness::Dead {
            return;
        }
        let (worker, members, store_now) =
            (self.worker, heartbeat_answer.members.clone(), heartbeat_answer.now);
        if self.duty_status.is_some() {
            self.notify_duties(DutyStatusEvent::HeartbeatAnswer { worker, members, store_now }, now, out);
        } else {
            let entries = Chore::ALL.map(Chore::entry).to_vec();
            self.duty_status =
                Some(DutyStatus::new(worker, entries, LeaseTiming::default(), members, store_now, now));
        }
    }

    pub(super) fn notify_duties(&mut self, event: DutyStatusEvent, now: Moment, out: &mut Vec<Wish>) {
        let Some(duty_status) = &mut self.duty_status else { return };
        for effect in duty_status.on(event, now) {
            self.perform_duty(effect, now, out);
        }
    }

    pub(super) fn do_duties(&mut self, now: Moment, out: &mut Vec<Wish>) {
        let fresh = TermId::from_random(self.rng.bits128());
        let Some(duty_status) = &mut self.duty_status else { return };
        for effect in duty_status.effects(now, fresh) {
            self.perform_duty(effect, now, out);
        }
    }

    fn perform_duty(&mut self, effect: DutyStatusEffect, now: Moment, out: &mut Vec<Wish>) {
        match effect {
            DutyStatusEffect::Take(call, request) => {
                out.push(Wish::Send(Part::Take(call), Call::TakeLeases(request)));
            }
            DutyStatusEffect::Renew(call, renewals) => {
                let leases = renewals.iter().map(|renewal| renewal.lease.clone()).collect();
                self.renewals.insert(call, leases);
                out.push(Wish::Send(Part::Renew(call), Call::RenewLeases(renewals)));
            }
            DutyStatusEffect::Release(releases) => {
                out.push(Wish::Send(Part::Release, Call::ReleaseLeases(releases)));
            }
            DutyStatusEffect::Begin(begin) => self.begin_chore(&begin, now, out),
            // A run checks whether it should stop before it sends the next request.
            DutyStatusEffect::StopRun(..) => {}
            DutyStatusEffect::Alert(alert) => out.push(Wish::Broke("duty alert", format!("{alert:?}"))),
            DutyStatusEffect::Lock(..) | DutyStatusEffect::Unlock(..) => unreachable!("no duty has a lock"),
        }
    }

    /// Begins a run. A process that neither leads nor stands by watches the other workers once, when it
    /// starts.
    fn begin_chore(&mut self, begin: &Begin, now: Moment, out: &mut Vec<Wish>) {
        let chore = Chore::ALL.into_iter().find(|chore| chore.name() == begin.duty);
        let chore = chore.expect("the duty status has only these duties");
        let rescue = Chore::Rescue.name();
        let watches = self
            .duty_status
            .as_ref()
            .is_some_and(|duty_status| duty_status.stands_by(&rescue) && !duty_status.leads(&rescue, now));
        if chore == Chore::Watch && self.has_watched && !watches {
            self.notify_duties(
                DutyStatusEvent::Ended(begin.duty.clone(), begin.run, RunReport::default()),
                now,
                out,
            );
            return;
        }
        self.has_watched |= chore == Chore::Watch;
        let role = if chore == Chore::Watch { Role::StandBy } else { Role::Leader };
        self.ask(chore, Doing { run: begin.run, asked: chore.first(), role }, out);
    }

    fn ask(&mut self, chore: Chore, doing: Doing, out: &mut Vec<Wish>) {
        let call = match doing.asked.clone() {
            Ask::Look => Call::Look,
            Ask::Rescue(request) => Call::Rescue(request),
            Ask::Sweep => Call::Sweep,
            Ask::Prune => Call::Prune,
        };
        out.push(Wish::Send(Part::Chore(chore, doing.run), call));
        self.chores.insert(chore, doing);
    }

    pub(super) fn chore_answered(
        &mut self,
        chore: Chore,
        run: RunId,
        answer: Answer,
        now: Moment,
        out: &mut Vec<Wish>,
    ) {
        let Some(doing) = self.chores.remove(&chore).filter(|doing| doing.run == run) else { return };
        let heard = match &answer {
            Ok(Reply::Workers(workers)) => Some(Heard::Workers(workers, self.own())),
            Ok(Reply::Rescued(rescued)) => Some(Heard::Rescued(rescued)),
            Ok(Reply::Swept(done)) => Some(Heard::Done(*done)),
            _ => None,
        };
        let next = heard.and_then(|heard| self.observer.next(&doing.asked, &heard, doing.role, now));
        // A former leader may have sent its request while it led: two requests at once must do no harm.
        match next {
            Some(asked) => self.ask(chore, Doing { asked, ..doing }, out),
            None => {
                self.notify_duties(DutyStatusEvent::Ended(chore.name(), run, RunReport::default()), now, out)
            }
        }
    }

    pub(super) fn leases_renewed(
        &mut self,
        call: LeaseCall,
        answer: Answer,
        now: Moment,
        out: &mut Vec<Wish>,
    ) {
        let leases = self.renewals.remove(&call).unwrap_or_default();
        let answer = answer.map(|reply| match reply {
            Reply::Renewed(answers) => leases.into_iter().zip(answers).collect(),
            other => panic!("expected the answer to renewals, got {other:?}"),
        });
        self.notify_duties(DutyStatusEvent::Renewed(call, answer), now, out);
    }
}
