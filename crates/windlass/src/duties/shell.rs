//! The shell around the duty status: a thread with a runtime of its own, so that a handler that blocks the
//! application's runtime costs no lease. Each call to the store is a task, and no error of the store ends
//! the thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use windlass_core::duty::runner::RunId;
use windlass_core::engine::Engine;
use windlass_core::lease::lease_client::LeaseTiming;
use windlass_core::names::DutyName;

use super::boot_clock::BootClock;
use super::built_in;
use super::context::DutyContext;
use super::mailbox::{HeardHeartbeat, Mailbox};
use super::refusals::{Refusals, Turn};
use super::status::{Begin, DutyStatus, DutyStatusEffect, DutyStatusEvent, Entry};
use super::{Duty, DutyRun};
use crate::alerts::{Alert, Alerts};
use crate::client::Client;
use crate::{random, store};

/// The most answers that wait to be taken in; a task with one more waits.
const ANSWERS_MAX: usize = 256;
/// How long a run that was asked to stop may take to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long, when the process ends, the store may take to accept released leases, and runs may take to end.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);
/// The longest time between two evaluations of the duty status.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// A duty that this process may do, and where it runs.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) duty: Duty,
    pub(crate) at_once: bool,
    /// Whether it runs on the thread of the duties, rather than on the application's runtime. Only for
    /// duties that never block.
    pub(crate) is_ours: bool,
}

impl Task {
    /// A duty of the application.
    pub(crate) fn of_application(duty: Duty) -> Self {
        Self { duty, at_once: false, is_ours: false }
    }
}

/// The running thread.
pub(crate) struct DutiesThread {
    mailbox: Mailbox,
    ended: Option<oneshot::Receiver<()>>,
}

impl DutiesThread {
    /// Starts the thread. The duties begin when the first heartbeat was answered, which the mailbox reports.
    pub(crate) fn start(shell: Shell) -> Self {
        let (ended_tx, ended) = oneshot::channel();
        let mailbox = shell.mailbox.clone();
        std::thread::Builder::new()
            .name("windlass-duties".to_owned())
            .spawn(move || {
                match tokio::runtime::Builder::new_current_thread().enable_time().build() {
                    Ok(runtime) => runtime.block_on(shell.run()),
                    Err(error) => tracing::error!(%error, "creating the runtime of the duties failed; this process does no duties"),
                }
                let _ = ended_tx.send(());
            })
            .expect("a process that can start can start one more thread");
        Self { mailbox, ended: Some(ended) }
    }

    /// Releases all leases and locks, and waits a short time for that.
    pub(crate) async fn stop(&mut self) {
        self.mailbox.stop();
        if let Some(ended) = self.ended.take() {
            let _ = tokio::time::timeout(LEAVE_WITHIN * 2, ended).await;
        }
    }
}

impl Drop for DutiesThread {
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

/// A run in progress.
struct Run {
    context: DutyContext,
    abort: AbortHandle,
}

/// The kinds of requests that the store refuses, each tracked by itself: the store may accept one and
/// refuse another.
#[derive(Default)]
struct Refused {
    takes: Arc<Refusals>,
    renewals: Arc<Refusals>,
    locks: Arc<Refusals>,
}

/// The duty status and the parts around it.
pub(crate) struct Shell {
    engine: Arc<dyn Engine>,
    client: Client,
    tasks: BTreeMap<DutyName, Task>,
    timing: LeaseTiming,
    mailbox: Mailbox,
    application: Handle,
    clock: BootClock,
    events_tx: mpsc::Sender<DutyStatusEvent>,
    events: mpsc::Receiver<DutyStatusEvent>,
    runs: BTreeMap<DutyName, (RunId, Run)>,
    refused: Refused,
    alerts: Alerts,
    /// Releases that the store has not answered: a process that ends waits for them.
    releases: JoinSet<()>,
}

impl Shell {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        client: Client,
        tasks: Vec<Task>,
        timing: LeaseTiming,
        mailbox: Mailbox,
        alerts: Alerts,
    ) -> Self {
        let (events_tx, events) = mpsc::channel(ANSWERS_MAX);
        Self {
            engine,
            client,
            tasks: tasks.into_iter().map(|task| (task.duty.name.clone(), task)).collect(),
            timing,
            mailbox,
            application: Handle::current(),
            clock: BootClock::start(),
            events_tx,
            events,
            runs: BTreeMap::new(),
            refused: Refused::default(),
            alerts,
            releases: JoinSet::new(),
        }
    }

