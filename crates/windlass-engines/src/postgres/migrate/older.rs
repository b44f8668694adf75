//! The statements of earlier versions, which processes of those versions go on using while a newer one is rolled out beside them.
//! Whoever changes a statement that has left the house keeps its old text here; `sums.rs` notices it if that is forgotten.
#![cfg(test)]

use std::ops::RangeInclusive;

use crate::postgres::sql::Statements;

/// With which version statements came that have not been there from the beginning.
const NEWER: &[(u32, &[&str])] = &[
    (2, &["breakers", "look_at_tokens", "prune_rate_limits", "save_breaker", "take_tokens"]),
    (3, &["leases", "leases_hold", "release_leases", "renew_leases", "step_down", "take_leases"]),
    (6, &["our_space", "to_sweep"]),
    (7, &["advance_ordering_key", "mark_ordering_key", "ordering_key_out"]),
    (
        9,
        &[
            "count_schedules",
            "due_schedules",
            "list_schedules",
            "lock_schedules",
            "remove_schedules",
            "save_schedules",
            "schedules_named",
            "set_last_jobs",
        ],
    ),
    (
        10,
        &[
            "count_triggers",
            "triggers_named",
            "queue_has_work",
            "group_has_work",
            "type_has_work",
            "list_triggers",
            "lock_triggers",
            "lock_free_trigger",
            "mark_triggers",
            "marked_triggers",
            "note_firing",
            "remove_triggers",
            "save_triggers",
            "unmark_trigger",
        ],
    ),
    (
        11,
        &[
            "claim_fairness_keys",
            "forget_fairness_keys",
            "lock_duties",
            "fairness_keys_due",
            "unlock_duties",
            "use_fairness_keys",
        ],
    ),
    (12, &["postpone_trigger", "trim_marks"]),
    (14, &["append_samples", "apply_rollup", "list_rollups", "rollups_of", "prune_rollups", "rollup_input"]),
    (16, &["places_of", "requeued_jobs"]),
    (17, &["duty_locks", "note_locks"]),
    (19, &["close_request"]),
];

