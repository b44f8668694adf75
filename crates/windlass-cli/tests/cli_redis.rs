//! The binary on a real Redis server: every command that works on an SQLite file works there too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use common::{Dir, Done, ended, terminate, wait_for};
use serde_json::{Value, json};
use windlass_servers::redis::{Options, Server};

/// A separate namespace on the server that tests share.
struct Store {
    dir: Dir,
    url: String,
    namespace: String,
}

impl Store {
    fn new() -> Self {
        let url = windlass_servers::shared::redis_url().expect("a Redis server");
        Self { dir: Dir::new(), url, namespace: format!("cli-{:016x}", fastrand::u64(..)) }
    }

    fn env(&self) -> [(&str, &str); 3] {
        [
            ("WINDLASS__STORE__ENGINE", "redis"),
            ("WINDLASS__STORE__NAMESPACE", &self.namespace),
            ("REDIS_URL", &self.url),
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
}

#[test]
fn a_job_is_put_in_listed_shown_and_cancelled_and_its_queue_paused_and_resumed() {
    let store = Store::new();
    assert_eq!(store.ok(&["migrate"]).out, "up to date\n");
    store.ok(&["type", "register", "t", "--queue", "high"]);
    let enqueued = store.ok(&["job", "enqueue", "t", "{\"n\":1}", "--key", "k", "--json"]).json();
    assert_eq!(enqueued["result"], "new");
    let id = enqueued["id"].to_string();
    assert_eq!(store.ok(&["job", "enqueue", "t", "--key", "k", "--json"]).json()["result"], "duplicate");
    let listed = store.ok(&["job", "list", "--state", "ready", "--json"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["payload"]), (&enqueued["id"], &json!({ "n": 1 })));
    assert_eq!(store.ok(&["job", "priority", &id, "low"]).out, format!("{id} has priority 10\n"));
    store.ok(&["queue", "pause", "high", "--reason", "a test"]);
    let shown = store.ok(&["job", "show", &id, "--json"]).json();
    assert!(shown["explained"].to_string().contains("paused"), "{shown}");
    store.ok(&["queue", "resume", "high"]);
    let status = store.ok(&["status", "--json"]).json();
    assert_eq!((&status["engine"], &status["depth"]), (&json!("redis"), &json!(1)));
    assert_eq!(store.ok(&["job", "cancel", &id]).out, format!("{id} cancelled\n"));
    assert_eq!(store.run(&["job", "show", "999999"]).code, 3);
}

#[test]
fn a_breaker_is_opened_listed_shown_closed_and_reset() {
    let store = Store::new();
    assert_eq!(store.ok(&["breaker", "list", "--json"]).json(), json!([]));
    assert_eq!(store.run(&["breaker", "show", "shop"]).code, 3);
    let opened = store.ok(&["breaker", "open", "shop", "--for", "1h", "--reason", "they move"]);
    assert_eq!(opened.out, "shop is open for 1h\n");
    let listed = store.ok(&["breaker", "list", "--json"]).json();
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&json!("shop"), &json!("open")));
    let shown = store.ok(&["breaker", "show", "shop", "--json"]).json();
    assert_eq!((&shown["why"], &shown["waiting"]), (&json!("they move"), &json!(0)));
    assert_eq!(store.ok(&["breaker", "close", "shop"]).out, "shop is closed; 0 waiting jobs are released\n");
    assert_eq!(store.ok(&["breaker", "show", "shop", "--json"]).json()["state"], "closed");
    store.ok(&["breaker", "open", "shop"]);
    assert_eq!(store.ok(&["breaker", "reset", "shop", "--json"]).json()["state"], "closed");
}

