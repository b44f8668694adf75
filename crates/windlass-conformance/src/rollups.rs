//! Rollups: the events of each minute are counted once, whichever process rolls up, and can be read.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::limits::{
    ROLLUPS_PAGE_MAX, SAMPLE_AGE_MAX, SAMPLE_BYTES_MAX, SAMPLES_KEPT_MAX, SAMPLES_PER_CALL_MAX,
};
use windlass_core::rollups::roll_up::{Damage, RollUp, roll_up};
use windlass_core::rollups::{
    Histogram, Minute, Rollup, RollupChange, RollupInput, RollupKey, RollupOutcome, RollupsEnd,
    RollupsRequest, Sample, Seen, StoredWatermark, Tally,
};

use crate::harness::*;

const MINUTE: Duration = Duration::from_secs(60);

async fn rollup_input(engine: &Arc<dyn Engine>, limit: u32) -> RollupInput {
    engine.rollup_input(limit).await.expect(UP)
}

/// Decides what a round would roll up; `None` if there is nothing.
async fn decide(engine: &Arc<dyn Engine>, limit: u32) -> Option<RollUp> {
    roll_up(rollup_input(engine, limit).await)
}

/// Returns the change of a round, added to the stored rollups.
async fn ready(engine: &Arc<dyn Engine>, roll_up: RollUp) -> RollupChange {
    let kept = engine.rollups_of(&roll_up.keys()).await.expect(UP);
    assert!(kept.damaged.is_empty(), "{kept:?}");
    roll_up.onto(kept.rows)
}

async fn apply(engine: &Arc<dyn Engine>, change: &RollupChange) -> RollupOutcome {
    engine.apply_rollup(change).await.expect(UP)
}

/// Rolls up until nothing is left. A round that another process overtook begins anew.
async fn roll_up_all(engine: &Arc<dyn Engine>) {
    while let Some(roll_up) = decide(engine, 1_000).await {
        let change = ready(engine, roll_up).await;
        apply(engine, &change).await;
    }
}

async fn page(h: &Harness, request: &RollupsRequest) -> (Vec<Rollup>, Option<RollupsEnd>) {
    let read = h.engine.rollups(request).await.expect(UP);
    assert!(read.damaged.is_empty(), "{read:?}");
    (read.rows, read.end)
}

fn everything() -> RollupsRequest {
    let far = Timestamp::parse("2200-01-01T00:00:00Z").expect("an instant");
    RollupsRequest::between(Timestamp::EPOCH, far)
}

/// Reads all rows, page by page.
async fn rows(h: &Harness, mut request: RollupsRequest) -> Vec<Rollup> {
    let mut all = Vec::new();
    loop {
        let (rows, end) = page(h, &request).await;
        all.extend(rows);
        match end {
            Some(end) => request.after = Some(end),
            None => return all,
        }
    }
}

async fn all_rows(h: &Harness) -> Vec<Rollup> {
    rows(h, everything()).await
}

/// Sums the rollups of a type over all minutes.
async fn booked(h: &Harness, name: &str) -> Tally {
    let mut all = Tally::default();
    let of_type = RollupsRequest { job_type: Some(type_name(name)), ..everything() };
    rows(h, of_type).await.iter().for_each(|row| all.merge(&row.tally));
    all
}

fn seen(name: &str, in_queue: &str, started: u64) -> Seen {
    let mut waits = Histogram::default();
    (0..started).for_each(|n| waits.record(Duration::from_millis(n)));
    let runs = waits.clone();
    Seen { queue: queue(in_queue), job_type: type_name(name), started, waits, runs }
}

fn sample(ago: Duration, started: u64) -> Sample {
    only(Sample::parts(ago, &[seen(WORK, MAIN, started)]))
}

async fn append(h: &Harness, samples: &[Sample]) {
    h.engine.append_samples(samples).await.expect(UP);
}

fn key_at(at: Timestamp, in_queue: &str, name: &str) -> RollupKey {
    RollupKey { minute: Minute::of(at), queue: queue(in_queue), job_type: type_name(name) }
}

