//! A worker reduced to leases: it sends heartbeats, and does duties by the same duty status as every
//! worker. A thousand of them therefore fit into one process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::MissedTickBehavior;
use windlass::duties::status::{DutyStatus, DutyStatusEffect, DutyStatusEvent, Entry, RunReport};
use windlass::duties::{DutySpec, LeaseTiming};
use windlass::types::clock::Timestamp;
use windlass::types::duty::DutyMode;
use windlass::types::engine::{Engine, Hint, HintListener};
use windlass::types::lease::TermId;
use windlass::types::names::DutyName;
use windlass::types::worker::{Heartbeat, WorkerCard, WorkerId};

/// The duties of Windlass itself, and their intervals in seconds.
const DUTIES: [(&str, u64); 7] = [
    ("rollups", 10),
    ("triggers", 30),
    ("gates", 1),
    ("prune", 60),
    ("rescue", 5),
    ("schedules", 30),
    ("sweep", 5),
];
/// The number of notifications that wait for a client. Older ones are lost, as notifications may be.
const HINTS_MAX: usize = 256;
/// The number of store answers that wait for the client.
const ANSWERS_MAX: usize = 64;

/// The requests of all clients, counted when they are sent.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    pub(super) takes: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) releases: AtomicU64,
    pub(super) heartbeat_answers: AtomicU64,
}

impl RequestCounts {
    pub(super) fn about_leases(&self) -> u64 {
        [&self.takes, &self.renewals, &self.releases].map(|count| count.load(Ordering::SeqCst)).iter().sum()
    }

    pub(super) fn heartbeat_answers(&self) -> u64 {
        self.heartbeat_answers.load(Ordering::SeqCst)
    }
}

/// Passes the notifications of an engine on to all clients on it.
pub(super) struct Hints(broadcast::Sender<Hint>);

impl Hints {
    pub(super) fn of(engine: &Arc<dyn Engine>) -> Arc<Self> {
        let hints = Arc::new(Self(broadcast::Sender::new(HINTS_MAX)));
        let listener: Arc<dyn HintListener> = hints.clone();
        engine.on_hint(Weak::clone(&Arc::downgrade(&listener)));
        hints
    }
}

impl HintListener for Hints {
    fn hint(&self, hint: Hint) {
        // Sending fails if no client listens, which is no error.
        let _ = self.0.send(hint);
    }
}

/// The heartbeat interval of a worker, and the length of its lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) every: Duration,
    pub(super) lease: Duration,
}

/// A worker reduced to leases.
pub(super) struct LeaseClient {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) hints: Arc<Hints>,
    pub(super) requests: Arc<RequestCounts>,
    pub(super) life: Life,
    pub(super) ends: watch::Receiver<bool>,
}

