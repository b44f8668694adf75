//! Executes each step on both engines and compares their answers.

use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Fence, Suspects};
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::engine::{Engine, RescueRequest};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId, When};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, Progress};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::{
    CLAIM_TOMBSTONE_TTL, CRASHES_MAX, MAINTENANCE_BATCH_MAX, RECEIPT_TTL, WORKER_LEASE,
};
use windlass_core::names::{FairnessKey, GroupName, Key, OrderingKey};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::settle::{AttemptReport, Settlement, Transition};
use windlass_core::worker::{Heartbeat, Liveness};

use crate::pair::{Pair, Side, Subject, handled, pick, queue, type_name};
use crate::steps::{End, Ending, GROUP, Newcomer, Step, TYPES};

const UP: &str = "the engine is up";

impl<S: Subject> Pair<S> {
    /// Executes a step on both sides; the answers must be equal.
    pub(crate) async fn play(&mut self, step: Step) {
        match step {
            Step::Enqueue(newcomers) => self.enqueue(&newcomers).await,
            Step::LateEnqueue(newcomers) => self.late_enqueue(&newcomers).await,
            Step::RepeatEnqueue(request) => self.repeat_enqueue(request).await,
            Step::Claim { worker, limit, boosted_max, other_first, narrow } => {
                let mut request = self.claim_request(worker, limit);
                request.boosted_max = boosted_max;
                request.queues.rotate_left(usize::from(other_first));
                request.types.truncate(if narrow { 1 } else { request.types.len() });
                self.claim(request).await;
            }
            Step::ClaimSuspect { worker, crashes_max } => {
                let suspects = Suspects::One { crashes_max };
                let request = ClaimRequest { suspects, ..self.claim_request(worker, 1) };
                self.claim(request).await;
            }
            Step::RepeatClaim(claim) => self.repeat_claim(claim).await,
            Step::RepeatBeforeItsClaim { worker, limit } => {
                let request = self.claim_request(worker, limit);
                self.send_repeat(&request).await;
                self.late.push((request, self.clock.now()));
            }
            Step::LateClaim(number) => self.late_claim(number).await,
            Step::Settle(ends) => self.settle(&ends).await,
            Step::Report { claim, percent } => self.report(claim, percent).await,
            Step::Register { narrow } => self.register(narrow).await,
            Step::Liveness(worker) => self.beat(worker).await,
            Step::Retire(worker) => self.retire(worker).await,
            Step::Rescue { worker, too_late } => self.rescue(worker, too_late).await,
            Step::Advance(span) => self.clock.advance(span),
            Step::Plan(plan) => self.plan(plan).await,
            Step::Sweep => self.maintenance(&step).await,
            Step::Prune => {
                // An engine may keep jobs past their retention until the day is over.
                self.clock.advance(until_midnight(self.clock.now()));
                self.maintenance(&step).await;
                self.clock.advance(Duration::from_millis(1_500));
            }
            act => self.act(act).await,
        }
    }

    async fn act(&mut self, step: Step) {
        let name = |other| queue(if other { "other" } else { "main" });
        match step {
            Step::Cancel(job) => {
                self.on_job(job, async |e, id| e.cancel(id, "enough").await.expect(UP)).await
            }
            Step::Discard(job) => self.on_job(job, async |e, id| e.discard(id).await.expect(UP)).await,
            Step::SetPriority(job, number) => {
                let priority = Priority::new(number).expect("from 0 to 10");
                self.on_job(job, async |e, id| e.set_priority(id, priority).await.expect(UP)).await;
            }
            Step::Retry(job) => self.retry(job).await,
            Step::Pause { other, lasting } => {
                let queue = name(other);
                self.same(async |e, _| e.pause(&queue, Some("repairs"), lasting).await.expect(UP)).await;
            }
            Step::Resume { other } => self.same(async |e, _| e.resume(&name(other)).await.expect(UP)).await,
            Step::SetShut { other, shut } => {
                self.same(async |e, _| e.set_shut(&name(other), shut).await.expect(UP)).await;
            }
            Step::Purge { other } => {
                self.same(async |e, _| e.purge(&name(other), MAINTENANCE_BATCH_MAX).await.expect(UP)).await;
            }
            Step::OpenGate { second, limit } => {
                self.same(async |e, _| e.open_gate(&gate(second), limit).await.expect(UP)).await;
            }
            other => unreachable!("{other:?} is not an act of operators"),
        }
    }

    /// Makes a call on both sides whose answers name no job.
    async fn same<T: PartialEq + std::fmt::Debug>(&self, call: impl AsyncFn(&dyn Engine, Side) -> T) {
        let (expected, got) = self.both(call).await;
        assert_eq!(got, expected);
    }

    async fn on_job<T: PartialEq + std::fmt::Debug>(
        &self,
        job: usize,
        call: impl AsyncFn(&dyn Engine, JobId) -> T,
    ) {
        self.same(async |engine, side| call(engine, self.id_on(side, job)).await).await;
    }