/// Stores rows of these minutes, types and numbers of jobs.
async fn keep(h: &Harness, kept: &[(Timestamp, &str, &str, u64)]) {
    let read = rollup_input(&h.engine, 1).await.watermark.map_or(0, |watermark| watermark.version);
    let row = |(at, in_queue, name, enqueued): &(Timestamp, &str, &str, u64)| Rollup {
        key: key_at(*at, in_queue, name),
        tally: Tally { enqueued: *enqueued, ..Tally::default() },
    };
    let (rows, rolled_up) = (kept.iter().map(row).collect(), Vec::new());
    let change = RollupChange { read, version: read + 1, watermark: String::new(), rows, rolled_up };
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
}

pub async fn a_fresh_store_has_no_rollups_and_has_booked_all_of_nothing(h: &Harness) {
    let read = rollup_input(&h.engine, 10).await;
    assert_eq!(
        (read.watermark, read.now),
        (Some(StoredWatermark { version: 0, text: String::new() }), h.now())
    );
    assert!(read.samples.is_empty() && !read.more);
    assert!(all_rows(h).await.is_empty());
    h.enqueue(work()).await;
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.enqueued, 1, "jobs before the first round are counted");
}

pub async fn each_death_of_a_job_that_is_started_over_again_and_again_is_booked(h: &Harness) {
    let id = h.dead_letter().await;
    roll_up_all(&h.engine).await;
    for deaths in 2..=3 {
        h.advance(MINUTE);
        h.engine.retry(id).await.expect(UP);
        let claimed = h.claim_one().await;
        h.bury(&claimed).await;
        // Between two rounds, the totals of dead jobs do not change.
        roll_up_all(&h.engine).await;
        let (booked, totals) = (booked(h, WORK).await, h.totals().await);
        assert_eq!((booked.dead, booked.enqueued), (deaths, 1));
        assert_eq!((totals.dead, totals.started_over, totals.enqueued), (1, deaths - 1, 1));
    }
}

pub async fn a_death_and_a_start_over_in_one_round_are_one_death(h: &Harness) {
    let id = h.dead_letter().await;
    h.engine.retry(id).await.expect(UP);
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.dead, 1);
}

pub async fn totals_are_booked_once_on_the_minute_of_the_round(h: &Harness) {
    h.enqueue_many(5).await;
    h.enqueue(job_of(OTHER_WORK)).await;
    let claimed = h.claim(4).await;
    h.succeed(&claimed[0]).await;
    h.fail(&claimed[1], MINUTE).await;
    h.bury(&claimed[2]).await;
    h.engine.cancel(claimed[3].job.id, "enough").await.expect(UP);
    h.succeed(&claimed[3]).await;
    roll_up_all(&h.engine).await;
    let tally = Tally { enqueued: 5, succeeded: 1, retried: 1, dead: 1, cancelled: 1, ..Tally::default() };
    let other = Tally { enqueued: 1, ..Tally::default() };
    let expected = [(key_at(h.now(), MAIN, WORK), tally), (key_at(h.now(), OTHER, OTHER_WORK), other)];
    let told = |rows: Vec<Rollup>| rows.into_iter().map(|row| (row.key, row.tally)).collect::<Vec<_>>();
    assert_eq!(told(all_rows(h).await), expected);
    h.advance(MINUTE);
    assert_eq!(decide(&h.engine, 10).await, None, "nothing has happened since");
    assert_eq!(told(all_rows(h).await), expected);
    h.enqueue(work()).await;
    roll_up_all(&h.engine).await;
    let rows = all_rows(h).await;
    assert_eq!((rows.len(), &rows[2].key, rows[2].tally.enqueued), (3, &key_at(h.now(), MAIN, WORK), 1));
}

pub async fn what_is_seen_is_added_to_the_minute_in_which_it_was(h: &Harness) {
    h.enqueue(work()).await;
    roll_up_all(&h.engine).await;
    let before = h.now().minus(MINUTE);
    append(h, &[sample(MINUTE, 2), sample(Duration::ZERO, 3)]).await;
    append(h, &[sample(MINUTE, 5)]).await;
    roll_up_all(&h.engine).await;
    let rows = all_rows(h).await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.key.clone(), row.tally.enqueued, row.tally.started, row.tally.waits.count()))
        .collect();
    assert_eq!(told, [(key_at(before, MAIN, WORK), 0, 7, 7), (key_at(h.now(), MAIN, WORK), 1, 3, 3)]);
    assert_eq!(rows[0].tally.runs.quantile(1.0), seen(WORK, MAIN, 5).runs.quantile(1.0));
    assert!(rollup_input(&h.engine, 10).await.samples.is_empty());
}