/// What statements were before: in which versions, the name, and the text. The last version is the newest that was out with this text:
/// if the text changed without the schema, one of the next text is the same.
pub(super) const OLDER: &[(RangeInclusive<u32>, &str, &str)] = &[
    (1..=2, "look", include_str!("../migrations/older/0002_look.sql")),
    (1..=3, "apply_ended", include_str!("../migrations/older/0003_land_ended.sql")),
    (3..=3, "release_leases", include_str!("../migrations/older/0003_release_leases.sql")),
    (3..=3, "renew_leases", include_str!("../migrations/older/0003_renew_leases.sql")),
    (1..=3, "settle", include_str!("../migrations/older/0003_settle.sql")),
    (1..=3, "settle_traced", include_str!("../migrations/older/0003_settle_traced.sql")),
    (3..=3, "take_leases", include_str!("../migrations/older/0003_take_leases.sql")),
    (1..=4, "live_workers", include_str!("../migrations/older/0004_live_workers.sql")),
    (1..=4, "register", include_str!("../migrations/older/0004_register.sql")),
    (1..=5, "renew_catalogue", include_str!("../migrations/older/0005_renew_catalogue.sql")),
    (1..=5, "save_pause", include_str!("../migrations/older/0005_save_pause.sql")),
    (1..=5, "save_shut", include_str!("../migrations/older/0005_save_shut.sql")),
    (1..=6, "gates", include_str!("../migrations/older/0006_gates.sql")),
    (1..=6, "insert_jobs", include_str!("../migrations/older/0006_insert_jobs.sql")),
    (3..=6, "look", include_str!("../migrations/older/0006_look.sql")),
    (4..=6, "settle", include_str!("../migrations/older/0006_settle.sql")),
    (4..=6, "settle_traced", include_str!("../migrations/older/0006_settle_traced.sql")),
    (1..=6, "start_over", include_str!("../migrations/older/0006_start_over.sql")),
    (6..=6, "to_sweep", include_str!("../migrations/older/0006_to_sweep.sql")),
    (1..=7, "extend", include_str!("../migrations/older/0007_extend.sql")),
    (5..=7, "live_workers", include_str!("../migrations/older/0007_live_workers.sql")),
    (1..=7, "lock_free_jobs", include_str!("../migrations/older/0007_lock_free_jobs.sql")),
    (1..=7, "lock_jobs", include_str!("../migrations/older/0007_lock_jobs.sql")),
    (5..=7, "register", include_str!("../migrations/older/0007_register.sql")),
    (7..=8, "to_sweep", include_str!("../migrations/older/0008_to_sweep.sql")),
    (1..=9, "apply_dead", include_str!("../migrations/older/0009_land_dead.sql")),
    (4..=9, "apply_ended", include_str!("../migrations/older/0009_land_ended.sql")),
    (1..=9, "apply_waiting", include_str!("../migrations/older/0009_land_waiting.sql")),
    (7..=9, "settle", include_str!("../migrations/older/0009_settle.sql")),
    (7..=9, "settle_traced", include_str!("../migrations/older/0009_settle_traced.sql")),
    (9..=10, "due_schedules", include_str!("../migrations/older/0010_due_schedules.sql")),
    (1..=10, "enqueue", include_str!("../migrations/older/0010_enqueue.sql")),
    (7..=10, "insert_jobs", include_str!("../migrations/older/0010_insert_jobs.sql")),
    (10..=10, "apply_waiting", include_str!("../migrations/older/0010_land_waiting.sql")),
    (9..=10, "list_schedules", include_str!("../migrations/older/0010_list_schedules.sql")),
    (1..=10, "load_queues", include_str!("../migrations/older/0010_load_queues.sql")),
    (8..=10, "lock_duty", include_str!("../migrations/older/0010_lock_duty.sql")),
    (7..=10, "look", include_str!("../migrations/older/0010_look.sql")),
    (9..=10, "schedules_named", include_str!("../migrations/older/0010_schedules_named.sql")),
    (1..=10, "set_priority", include_str!("../migrations/older/0010_set_priority.sql")),
    (7..=10, "start_over", include_str!("../migrations/older/0010_start_over.sql")),
    (8..=10, "unlock_duty", include_str!("../migrations/older/0010_unlock_duty.sql")),
    (1..=11, "claim", include_str!("../migrations/older/0011_claim.sql")),
    (11..=11, "claim_fairness_keys", include_str!("../migrations/older/0011_claim_fairness_keys.sql")),
    (1..=11, "discard", include_str!("../migrations/older/0011_discard.sql")),
    (10..=11, "triggers_named", include_str!("../migrations/older/0011_drains_named.sql")),
    (1..=11, "forget_requeued_jobs", include_str!("../migrations/older/0011_forget_put_backs.sql")),
    (1..=11, "forget_waiting", include_str!("../migrations/older/0011_forget_waiting.sql")),
    (10..=11, "apply_dead", include_str!("../migrations/older/0011_land_dead.sql")),
    (10..=11, "apply_ended", include_str!("../migrations/older/0011_land_ended.sql")),
    (11..=11, "apply_waiting", include_str!("../migrations/older/0011_land_waiting.sql")),
    (10..=11, "queue_has_work", include_str!("../migrations/older/0011_left_in_queue.sql")),
    (10..=11, "type_has_work", include_str!("../migrations/older/0011_left_of_type.sql")),
    (10..=11, "list_triggers", include_str!("../migrations/older/0011_list_drains.sql")),
    (1..=11, "prune_rest", include_str!("../migrations/older/0011_prune_rest.sql")),
    (1..=11, "replace_job", include_str!("../migrations/older/0011_replace_job.sql")),
    (10..=11, "save_triggers", include_str!("../migrations/older/0011_save_drains.sql")),
    (9..=11, "set_last_jobs", include_str!("../migrations/older/0011_set_last_jobs.sql")),
    (10..=11, "settle", include_str!("../migrations/older/0011_settle.sql")),
    (9..=11, "to_sweep", include_str!("../migrations/older/0011_to_sweep.sql")),
    (12..=15, "claim", include_str!("../migrations/older/0015_claim.sql")),
    (12..=15, "claim_fairness_keys", include_str!("../migrations/older/0015_claim_fairness_keys.sql")),
    (1..=15, "claim_suspect", include_str!("../migrations/older/0015_claim_suspect.sql")),
    (11..=15, "look", include_str!("../migrations/older/0015_look.sql")),
    (1..=15, "look_ahead", include_str!("../migrations/older/0015_look_ahead.sql")),
    (1..=15, "open_gate", include_str!("../migrations/older/0015_open_gate.sql")),
    (11..=17, "enqueue", include_str!("../migrations/older/0017_enqueue.sql")),
    (12..=17, "apply_waiting", include_str!("../migrations/older/0017_land_waiting.sql")),
    (16..=17, "open_gate", include_str!("../migrations/older/0017_open_gate.sql")),
    (1..=17, "add_counts", include_str!("../migrations/older/0017_add_counts.sql")),
    (1..=17, "fold_counts", include_str!("../migrations/older/0017_fold_counts.sql")),
    (1..=17, "insert_attempts", include_str!("../migrations/older/0017_insert_attempts.sql")),
    (12..=17, "apply_dead", include_str!("../migrations/older/0017_land_dead.sql")),
    (12..=17, "apply_ended", include_str!("../migrations/older/0017_land_ended.sql")),
    (1..=17, "queue_counts", include_str!("../migrations/older/0017_queue_counts.sql")),
    (1..=17, "read_now", include_str!("../migrations/older/0017_read_now.sql")),
    (12..=17, "settle", include_str!("../migrations/older/0017_settle.sql")),
    (1..=17, "take_ids", include_str!("../migrations/older/0017_take_ids.sql")),
    (14..=17, "rollup_input", include_str!("../migrations/older/0017_unfolded.sql")),
];

/// All statements of a version.
pub(super) fn statements_of(version: u32) -> impl Iterator<Item = (&'static str, &'static str)> {
    let came_later =
        move |name: &str| NEWER.iter().any(|(since, names)| *since > version && names.contains(&name));
    let changed_later =
        move |name: &str| OLDER.iter().any(|(versions, of, _)| *of == name && *versions.end() >= version);
    let today = Statements::all().into_iter();
    let today = today.filter(move |(name, _)| !came_later(name) && !changed_later(name));
    let older = OLDER.iter().filter(move |(versions, ..)| versions.contains(&version));
    today.chain(older.map(|(_, name, text)| (*name, *text)))
}

/// With which version a statement came.
fn since(name: &str) -> u32 {
    NEWER.iter().find(|(_, names)| names.contains(&name)).map_or(1, |(since, _)| *since)
}

#[test]
fn the_texts_of_a_statement_follow_each_other_without_a_gap() {
    for (today, _) in Statements::all() {
        let mut ranges: Vec<_> =
            OLDER.iter().filter(|(_, name, _)| *name == today).map(|(versions, ..)| versions).collect();
        ranges.sort_by_key(|versions| (*versions.start(), *versions.end()));
        let mut next = since(today);
        for versions in ranges {
            let begins = *versions.start();
            assert!(begins == next || begins + 1 == next && next > since(today), "{today}: {versions:?}");
            assert!(begins <= *versions.end() && *versions.end() <= super::newest(), "{today}: {versions:?}");
            next = versions.end() + 1;
        }
    }
}