#[test]
fn serve_runs_jobs_and_stops_cleanly_on_a_signal() {
    let store = Store::new();
    let mut command = store.dir.command(&["serve", "--quiet"]);
    let mut serve = command.envs(store.env()).spawn().expect("the binary starts");
    let registered = wait_for(|| store.run(&["type", "show", "sample.import", "--json"]).code == 0);
    let job = store.run(&["job", "enqueue", "sample.import", r#"{"millis":5}"#, "--json"]);
    let waited = store.run(&["job", "wait", &job.json()["id"].to_string(), "--timeout", "1m"]);
    terminate(&serve);
    assert_eq!(ended(&mut serve), Some(0));
    assert!(registered, "serve registers its types");
    assert_eq!(waited.code, 0, "{waited:?}");
    assert_eq!(store.ok(&["status", "--json"]).json()["workers"], json!([]), "a worker that stopped is gone");
}

#[test]
fn dev_runs_in_a_namespace_of_its_own_and_loses_nothing() {
    let store = Store::new();
    let summary = store.ok(&["dev", "--for", "2s", "--json", "--fresh"]).json();
    assert_eq!(summary["lost"], 0, "{summary}");
    assert_eq!(store.ok(&["status", "--json"]).json()["depth"], 0, "the configured namespace is untouched");
}

#[test]
fn a_measurement_leaves_nothing_behind_and_touches_no_job() {
    let store = Store::new();
    store.ok(&["type", "register", "t", "--queue", "high"]);
    store.ok(&["job", "enqueue", "t"]);
    let args = ["bench", "--scenario", "drain,enqueue", "--jobs", "300", "--json"];
    let bench = store.dir.command(&args).envs(store.env()).spawn().unwrap();
    let pattern = format!("{{windlass_bench_{}_*", bench.id());
    let output = bench.wait_with_output().unwrap();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    assert_eq!((&report["engine"], report["scenarios"].as_array().unwrap().len()), (&json!("redis"), 2));
    assert_eq!(store.ok(&["status", "--json"]).json()["depth"], 1, "the configured namespace is untouched");
    let mut connection = redis::Client::open(store.url).unwrap().get_connection().unwrap();
    let left: Vec<Vec<u8>> = redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// The finding of `windlass doctor` about a subject.
fn finding<'a>(findings: &'a Value, about: &str) -> &'a Value {
    let mut all = findings.as_array().expect("a list of findings").iter();
    all.find(|finding| finding["about"] == about).unwrap_or_else(|| panic!("{about}: {findings}"))
}

#[test]
fn a_check_up_of_a_healthy_server_finds_nothing_bad_and_changes_nothing() {
    let server = Server::start(&Options::default()).unwrap();
    let done =
        Dir::new().with_env(&[("REDIS_URL", &server.url())], &["doctor", "--engine", "redis", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    for about in ["server", "durability", "disk", "eviction", "clock", "rights", "layout", "replicas"] {
        assert_eq!(finding(&done.json(), about)["grade"], "good", "{done:?}");
    }
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let keys: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
    assert_eq!(keys, 0, "not even a namespace is created");
}

#[test]
fn a_check_up_names_what_is_wrong_with_a_server_and_what_to_do() {
    let settings = [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let server = Server::start(&Options { settings, ..Options::default() }).unwrap();
    let done = Dir::new().run(&["doctor", "--db", &server.url(), "--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    for (about, advice) in [("eviction", "noeviction"), ("durability", "appendonly yes")] {
        let found = finding(&done.json(), about).clone();
        assert_eq!(found["grade"], "bad", "{found}");
        assert!(found["advice"].as_str().unwrap().contains(advice), "{found}");
    }
    let shown = Dir::new().run(&["doctor", "--db", &server.url()]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert!(shown.out.starts_with("bad    ") && shown.out.contains("\nok     server"), "{shown:?}");
}

#[test]
fn a_check_up_of_a_server_that_is_away_says_where_it_was_looked_for() {
    let done = Dir::new().run(&["doctor", "--db", "redis://:secret@127.0.0.1:1"]);
    assert_eq!(done.code, 69, "{done:?}");
    assert!(done.err.contains("127.0.0.1:1") && !done.err.contains("secret"), "{done:?}");
}