pub async fn of_two_who_roll_up_from_one_version_one_is_overtaken(h: &Harness) {
    for round in 1..=10 {
        h.enqueue(work()).await;
        append(h, &[sample(Duration::ZERO, 1)]).await;
        let one = decide(&h.engine, 10).await.expect("there is something to roll up");
        let two = decide(&h.engine, 10).await.expect("there is something to roll up");
        let (one, two) = (ready(&h.engine, one).await, ready(&h.engine, two).await);
        let calls = [one, two].map(|change| {
            let engine = Arc::clone(&h.engine);
            async move { apply(&engine, &change).await }
        });
        let answers = h.at_once(calls.into()).await;
        let done = answers.iter().filter(|answer| **answer == RollupOutcome::Done).count();
        assert_eq!(done, 1, "{answers:?}");
        let tally = booked(h, WORK).await;
        assert_eq!((tally.enqueued, tally.started), (round, round));
    }
    assert_eq!(decide(&h.engine, 10).await, None);
}

pub async fn a_change_that_is_repeated_after_a_lost_answer_is_refused_and_harmless(h: &Harness) {
    h.enqueue(work()).await;
    append(h, &[sample(Duration::ZERO, 2)]).await;
    let roll_up = decide(&h.engine, 10).await.expect("there is something to roll up");
    let change = ready(&h.engine, roll_up).await;
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
    append(h, &[sample(Duration::ZERO, 4)]).await;
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Overtaken);
    assert_eq!(rollup_input(&h.engine, 10).await.samples.len(), 1, "the samples that came since are kept");
    roll_up_all(&h.engine).await;
    let tally = booked(h, WORK).await;
    assert_eq!((tally.enqueued, tally.started), (1, 6));
}

pub async fn what_is_appended_during_a_roll_up_waits_for_the_next_round(h: &Harness) {
    append(h, &[sample(Duration::ZERO, 1)]).await;
    let roll_up = decide(&h.engine, 10).await.expect("there are samples");
    append(h, &[sample(Duration::ZERO, 2)]).await;
    h.enqueue(work()).await;
    let change = ready(&h.engine, roll_up).await;
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
    assert_eq!(booked(h, WORK).await.started, 1);
    roll_up_all(&h.engine).await;
    let tally = booked(h, WORK).await;
    assert_eq!((tally.enqueued, tally.started), (1, 3));
}

pub async fn a_total_that_went_down_books_nothing_and_counts_on_from_there(h: &Harness) {
    let dead = h.dead_letter().await;
    h.dead_letter().await;
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.dead, 2);
    h.engine.retry(dead).await.expect(UP);
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.dead, 2, "a job that was started over died all the same");
    let again = h.claim_one().await;
    h.bury(&again).await;
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.dead, 3);
}

pub async fn a_type_that_is_gone_is_forgotten_by_the_watermark(h: &Harness) {
    let watermark = "main gone 7 0 0 0 0 0\n".to_owned();
    let change = RollupChange { read: 0, version: 5, watermark, rows: Vec::new(), rolled_up: Vec::new() };
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
    h.enqueue(work()).await;
    roll_up_all(&h.engine).await;
    let watermark = rollup_input(&h.engine, 10).await.watermark.expect("the watermark was moved");
    assert!(!watermark.text.contains("gone") && watermark.version > 5, "{watermark:?}");
    assert_eq!(all_rows(h).await.len(), 1);
}

pub async fn a_limited_number_of_samples_is_read_at_once_and_the_rest_stays(h: &Harness) {
    let five: Vec<_> = (1..=5).map(|n| sample(Duration::ZERO, n)).collect();
    append(h, &five).await;
    let read = rollup_input(&h.engine, 2).await;
    assert_eq!((read.samples.len(), read.more), (2, true));
    assert_eq!(read.samples[0].text, five[0].text);
    let change = ready(&h.engine, roll_up(read).expect("there are samples")).await;
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
    let read = rollup_input(&h.engine, 3).await;
    assert_eq!((read.samples.len(), read.more), (3, false));
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.started, 15);
}

