//! A job that moves to the primary never starts early there, however slow the network is and whatever the
//! two clocks show. Jobs that were due keep their order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::clock::{Clock, ManualClock};
use windlass_core::engine::Engine;
use windlass_core::enqueue::{NewJob, When};
use windlass_core::spool::Spool;
use windlass_engines::fallback::{Connect, FallbackEngine};
use windlass_engines::memory::MemoryEngine;

use crate::primary::{
    Primary, declaration, job, memory, quick, request, spool, until, until_away, until_replayed, waiting,
};
use crate::shaky::{Latency, Life, Seen};

/// A spool and a primary in memory, each with a clock of its own, and the latency between them.
struct Far {
    here: Arc<ManualClock>,
    there: Arc<ManualClock>,
    spool: Arc<dyn Spool>,
    primary: Arc<dyn Engine>,
}

impl Far {
    /// Creates both stores; the primary's clock is ahead of the spool's by this many seconds.
    async fn with_primary_ahead_by(seconds: i64) -> Self {
        let (here, there) = (Arc::new(ManualClock::default()), Arc::new(ManualClock::default()));
        let apart = Duration::from_secs(seconds.unsigned_abs());
        there.set(if seconds < 0 { there.now().minus(apart) } else { there.now().plus(apart) });
        let spool: Arc<dyn Spool> = Arc::new(MemoryEngine::for_spool_with_clock(here.clone()));
        let primary: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(there.clone()));
        spool.declare(declaration()).await.unwrap();
        primary.declare(declaration()).await.unwrap();
        Self { here, there, spool, primary }
    }

    fn pass(&self, time: Duration) {
        self.here.advance(time);
        self.there.advance(time);
    }

    /// Moves all jobs. Each leg of a call takes the next of these spans.
    async fn move_all(&self, legs: impl Iterator<Item = Duration> + Send + 'static) {
        let clocks = vec![self.here.clone(), self.there.clone()];
        let life = Life::far_away(Latency { clocks, legs: Mutex::new(Box::new(legs)) });
        let primary = Arc::new(Seen { store: Arc::clone(&self.primary), life });
        let connect: Connect = Arc::new(move || {
            let primary = Arc::clone(&primary);
            Box::pin(async move { Ok(primary as Arc<dyn Engine>) })
        });
        let engine =
            FallbackEngine::open("primary", connect, Arc::clone(&self.spool), quick()).await.unwrap();
        until_replayed(&engine).await;
    }
}

fn delayed(number: usize, by: Duration) -> NewJob {
    NewJob { when: When::In(by), ..job(number) }
}

#[tokio::test]
async fn a_delayed_job_that_moves_is_not_early_whatever_a_call_takes_and_whatever_the_clocks_show() {
    const LEG: Duration = Duration::from_millis(300);
    for ahead in [0, 86_400, -86_400, 3, -3] {
        let far = Far::with_primary_ahead_by(ahead).await;
        let start = far.here.now();
        let spans: Vec<_> = (0..450).map(|number| Duration::from_secs(3_600 + number)).collect();
        let expires = |span| Some(When::In(span + Duration::from_secs(60)));
        let jobs = (0..).zip(&spans);
        let jobs = jobs.map(|(number, span)| NewJob { expires: expires(*span), ..delayed(number, *span) });
        far.spool.enqueue(request(jobs.collect())).await.unwrap();
        far.move_all(std::iter::repeat(LEG)).await;
        // Both clocks run at the same rate, so the time of one follows from the other.
        let passed = far.here.now().since(start);
        let there_at_start = far.there.now().minus(passed);
        for (record, span) in waiting(&*far.primary).await.iter().zip(&spans) {
            let wait = record.job.due.since(there_at_start);
            assert!(wait >= *span, "ahead by {ahead}: expected at least {span:?}, got {wait:?}");
            let late = record.job.expires_at.unwrap().since(record.job.due);
            assert_eq!(late, Duration::from_secs(60), "the time in which it may start is as long as before");
        }
    }
}

#[tokio::test]
async fn jobs_that_were_due_keep_their_order_over_batches_of_which_some_take_longer() {
    for ahead in [0, 86_400, -86_400] {
        let far = Far::with_primary_ahead_by(ahead).await;
        for number in 0..450 {
            far.spool.enqueue(request(vec![job(number)])).await.unwrap();
            far.pass(Duration::from_millis(1));
        }
        let mut rng = fastrand::Rng::with_seed(7);
        far.move_all(std::iter::from_fn(move || Some(Duration::from_millis(rng.u64(0..400))))).await;
        let moved = waiting(&*far.primary).await;
        assert_eq!(moved.len(), 450);
        assert!(moved.is_sorted_by_key(|record| record.job.due), "ahead by {ahead}: claimed by due time");
        assert!(moved.iter().all(|record| record.job.due <= far.there.now()), "all jobs are due");
    }
}

#[tokio::test]
async fn a_job_that_was_due_long_ago_was_so_there_too() {
    let far = Far::with_primary_ahead_by(86_400).await;
    far.spool.enqueue(request(vec![job(0)])).await.unwrap();
    far.pass(Duration::from_secs(600));
    far.move_all(std::iter::empty()).await;
    let record = waiting(&*far.primary).await.remove(0);
    assert_eq!(far.there.now().since(record.job.due), Duration::from_secs(600));
}

/// Both stores read the clock of this machine, so their due times can be compared.
async fn is_not_early_on(primary: Primary, answers_take: Duration) {
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside), quick()).await;
    primary.go();
    until_away(&engine).await;
    let mut due = Vec::new();
    for number in 0..20 {
        let id = spool(&engine, delayed(number, Duration::from_secs(3_600))).await;
        due.push(beside.job(id).await.unwrap().unwrap().job.due);
    }
    primary.proxy.delay_answers(answers_take);
    primary.come_back();
    until(&engine, "all jobs have moved", async || {
        beside.queues().await.unwrap()[0].counts.unfinished() == 0
    })
    .await;
    let moved = waiting(&*primary.store).await;
    assert_eq!(moved.len(), due.len());
    for (record, due) in moved.iter().zip(due) {
        assert!(record.job.due >= due, "early by {:?}", due.since(record.job.due));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_that_moves_is_not_early_on_a_redis_whose_answers_take_long() {
    is_not_early_on(Primary::on_redis().await, Duration::from_millis(300)).await;
    is_not_early_on(Primary::on_redis().await, Duration::ZERO).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_that_moves_is_not_early_on_a_postgres_whose_answers_take_long() {
    is_not_early_on(crate::postgres::on_postgres().await, Duration::from_millis(30)).await;
    is_not_early_on(crate::postgres::on_postgres().await, Duration::ZERO).await;
}
