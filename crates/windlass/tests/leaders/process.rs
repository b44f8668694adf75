//! A worker in a process of its own, which can be killed, stopped where it is, and woken. It is this test program, started
//! again with a test that knows of it. Its duty hands on its fence, and beside it somebody writes under the last fence
//! handed on and never asks whether this process still leads: only the fence can keep it from writing.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use windlass::duties::{Duty, DutyContext, LeaseTiming};
use windlass::types::lease::LeaseFence;
use windlass::{Handlers, JobType, Worker, WorkerOptions};

use super::ledger::Ledger;
use super::place::open;

/// The duty that is led.
pub(super) const DUTY: &str = "totals";
/// By which a process knows its server and its leases.
const VARIABLES: [&str; 2] = ["WINDLASS_LEADERS_URL", "WINDLASS_LEADERS_EXPIRY_MICROS"];
/// The test that begins with [`work_if_asked`].
const TEST_NAME: &str =
    "killed::on_postgres_another_leads_in_time_when_the_leader_is_killed_and_at_once_when_it_ends";
/// What a process prints when it has registered.
const READY: &str = "ready to lead";
/// Lines are written this often.
const PACE: Duration = Duration::from_millis(10);

/// A job of a type that nobody puts in: a worker needs a handler.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Idle;

impl JobType for Idle {
    const NAME: &'static str = "idle";
}

pub(super) async fn idle(_: Idle) {}

/// Ends when its input does, and so also with whoever started it. Dropping it kills it where it is.
pub(super) struct Process(Child);

impl Process {
    /// Starts it, and waits until it has registered.
    pub(super) fn start(url: &str, expiry: Duration) -> Self {
        let values = [url.to_owned(), expiry.as_micros().to_string()];
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", TEST_NAME, "--nocapture"]).envs(VARIABLES.into_iter().zip(values));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
        let is_ready = lines.any(|line| line.is_ok_and(|line| line.contains(READY)));
        assert!(is_ready, "expected a process to register, it ended");
        // What it prints later must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Stops it where it is.
    pub(super) fn freeze(&self) {
        kill_process(Pid::from_child(&self.0), Signal::STOP).expect("it is there");
    }

    /// Lets it go on.
    pub(super) fn wake(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).expect("it is there");
    }

    /// Tells it to end. It still has to be waited for.
    pub(super) fn ask_to_end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// Waits until it has ended, which it was told to.
    pub(super) fn wait(mut self) {
        let status = self.0.wait().expect("it is there");
        assert!(status.success(), "a worker process ends well: {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything at the pace of leases with this expiry; at the usual one as it is by default.
pub(super) fn options(expiry: Duration, duty: Duty) -> WorkerOptions {
    let usual = WorkerOptions { duties: vec![duty], ..WorkerOptions::default() };
    if expiry == usual.duty_leases.expiry {
        return usual;
    }
    WorkerOptions {
        lease: expiry,
        heartbeat_every: expiry / 5,
        sweep_every: expiry / 5,
        duty_leases: LeaseTiming { heartbeat: expiry / 5, expiry },
        ..usual
    }
}

/// Whether this is such a process; if so, its work is done when this returns.
pub(super) async fn work_if_asked() -> bool {
    let [Ok(url), Ok(expiry)] = VARIABLES.map(std::env::var) else { return false };
    let expiry = Duration::from_micros(expiry.parse().expect("a number"));
    let led = watch::Sender::<Option<LeaseFence>>::default();
    let hand_on = led.clone();
    let run = move |context: DutyContext| {
        hand_on.send_replace(context.fence().cloned());
        async {}
    };
    let duty = Duty::new(DUTY, expiry / 5, run).expect("a plain name");
    let handlers = Handlers::new(()).handle(idle);
    let mut worker =
        Worker::start(open(&url).await, handlers, options(expiry, duty)).await.expect("it starts");
    let writing = tokio::spawn(write_under_last_fence(Ledger::open(&url).await, led));
    println!("{READY}");
    // Whatever it reads, it is the end that counts.
    let read = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(read).await;
    worker.stop().await;
    writing.abort();
    true
}

/// Whoever is refused waits until it leads again.
async fn write_under_last_fence(mut ledger: Ledger, led: watch::Sender<Option<LeaseFence>>) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        let fence = led.borrow().clone();
        if let Some(fence) = fence
            && !ledger.write(&fence).await
        {
            led.send_if_modified(|last| {
                let is_same = last.as_ref() == Some(&fence);
                if is_same {
                    *last = None;
                }
                is_same
            });
        }
    }
}