pub async fn without_a_roll_up_only_the_newest_samples_are_kept(h: &Harness) {
    let at_once = SAMPLES_PER_CALL_MAX as u64;
    let batch = vec![sample(Duration::ZERO, 1); SAMPLES_PER_CALL_MAX];
    append(h, &[sample(Duration::ZERO, 1_000)]).await;
    for _ in 0..SAMPLES_KEPT_MAX / at_once {
        append(h, &batch).await;
    }
    let read = rollup_input(&h.engine, 1).await;
    assert_eq!(read.samples[0].text, batch[0].text, "the first sample had to go");
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.started, SAMPLES_KEPT_MAX);
}

pub async fn samples_that_drop_out_during_a_roll_up_take_no_others_with_them(h: &Harness) {
    append(h, &[sample(Duration::ZERO, 1), sample(Duration::ZERO, 1)]).await;
    let roll_up = decide(&h.engine, 10).await.expect("there are samples");
    let batch = vec![sample(Duration::ZERO, 1); SAMPLES_PER_CALL_MAX];
    for _ in 0..SAMPLES_KEPT_MAX / SAMPLES_PER_CALL_MAX as u64 {
        append(h, &batch).await;
    }
    let change = ready(&h.engine, roll_up).await;
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
    roll_up_all(&h.engine).await;
    assert_eq!(booked(h, WORK).await.started, SAMPLES_KEPT_MAX + 2);
}

pub async fn a_damaged_sample_is_told_and_spoils_nothing_else(h: &Harness) {
    let damaged = Sample { ago: Duration::ZERO, text: "main work many".to_owned() };
    append(h, &[sample(Duration::ZERO, 1), damaged, sample(Duration::ZERO, 2)]).await;
    let roll_up = decide(&h.engine, 10).await.expect("there are samples");
    assert!(matches!(roll_up.damaged[..], [Damage::Sample { .. }]), "{:?}", roll_up.damaged);
    let change = ready(&h.engine, roll_up).await;
    assert_eq!(apply(&h.engine, &change).await, RollupOutcome::Done);
    assert_eq!(booked(h, WORK).await.started, 3);
    assert!(rollup_input(&h.engine, 10).await.samples.is_empty());
}

pub async fn samples_that_are_too_many_too_long_or_too_old_are_refused(h: &Harness) {
    let (fine, long) = (sample(Duration::ZERO, 1), "x".repeat(SAMPLE_BYTES_MAX + 1));
    for wrong in [
        vec![fine.clone(); SAMPLES_PER_CALL_MAX + 1],
        vec![fine.clone(), Sample { text: long, ..fine.clone() }],
        vec![fine.clone(), Sample { ago: SAMPLE_AGE_MAX * 2, ..fine }],
    ] {
        assert!(h.engine.append_samples(&wrong).await.is_err());
    }
    append(h, &[]).await;
    assert!(rollup_input(&h.engine, 10).await.samples.is_empty());
}

pub async fn rollups_past_their_time_are_forgotten_oldest_first(h: &Harness) {
    let (now, hour) = (h.now(), Duration::from_secs(3_600));
    keep(
        h,
        &[
            (now.minus(hour * 3), MAIN, WORK, 1),
            (now.minus(hour * 2), MAIN, KEPT, 1),
            (now.minus(hour * 2), MAIN, WORK, 1),
            (now.minus(hour), MAIN, WORK, 1),
            (now, MAIN, WORK, 1),
        ],
    )
    .await;
    let forget = |limit| h.engine.forget_rollups(hour, limit);
    let done = forget(2).await.expect(UP);
    assert_eq!((done.changed, done.more), (2, true));
    assert_eq!(all_rows(h).await[0].key, key_at(now.minus(hour * 2), MAIN, WORK));
    let done = forget(2).await.expect(UP);
    assert_eq!((done.changed, done.more), (1, false));
    let left: Vec<_> = all_rows(h).await.into_iter().map(|row| row.key.minute).collect();
    assert_eq!(left, [Minute::of(now.minus(hour)), Minute::of(now)]);
    assert_eq!(forget(2).await.expect(UP).changed, 0);
}

