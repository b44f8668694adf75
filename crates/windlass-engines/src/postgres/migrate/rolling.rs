//! A rolling deploy: processes of earlier versions do their work on the newest schema, beside those of today. Each statement that
//! has another text today is run once as it was, and a process of today looks at what it did.
#![cfg(test)]

mod kept;

use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};
use windlass_core::engine::{Admin, Engine};
use windlass_core::job::{JobId, Phase};
use windlass_core::lease::Leases;
use windlass_core::names::DutyName;

use super::newest;
use super::older::OLDER;
use super::tests::{ROWS, schema_of};
use crate::postgres::sql::in_schema;
use crate::postgres::{PostgresEngine, PostgresOptions};

const WORKER: &str = "00000000-0000-0000-0000-00000000000b";
const TERM: &str = "00000000-0000-0000-0000-00000000000c";
/// The worker that runs what is running.
const HERE: &str = "00000000-0000-0000-0000-00000000000d";

/// What later versions have beside what every one has; a job with a fairness key, what is old enough to be forgotten, and an attempt of the
/// dead letter.
const MORE: &str = "
INSERT INTO windlass.background_job_leases (
    job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, fence, term, expiry_micros
)
VALUES ('sweep', '00000000-0000-0000-0000-00000000000d', now(), now(), 7, '00000000-0000-0000-0000-00000000000c', 3600000000);
INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload, fairness_key)
VALUES (8, now(), now(), 5, 'main', 'work', '{}', 'x');
INSERT INTO windlass.job_history (
    id, keep_until, scheduled_at, created_at, ended_at, attempts, max_attempts, failures, crashes, holds, priority, state,
    queue, job_type, payload
)
VALUES (9, now() - interval '1 day', now(), now(), now(), 2, 5, 0, 0, 0, 5, 1, 'main', 'work', '{}');
INSERT INTO windlass.attempts (job, started_at, ended_at, worker, number, ending)
SELECT job, now(), now(), '00000000-0000-0000-0000-00000000000d', 1, 'x' FROM unnest(ARRAY[5, 9]) AS job;
INSERT INTO windlass.requeued_jobs (at, scheduled_at, priority, queue) VALUES (now() - interval '1 hour', now(), 5, 'main');
INSERT INTO windlass.waiting (queue, channel, since, types) VALUES ('main', 'gone', now() - interval '1 hour', '{work}');";

/// A running job's row in a statement that moves jobs: number, token, and its counters as they are to be.
const RUNNING: [&str; 8] = [
    "'{3}'",
    "'{00000000-0000-0000-0000-00000000000a}'",
    "'{1}'",
    "'{1}'",
    "'{0}'",
    "'{0}'",
    "ARRAY[NULL]::text[]",
    "'{00000000-0000-0000-0000-00000000000a}'",
];
/// Then: when, and of the attempt: worker, start, ending, error, output.
const ATTEMPT: [&str; 6] = [
    "now()",
    "'{00000000-0000-0000-0000-00000000000d}'",
    "ARRAY[now()]",
    "'{x}'",
    "ARRAY[NULL]::text[]",
    "ARRAY[NULL]::text[]",
];

/// The newest schema with the scene on it, a session of a process of an earlier version, and one of today.
struct Stage {
    old: Client,
    today: PostgresEngine,
    schema: String,
}

impl Stage {
    async fn new() -> Self {
        let (old, url, schema) = schema_of(newest()).await;
        for rows in [ROWS, MORE] {
            old.batch_execute(&in_schema(rows, &schema)).await.unwrap();
        }
        let options = PostgresOptions { schema: schema.clone(), listen: false, ..PostgresOptions::default() };
        let today = PostgresEngine::connect(&url, options).await.unwrap();
        let stage = Self { old, today, schema };
        stage.keep_a_schedule_and_a_trigger().await;
        stage
    }

