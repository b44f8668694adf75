//! The binary on a Redis server that is killed and restarted, with a spool beside it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::fs::File;
use std::process::Child;

use common::{Dir, Done, ended, terminate, wait_for};
use serde_json::json;
use windlass_servers::redis::{Options, Server};
use windlass_servers::small_disk::SmallDisk;

/// A server that loses nothing when it is killed, and a working directory.
struct TestStore {
    dir: Dir,
    server: Server,
    url: String,
}

impl TestStore {
    fn new() -> Self {
        let settings = vec![("appendfsync".to_owned(), "always".to_owned())];
        let server = Server::start(&Options { settings, ..Options::default() }).unwrap();
        Self { dir: Dir::new(), url: server.url(), server }
    }

    fn env(&self) -> [(&str, &str); 5] {
        [
            ("USE_REDIS_QUEUE", "true"),
            ("REDIS_URL", &self.url),
            ("REDIS_HEALTH_CHECK_TIMEOUT", "0.5"),
            ("WINDLASS__WORKER__LEASE", "2s"),
            ("WINDLASS__WORKER__HEARTBEAT", "500ms"),
        ]
    }

    fn run(&self, args: &[&str]) -> Done {
        self.dir.with_env(&self.env(), args)
    }

    fn ok(&self, args: &[&str]) -> Done {
        let done = self.run(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done
    }

    /// Starts `dev`, which writes its log into a file.
    fn dev(&self) -> Child {
        let mut command = self.dir.command(&["dev", "--engine", "redis", "--fallback", "sqlite", "--json"]);
        command.envs(self.env()).stderr(File::create(self.dir.path().join("log")).unwrap());
        command.spawn().expect("the binary starts")
    }

    /// Waits until the log of `dev` contains the words the given number of times.
    fn wait_for_log(&self, words: &str, times: usize) {
        let log = self.dir.path().join("log");
        let said = wait_for(|| std::fs::read_to_string(&log).unwrap().matches(words).count() >= times);
        assert!(said, "{words}: {}", std::fs::read_to_string(&log).unwrap());
    }

    /// Waits until `dev` has enqueued `more` further jobs.
    fn wait_for_jobs(&self, more: usize) {
        let before = self.acknowledged();
        assert!(wait_for(|| self.acknowledged() >= before + more), "dev continues");
    }

    /// The number of jobs that were acknowledged to `dev`, by its ledger.
    fn acknowledged(&self) -> usize {
        let files = std::fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().path());
        let ledger = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "ledger"));
        ledger.map_or(0, |path| std::fs::read_to_string(path).unwrap().matches("\"acknowledged\"").count())
    }
}

#[test]
fn dev_keeps_going_while_its_redis_is_killed_and_restarted_and_loses_nothing() {
    let mut place = TestStore::new();
    let dev = place.dev();
    place.wait_for_jobs(50);
    place.server.kill().unwrap();
    place.wait_for_log("the store is away", 1);
    place.wait_for_jobs(30);
    place.server.restart().unwrap();
    place.wait_for_log("the store is back", 1);
    place.wait_for_jobs(30);
    terminate(&dev);
    let output = dev.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["lost"], &summary["switches"]), (&json!(0), &json!(2)), "{summary}");
    assert!(summary["spooled"].as_u64().unwrap() >= 30, "{summary}");
    // One job in twenty falls due five seconds later. So the last of these jobs are still in the spool when
    // the store is back.
    assert!(summary["returned"].as_u64().unwrap() > 0, "{summary}");
}

#[test]
fn dev_that_ends_while_its_redis_is_away_tells_what_it_cannot_see_and_counts_nothing_of_it_as_lost() {
    let mut place = TestStore::new();
    let dev = place.dev();
    place.wait_for_jobs(50);
    place.server.kill().unwrap();
    place.wait_for_log("the store is away", 1);
    place.wait_for_jobs(30);
    terminate(&dev);
    let output = dev.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| summary[name].as_u64().unwrap_or_else(|| panic!("{name}: {summary}"));
    assert_eq!((number("lost"), number("returned"), number("switches")), (0, 0, 1), "{summary}");
    assert_eq!(summary["primary_healthy"], json!(false), "{summary}");
    assert!(number("spooled") >= 30 && number("unseen") >= 50, "{summary}");
    let all = place.acknowledged() as u64;
    // The last job may have been stored without an acknowledgement.
    let found = number("spooled") + number("unseen");
    assert!((all..=all + 1).contains(&found), "each of {all} jobs is in one of the two stores: {summary}");
    assert_eq!(number("enqueued"), number("spooled"), "the figures are those of the spool: {summary}");
    assert_eq!(number("waiting"), number("in_spool"), "{summary}");
    let log = std::fs::read_to_string(place.dir.path().join("log")).unwrap();
    assert!(log.contains("redis is unavailable: the figures are those of sqlite alone"), "{log}");

    place.server.restart().unwrap();
    let finish = ["dev", "--engine", "redis", "--fallback", "sqlite", "--finish", "--for", "2m", "--json"];
    let summary = place.ok(&finish).json();
    let seen = (&summary["lost"], &summary["unseen"], &summary["waiting"], &summary["in_spool"]);
    assert_eq!(seen, (&json!(0), &json!(0), &json!(0), &json!(0)), "{summary}");
}

