//! The statements, one in each file of `sql/`. They name the schema `windlass`; an engine in another schema has
//! its own name put in once, when it is opened.

use std::borrow::Cow;

/// A statement, ready for the engine's schema.
#[derive(Debug, Clone)]
pub(super) struct Statement(String);

impl Statement {
    pub(super) fn new(text: &str, schema: &str) -> Self {
        Self(in_schema(text, schema))
    }

    /// The same with a part put in.
    pub(super) fn with(&self, mark: &str, part: &str) -> Self {
        Self(self.0.replace(mark, part))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// A text that names the schema `windlass`, for another schema.
pub(super) fn in_schema(text: &str, schema: &str) -> String {
    if schema == "windlass" {
        return text.to_owned();
    }
    text.replace("windlass.", &format!("{schema}."))
}

/// The text of a statement out of its file. What picks jobs by turns is put into `claim`, in place of what it picks: the rest is the
/// same, and long.
fn whole(name: &str, text: &'static str) -> Cow<'static, str> {
    if name != "claim_fairness_keys" {
        return Cow::Borrowed(text);
    }
    let claim = include_str!("sql/claim.sql");
    let picks = text.find("picked AS").map_or("", |start| text[start..].trim_end());
    let (head, rest) = claim.split_once("picked AS").expect("the statement names what it picks");
    let (_, tail) = rest.split_once(", wanted AS").expect("and what it wants of it");
    let named = head.replacen("-- claim:", "-- claim_fairness_keys:", 1);
    Cow::Owned(format!("{named}{picks}, wanted AS{tail}"))
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// All statements.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) fn for_schema(schema: &str) -> Self {
                Self {
                    $($name: Statement::new(
                        &whole(stringify!($name), include_str!(concat!("sql/", stringify!($name), ".sql"))),
                        schema,
                    ),)*
                }
            }

            /// Their names and texts, for tests that look at all of them.
            #[cfg(test)]
            pub(super) fn all() -> Vec<(&'static str, &'static str)> {
                vec![$((
                    stringify!($name),
                    &*String::leak(
                        whole(stringify!($name), include_str!(concat!("sql/", stringify!($name), ".sql"))).into_owned(),
                    ),
                ),)*]
            }
        }
    };
}
statements! {
    add_counts, advance_ordering_key, asked_to_stop, set_statement_timeout, behind_gate, breakers, claim, claim_fairness_keys, claim_suspect, claimed_before, close_receipt, close_request,
    count_schedules, due_schedules, list_schedules, lock_schedules, remove_schedules, save_schedules, schedules_named,
    set_last_jobs, count_triggers, triggers_named, queue_has_work, group_has_work, type_has_work, list_triggers, lock_triggers, lock_free_trigger,
    mark_triggers, marked_triggers, note_firing, postpone_trigger, remove_triggers, save_triggers, trim_marks, unmark_trigger,
    append_samples, rollup_input, rollups_of, apply_rollup, list_rollups, prune_rollups, duty_locks, note_locks,
    complete, dead_key, declare_dead, declare_queues, declare_types, discard, drop_partitions, drop_reserved_keys,
    ended_state, enqueue, enqueue_many, expired, extend, find_receipt, find_worker, fold_claims, fold_counts,
    merge_count_minutes, forget_requeued_jobs, forget_fairness_keys, forget_waiting, free_ended_keys, free_keys, gates, hidden_sessions, hold_keys,
    insert_attempts, insert_jobs, keys_of, existing_keys, apply_dead, apply_ended, apply_waiting, last_attempt, leases,
    leases_hold, list_dead, list_ended, list_live, list_running, live_workers, load_queues, load_types, load_version,
    lock_catalogue, lock_dead, lock_duties, lock_free_jobs, lock_free_keys, lock_jobs, lock_keys, lock_rest, look, look_ahead,
    look_at_tokens, create_partitions, mark_ordering_key, mark_waiting, repair_claims, invalid_priority, note_requeued_jobs, notification_queue,
    oldest_snapshot, open_gate, open_receipt, orphans, our_indexes, our_space, our_tables, places_of, prune_claims, prune_keys,
    prune_rate_limits, prune_receipts, prune_rest, prune_traces, prune_workers, requeued_jobs, queue_counts, read_attempts, read_clock,
    read_dead, read_ended, read_live, read_now, register, release_leases, renew_catalogue, renew_leases, replace_job,
    report, request_cancel, reserve_keys, retire, running_of, save_breaker, save_pause, save_shut, ordering_key_out, served, set_priority, fairness_keys_due,
    settle, settle_traced, write_claim_tombstone, stages, start_over, step_down, still_hold, take_ids, take_leases, take_tokens,
    trim_attempts, type_unfinished, to_sweep, types_waiting, unfinished, unlock_duties, unmark_waiting, use_fairness_keys, waiting_in, waiting_of_type, wake_next,
    was_settled,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::{PostgresEngine, PostgresOptions};

    #[test]
    fn every_file_is_a_statement_and_has_a_header_with_its_name() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/postgres/sql");
        let files = std::fs::read_dir(folder).expect("the folder is part of the source");
        let mut stems: Vec<_> = files
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        stems.sort();
        let mut names: Vec<_> = Statements::all().iter().map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        assert_eq!(stems, names);
        for (name, text) in Statements::all() {
            assert!(text.starts_with(&format!("-- {name}: ")), "{name}");
        }
    }

    #[test]
    fn the_longest_wait_is_looked_for_among_as_many_jobs_as_core_says() {
        let limit = format!("LIMIT {}\n", windlass_core::limits::OLDEST_LOOKED_AT);
        assert!(include_str!("sql/queue_counts.sql").contains(&limit));
    }

    #[tokio::test]
    async fn every_statement_can_be_prepared_on_a_fresh_schema() {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("sql_{:016x}", fastrand::u64(..));
        let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
        let _engine = PostgresEngine::connect(&url, options).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        assert!(Statements::all().len() > 70);
        for (name, text) in Statements::all() {
            let prepared = client.prepare(&in_schema(text, &schema)).await;
            prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
}
