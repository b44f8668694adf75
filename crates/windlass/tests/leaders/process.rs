//! A worker in a separate process, which can be killed, frozen and resumed. It is this test program,
//! started again with a test that recognises it. Its duty passes on its fence. A task beside the duty
//! writes under the last passed fence, and never checks whether this process still leads: only the fence
//! can keep it from writing.

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

use super::killed::{NEVER, SHORT};
use super::ledger::Ledger;
use super::test_store::open;

/// The duty of the leaders.
pub(super) const DUTY: &str = "totals";
/// The variables that give a process its server and its leases.
const VARIABLES: [&str; 2] = ["WINDLASS_LEADERS_URL", "WINDLASS_LEADERS_EXPIRY_MICROS"];
/// The test that begins with [`work_if_asked`].
const TEST_NAME: &str =
    "killed::on_postgres_another_leads_in_time_when_the_leader_is_killed_and_at_once_when_it_ends";
/// The line that a process prints when it has registered.
const READY: &str = "ready to lead";
/// The interval between two writes.
const PACE: Duration = Duration::from_millis(10);

/// A job of a type that is never enqueued: a worker needs a handler.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Idle;

impl JobType for Idle {
    const NAME: &'static str = "idle";
}

pub(super) async fn idle(_: Idle) {}

/// A worker process. It ends when its input does, and so also when its parent ends. Dropping it kills it.
pub(super) struct Process(Child);

impl Process {
    /// Starts a process, and waits until it has registered.
    pub(super) fn start(url: &str, expiry: Duration) -> Self {
        let values = [url.to_owned(), expiry.as_micros().to_string()];
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", TEST_NAME, "--nocapture"]).envs(VARIABLES.into_iter().zip(values));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the process starts");
        let mut lines = BufReader::new(child.stdout.take().expect("the output is a pipe")).lines();
        let is_ready = lines.any(|line| line.is_ok_and(|line| line.contains(READY)));
        assert!(is_ready, "expected the process to register, but it ended");
        // The output is read further, so that a full pipe cannot block the process.
        std::thread::spawn(move || lines.for_each(drop));
        Self(child)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Freezes the process.
    pub(super) fn freeze(&self) {
        kill_process(Pid::from_child(&self.0), Signal::STOP).expect("the process exists");
    }

    /// Resumes the process.
    pub(super) fn wake(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).expect("the process exists");
    }

    /// Asks the process to end. The caller still has to wait for it.
    pub(super) fn ask_to_end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// Waits for the end of a process that was asked to end.
    pub(super) fn wait(mut self) {
        let status = self.0.wait().expect("the process exists");
        assert!(status.success(), "expected the worker process to succeed, got {status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The options of a worker with leases of this expiry. All intervals follow from it, up to those of the
/// shortest expiry; with the default expiry they are the defaults.
pub(super) fn options(expiry: Duration, duty: Duty) -> WorkerOptions {
    let usual = WorkerOptions { duties: vec![duty], ..WorkerOptions::default() };
    if expiry == usual.duty_leases.expiry {
        return usual;
    }
    let every = interval(expiry);
    WorkerOptions {
        lease: expiry,
        heartbeat_every: every,
        sweep_every: every,
        duty_leases: LeaseTiming { heartbeat: every, expiry },
        ..usual
    }
}

fn interval(expiry: Duration) -> Duration {
    if expiry == NEVER { SHORT / 5 } else { expiry / 5 }
}

/// Whether this program is such a process. If so, its work is done when this returns.
pub(super) async fn work_if_asked() -> bool {
    let [Ok(url), Ok(expiry)] = VARIABLES.map(std::env::var) else { return false };
    let expiry = Duration::from_micros(expiry.parse().expect("a number"));
    let led = watch::Sender::<Option<LeaseFence>>::default();
    let hand_on = led.clone();
    let run = move |context: DutyContext| {
        hand_on.send_replace(context.fence().cloned());
        async {}
    };
    let duty = Duty::new(DUTY, interval(expiry), run).expect("a valid name");
    let handlers = Handlers::new(()).handle(idle);
    let mut worker =
        Worker::start(open(&url).await, handlers, options(expiry, duty)).await.expect("the worker starts");
    let writing = tokio::spawn(write_under_last_fence(Ledger::open(&url).await, led));
    println!("{READY}");
    // The input has no content; its end asks the process to end.
    let read = || std::io::stdin().read_to_end(&mut Vec::new());
    let _ = tokio::task::spawn_blocking(read).await;
    worker.stop().await;
    writing.abort();
    true
}

/// Writes under the last passed fence. After a refusal it waits until the process leads again. Before the
/// first write under a new fence it writes once more under the one before it, so that each lost term ends
/// with a refusal, also where the process leads again at once.
async fn write_under_last_fence(mut ledger: Ledger, led: watch::Sender<Option<LeaseFence>>) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<LeaseFence> = None;
    loop {
        pace.tick().await;
        let fence = led.borrow().clone();
        if let (Some(before), Some(fence)) = (&before, &fence)
            && before != fence
        {
            ledger.write(before).await;
        }
        before = fence.clone().or(before);
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