    async fn enqueue(&mut self, newcomers: &[Newcomer]) {
        let request = RequestId::from_random(self.fresh_bits());
        let request = EnqueueRequest { request, jobs: newcomers.iter().map(new_job).collect() };
        self.requests.push(request.clone());
        let (expected, got) =
            self.both(async |engine, _| engine.enqueue(request.clone()).await.expect(UP)).await;
        for pair in expected.iter().zip(&got) {
            if let (EnqueueAnswer::New(model), EnqueueAnswer::New(subject)) = pair {
                self.jobs.push((*model, *subject));
                self.model_ids.insert(*subject, *model);
            }
        }
        assert_eq!(self.as_model(got), expected);
    }

    async fn late_enqueue(&mut self, newcomers: &[Newcomer]) {
        let request = RequestId::from_random(self.fresh_bits());
        let request = EnqueueRequest { request, jobs: newcomers.iter().map(new_job).collect() };
        self.same(async |engine, _| engine.ask(request.request).await.expect(UP)).await;
        self.same(async |engine, _| engine.enqueue(request.clone()).await.expect(UP)).await;
        self.requests.push(request);
    }

    async fn repeat_enqueue(&mut self, number: usize) {
        let Some(request) = pick(&self.requests, number) else { return };
        // After its hour, a receipt may or may not exist: a repeat is promised its answer only before that.
        let (receipt, _) = self.both(async |e, _| e.receipt(request.request).await.expect(UP)).await;
        if receipt.is_none() {
            return;
        }
        let (expected, got) = self.both(async |e, _| e.enqueue(request.clone()).await.expect(UP)).await;
        assert_eq!(self.as_model(got), expected);
    }

    fn claim_request(&mut self, worker: usize, limit: u32) -> ClaimRequest {
        ClaimRequest {
            token: ClaimToken::from_random(self.fresh_bits()),
            repeat: false,
            worker: *pick(&self.workers, worker).expect("some worker was registered"),
            queues: ["main", "other", "small"].map(queue).to_vec(),
            types: handled(),
            limit,
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        }
    }

    async fn claim(&mut self, request: ClaimRequest) {
        self.claims.push(request.clone());
        let (expected, got) = self.both(async |e, _| e.claim(request.clone()).await.expect(UP)).await;
        let got = self.as_model(got);
        assert_eq!(got, expected);
        if let ClaimAnswer::Claimed { jobs, .. } = expected {
            let now = self.clock.now();
            self.fences.extend(jobs.iter().map(|claimed| (claimed.fence(), now)));
        }
    }

    /// Repeats a claim. The answer has the jobs that are still held, in any order.
    async fn repeat_claim(&mut self, number: usize) {
        let Some(request) = pick(&self.claims, number).cloned() else { return };
        self.send_repeat(&request).await;
    }

    async fn send_repeat(&self, request: &ClaimRequest) {
        let request = ClaimRequest { repeat: true, ..request.clone() };
        let (expected, got) = self.both(async |e, _| e.claim(request.clone()).await.expect(UP)).await;
        let [mut expected, mut got] = [expected, self.as_model(got)];
        for answer in [&mut expected, &mut got] {
            if let ClaimAnswer::Claimed { jobs, .. } = answer {
                jobs.sort_by_key(|claimed| claimed.job.id);
            }
        }
        assert_eq!(got, expected);
    }

    /// Sends a claim request that arrives after its repeat. After an hour, each engine chooses how long it
    /// knows the request as late.
    async fn late_claim(&mut self, number: usize) {
        let Some((request, repeated_at)) = pick(&self.late, number).cloned() else { return };
        if self.clock.now().since(repeated_at) < CLAIM_TOMBSTONE_TTL {
            self.claim(request).await;
        }
    }

    /// Settles claims. A repeat of an earlier claim's end together with the end of a later claim of the
    /// same job is left out: each engine chooses whether it still knows the earlier end when it processes
    /// the repeat.
    async fn settle(&mut self, ends: &[(usize, Ending)]) {
        let mut named: Vec<(Fence, &Ending)> = Vec::new();
        for (claim, end) in ends {
            let is_other_claim = |fence: &Fence| {
                named.iter().any(|(other, _)| other.job == fence.job && other.token != fence.token)
            };
            if let Some(fence) = pick(&self.fences, *claim)
                && !is_other_claim(&fence.0)
                && self.is_remembered(*fence).await
            {
                named.push((fence.0, end));
            }
        }
        let batch = |side| {
            let settlements = named.iter().map(|(fence, ending)| Settlement {
                fence: self.fence_on(side, *fence),
                transition: transition(&ending.end),
                report: AttemptReport {
                    ended_ago: ending.ago,
                    output: Some("a line".to_owned()),
                    ..AttemptReport::default()
                },
            });
            settlements.collect::<Vec<_>>()
        };
        self.same(async |engine, side| engine.settle(batch(side)).await.expect(UP)).await;
    }

    /// Whether a repeated end is known, for a job without retention. After an hour, this is each engine's
    /// own choice.
    async fn is_remembered(&self, (fence, claimed_at): (Fence, Timestamp)) -> bool {
        let is_young = self.clock.now().since(claimed_at) < RECEIPT_TTL;
        let exists = async |engine: &dyn Engine, side| {
            engine.job(self.fence_on(side, fence).job).await.expect(UP).is_some()
        };
        is_young || self.both(exists).await.0
    }

