//! A worker as far as leases are concerned: it shows signs of life, and does duties by the board that every worker has. So a
//! thousand of them fit into one process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc, watch};
use windlass::core::clock::Timestamp;
use windlass::core::duty::DutyMode;
use windlass::core::engine::{Engine, Hint, HintListener};
use windlass::core::lease::TermId;
use windlass::core::names::DutyName;
use windlass::core::worker::{Heartbeat, WorkerCard, WorkerId};
use windlass::duties::board::{Board, BoardEffect, BoardEvent, Entry, RunReport};
use windlass::duties::{DutySpec, LeaseTiming};

/// The duties of Windlass itself, and how often they are done.
const DUTIES: [(&str, u64); 7] = [
    ("aggregate", 10),
    ("triggers", 30),
    ("gates", 1),
    ("prune", 60),
    ("rescue", 5),
    ("schedules", 30),
    ("sweep", 5),
];
/// Hints that wait for a client; what is older is lost, as hints may be.
const HINTS_MAX: usize = 256;
/// Answers that wait to be heard.
const ANSWERS_MAX: usize = 64;

/// What clients have asked, counted as they asked it.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) takes: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) releases: AtomicU64,
    pub(super) pulses: AtomicU64,
}

impl Asked {
    pub(super) fn about_leases(&self) -> u64 {
        [&self.takes, &self.renewals, &self.releases].map(|count| count.load(Ordering::SeqCst)).iter().sum()
    }

    pub(super) fn pulses(&self) -> u64 {
        self.pulses.load(Ordering::SeqCst)
    }
}

/// Hands hints of an engine on to all clients on it.
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
        // Nobody may be listening.
        let _ = self.0.send(hint);
    }
}

/// How often it shows a sign of life, and for how long that is good.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) every: Duration,
    pub(super) lease: Duration,
}

/// One such worker.
pub(super) struct LeaseClient {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) hints: Arc<Hints>,
    pub(super) asked: Arc<Asked>,
    pub(super) life: Life,
    pub(super) ends: watch::Receiver<bool>,
}

impl LeaseClient {
    /// Registers, and works until it is told to end.
    pub(super) async fn run(mut self) {
        let worker = WorkerId::from_random(fastrand::u128(..));
        self.engine.register(card(worker, self.life.lease)).await.expect("the server is up");
        let started = Instant::now();
        let (told, mut answers) = mpsc::channel(ANSWERS_MAX);
        let mut board: Option<Board> = None;
        let mut hints = self.hints.0.subscribe();
        let mut beats = tokio::time::interval(self.life.every);
        loop {
            let wait = board
                .as_ref()
                .map_or(self.life.every, |board| board.wake_at().saturating_sub(started.elapsed()));
            let event = tokio::select! {
                _ = self.ends.changed() => break,
                _ = beats.tick() => Some(self.pulse(worker).await),
                hint = hints.recv() => hint.ok().and_then(event_of),
                answer = answers.recv() => answer,
                () = tokio::time::sleep(wait) => None,
            };
            let now = started.elapsed();
            if let (None, Some(BoardEvent::Pulse { worker, members, store_now })) = (&board, &event) {
                board = Some(Board::new(
                    *worker,
                    entries(),
                    LeaseTiming::default(),
                    members.clone(),
                    *store_now,
                    now,
                ));
            }
            let Some(board) = &mut board else { continue };
            let mut effects = event.map(|event| board.on(event, now)).unwrap_or_default();
            effects.extend(board.effects(now, TermId::from_random(fastrand::u128(..))));
            effects.into_iter().for_each(|effect| self.perform(effect, &told));
        }
    }

    async fn pulse(&self, worker: WorkerId) -> BoardEvent {
        self.asked.pulses.fetch_add(1, Ordering::SeqCst);
        let heartbeat = Heartbeat { worker, lease: self.life.lease, idle: true };
        let pulse = self.engine.pulse(heartbeat, Timestamp::EPOCH).await.expect("the server is up");
        BoardEvent::Pulse { worker, members: pulse.members, store_now: pulse.now }
    }

    fn perform(&self, effect: BoardEffect, told: &mpsc::Sender<BoardEvent>) {
        let (engine, told, asked) = (Arc::clone(&self.engine), told.clone(), &self.asked);
        match effect {
            BoardEffect::Take(call, request) => {
                asked.takes.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let _ = told.send(BoardEvent::Taken(call, engine.take_leases(&request).await)).await;
                });
            }
            BoardEffect::Renew(call, renewals) => {
                asked.renewals.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let leases: Vec<_> = renewals.iter().map(|renewal| renewal.lease.clone()).collect();
                    let named = |answers: Vec<_>| leases.into_iter().zip(answers).collect();
                    let answer = engine.renew_leases(&renewals).await.map(named);
                    let _ = told.send(BoardEvent::Renewed(call, answer)).await;
                });
            }
            BoardEffect::Release(releases) => {
                asked.releases.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move { engine.release_leases(&releases).await });
            }
            // A run that does nothing is over at once.
            BoardEffect::Begin(begin) => {
                let ended = BoardEvent::Ended(begin.duty, begin.run, RunReport::default());
                tokio::spawn(async move { told.send(ended).await });
            }
            BoardEffect::Alert(alert) => panic!("nothing is wrong here: {alert:?}"),
            BoardEffect::StopRun(..) | BoardEffect::Lock(..) | BoardEffect::Unlock(..) => {}
        }
    }
}

fn event_of(hint: Hint) -> Option<BoardEvent> {
    match hint {
        Hint::Lease(duty) => Some(BoardEvent::Hint(duty)),
        Hint::Any => Some(BoardEvent::HintOfAnything),
        Hint::Queue(_) | Hint::Cancel(_) | Hint::Trigger | Hint::Quiet(_) => None,
    }
}

fn duties() -> BTreeMap<DutyName, Duration> {
    DUTIES
        .map(|(name, every)| (DutyName::parse(name).expect("a plain name"), Duration::from_secs(every)))
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