    /// Runs until it is asked to stop, and has released all leases and locks.
    pub(crate) async fn run(mut self) {
        let Some(mut duty_status) = self.begin().await else { return };
        while self.turn(&mut duty_status) {
            self.show_standing(&duty_status);
            let wait = duty_status.wake_at().saturating_sub(self.clock.now()).min(CHECK_EVERY);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.mailbox.came() => {}
                Some(event) = self.events.recv() => self.take_in(&mut duty_status, event),
            }
        }
        self.leave(duty_status).await;
    }

    /// Waits for the first heartbeat's answer. The number of other members decides whether this process
    /// requests leases at all, and how often.
    async fn begin(&mut self) -> Option<DutyStatus> {
        loop {
            let mail = self.mailbox.take();
            if mail.stop {
                return None;
            }
            if let Some(heartbeat_answer) = mail.heartbeat_answer {
                return Some(self.duty_status(heartbeat_answer));
            }
            self.mailbox.came().await;
        }
    }

    fn duty_status(&self, heartbeat_answer: HeardHeartbeat) -> DutyStatus {
        let entry = |task: &Task| Entry { spec: task.duty.spec(), at_once: task.at_once };
        let entries = self.tasks.values().map(entry).collect();
        let store_now = heartbeat_answer.store_now.plus(heartbeat_answer.at.elapsed());
        DutyStatus::new(
            heartbeat_answer.worker,
            entries,
            self.timing,
            heartbeat_answer.members,
            store_now,
            self.clock.now(),
        )
    }

    /// Takes in the mail, and performs the effects that are due. Returns whether to go on.
    fn turn(&mut self, duty_status: &mut DutyStatus) -> bool {
        let mail = self.mailbox.take();
        if mail.stop {
            return false;
        }
        if let Some(HeardHeartbeat { worker, members, store_now, at }) = mail.heartbeat_answer {
            let store_now = store_now.plus(at.elapsed());
            self.take_in(duty_status, DutyStatusEvent::HeartbeatAnswer { worker, members, store_now });
        }
        for duty in mail.hints {
            self.take_in(duty_status, DutyStatusEvent::Hint(duty));
        }
        if mail.hint_of_anything {
            self.take_in(duty_status, DutyStatusEvent::HintOfAnything);
        }
        while let Ok(event) = self.events.try_recv() {
            self.take_in(duty_status, event);
        }
        while self.releases.try_join_next().is_some() {}
        for effect in duty_status.effects(self.clock.now(), random::term_id()) {
            self.perform(effect);
        }
        true
    }

    fn take_in(&mut self, duty_status: &mut DutyStatus, event: DutyStatusEvent) {
        // These events may release a lease, with the notes of its run; and each heartbeat is a time to note
        // the progress of runs.
        if matches!(event, DutyStatusEvent::Renewed(..) | DutyStatusEvent::Stop) {
            self.report_runs(duty_status);
        }
        if let DutyStatusEvent::Ended(duty, run, _) = &event
            && self.runs.get(duty).is_some_and(|(current, _)| current == run)
        {
            self.runs.remove(duty);
        }
        for effect in duty_status.on(event, self.clock.now()) {
            self.perform(effect);
        }
    }

    fn report_runs(&self, duty_status: &mut DutyStatus) {
        for (duty, (id, run)) in &self.runs {
            let so_far = DutyStatusEvent::UnderWay(duty.clone(), *id, run.context.report(Ok(())));
            // An interim report has no effects.
            duty_status.on(so_far, self.clock.now());
        }
    }

    fn show_standing(&self, duty_status: &DutyStatus) {
        let (standing, now) = (self.mailbox.standing(), self.clock.now());
        let rescue = built_in::rescue();
        standing.stands_by.store(duty_status.stands_by(&rescue), Ordering::SeqCst);
        standing.leads.store(duty_status.leads(&rescue, now), Ordering::SeqCst);
        standing.live.store(duty_status.live(), Ordering::SeqCst);
    }

    fn perform(&mut self, effect: DutyStatusEffect) {
        match effect {
            DutyStatusEffect::Take(call, request) => self.ask(
                &self.refused.takes,
                |engine| async move { engine.take_leases(&request).await },
                move |answer| DutyStatusEvent::Taken(call, answer),
            ),
            DutyStatusEffect::Renew(call, renewals) => {
                let leases: Vec<_> = renewals.iter().map(|renewal| renewal.lease.clone()).collect();
                self.ask(
                    &self.refused.renewals,
                    |engine| async move { engine.renew_leases(&renewals).await },
                    move |answer| {
                        let named = |answers| leases.into_iter().zip(answers).collect();
                        DutyStatusEvent::Renewed(call, answer.map(named))
                    },
                );
            }
            DutyStatusEffect::Lock(call, request) => self.ask(
                &self.refused.locks,
                |engine| async move { engine.lock_duties(&request).await },
                move |answer| DutyStatusEvent::Locked(call, answer),
            ),
            DutyStatusEffect::Release(releases) => {
                self.say(|engine| async move { engine.release_leases(&releases).await.map(drop) });
            }
            DutyStatusEffect::Unlock(worker, duties) => {
                self.say(move |engine| async move { engine.unlock_duties(worker, &duties).await });
            }
            DutyStatusEffect::Begin(begin) => self.begin_run(begin),
            DutyStatusEffect::StopRun(duty, run) => self.stop_run(&duty, run),
            DutyStatusEffect::Alert(alert) => self.alerts.raise(&Alert::Duty(alert)),
        }
    }

    /// Calls the store; the answer becomes an event for the duty status.
    fn ask<T, F, Fut>(
        &self,
        refusals: &Arc<Refusals>,
        call: F,
        event: impl FnOnce(windlass_core::engine::Result<T>) -> DutyStatusEvent + Send + 'static,
    ) where
        T: Send + 'static,
        F: FnOnce(Arc<dyn Engine>) -> Fut + Send + 'static,
        Fut: Future<Output = windlass_core::engine::Result<T>> + Send + 'static,
    {
        let (engine, events_tx, refusals) =
            (Arc::clone(&self.engine), self.events_tx.clone(), Arc::clone(refusals));
        tokio::spawn(async move {
            let answer = store::call(&engine, call).await;
            match (refusals.observe(&answer), &answer) {
                (Some(Turn::Begins), Err(error)) => {
                    tracing::warn!(%error, "the store refuses to answer about leases: this process does no duty until that is fixed");
                }
                (Some(_), _) => tracing::info!("the store answers about leases again"),
                (None, Err(error)) => tracing::debug!(%error, "the store did not answer about leases"),
                (None, Ok(_)) => {}
            }
            let _ = events_tx.send(event(answer)).await;
        });
    }

    /// Calls the store without using the answer.
    fn say<F, Fut>(&mut self, call: F)
    where
        F: FnOnce(Arc<dyn Engine>) -> Fut + Send + 'static,
        Fut: Future<Output = windlass_core::engine::Result<()>> + Send + 'static,
    {
        let engine = Arc::clone(&self.engine);
        self.releases.spawn(async move {
            if let Err(error) = store::call(&engine, call).await {
                tracing::warn!(%error, "releasing leases failed; they expire");
            }
        });
    }

    fn begin_run(&mut self, begin: Begin) {
        let Some(task) = self.tasks.get(&begin.duty).cloned() else { return };
        let (duty, id) = (begin.duty.clone(), begin.run);
        let context = DutyContext::new(begin, Arc::clone(&self.engine), self.client.clone());
        let started = start(task.duty.run, context.clone());
        let running = match task.is_ours {
            true => tokio::spawn(started),
            false => self.application.spawn(started),
        };
        let abort = running.abort_handle();
        let (events_tx, of_run, name) = (self.events_tx.clone(), context.clone(), duty.clone());
        tokio::spawn(async move {
            let ended = running.await.unwrap_or_else(|error| {
                Err(match error.is_panic() {
                    true => "it panicked".to_owned(),
                    false => "it was stopped".to_owned(),
                })
            });
            if let Err(error) = &ended {
                tracing::warn!(duty = %name, error, "a run of a duty failed; it runs again after its interval");
            }
            let _ = events_tx.send(DutyStatusEvent::Ended(name, id, of_run.report(ended))).await;
        });
        self.runs.insert(duty, (id, Run { context, abort }));
    }

    /// Asks a run to stop, and drops it if it has not ended after the grace.
    fn stop_run(&mut self, duty: &DutyName, run: RunId) {
        let Some((_, running)) = self.runs.get(duty).filter(|(current, _)| *current == run) else { return };
        running.context.stop();
        let abort = running.abort.clone();
        tokio::spawn(async move {
            // may sleep: this is how long the run has to end by itself.
            tokio::time::sleep(STOP_GRACE).await;
            abort.abort();
        });
    }

    /// Releases all leases and locks, and waits for the answers: a lease that was granted meanwhile is
    /// released, too.
    async fn leave(mut self, mut duty_status: DutyStatus) {
        let deadline = tokio::time::Instant::now() + LEAVE_WITHIN;
        // A run that has just ended was done.
        while let Ok(event) = self.events.try_recv() {
            self.take_in(&mut duty_status, event);
        }
        self.take_in(&mut duty_status, DutyStatusEvent::Stop);
        let standing = self.mailbox.standing();
        standing.leads.store(false, Ordering::SeqCst);
        standing.stands_by.store(false, Ordering::SeqCst);
        while duty_status.is_waiting() || duty_status.is_running() || !self.releases.is_empty() {
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => break,
                Some(event) = self.events.recv() => self.take_in(&mut duty_status, event),
                Some(_) = self.releases.join_next() => {}
            }
        }
        for (_, run) in self.runs.values() {
            run.abort.abort();
        }
    }
}

/// Calls the duty's function in the task, too: the function itself may panic before there is a future.
async fn start(run: DutyRun, context: DutyContext) -> Result<(), String> {
    run(context).await
}
