//! The binary on a real PostgreSQL server: every command that works on an SQLite file works there too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::process::Child;

use common::{Dir, Done, ended, terminate, wait_for};
use serde_json::json;
use windlass_servers::postgres::{Options, Server};

/// A separate schema on the server that tests share, removed at the end.
struct Database {
    dir: Dir,
    url: String,
    schema: String,
}

impl Database {
    fn new() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        Self { dir: Dir::new(), url, schema: format!("cli_{:016x}", fastrand::u64(..)) }
    }

    /// A schema with the type `t` in the queue `high`.
    fn with_type() -> Self {
        let database = Self::new();
        database.ok(&["type", "register", "t", "--queue", "high"]);
        database
    }

    fn env(&self) -> [(&str, &str); 3] {
        [
            ("WINDLASS__STORE__ENGINE", "postgres"),
            ("WINDLASS__STORE__SCHEMA", &self.schema),
            ("DATABASE_URL", &self.url),
        ]
    }

    fn run(&self, args: &[&str]) -> Done {
        self.dir.with_env(&self.env(), args)
    }

    fn sql(&self, text: &str) {
        let text = text.replace("windlass.", &format!("{}.", self.schema));
        windlass_servers::postgres::psql(&self.url, &text).unwrap();
    }

    fn ok(&self, args: &[&str]) -> Done {
        let done = self.run(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done
    }

    fn serve(&self) -> Serve {
        let mut command = self.dir.command(&["serve", "--quiet"]);
        let serve = Serve(command.envs(self.env()).spawn().expect("the binary starts"));
        let registered = || self.run(&["type", "show", "sample.import", "--json"]).code == 0;
        assert!(wait_for(registered), "serve registers its types");
        serve
    }

    fn state_of(&self, job: &str) -> serde_json::Value {
        self.ok(&["job", "show", job, "--json"]).json()["state"].clone()
    }
}

/// A `windlass serve` that is killed with its test.
struct Serve(Child);

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (url, schemas) = (self.url.clone(), format!("{0}, {0}_dev", self.schema));
        let dropped = async move {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client.batch_execute(&format!("DROP SCHEMA IF EXISTS {schemas} CASCADE")).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Err(why) = runtime.block_on(dropped) {
            eprintln!("dropping a schema failed: {why}");
        }
    }
}

#[test]
fn tables_are_made_on_request_and_a_look_never_makes_them() {
    let database = Database::new();
    let plan = database.ok(&["migrate", "--dry-run"]).out;
    assert!(plan.starts_with("-- migration 1: schema"), "{plan}");
    assert!(plan.contains(&format!("CREATE TABLE {}.delayed_jobs", database.schema)), "{plan}");
    for args in [&["status"][..], &["job", "list"], &["queue", "list"], &["dlq", "list"], &["type", "list"]] {
        let done = database.run(args);
        assert_eq!((done.code, done.out.as_str()), (69, ""), "{args:?}: {done:?}");
        assert!(done.err.contains("windlass migrate"), "{done:?}");
    }
    let applied = database.ok(&["migrate", "--json"]).json();
    assert_eq!(applied["schema"], database.schema);
    assert_eq!(applied["migrations"][0], json!({ "version": 1, "name": "schema" }));
    assert_eq!(database.ok(&["migrate"]).out, "up to date\n");
    assert_eq!(database.ok(&["migrate", "--dry-run"]).out, "up to date\n");
    assert_eq!(database.ok(&["job", "list", "--json"]).json(), json!([]));
}

#[test]
fn what_a_dry_run_prints_can_be_run_by_hand() {
    let database = Database::new();
    let plan = database.ok(&["migrate", "--dry-run"]).out;
    windlass_servers::postgres::psql(&database.url, &plan).unwrap();
    assert_eq!(database.ok(&["migrate"]).out, "up to date\n");
    assert_eq!(database.ok(&["job", "list", "--json"]).json(), json!([]));
}