#[test]
fn dev_killed_while_it_has_a_spool_loses_nothing() {
    let mut place = TestStore::new();
    let mut dev = place.dev();
    place.wait_for_jobs(50);
    place.server.kill().unwrap();
    place.wait_for_log("the store is away", 1);
    place.wait_for_jobs(30);
    dev.kill().unwrap();
    dev.wait().unwrap();
    place.server.restart().unwrap();
    let finish = ["dev", "--engine", "redis", "--fallback", "sqlite", "--finish", "--for", "2m", "--json"];
    let summary = place.ok(&finish).json();
    assert_eq!((&summary["lost"], &summary["waiting"]), (&json!(0), &json!(0)), "{summary}");
}

#[test]
fn what_is_put_in_while_the_server_is_away_says_so_and_is_run_when_a_worker_finds_it() {
    let mut place = TestStore::new();
    place.ok(&["type", "register", "sample.import", "--queue", "bulk"]);
    place.server.kill().unwrap();
    let put_in = place.ok(&["job", "enqueue", "sample.import", r#"{"act":"succeed","millis":5}"#, "--json"]);
    assert_eq!(put_in.json()["result"], "spooled");
    assert!(put_in.err.contains("the store is away"), "{put_in:?}");
    let id = put_in.json()["id"].to_string();
    assert_eq!(place.ok(&["job", "show", &id, "--json"]).json()["state"], "ready");
    let status = place.ok(&["status", "--json"]).json();
    assert_eq!(
        (&status["healthy"], &status["fallback"]["active"]),
        (&json!(false), &json!("sqlite")),
        "{status}"
    );
    let queue = place.ok(&["queue", "show", "bulk", "--json"]).json();
    assert_eq!((&queue["active_engine"], &queue["spool_size"]), (&json!("sqlite"), &json!(1)), "{queue}");
    let text = place.ok(&["status"]).out;
    assert!(text.contains("redis is unavailable; new jobs go to sqlite; 1 in the spool"), "{text}");

    place.server.restart().unwrap();
    let mut serve = place.dir.command(&["serve", "--quiet"]).envs(place.env()).spawn().unwrap();
    let ran = wait_for(|| place.ok(&["status", "--json"]).json()["depth"] == 0);
    terminate(&serve);
    assert_eq!(ended(&mut serve), Some(0));
    assert!(ran, "the job was run, on the server or in the spool");
    assert_eq!(place.ok(&["status", "--json"]).json()["healthy"], true);
}

#[test]
fn while_only_the_disk_of_the_spool_is_full_commands_work_and_say_whose_disk_it_is() {
    let name = "while_only_the_disk_of_the_spool_is_full_commands_work_and_say_whose_disk_it_is";
    let Some(disk) = SmallDisk::for_test(name, 32 * 1024).unwrap() else { return };
    disk.fill().unwrap();
    let place = TestStore::new();
    let spool = disk.path().join("spool.db").to_str().unwrap().to_owned();
    let run = |args: &[&str]| {
        let path = [("WINDLASS__FALLBACK__PATH", spool.as_str())];
        place.dir.with_env(&[&place.env()[..], &path].concat(), args)
    };
    let registered = run(&["type", "register", "sample.import", "--queue", "bulk"]);
    assert_eq!(registered.code, 0, "{registered:?}");
    let put_in = run(&["job", "enqueue", "sample.import", r#"{"act":"succeed","millis":5}"#, "--json"]);
    assert_eq!((put_in.code, &put_in.json()["result"]), (0, &json!("new")), "{put_in:?}");
    assert!(put_in.err.contains("the spool is in trouble, not the store"), "{put_in:?}");
    let status = run(&["status"]);
    assert!(status.out.contains("redis is available; new jobs go to redis; 0 in the spool"), "{status:?}");
    assert!(status.out.contains("the spool cannot be used: ") && status.out.contains(&spool), "{status:?}");
    let doctor = run(&["doctor"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(
        doctor.out.contains("spool disk") && doctor.out.contains("has 0 MiB of free space"),
        "{doctor:?}"
    );

    disk.make_room().unwrap();
    let status = run(&["status", "--json"]).json();
    assert_eq!(status["fallback"]["spool_trouble"], json!(null), "{status}");
    let doctor = run(&["doctor", "--json"]).json();
    let of_disk = doctor.as_array().unwrap().iter().find(|finding| finding["about"] == "spool disk").unwrap();
    assert_eq!(of_disk["grade"], "poor", "{of_disk}");
}
