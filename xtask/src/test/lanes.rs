//! Runs programs, several at a time. The output of each program is stored separately and reported when it
//! has ended.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A program to run.
pub(crate) struct Job {
    /// Its name in the output.
    pub(crate) name: String,
    pub(crate) command: Command,
}

/// The events of a run.
pub(crate) enum Event {
    /// A job has begun, with the file into which it prints.
    Begun(String, PathBuf),
    Ended(Ended),
}

/// The end of a job.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) output: String,
    pub(crate) took: Duration,
    pub(crate) result: Result<(), String>,
}

/// Prepares a command just before it runs in the lane of this number.
pub(crate) type Equip<'a> = dyn Fn(&mut Command, usize) -> Result<(), String> + Sync + 'a;

/// Runs all jobs in their order, at most `lanes` at a time. Their output is written into files of the
/// folder.
pub(crate) fn run(
    jobs: Vec<Job>,
    lanes: usize,
    folder: &Path,
    equip: &Equip<'_>,
    mut on_event: impl FnMut(Event),
) {
    let waiting = Mutex::new(VecDeque::from(jobs));
    let (sender, events) = sync_channel(lanes);
    thread::scope(|scope| {
        for lane in 0..lanes {
            let (sender, waiting) = (sender.clone(), &waiting);
            scope.spawn(move || {
                while let Some(mut job) = next(waiting) {
                    let equipped = equip(&mut job.command, lane);
                    job.run(equipped, folder, &sender);
                }
            });
        }
        // The receiver below ends only when all senders are dropped.
        drop(sender);
        events.iter().for_each(&mut on_event);
    });
}

fn next(waiting: &Mutex<VecDeque<Job>>) -> Option<Job> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

impl Job {
    fn run(mut self, equipped: Result<(), String>, folder: &Path, sender: &SyncSender<Event>) {
        let path = folder.join(format!("{}.txt", self.name.replace(['/', ' '], "-")));
        // Sending cannot fail: the receiver stays until the last lane has ended.
        let _ = sender.send(Event::Begun(self.name.clone(), path.clone()));
        let start = Instant::now();
        let result = equipped.and_then(|()| self.run_into(&path));
        let output = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let output = output.unwrap_or_else(|error| format!("{}: {error}\n", path.display()));
        let _ = sender.send(Event::Ended(Ended { name: self.name, output, took: start.elapsed(), result }));
    }

    /// Runs the command with its output in a file, not in a pipe: a server that a test has left running
    /// would keep a pipe open.
    fn run_into(&mut self, path: &Path) -> Result<(), String> {
        let name = &self.name;
        let failed = |error: std::io::Error| format!("running `{name}` failed: {error}");
        let file = File::create(path).map_err(failed)?;
        let both = file.try_clone().map_err(failed)?;
        let status = self.command.stdout(file).stderr(both).status().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(format!("`{name}` failed ({status})")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed with its test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-lanes-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn job(name: &str, folder: &Folder, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&folder.0);
        Job { name: name.to_owned(), command }
    }

    fn ends(jobs: Vec<Job>, lanes: usize, folder: &Folder) -> Vec<Ended> {
        let mut ends = Vec::new();
        run(jobs, lanes, &folder.0, &|_, _| Ok(()), |event| match event {
            Event::Ended(ended) => ends.push(ended),
            Event::Begun(..) => {}
        });
        ends
    }

    /// A script that creates a file, and waits for the file of the other job for at most ten seconds.
    const MEETS: &str = "touch $0; for n in $(seq 1000); do [ -e $1 ] && exit 0; sleep 0.01; done; exit 1";

    fn meets(name: &str, other: &str, folder: &Folder) -> Job {
        let mut job = job(name, folder, MEETS);
        job.command.args([name, other]);
        job
    }

    #[test]
    fn two_lanes_run_two_at_a_time_and_each_job_once() {
        let folder = Folder::new("two");
        let jobs = vec![meets("a", "b", &folder), meets("b", "a", &folder), job("c", &folder, "echo c >>c")];
        let ends = ends(jobs, 2, &folder);
        assert_eq!(ends.len(), 3);
        assert!(ends.iter().all(|ended| ended.result.is_ok()), "the two jobs did not run at the same time");
        assert_eq!(fs::read_to_string(folder.0.join("c")).unwrap(), "c\n");
    }

    #[test]
    fn in_one_lane_they_run_one_after_the_other() {
        let folder = Folder::new("one");
        let script = "[ -e busy ] && exit 1; touch busy; sleep 0.1; rm busy";
        let jobs = ["a", "b", "c"].map(|name| job(name, &folder, script)).into();
        let ends = ends(jobs, 1, &folder);
        assert!(ends.iter().all(|ended| ended.result.is_ok()));
        assert_eq!(ends.iter().map(|ended| &ended.name[..]).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn output_is_kept_apart_and_a_failure_is_reported_with_its_name() {
        let folder = Folder::new("apart");
        let script = "for n in 1 2 3; do echo $0 $n; echo $0 $n >&2; sleep 0.01; done; exit $1";
        let jobs = [("a", "0"), ("b", "3")].map(|(name, code)| {
            let mut job = job(name, &folder, script);
            job.command.args([name, code]);
            job
        });
        for ended in ends(jobs.into(), 2, &folder) {
            let lines: Vec<_> = ended.output.lines().collect();
            assert_eq!(lines.len(), 6, "{lines:?}");
            assert!(lines.iter().all(|line| line.starts_with(&ended.name)), "{lines:?}");
            match &ended.name[..] {
                "a" => assert_eq!(ended.result, Ok(())),
                _ => assert_eq!(ended.result, Err("`b` failed (exit status: 3)".to_owned())),
            }
        }
    }

    #[test]
    fn a_job_that_cannot_be_equipped_has_failed_and_the_others_run() {
        let folder = Folder::new("equipped");
        let equip = |command: &mut Command, lane: usize| {
            command.env("LANE", lane.to_string());
            let is_poor = command.get_args().any(|word| word == "poor");
            if is_poor { Err("there is nothing left".to_owned()) } else { Ok(()) }
        };
        let mut jobs = vec![job("a", &folder, "echo $LANE"), job("b", &folder, "echo $LANE")];
        jobs[0].command.arg("poor");
        let mut results = Vec::new();
        run(jobs, 1, &folder.0, &equip, |event| match event {
            Event::Ended(Ended { result, output, .. }) => results.push(result.map(|()| output)),
            Event::Begun(..) => {}
        });
        assert_eq!(results, [Err("there is nothing left".to_owned()), Ok("0\n".to_owned())]);
    }

    #[test]
    fn a_program_that_is_not_there_has_failed() {
        let folder = Folder::new("missing");
        let job = Job { name: "a".to_owned(), command: Command::new("no-such-program-here") };
        let failure = ends(vec![job], 1, &folder).remove(0).result.unwrap_err();
        assert!(failure.contains("running `a` failed"), "{failure}");
    }
}