pub async fn rollups_are_read_by_range_queue_and_type(h: &Harness) {
    let now = h.now();
    let ago = |rollups: u32| now.minus(MINUTE * rollups);
    keep(
        h,
        &[
            (ago(2), MAIN, WORK, 1),
            (ago(1), MAIN, KEPT, 2),
            (ago(1), MAIN, WORK, 4),
            (ago(1), OTHER, OTHER_WORK, 8),
            (now, MAIN, WORK, 16),
        ],
    )
    .await;
    let sum = |request: RollupsRequest| async move {
        rows(h, request).await.iter().map(|row| row.tally.enqueued).sum::<u64>()
    };
    assert_eq!(sum(everything()).await, 31);
    assert_eq!(sum(RollupsRequest { queue: Some(queue(MAIN)), ..everything() }).await, 23);
    assert_eq!(sum(RollupsRequest { job_type: Some(type_name(WORK)), ..everything() }).await, 21);
    let both = RollupsRequest { queue: Some(queue(MAIN)), job_type: Some(type_name(KEPT)), ..everything() };
    assert_eq!(sum(both.clone()).await, 2);
    assert_eq!(sum(RollupsRequest { queue: Some(queue(OTHER)), ..both }).await, 0);
    let start = Minute::of(now).start();
    assert_eq!(sum(RollupsRequest::between(ago(1), start)).await, 14, "without the minute that begins there");
    assert_eq!(
        sum(RollupsRequest::between(ago(2), now.minus(MINUTE))).await,
        15 - u64::from(is_start(ago(1))) * 14
    );
    assert_eq!(sum(RollupsRequest::between(now, now)).await, u64::from(!is_start(now)) * 16);
}

fn is_start(at: Timestamp) -> bool {
    Minute::of(at).start() == at
}

pub async fn rollups_are_read_page_by_page_in_order(h: &Harness) {
    let now = h.now();
    let kept: Vec<_> = (0..7_u32)
        .flat_map(|ago| {
            [(MAIN, KEPT), (MAIN, WORK), (OTHER, OTHER_WORK)]
                .map(|of| (now.minus(MINUTE * ago), of.0, of.1, 1))
        })
        .collect();
    keep(h, &kept).await;
    let whole: Vec<_> = all_rows(h).await.into_iter().map(|row| row.key).collect();
    assert!(whole.is_sorted() && whole.len() == 21);
    for limit in [1, 2, 3, 5, 20, 21, ROLLUPS_PAGE_MAX * 2] {
        let paged = rows(h, RollupsRequest { limit, ..everything() }).await;
        assert_eq!(paged.into_iter().map(|row| row.key).collect::<Vec<_>>(), whole, "{limit} at once");
    }
    let (first, end) = page(h, &RollupsRequest { limit: 20, ..everything() }).await;
    assert_eq!((first.len(), end.is_some()), (20, true));
    let (first, end) = page(h, &RollupsRequest { limit: 21, ..everything() }).await;
    assert_eq!((first.len(), end), (21, None));
}

pub async fn many_who_append_and_roll_up_at_once_lose_nothing_and_book_nothing_twice(h: &Harness) {
    let (folders, rounds) = (2_u64, 20_u64);
    let appends = (0..4_u64).map(|_| {
        let engine = Arc::clone(&h.engine);
        let appending = async move {
            for _ in 0..rounds {
                engine.append_samples(&[sample(Duration::ZERO, 1)]).await.expect(UP);
            }
        };
        Box::pin(appending) as Task
    });
    let rolls_up = (0..folders).map(|_| {
        let engine = Arc::clone(&h.engine);
        let rolling_up = async move {
            for _ in 0..rounds {
                let Some(roll_up) = decide(&engine, 3).await else { continue };
                let change = ready(&engine, roll_up).await;
                apply(&engine, &change).await;
            }
        };
        Box::pin(rolling_up) as Task
    });
    let requests: Vec<_> = (0..rounds).map(|_| h.request(vec![work()])).collect();
    let engine = Arc::clone(&h.engine);
    let enqueues = Box::pin(async move {
        for request in requests {
            engine.enqueue(request).await.expect(UP);
        }
    }) as Task;
    h.at_once(appends.chain(rolls_up).chain([enqueues]).collect()).await;
    roll_up_all(&h.engine).await;
    let tally = booked(h, WORK).await;
    assert_eq!((tally.started, tally.waits.count(), tally.enqueued), (4 * rounds, 4 * rounds, rounds));
}
