//! The shell around a consumer's pool. The pool has as many slots as there are held jobs and waiting
//! callers, so it claims exactly when a caller requests a job, and never ahead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_core::claim::{Claimed, Fence};
use windlass_core::engine::Engine;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::TIMEOUT_DEFAULT;
use windlass_core::outcome::AttemptOutcome;
use windlass_core::settle::{AttemptReport, Settled, Settlement};

use super::{Answers, EndError, EndSender, HELD_MAX, HeldJob, WAITERS_MAX, Waiter};
use crate::client::Client;
use crate::duties::prepare::Prepared;
use crate::duties::shell::DutiesThread;
use crate::handler::Context;
use crate::rollups::shell::{STATS_FLUSH_GRACE, StatsFlusher};
use crate::worker::WorkerOptions;
use crate::worker::controls::Controls;
use crate::worker::heartbeat::{HeartThread, Identity};
use crate::worker::hints::{HintFlag, Listener};
use crate::worker::pool::{Effect, Event, Pool, PoolSettings};
use crate::worker::quarantine::Quarantine;
use crate::worker::settle::BatchNumber;
use crate::worker::shell::{failure, inbox_size, sleep_until};
use crate::{maintenance, random, store};

pub(super) struct Shell {
    pool: Pool,
    engine: Arc<dyn Engine>,
    client: Client,
    types: Vec<TypeSpec>,
    ends: EndSender,
    events: mpsc::Receiver<Event>,
    newcomers: mpsc::Receiver<Waiter>,
    waiters: VecDeque<Waiter>,
    flag: Arc<HintFlag>,
    /// Sets the flag when a hint comes, for as long as it is kept.
    _listener: Arc<Listener>,
    heart: HeartThread,
    depth: Option<JoinHandle<()>>,
    /// Flushes the samples of attempts to the store.
    stats_flusher: Option<StatsFlusher>,
    /// Maintenance and other duties, if this process does them.
    duties: Option<DutiesThread>,
    started: Instant,
}

/// The parts of a consumer.
pub(super) struct Parts {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) client: Client,
    pub(super) types: Vec<TypeSpec>,
    pub(super) settings: PoolSettings,
    pub(super) identity: Identity,
    pub(super) newcomers: mpsc::Receiver<Waiter>,
    pub(super) quarantine: Quarantine,
    pub(super) duties: Prepared,
}

/// Starts the shell, and returns the inbox for events to it.
pub(super) fn start(parts: Parts, options: &WorkerOptions) -> (mpsc::Sender<Event>, JoinHandle<()>) {
    let Parts { engine, client, types, settings, identity, newcomers, quarantine, duties } = parts;
    let (inbox, events) = mpsc::channel(inbox_size(HELD_MAX));
    let controls = Arc::new(Controls::default());
    let flag = HintFlag::new(settings.scope.queues.clone());
    let worker = identity.worker();
    let mailbox = duties.mailbox();
    let stats_flusher = StatsFlusher::start(&engine, duties.dirty(), options.maintenance);
    let heart =
        HeartThread::start(identity, Arc::clone(&controls), vec![inbox.clone()], options, mailbox.clone());
    let listener = Listener::start(
        &engine,
        vec![Arc::clone(&flag)],
        Arc::clone(&controls),
        heart.handle(),
        mailbox.clone(),
    );
    let pool = Pool::new(settings, worker, quarantine, Box::new(random::claim_token));
    let depth = options
        .maintenance
        .then(|| tokio::spawn(maintenance::depth::watch_depth(Arc::clone(&engine), mailbox)));
    let shell = Shell {
        pool: pool.without_prefetch(),
        engine,
        duties: duties.start(client.clone()),
        client,
        types,
        ends: EndSender {
            inbox: inbox.clone(),
            controls,
            answers: Arc::new(Answers::default()),
            recorder: stats_flusher.recorder(),
        },
        events,
        newcomers,
        waiters: VecDeque::new(),
        flag,
        _listener: listener,
        heart,
        depth,
        stats_flusher: Some(stats_flusher),
        started: Instant::now(),
    };
    (inbox, tokio::spawn(shell.run()))
}

impl Drop for Shell {
    /// Drops all answers, also after a panic: no holder may wait for ever.
    fn drop(&mut self) {
        if let Some(depth) = self.depth.take() {
            depth.abort();
        }
        self.ends.answers.close();
    }
}

impl Shell {
    /// Runs until the pool has ended. Dropping the waiters then ends their waits.
    async fn run(mut self) {
        while !self.step() {
            self.wait().await;
        }
        self.newcomers.close();
        self.waiters.clear();
        if let Some(stats_flusher) = self.stats_flusher.take() {
            let _ = tokio::time::timeout(STATS_FLUSH_GRACE, stats_flusher.end()).await;
        }
        if let Some(mut duties) = self.duties.take() {
            duties.stop().await;
        }
        self.heart.stop().await;
    }

