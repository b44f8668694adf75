//! The statements, one in each file of `sql/`. The build script puts the columns of a job into them
//! (`job_columns.txt`).

/// Returns the text of a statement, by the name of its file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/sqlite/", $name, ".sql"))
    };
}
pub(super) use sql;

include!(concat!(env!("OUT_DIR"), "/sqlite_columns.rs"));

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use crate::sqlite::migrate;

    fn statements() -> Vec<(String, String)> {
        let folder = Path::new(env!("OUT_DIR")).join("sqlite");
        let files = std::fs::read_dir(folder).expect("the folder is part of the source");
        files
            .map(|file| file.unwrap().path())
            .map(|path| {
                (
                    path.file_stem().unwrap().to_string_lossy().into_owned(),
                    std::fs::read_to_string(&path).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn every_statement_can_be_prepared_on_a_fresh_schema() {
        let conn = Connection::open_in_memory().unwrap();
        migrate::apply_all(&conn).unwrap();
        let statements = statements();
        assert!(statements.len() > 50);
        for (name, text) in statements {
            conn.prepare(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn every_statement_has_a_header_with_its_name() {
        for (name, text) in statements() {
            assert!(text.starts_with(&format!("-- {name}: ")), "{name}");
        }
    }

    #[test]
    fn claims_walk_in_the_index_and_never_sort() {
        let conn = Connection::open_in_memory().unwrap();
        migrate::apply_all(&conn).unwrap();
        for (text, index) in [
            (sql!("pick"), "delayed_jobs_ready"),
            (sql!("next_head"), "delayed_jobs_ready"),
            (sql!("first_ready"), "delayed_jobs_ready"),
            (sql!("next_fairness_key"), "delayed_jobs_fairness_keys"),
            (sql!("pick_fairness_key"), "delayed_jobs_fairness_keys"),
            (sql!("pick_unmarked"), "delayed_jobs_ready"),
            (sql!("insert_job"), "delayed_jobs_fairness_keys"),
            (sql!("settle_waiting"), "delayed_jobs_fairness_keys"),
            (sql!("start_over"), "delayed_jobs_fairness_keys"),
            (sql!("set_priority"), "delayed_jobs_fairness_keys"),
            (sql!("next_due"), "delayed_jobs_ready"),
            (sql!("due_within_minute"), "delayed_jobs_ready"),
            (sql!("waiting_of_type"), "delayed_jobs_ready"),
            (sql!("behind_gate"), "delayed_jobs_parked"),
            (sql!("suspects"), "delayed_jobs_parked"),
            (sql!("gates"), "delayed_jobs_parked"),
            (sql!("ordering_key_out"), "delayed_jobs_ordering_key_out"),
            (sql!("ordering_key_oldest"), "delayed_jobs_ordering_key_line"),
            (sql!("type_has_work"), "delayed_jobs_ready (type=? AND priority=? AND due<?)"),
            (sql!("type_has_work"), "delayed_jobs_parked_type (type=? AND gate=? AND due<?)"),
            (sql!("type_has_work"), "delayed_jobs_parked_type (type=? AND gate>? AND gate<?)"),
            (sql!("type_has_work"), "delayed_jobs_running"),
            (sql!("group_has_work"), "delayed_jobs_group (job_group=? AND gate=? AND due<?)"),
            (sql!("group_has_work"), "delayed_jobs_group (job_group=? AND gate>? AND gate<?)"),
            (sql!("group_has_work"), "delayed_jobs_running"),
            (sql!("prune_rate_limits"), "job_rate_limits_due"),
            (sql!("claimed_before"), "delayed_jobs_running"),
            (sql!("is_spent"), "sqlite_autoindex_spent_tokens_1 (token=?)"),
            (sql!("orphans"), "delayed_jobs_running"),
            (sql!("expired"), "delayed_jobs_expiring"),
            (sql!("past_retention"), "job_history_keep"),
            (sql!("stale_keys"), "job_keys_until"),
            (sql!("forget_key"), "PRIMARY KEY (type=? AND key=?)"),
            (sql!("prune_workers"), "delayed_jobs_running"),
            (sql!("trim_attempts"), "attempts_job"),
        ] {
            let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
            for parameter in 1..=plan.parameter_count() {
                plan.raw_bind_parameter(parameter, 1).unwrap();
            }
            let mut rows = plan.raw_query();
            let mut steps = String::new();
            while let Some(row) = rows.next().unwrap() {
                steps += &row.get::<_, String>(3).unwrap();
                steps += "; ";
            }
            assert!(steps.contains(index), "{text}\n{steps}");
            let sorts = steps.contains("TEMP B-TREE");
            let is_small = index == "delayed_jobs_running" || text == sql!("suspects");
            assert!(!sorts || is_small, "{text}\n{steps}");
        }
    }
}