#[test]
fn commands_talk_only_to_a_server_that_is_who_it_says() {
    let options = Options { tls: true, fsync: false, ..Options::default() };
    let (server, other) = (Server::start(&options).unwrap(), Server::start(&options).unwrap());
    let database = |authority: &Server| {
        let authority = authority.authority().unwrap();
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), authority.display());
        (Dir::new(), url)
    };
    let (dir, url) = database(&server);
    // The schema is recreated in a session beside the engine's session.
    let summary = dir.run(&["dev", "--for", "10ms", "--finish", "--json", "--fresh", "--db", &url]);
    assert_eq!(summary.code, 0, "{summary:?}");
    assert_eq!(dir.run(&["migrate", "--db", &url]).code, 0);
    let status = dir.run(&["status", "--json", "--db", &url]);
    assert_eq!(status.json()["engine"], "postgres", "{status:?}");
    let authority = server.authority().unwrap().display().to_string();
    let system = format!("{}?sslrootcert=system", server.url());
    let status = dir.with_env(&[("SSL_CERT_FILE", &authority)], &["status", "--db", &system]);
    assert_eq!(status.code, 0, "the machine can be configured to trust it: {status:?}");
    let (dir, url) = database(&other);
    for args in [&["status"][..], &["migrate"], &["dev", "--for", "10ms", "--fresh"]] {
        let refused = dir.run(&[args, &["--db", &url]].concat());
        assert_eq!(refused.code, 69, "{refused:?}");
        assert!(refused.err.contains("sslrootcert"), "{refused:?}");
    }
}

#[test]
fn a_job_is_put_in_listed_shown_and_cancelled_and_its_queue_paused_and_resumed() {
    let database = Database::with_type();
    let enqueued = database.ok(&["job", "enqueue", "t", "{\"n\":1}", "--key", "k", "--json"]).json();
    assert_eq!(enqueued["result"], "new");
    let id = enqueued["id"].to_string();
    assert_eq!(database.ok(&["job", "enqueue", "t", "--key", "k", "--json"]).json()["result"], "duplicate");
    let listed = database.ok(&["job", "list", "--state", "ready", "--json"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["payload"]), (&enqueued["id"], &json!({ "n": 1 })));
    assert_eq!(database.ok(&["job", "priority", &id, "low"]).out, format!("{id} has priority 10\n"));

    database.ok(&["queue", "pause", "high", "--reason", "a test"]);
    let shown = database.ok(&["job", "show", &id, "--json"]).json();
    assert!(shown["explained"].to_string().contains("paused"), "{shown}");
    database.ok(&["queue", "resume", "high"]);
    let queue = database.ok(&["queue", "show", "high", "--json"]).json();
    assert_eq!(queue["paused"], false, "{queue}");

    let status = database.ok(&["status", "--json"]).json();
    assert_eq!(
        (&status["engine"], &status["depth"], &status["healthy"]),
        (&json!("postgres"), &json!(1), &json!(true))
    );
    assert_eq!(database.ok(&["job", "cancel", &id]).out, format!("{id} cancelled\n"));
    assert_eq!(database.run(&["job", "wait", &id]).code, 1);
    assert_eq!(database.run(&["job", "show", "999999"]).code, 3);
    assert_eq!(database.run(&["job", "enqueue", "unknown"]).code, 3);
}