    /// Performs all effects that are due. Returns whether the pool has ended.
    fn step(&mut self) -> bool {
        self.waiters.retain(|waiter| !waiter.is_closed());
        let slots = self.pool.running().saturating_add(self.waiters.len());
        self.pool.set_concurrency(u32::try_from(slots).unwrap_or(HELD_MAX).min(HELD_MAX));
        self.perform_all();
        if self.waiters.is_empty() {
            // The callers that requested the claimed jobs have stopped waiting.
            self.pool.give_back_room(self.started.elapsed());
            self.perform_all();
        }
        self.pool.has_ended()
    }

    async fn wait(&mut self) {
        let wake_at = self.pool.wake_at();
        let has_place = self.waiters.len() < WAITERS_MAX;
        let event = tokio::select! {
            biased;
            event = self.events.recv() => event,
            Some(waiter) = self.newcomers.recv(), if has_place => {
                self.waiters.push_back(waiter);
                None
            }
            event = self.flag.raised() => Some(event),
            () = sleep_until(self.started, wake_at) => None,
        };
        if let Some(event) = event {
            self.note_end(&event);
            self.pool.on(event, self.started.elapsed());
        }
    }

    /// Tells a holder that its end comes too late, because the job was taken back; otherwise notes that the
    /// pool accepted the end.
    fn note_end(&self, event: &Event) {
        let Event::Ended { fence, .. } = event else { return };
        match self.pool.runs(*fence) {
            true => self.ends.answers.taken(*fence),
            false => self.ends.answers.answer(*fence, Ok(Settled::ClaimLost)),
        }
    }

    fn perform_all(&mut self) {
        for effect in self.pool.effects(self.started.elapsed()) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Claim(request) => {
                let (engine, inbox) = (Arc::clone(&self.engine), self.ends.inbox.clone());
                let token = request.token;
                // No task waits for this call or for the settlements: they complete by themselves.
                drop(store::begin(async move {
                    let answer =
                        store::call(&engine, |engine| async move { engine.claim(request).await }).await;
                    let answer = answer.map_err(|error| failure(&error));
                    let _ = inbox.send(Event::ClaimAnswered(token, answer)).await;
                }));
            }
            Effect::Settle(number, batch) => self.settle(number, batch),
            Effect::Start(claimed) => self.hand_out(claimed),
            Effect::Abort(fence) => self.take_back(fence),
            Effect::ClaimLost(fence) => {
                tracing::warn!(job.id = fence.job.0, "another worker owns this job now; its end was refused");
            }
            Effect::GaveUp(settlement) => {
                self.ends.answers.stored(settlement.fence, Err(EndError::Refused));
            }
            Effect::Died => self.heart.handle().beat_soon(),
        }
    }

    /// Sends ends to the store, and passes its answers to the waiting holders.
    fn settle(&self, number: BatchNumber, batch: Vec<Settlement>) {
        let (engine, sender) = (Arc::clone(&self.engine), self.ends.clone());
        let fences: Vec<_> = batch.iter().map(|settlement| settlement.fence).collect();
        drop(store::begin(async move {
            let answer = store::call(&engine, |engine| async move { engine.settle(batch).await }).await;
            for (fence, settled) in fences.into_iter().zip(answer.iter().flatten()) {
                sender.answers.stored(fence, Ok(*settled));
            }
            let answer = answer.map_err(|error| failure(&error));
            let _ = sender.inbox.send(Event::SettleAnswered(number, answer)).await;
        }));
    }

    /// Gives the job to the first caller that still waits; if no caller does, dropping the job releases it.
    fn hand_out(&mut self, claimed: Arc<Claimed>) {
        let spec = self.types.iter().find(|spec| spec.name == claimed.job.job_type);
        let timeout = claimed.job.timeout.or(spec.map(|spec| spec.timeout)).unwrap_or(TIMEOUT_DEFAULT);
        let control = self.ends.controls.start(&claimed, self.pool.policy(&claimed).clone(), timeout);
        let mut held = HeldJob {
            ctx: Context::new(claimed, self.client.clone(), control),
            since: Instant::now(),
            ends: self.ends.clone(),
            delivered: false,
            ended: false,
        };
        while let Some(waiter) = self.waiters.pop_front() {
            match waiter.send(held) {
                Ok(()) => return,
                Err(back) => held = back,
            }
        }
    }

    /// Takes a job back after the grace of a stop: the holder is asked to let go, and the job is released
    /// in the store.
    fn take_back(&mut self, fence: Fence) {
        self.ends.controls.cancel(fence);
        let outcome = AttemptOutcome::Released { started: true };
        self.pool
            .on(Event::Ended { fence, outcome, report: AttemptReport::default() }, self.started.elapsed());
    }
}