    async fn report(&mut self, claim: usize, percent: u8) {
        let Some((fence, _)) = pick(&self.fences, claim) else { return };
        let progress = Progress { percent, note: None };
        self.same(async |engine, side| {
            engine.report(vec![(self.fence_on(side, *fence), progress.clone())]).await.expect(UP)
        })
        .await;
    }

    async fn beat(&mut self, worker: usize) {
        let Some(worker) = pick(&self.workers, worker).copied() else { return };
        let beat = Heartbeat { worker, lease: WORKER_LEASE, idle: false };
        let (expected, got) = self.both(async |engine, _| engine.extend(beat).await.expect(UP)).await;
        let [mut expected, mut got] = [expected, self.as_model(got)];
        for answer in [&mut expected, &mut got] {
            if let Liveness::Alive { cancel } = answer {
                cancel.sort();
            }
        }
        assert_eq!(got, expected);
    }

    async fn retire(&mut self, worker: usize) {
        let Some(worker) = pick(&self.workers, worker).copied() else { return };
        self.same(async |engine, _| engine.retire(worker).await.expect(UP)).await;
    }

    /// Rescues a worker. Counters of heartbeats are each engine's own, so each side gets its own counter.
    async fn rescue(&mut self, worker: usize, too_late: bool) {
        let Some(worker) = pick(&self.workers, worker).copied() else { return };
        let (expected, got) = self
            .both(async |engine, _| {
                let seen = engine.workers().await.expect(UP);
                let beats = seen.iter().find(|s| s.card.id == worker).map_or(0, |seen| seen.beats);
                let silent = vec![Suspicion { worker, beats: beats.wrapping_sub(u64::from(too_late)) }];
                let request =
                    RescueRequest { silent, crashes_max: CRASHES_MAX, limit: MAINTENANCE_BATCH_MAX };
                engine.rescue(request).await.expect(UP)
            })
            .await;
        let [mut expected, mut got] = [expected, self.as_model(got)];
        for rescued in [&mut expected, &mut got] {
            rescued.returned.sort();
            rescued.buried.sort();
        }
        assert_eq!(got, expected);
    }

    async fn retry(&mut self, job: usize) {
        let (expected, got) =
            self.both(async |e, side| e.retry(self.id_on(side, job)).await.expect(UP)).await;
        assert_eq!(self.as_model(got), expected);
    }

    /// Runs maintenance. The number of rows that a prune counts is free; the remaining rows are compared
    /// after each step.
    async fn maintenance(&mut self, step: &Step) {
        if matches!(step, Step::Sweep) {
            self.same(async |engine, _| engine.sweep(MAINTENANCE_BATCH_MAX).await.expect(UP)).await;
        } else {
            self.same(async |engine, _| engine.prune(MAINTENANCE_BATCH_MAX).await.expect(UP).more).await;
        }
    }
}

fn gate(second: bool) -> Gate {
    Gate::named(if second { "semaphore:second" } else { "semaphore:first" })
}

fn transition(end: &End) -> Transition {
    let error = || JobError::new(ErrorKind::Failed, "oops");
    match end {
        End::Succeed => Transition::Succeed { result: Some("7".to_owned()) },
        End::Retry(after) => Transition::Retry { after: *after, error: error() },
        End::Snooze(after) => Transition::Snooze { after: *after },
        End::Park { second } => Transition::Park { gate: gate(*second) },
        End::Bury => Transition::Bury { error: error() },
        End::Cancel => Transition::Cancel { why: "no longer wanted".to_owned() },
        End::Release { started } => Transition::Release { started: *started },
    }
}

fn new_job(new: &Newcomer) -> NewJob {
    NewJob {
        priority: new.priority.map(|number| Priority::new(number).expect("from 0 to 10")),
        when: new.delay.map_or(When::Now, When::In),
        expires: new.expires.map(When::In),
        key: new.key.map(|keyed| KeyClaim {
            key: Key::parse(["k1", "k2"][keyed.key]).expect("a plain key"),
            scope: [KeyScope::WhileLive, KeyScope::WhileLiveOrDead, KeyScope::For(Duration::from_secs(60))]
                [keyed.scope],
            on_conflict: [OnConflict::Keep, OnConflict::Replace, OnConflict::Revive][keyed.on_conflict],
        }),
        ordering_key: new
            .ordering_key
            .map(|ordering_key| OrderingKey::parse(["s1", "s2"][ordering_key]).expect("a plain name")),
        group: new.grouped.then(|| GroupName::parse(GROUP).expect("a plain name")),
        fairness_key: new
            .fairness_key
            .map(|fairness_key| FairnessKey::parse(["a", "b", "c"][fairness_key]).expect("a plain name")),
        ..NewJob::new(type_name(TYPES[new.job_type]), Payload::default())
    }
}

fn until_midnight(now: Timestamp) -> Duration {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000;
    Duration::from_micros((DAY - now.as_micros().rem_euclid(DAY)).unsigned_abs())
}