impl LeaseClient {
    /// Registers, and works until the test ends it.
    pub(super) async fn run(mut self) {
        let worker = WorkerId::from_random(fastrand::u128(..));
        self.engine.register(card(worker, self.life.lease)).await.expect("the server is up");
        let started = Instant::now();
        let (sender, mut answers) = mpsc::channel(ANSWERS_MAX);
        let mut duty_status: Option<DutyStatus> = None;
        let mut hints = self.hints.0.subscribe();
        let mut beats = tokio::time::interval(self.life.every);
        // After a pause of a busy machine, the heartbeats that were missed are not sent in one go.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wait = duty_status.as_ref().map_or(self.life.every, |duty_status| {
                duty_status.wake_at().saturating_sub(started.elapsed())
            });
            let event = tokio::select! {
                _ = self.ends.changed() => break,
                _ = beats.tick() => Some(self.heartbeat_with_members(worker).await),
                hint = hints.recv() => hint.ok().and_then(event_of),
                answer = answers.recv() => answer,
                () = tokio::time::sleep(wait) => None,
            };
            let now = started.elapsed();
            if let (None, Some(DutyStatusEvent::HeartbeatAnswer { worker, members, store_now })) =
                (&duty_status, &event)
            {
                duty_status = Some(DutyStatus::new(
                    *worker,
                    entries(),
                    LeaseTiming::default(),
                    members.clone(),
                    *store_now,
                    now,
                ));
            }
            let Some(duty_status) = &mut duty_status else { continue };
            let mut effects = event.map(|event| duty_status.on(event, now)).unwrap_or_default();
            effects.extend(duty_status.effects(now, TermId::from_random(fastrand::u128(..))));
            effects.into_iter().for_each(|effect| self.perform(effect, &sender));
        }
    }

    async fn heartbeat_with_members(&self, worker: WorkerId) -> DutyStatusEvent {
        self.requests.heartbeat_answers.fetch_add(1, Ordering::SeqCst);
        let heartbeat = Heartbeat { worker, lease: self.life.lease, idle: true };
        let heartbeat_answer =
            self.engine.heartbeat_with_members(heartbeat, Timestamp::EPOCH).await.expect("the server is up");
        DutyStatusEvent::HeartbeatAnswer {
            worker,
            members: heartbeat_answer.members,
            store_now: heartbeat_answer.now,
        }
    }

    fn perform(&self, effect: DutyStatusEffect, sender: &mpsc::Sender<DutyStatusEvent>) {
        let (engine, sender, requests) = (Arc::clone(&self.engine), sender.clone(), &self.requests);
        match effect {
            DutyStatusEffect::Take(call, request) => {
                requests.takes.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ =
                        sender.send(DutyStatusEvent::Taken(call, engine.take_leases(&request).await)).await;
                });
            }
            DutyStatusEffect::Renew(call, renewals) => {
                requests.renewals.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let leases: Vec<_> = renewals.iter().map(|renewal| renewal.lease.clone()).collect();
                    let named = |answers: Vec<_>| leases.into_iter().zip(answers).collect();
                    let answer = engine.renew_leases(&renewals).await.map(named);
                    let _ = sender.send(DutyStatusEvent::Renewed(call, answer)).await;
                });
            }
            DutyStatusEffect::Release(releases) => {
                requests.releases.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move { engine.release_leases(&releases).await });
            }
            // A run that does nothing ends at once.
            DutyStatusEffect::Begin(begin) => {
                let ended = DutyStatusEvent::Ended(begin.duty, begin.run, RunReport::default());
                tokio::spawn(async move { sender.send(ended).await });
            }
            DutyStatusEffect::Alert(alert) => panic!("expected no alert, got {alert:?}"),
            DutyStatusEffect::StopRun(..) | DutyStatusEffect::Lock(..) | DutyStatusEffect::Unlock(..) => {}
        }
    }
}

fn event_of(hint: Hint) -> Option<DutyStatusEvent> {
    match hint {
        Hint::Lease(duty) => Some(DutyStatusEvent::Hint(duty)),
        Hint::Any => Some(DutyStatusEvent::HintOfAnything),
        Hint::Queue(_) | Hint::Cancel(_) | Hint::Trigger | Hint::Quiet(_) => None,
    }
}

fn duties() -> BTreeMap<DutyName, Duration> {
    DUTIES
        .map(|(name, every)| (DutyName::parse(name).expect("a valid name"), Duration::from_secs(every)))
        .into()
}

fn entries() -> Vec<Entry> {
    let spec = |(name, interval)| DutySpec { name, interval, mode: DutyMode::Lease, rotation: None };
    duties().into_iter().map(spec).map(|spec| Entry { spec, at_once: false }).collect()
}

fn card(id: WorkerId, lease: Duration) -> WorkerCard {
    WorkerCard {
        id,
        host: "here".to_owned(),
        pid: std::process::id(),
        version: "test".to_owned(),
        queues: Vec::new(),
        types: Vec::new(),
        duties: duties().into_keys().collect(),
        slots: 1,
        lease,
    }
}