#[test]
fn serve_runs_jobs_buries_hopeless_ones_and_stops_cleanly_on_a_signal() {
    let database = Database::new();
    let mut serve = database.serve();
    let put = |payload| {
        database.ok(&["job", "enqueue", "sample.import", payload, "--json"]).json()["id"].to_string()
    };
    let (good, bad, again) = (put(r#"{"millis":5}"#), put(r#"{"act":"fail"}"#), put(r#"{"act":"fail"}"#));
    let waited = database.run(&["job", "wait", &good, "--timeout", "1m"]);
    assert_eq!(waited.code, 0, "{waited:?}, {}", database.ok(&["job", "show", &good]).out);
    assert!(
        wait_for(|| [&bad, &again].iter().all(|job| database.state_of(job) == "dead")),
        "both jobs are dead"
    );

    let letters = database.ok(&["dlq", "list", "--json"]).json();
    assert_eq!(letters.as_array().map(Vec::len), Some(2), "{letters}");
    assert!(database.ok(&["dlq", "show", &bad]).out.contains("cannot be imported"));
    database.ok(&["dlq", "discard", &bad, "--yes"]);
    assert_eq!(database.run(&["job", "show", &bad]).code, 3);
    let status = database.ok(&["status", "--json"]).json();
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(1), "{status}");

    terminate(&serve.0);
    assert_eq!(ended(&mut serve.0), Some(0));
    database.ok(&["dlq", "retry", &again]);
    assert_eq!(database.state_of(&again), "ready");
    let status = database.ok(&["status", "--json"]).json();
    assert_eq!(status["workers"], json!([]), "a worker that stopped is gone");
}

#[test]
fn dev_runs_in_a_schema_of_its_own_and_loses_nothing() {
    let database = Database::with_type();
    let mut summary = database.ok(&["dev", "--for", "3s", "--json", "--fresh"]).json();
    let did_something = wait_for(|| {
        let succeeded = summary["succeeded"].as_u64().unwrap();
        // A slow machine may need more time; jobs of earlier runs count too.
        if succeeded == 0 {
            summary = database.ok(&["dev", "--for", "3s", "--json"]).json();
        }
        succeeded > 0
    });
    assert!(did_something, "{summary}");
    assert_eq!(summary["lost"], 0);
    assert_eq!(
        database.ok(&["job", "list", "--json"]).json(),
        json!([]),
        "the configured schema is untouched"
    );
    let dev = format!("{}_dev", database.schema);
    let env = [("WINDLASS__STORE__SCHEMA", dev.as_str())];
    let seen = database.dir.with_env(&env, &["status", "--db", &database.url, "--json"]).json();
    assert_eq!(seen["engine"], "postgres");
    let fresh = database.ok(&["dev", "--for", "10ms", "--finish", "--json", "--fresh"]).json();
    assert_eq!(fresh["enqueued"], 0, "the schema was removed first: {fresh}");
}

#[test]
fn a_url_just_works_wherever_a_store_is_named() {
    let database = Database::with_type();
    database.dir.write("by_url.toml", &format!("[store]\nurl = \"{}\"\n", database.url));
    database.dir.write("by_path.toml", &format!("[store]\npath = \"{}\"\n", database.url));
    let schema = ("WINDLASS__STORE__SCHEMA", database.schema.as_str());
    let by_variable = ("WINDLASS__STORE__URL", database.url.as_str());
    for (env, args) in [
        (&[schema][..], &["--db", &database.url][..]),
        (&[schema], &["--config", "by_url.toml"]),
        (&[schema], &["--config", "by_path.toml"]),
        (&[schema, by_variable], &[]),
    ] {
        let done = database.dir.with_env(env, &[args, &["type", "show", "t", "--json"]].concat());
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
    }
}

#[test]
fn a_password_is_never_printed() {
    let dir = Dir::new();
    let nowhere = "postgres://ada:secret@127.0.0.1:1/jobs";
    for (args, code) in [
        (&["check", "--db", nowhere][..], 0),
        (&["check", "--db", nowhere, "--json"], 0),
        (&["status", "--db", nowhere], 69),
        (&["status", "--db", nowhere, "--json", "-vv"], 69),
        (&["migrate", "--db", nowhere], 69),
        (&["dev", "--fresh", "--db", nowhere], 69),
        (&["status", "--db", "postgres://ada:secret@host:port/jobs"], 2),
    ] {
        let done = dir.run(args);
        assert_eq!(done.code, code, "{args:?}: {done:?}");
        assert!(!done.out.contains("secret") && !done.err.contains("secret"), "{args:?}: {done:?}");
    }
    let done = dir.run(&["status", "--db", nowhere]);
    assert!(done.err.contains("postgres://ada@127.0.0.1:1/jobs"), "the message names the address: {done:?}");
    let wrong = [("WINDLASS__STORE__ENGINE", nowhere), ("WINDLASS__STORE__URL", "secret")];
    let done = dir.with_env(&wrong, &["check"]);
    assert_eq!((done.code, done.err.lines().count()), (78, 2), "{done:?}");
    assert!(!done.err.contains("secret"), "{done:?}");
}

#[test]
fn postgres_without_an_address_says_where_to_put_one() {
    let dir = Dir::new();
    let chosen = ("WINDLASS__STORE__ENGINE", "postgres");
    for args in [&["check"][..], &["status"], &["serve"], &["migrate"], &["dev"]] {
        let done = dir.with_env(&[chosen], args);
        assert_eq!(done.code, 78, "{args:?}: {done:?}");
        assert!(done.err.contains("DATABASE_URL") && done.err.contains("postgres://"), "{done:?}");
    }
    let url = ("DATABASE_URL", "postgres://ada@host/jobs");
    assert_eq!(dir.with_env(&[chosen, url], &["check"]).code, 0);
    let engine = |done: Done| done.json()["store"]["engine"].clone();
    assert_eq!(
        engine(dir.with_env(&[url], &["check", "--json"])),
        "sqlite",
        "the variable may be for another program"
    );
}

#[test]
fn a_check_up_of_a_healthy_server_finds_nothing_bad_and_a_missing_index_is_named() {
    let database = Database::with_type();
    let findings = database.ok(&["doctor", "--json"]).json();
    assert!(findings.as_array().is_some_and(|findings| findings.len() > 4), "{findings}");
    let drop = format!("DROP INDEX {}.delayed_jobs_ready", database.schema);
    let psql =
        std::process::Command::new("psql").args([database.url.as_str(), "-qc", &drop]).status().unwrap();
    assert!(psql.success());
    let done = database.run(&["doctor", "--engine", "postgres"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.starts_with("bad    indexes") && done.out.contains("delayed_jobs_ready"), "{done:?}");
}

/// A schedule that runs each second, and duty leases that expire soon. However late a tick is seen on a busy
/// machine, it is seen within its grace.
const EACH_SECOND: &str = "[worker]\nduty_heartbeat = \"200ms\"\nduty_expiry = \"1s\"\n\
    [schedules.heartbeat_answer]\nschedule = \"every 1s\"\ngrace = \"10m\"\n\
    job = \"sample.notify\"\npayload = { millis = 1 }\n";

/// The seconds whose ticks have made jobs, one for each job.
fn ticks(database: &Database) -> Vec<i64> {
    let jobs = database.ok(&["job", "list", "--type", "sample.notify", "--limit", "200", "--json"]).json();
    let jobs = jobs.as_array().expect("a list").clone();
    let tick = |job: &serde_json::Value| {
        let text = job["key"]["key"]
            .as_str()
            .and_then(|key| key.strip_prefix("schedule/heartbeat_answer/"))
            .expect("a tick")
            .to_owned();
        windlass_core::clock::Timestamp::parse(&text).expect("an instant").as_micros() / 1_000_000
    };
    let mut ticks: Vec<_> = jobs.iter().map(tick).collect();
    ticks.sort_unstable();
    ticks
}

#[test]
fn three_processes_share_the_duties_and_no_tick_is_lost_or_doubled_when_the_leader_is_killed() {
    let database = Database::new();
    database.dir.write("windlass.toml", EACH_SECOND);
    database.ok(&["migrate"]);
    let mut serves: Vec<_> = (0..3).map(|_| database.serve()).collect();
    // The process that leads, and how many leaders had stopped sending heartbeats by then.
    let leader = || {
        let leases = database.ok(&["lease", "list", "--json"]).json();
        let lease = leases.as_array()?.iter().find(|lease| lease["duty"] == "schedules")?.clone();
        assert_eq!(lease["expiry_ms"], 1_000, "as the configuration says");
        let workers = database.ok(&["worker", "list", "--json"]).json();
        let holder = workers.as_array()?.iter().find(|worker| worker["id"] == lease["leader"])?;
        Some((holder["pid"].as_u64()?, lease["takeovers"].as_u64()?))
    };
    for killed in 0..2 {
        let before = ticks(&database).len();
        assert!(wait_for(|| ticks(&database).len() >= before + 3), "the schedule fires each second");
        let mut led = None;
        assert!(
            wait_for(|| {
                led = leader();
                led.is_some()
            }),
            "a worker leads"
        );
        let (pid, takeovers) = led.expect("the leader was just read");
        let at = serves
            .iter()
            .position(|serve| u64::from(serve.0.id()) == pid)
            .expect("the leader is one of our processes");
        // Dropping a `Serve` kills its process.
        drop(serves.remove(at));
        assert!(
            wait_for(|| leader().is_some_and(|(next, count)| next != pid && count > takeovers)),
            "another worker leads after kill {killed}, since the lease has expired"
        );
    }
    let before = ticks(&database).len();
    assert!(wait_for(|| ticks(&database).len() >= before + 3), "the schedule continues");
    let ticks = ticks(&database);
    let doubled_or_lost: Vec<_> = ticks.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect();
    assert!(doubled_or_lost.is_empty(), "{doubled_or_lost:?} in {ticks:?}");
    let leases = database.ok(&["lease", "list", "--json"]).json();
    let leases = leases.as_array().expect("a list");
    let led: Vec<_> =
        leases.iter().filter(|lease| lease["leader"].is_string()).map(|lease| &lease["duty"]).collect();
    assert_eq!(led, ["gates", "prune", "rescue", "rollups", "schedules", "sweep", "triggers"], "{leases:?}");
    assert_eq!(led.len(), leases.len(), "{leases:?}");
}

/// Duties under advisory locks, with intervals so short that a test need not wait.
const UNDER_LOCKS: &str =
    "[worker]\nmaintenance_mode = \"advisory-lock\"\nduty_heartbeat = \"200ms\"\nduty_expiry = \"1s\"\n";

#[test]
fn a_duty_that_is_done_under_a_lock_shows_who_does_it_and_who_does_it_next() {
    let database = Database::new();
    database.dir.write("windlass.toml", UNDER_LOCKS);
    database.ok(&["migrate"]);
    let mut serves: Vec<_> = (0..2).map(|_| database.serve()).collect();
    let led_by = || {
        let duties = database.ok(&["lease", "list", "--json"]).json();
        let duties = duties.as_array().expect("a list").clone();
        let is_lock = |duty: &serde_json::Value| duty["mode"] == "advisory-lock" && duty["fence"].is_null();
        assert!(duties.iter().all(is_lock), "{duties:?}");
        let pids: Vec<_> = duties.iter().map(|duty| duty["leader_pid"].as_u64()).collect();
        (pids.len() == 7).then_some(pids)
    };
    let ours: Vec<_> = serves.iter().map(|serve| Some(u64::from(serve.0.id()))).collect();
    assert!(wait_for(|| led_by().is_some_and(|pids| pids.iter().all(|pid| ours.contains(pid)))));
    let refused = database.run(&["lease", "step-down", "rescue"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.err.contains("under an advisory lock") && refused.err.contains("pg_terminate_backend"),
        "{refused:?}"
    );
    // A lease from before the change to locks is kept for a month, and does not hide the holder of the
    // lock.
    database.sql(
        "INSERT INTO windlass.background_job_leases (job_name, lease_acquired_at, heartbeat_at, fence, term, expiry_micros)
         VALUES ('rescue', now() - interval '1 day', now() - interval '1 day', 7, gen_random_uuid(), 10000000)",
    );
    let refused = database.run(&["lease", "step-down", "rescue"]);
    assert!(refused.code == 4 && refused.err.contains("under an advisory lock"), "{refused:?}");
    database.sql("DELETE FROM windlass.background_job_leases");
    // Dropping a `Serve` kills its process.
    drop(serves.remove(0));
    assert!(wait_for(|| led_by().is_some_and(|pids| pids.iter().all(|pid| *pid == ours[1]))));
    let pid = ours[1].expect("a number").to_string();
    for args in [&["lease", "list"][..], &["lease", "show", "rescue"]] {
        let shown = database.ok(args).out;
        assert!(shown.contains(&format!("pid {pid}")) && shown.contains("under an advisory lock"), "{shown}");
    }
    drop(serves);
    assert!(
        wait_for(|| led_by().is_some_and(|pids| pids.iter().all(Option::is_none))),
        "no process does them"
    );
    assert!(database.ok(&["lease", "list"]).out.contains("no process"));
    assert_eq!(database.run(&["lease", "step-down", "rescue"]).code, 4);
}