    /// Runs an older text with as many of these arguments as it takes: later versions added theirs at the end.
    async fn run(&self, text: &str, arguments: &[&str]) -> Vec<SimpleQueryRow> {
        let text = in_schema(text, &self.schema);
        let takes = self.old.prepare(&text).await.unwrap().params().len();
        assert!(takes <= arguments.len(), "it takes {takes} arguments");
        let arguments = match takes {
            0 => String::new(),
            _ => format!("({})", arguments[..takes].join(", ")),
        };
        let text = text.trim_end().trim_end_matches(';');
        let script = format!("PREPARE before AS {text}; EXECUTE before{arguments}; DEALLOCATE before");
        let answer = self.old.simple_query(&script).await.unwrap();
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        };
        answer.into_iter().filter_map(row).collect()
    }

    async fn phase(&self, id: i64) -> Option<Phase> {
        self.today.job(JobId(id)).await.unwrap().map(|record| record.phase())
    }

    async fn number(&self, query_one: &str) -> i64 {
        self.old.query_one(&in_schema(query_one, &self.schema), &[]).await.unwrap().get(0)
    }

    /// Whether a process of today finds what this statement should have done.
    async fn plays(&self, name: &str, text: &str) -> bool {
        match name {
            "enqueue" | "insert_jobs" => self.puts_in(name, text).await,
            "claim" | "claim_fairness_keys" => self.claims(name, text).await,
            "claim_suspect" => self.claims_a_suspect(text).await,
            "settle" | "settle_traced" | "apply_waiting" | "apply_dead" | "apply_ended" => {
                self.ends(name, text).await
            }
            "register" | "extend" | "live_workers" => self.is_a_worker(name, text).await,
            "take_leases" | "renew_leases" | "release_leases" | "lock_duty" | "unlock_duty" => {
                self.leads(name, text).await
            }
            "renew_catalogue" | "save_pause" | "save_shut" | "load_queues" => {
                self.changes_queues(name, text).await
            }
            "set_priority" | "start_over" | "replace_job" | "open_gate" => self.moves(name, text).await,
            "discard" | "prune_rest" | "forget_requeued_jobs" | "forget_waiting" => {
                self.forgets(name, text).await
            }
            "due_schedules" | "list_schedules" | "schedules_named" | "set_last_jobs" => {
                self.has_schedules(name, text).await
            }
            "triggers_named" | "list_triggers" | "queue_has_work" | "type_has_work" | "save_triggers" => {
                self.has_triggers(name, text).await
            }
            "add_counts" | "fold_counts" | "insert_attempts" => self.notes(name, text).await,
            _ => self.reads(name, text).await,
        }
    }

    async fn notes(&self, name: &str, text: &str) -> bool {
        let (types, queues, none) = ("'{work}'", "'{main}'", "'{NULL}'");
        let counts = ["'{1}'"; 9];
        let now = "ARRAY[now()]";
        let texts = "ARRAY[NULL]::text[]";
        let (arguments, query_one): (Vec<&str>, _) = match name {
            "add_counts" => {
                let arguments = [&[types, queues, none][..], &counts].concat();
                (arguments, "SELECT count(*) FROM windlass.count_deltas WHERE retried = 1")
            }
            "fold_counts" => {
                (vec!["1000"], "SELECT (count(*) = 0)::integer::bigint FROM windlass.count_deltas")
            }
            _ => {
                let worker = "ARRAY[gen_random_uuid()]";
                let arguments = vec!["now()", "'{1}'", "'{1}'", worker, now, "'{failed}'", texts, texts];
                (arguments, "SELECT count(*) FROM windlass.attempts WHERE job = 1 AND ending = 'failed'")
            }
        };
        self.run(text, &arguments).await;
        self.number(query_one).await == 1
    }

    async fn puts_in(&self, name: &str, text: &str) -> bool {
        let none = "ARRAY[NULL]::text[]";
        let (whens, counts) = ("ARRAY[NULL]::timestamptz[]", "ARRAY[NULL]::bigint[]");
        let card = ["'{main}'", "'{work}'", "'{5}'", "ARRAY['{}']", whens, "'{0}'", whens, counts];
        let rest = [none, none, none, none, "'{5}'", none, none];
        let id = if name == "enqueue" {
            let version = self.number("SELECT version FROM windlass.catalogue").await.to_string();
            let begin = ["NULL", "gen_random_uuid()", &version, "NULL", "true"];
            let told = self.run(text, &[&begin[..], &card, &rest].concat()).await;
            told[0].get(2).unwrap().trim_matches(['{', '}']).parse().unwrap()
        } else {
            self.run(text, &[&["NULL", "'{100}'", none][..], &card, &rest].concat()).await;
            100
        };
        self.phase(id).await == Some(Phase::Ready)
    }

    /// What has a fairness key, and what has none: by turns the one goes by the line of its fairness key, the other behind it.
    async fn claims(&self, name: &str, text: &str) -> bool {
        let version = self.number("SELECT version FROM windlass.catalogue").await.to_string();
        let (worker, token) = (format!("'{HERE}'"), format!("'{WORKER}'"));
        let accept_parameters =
            ["NULL", &worker, &token, &version, "'main'", "'{work}'", "10", "false", "false"];
        let ranges: &[&str] = match name {
            "claim" => &["'{5}'", "'{-infinity}'", "'{0}'", "'{infinity}'", "true"],
            _ => &[
                "'{5,5}'",
                "'{-infinity,-infinity}'",
                "'{0,0}'",
                "'{infinity,infinity}'",
                "true",
                "'{x,NULL}'",
                "'{10,10}'",
                "'{f,t}'",
            ],
        };
        let told = self.run(text, &[&accept_parameters[..], ranges].concat()).await;
        let ids: Vec<_> = told.iter().filter_map(|row| row.get(4)).collect();
        let are_there = ids.len() == 2 && ids.contains(&"1") && ids.contains(&"8");
        are_there
            && self.phase(1).await == Some(Phase::Running)
            && self.phase(8).await == Some(Phase::Running)
    }

    async fn claims_a_suspect(&self, text: &str) -> bool {
        let version = self.number("SELECT version FROM windlass.catalogue").await.to_string();
        let crashed = "UPDATE windlass.delayed_jobs SET gate = 'suspect', crashes = 1 WHERE id = 2";
        self.old.batch_execute(&in_schema(crashed, &self.schema)).await.unwrap();
        let (worker, token) = (format!("'{HERE}'"), format!("'{WORKER}'"));
        let told = self.run(text, &["NULL", &worker, &token, &version, "'main'", "'{work}'", "3"]).await;
        told[0].get(4) == Some("2") && self.phase(2).await == Some(Phase::Running)
    }

    async fn ends(&self, name: &str, text: &str) -> bool {
        let marks = "SELECT count(*) FROM windlass.completion_trigger_marks";
        let before = self.number(marks).await;
        // Whoever knows of drains marks that of the queue.
        let knows_of_drains = text.contains("completion_trigger_marks");
        self.ends_one(name, text).await && self.number(marks).await == before + i64::from(knows_of_drains)
    }

    async fn ends_one(&self, name: &str, text: &str) -> bool {
        let (none, place) = ("ARRAY[NULL]::text[]", "ARRAY[NULL]::tid[]");
        let marks = ["'{t}'", "'{t}'"];
        match name {
            "settle" => {
                let job = ["NULL", RUNNING[0], RUNNING[1], "'{1000}'", none, none, place, "false"];
                self.run(text, &job).await;
                self.phase(3).await == Some(Phase::Succeeded)
            }
            "settle_traced" => {
                self.run(text, &["NULL", "'{4}'", RUNNING[1], place, "'{brief}'"]).await;
                self.phase(4).await.is_none()
                    && self.number("SELECT count(*) FROM windlass.job_traces").await == 1
            }
            "apply_waiting" => {
                let to = ["ARRAY[now()]", none];
                let known: &[&str] = if text.contains("$13") { &[place] } else { &[] };
                self.run(text, &[&RUNNING[..], &to, &marks, known].concat()).await;
                self.phase(3).await == Some(Phase::Ready)
            }
            "apply_dead" => {
                let why = [r#"ARRAY['{"kind": "handler", "message": "no"}']"#];
                self.run(text, &[&RUNNING[..], &ATTEMPT, &why, &marks].concat()).await;
                self.phase(3).await == Some(Phase::Dead)
            }
            _ => {
                let to = ["'{2}'", none, "'{stopped}'"];
                self.run(text, &[&RUNNING[..], &ATTEMPT, &to, &marks].concat()).await;
                self.phase(3).await == Some(Phase::Cancelled)
            }
        }
    }

    async fn is_a_worker(&self, name: &str, text: &str) -> bool {
        let (id, here) = (format!("'{WORKER}'"), format!("'{HERE}'"));
        match name {
            "register" => {
                let card =
                    ["NULL", &id, "'there'", "1", "'old'", "'{main}'", "'{work}'", "60000000", "'{sweep}'"];
                self.run(text, &card).await;
                let workers = self.today.workers().await.unwrap();
                workers.iter().any(|worker| worker.card.host == "there")
            }
            "extend" => {
                let told = self.run(text, &["NULL", &here, "60000000"]).await;
                told.len() == 1 && self.number("SELECT beats FROM windlass.workers").await == 1
            }
            _ => self.run(text, &["NULL"]).await.iter().any(|row| row.get(1) == Some(HERE)),
        }
    }

    async fn leads(&self, name: &str, text: &str) -> bool {
        let (worker, term, terms) = (format!("'{WORKER}'"), format!("'{WORKER}'"), format!("'{{{TERM}}}'"));
        let told = match name {
            "take_leases" => {
                self.run(text, &["NULL", "'{prune}'", "'{60000000}'", &worker, &term, "100"]).await
            }
            "renew_leases" => {
                self.run(text, &["NULL", "'{sweep}'", "'{7}'", &terms, "ARRAY[NULL]::text[]"]).await
            }
            "release_leases" => self.run(text, &["'{sweep}'", "'{7}'", &terms, "'nobody'", "'lease:'"]).await,
            _ => return self.locks(name, text).await,
        };
        let duty = DutyName::parse(if name == "take_leases" { "prune" } else { "sweep" }).unwrap();
        let leases = self.today.leases().await.unwrap().leases;
        let lease = leases.iter().find(|lease| lease.duty == duty).expect("it is there");
        told[0].get(0) == Some("t") && lease.holder.is_some() == (name != "release_leases")
    }

    /// The lock of a duty is this session's own.
    async fn locks(&self, name: &str, text: &str) -> bool {
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
        if name == "lock_duty" {
            let told = self.run(text, &["'sweep'"]).await;
            return told[0].get(0) == Some("t") && self.number(locks).await == 1;
        }
        let (_, _, lock) =
            OLDER.iter().find(|(_, name, _)| *name == "lock_duty").expect("it was there with it");
        self.run(lock, &["'sweep'"]).await;
        self.run(text, &["'sweep'"]).await;
        self.number(locks).await == 0
    }

    async fn changes_queues(&self, name: &str, text: &str) -> bool {
        let version = "SELECT version FROM windlass.catalogue";
        let before = self.number(version).await;
        let pause = r#"'{"since": 0, "reason": "old", "until": null}'"#;
        let told = match name {
            "renew_catalogue" => self.run(text, &[]).await,
            "save_pause" => self.run(text, &["'main'", pause, "'nobody'"]).await,
            "save_shut" => self.run(text, &["'main'", "true"]).await,
            _ => return self.run(text, &[]).await.iter().any(|row| row.get(0) == Some("main")),
        };
        let queues = self.today.queues().await.unwrap();
        let main = queues.iter().find(|queue| queue.spec.name.as_str() == "main").expect("it is declared");
        let is_done = match name {
            "save_pause" => main.pause.is_some(),
            "save_shut" => main.shut,
            _ => told.is_empty(),
        };
        is_done && self.number(version).await > before
    }

    async fn moves(&self, name: &str, text: &str) -> bool {
        match name {
            "open_gate" => {
                self.run(text, &["'rate:a'", "10", "'suspect'"]).await;
                self.phase(2).await == Some(Phase::Ready)
            }
            "replace_job" => {
                let to = ["1", "'{}'", "now() + interval '1 hour'", "5", "NULL", "NULL"];
                self.run(text, &to).await;
                self.phase(1).await == Some(Phase::Scheduled)
            }
            "set_priority" => {
                self.run(text, &["1", "9"]).await;
                let record = self.today.job(JobId(1)).await.unwrap().expect("it waits");
                record.job.priority.level() == 9
            }
            _ => {
                self.run(text, &["5", "now()", "NULL", "NULL"]).await;
                self.phase(5).await == Some(Phase::Ready)
            }
        }
    }

    async fn forgets(&self, name: &str, text: &str) -> bool {
        let (arguments, left): (&[&str], _) = match name {
            "discard" => (
                &["5"],
                "SELECT (SELECT count(*) FROM windlass.delayed_jobs_dlq)
                    + (SELECT count(*) FROM windlass.attempts WHERE job = 5)",
            ),
            "prune_rest" => (
                &["NULL", "0", "10"],
                "SELECT (SELECT count(*) FROM windlass.job_history WHERE id = 9)
                    + (SELECT count(*) FROM windlass.attempts WHERE job = 9)",
            ),
            "forget_requeued_jobs" => (&[], "SELECT count(*) FROM windlass.requeued_jobs"),
            _ => (&[], "SELECT count(*) FROM windlass.waiting WHERE channel = 'gone'"),
        };
        let before = self.number(left).await;
        self.run(text, arguments).await;
        before > 0 && self.number(left).await == 0
    }

    async fn reads(&self, name: &str, text: &str) -> bool {
        match name {
            "look" => self
                .run(text, &["'{main}'", "ARRAY[NULL]::text[]", "NULL"])
                .await
                .iter()
                .any(|row| row.get(3) == Some("1")),
            "look_ahead" => {
                let from = ["'{5}'", "'{-infinity}'", "'{0}'"];
                let told = self.run(text, &[&["NULL", "'main'", "'{work}'"][..], &from].concat()).await;
                told[0].get(0) == Some("t")
            }
            "rollup_input" => self.run(text, &["NULL", "1"]).await.len() == 1,
            "queue_counts" => self.run(text, &["NULL", "'{main}'"]).await.len() == 1,
            "read_now" => self.run(text, &[]).await.len() == 1,
            "take_ids" => self.run(text, &["2"]).await[0].get(0).is_some_and(|ids| ids.contains(',')),
            "lock_jobs" | "lock_free_jobs" => self.run(text, &["'{1}'"]).await.len() == 1,
            "gates" => self.run(text, &["''", "10"]).await.iter().any(|row| row.get(0) == Some("rate:a")),
            "to_sweep" => self.run(text, &["NULL", "0"]).await.len() == 1,
            _ => panic!("expected a scene for {name}: it had another text, and nobody runs that"),
        }
    }
}

#[tokio::test]
async fn whatever_a_statement_of_an_earlier_version_does_on_the_newest_schema_a_process_of_today_finds_done()
{
    for (versions, name, text) in OLDER {
        assert!(Stage::new().await.plays(name, text).await, "{name} of {versions:?}");
    }
}
