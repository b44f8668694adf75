//! The statements of earlier versions, which processes of those versions go on using while a newer one is rolled out beside them.
//! Whoever changes a statement together with the schema keeps its old text here.

use std::ops::RangeInclusive;

use crate::postgres::sql::Statements;

/// With which version statements came that have not been there from the beginning.
const NEWER: &[(u32, &[&str])] = &[
    (2, &["breakers", "look_at_tokens", "prune_rate_limits", "save_breaker", "take_tokens"]),
    (3, &["leases", "leases_hold", "release_leases", "renew_leases", "step_down", "take_leases"]),
    (6, &["to_sweep"]),
    (7, &["advance_series", "mark_series", "series_out"]),
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
            "count_drains",
            "drains_named",
            "left_in_queue",
            "left_of_group",
            "left_of_type",
            "list_drains",
            "lock_drains",
            "lock_free_drain",
            "mark_drains",
            "marked_drains",
            "note_firing",
            "put_off_drain",
            "remove_drains",
            "save_drains",
            "trim_marks",
            "unmark_drain",
        ],
    ),
    (11, &["claim_shares", "forget_shares", "shares_due", "use_shares"]),
    (14, &["append_deltas", "apply_fold", "list_minutes", "minutes_of", "prune_job_minutes", "unfolded"]),
    (16, &["places_of", "put_backs"]),
    (17, &["duty_locks", "note_locks"]),
];

/// What statements were before: in which versions, the name, and the text.
pub(super) const OLDER: &[(RangeInclusive<u32>, &str, &str)] = &[
    (1..=2, "look", include_str!("../migrations/older/0002_look.sql")),
    (1..=3, "land_ended", include_str!("../migrations/older/0003_land_ended.sql")),
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
    (1..=6, "lock_free_jobs", include_str!("../migrations/older/0006_lock_free_jobs.sql")),
    (1..=6, "lock_jobs", include_str!("../migrations/older/0006_lock_jobs.sql")),
    (3..=6, "look", include_str!("../migrations/older/0006_look.sql")),
    (4..=6, "settle", include_str!("../migrations/older/0006_settle.sql")),
    (4..=6, "settle_traced", include_str!("../migrations/older/0006_settle_traced.sql")),
    (1..=6, "start_over", include_str!("../migrations/older/0006_start_over.sql")),
    (6..=6, "to_sweep", include_str!("../migrations/older/0006_to_sweep.sql")),
    (1..=7, "extend", include_str!("../migrations/older/0007_extend.sql")),
    (5..=7, "live_workers", include_str!("../migrations/older/0007_live_workers.sql")),
    (7..=7, "lock_free_jobs", include_str!("../migrations/older/0007_lock_free_jobs.sql")),
    (7..=7, "lock_jobs", include_str!("../migrations/older/0007_lock_jobs.sql")),
    (5..=7, "register", include_str!("../migrations/older/0007_register.sql")),
    (7..=8, "to_sweep", include_str!("../migrations/older/0008_to_sweep.sql")),
    (1..=9, "land_dead", include_str!("../migrations/older/0009_land_dead.sql")),
    (4..=9, "land_ended", include_str!("../migrations/older/0009_land_ended.sql")),
    (1..=9, "land_waiting", include_str!("../migrations/older/0009_land_waiting.sql")),
    (7..=9, "settle", include_str!("../migrations/older/0009_settle.sql")),
    (7..=9, "settle_traced", include_str!("../migrations/older/0009_settle_traced.sql")),
    (9..=10, "due_schedules", include_str!("../migrations/older/0010_due_schedules.sql")),
    (1..=10, "enqueue", include_str!("../migrations/older/0010_enqueue.sql")),
    (7..=10, "insert_jobs", include_str!("../migrations/older/0010_insert_jobs.sql")),
    (10..=10, "land_waiting", include_str!("../migrations/older/0010_land_waiting.sql")),
    (9..=10, "list_schedules", include_str!("../migrations/older/0010_list_schedules.sql")),
    (1..=10, "load_queues", include_str!("../migrations/older/0010_load_queues.sql")),
    (1..=10, "replace_job", include_str!("../migrations/older/0010_replace_job.sql")),
    (8..=10, "lock_duty", include_str!("../migrations/older/0010_lock_duty.sql")),
    (7..=10, "look", include_str!("../migrations/older/0010_look.sql")),
    (9..=10, "schedules_named", include_str!("../migrations/older/0010_schedules_named.sql")),
    (1..=10, "set_priority", include_str!("../migrations/older/0010_set_priority.sql")),
    (7..=10, "start_over", include_str!("../migrations/older/0010_start_over.sql")),
    (8..=10, "unlock_duty", include_str!("../migrations/older/0010_unlock_duty.sql")),
    (1..=15, "claim", include_str!("../migrations/older/0015_claim.sql")),
    (11..=15, "claim_shares", include_str!("../migrations/older/0015_claim_shares.sql")),
    (1..=15, "claim_suspect", include_str!("../migrations/older/0015_claim_suspect.sql")),
    (11..=15, "look", include_str!("../migrations/older/0015_look.sql")),
    (1..=15, "look_ahead", include_str!("../migrations/older/0015_look_ahead.sql")),
    (1..=15, "open_gate", include_str!("../migrations/older/0015_open_gate.sql")),
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

#[test]
fn no_statement_has_two_texts_in_one_version() {
    for version in 1..=super::newest() {
        let mut names: Vec<_> = statements_of(version).map(|(name, _)| name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{version}: {names:?}");
    }
}
