//! Known bugs, planted one at a time. Each must be caught, and by a check for its kind of error.

use windlass_core::planted::{Bug, plant};

use crate::history::run_history;

/// The number of histories in which a bug must show. A bug that needs more is out of the simulation's
/// reach.
const HISTORIES_MAX: u64 = 500;

/// The checks that may catch a bug.
fn expected(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::SettleWithoutToken => &["stale accepted", "holder refused"],
        Bug::DeadWorkerRevives => &["dead revived"],
        Bug::DeadWorkerClaims => &["dead claims"],
        Bug::RescueByAge => &["taken from a live worker"],
        Bug::RepeatWithoutReceipt => &["stored twice", "unexpected"],
        Bug::LateRequestIsStored => &["stored twice"],
        Bug::AcknowledgeBeforeWrite => &["lost", "stored twice"],
        Bug::ForgetLostClaim | Bug::ForgetLostSettle => &["left behind", "not drained"],
        Bug::SpentTokenClaims => &["claimed late"],
        Bug::StopDropsPrefetched | Bug::StopDropsUnsettled => &["left behind", "not drained", "unfinished"],
        Bug::CounterAsToken => &["stale accepted", "unexplained attempts", "left behind", "not drained"],
        Bug::CrashNotCounted => &["over limits", "uncounted crashes", "not drained"],
        Bug::KeyNotFreedByDeath => &["key not freed"],
        Bug::ClaimBeforeDue => &["started early"],
        Bug::CancelIgnored => &["cancel ignored"],
        Bug::SilenceOfAFullStoreCounts => &["declared dead unheard"],
        // Histories have neither schedules nor completion triggers: the model test and the conformance
        // suite find these bugs.
        Bug::StaleTickFires | Bug::TriggerKeepsItsMark | Bug::SecondMarkTakesTheFirst => &[],
    }
}

/// How a bug was caught: by which check, in which history.
struct Caught {
    check: &'static str,
    histories: u64,
}

/// Runs histories from this seed on, until a check catches the bug.
fn catch(bug: Bug, first_seed: u64) -> Option<Caught> {
    plant(Some(bug));
    let caught = (0..HISTORIES_MAX).find_map(|at| {
        let found = run_history(first_seed + at, false).found;
        found.first().map(|violation| Caught { check: violation.check, histories: at + 1 })
    });
    plant(None);
    caught
}

fn is_caught(bug: Bug) {
    let Some(caught) = catch(bug, 1) else {
        panic!("expected a check to catch {bug:?} within {HISTORIES_MAX} histories")
    };
    let Caught { check, histories } = caught;
    println!("{bug:?} is caught by {check:?} in history {histories}");
    assert!(
        expected(bug).contains(&check),
        "{bug:?} was caught by {check:?}, which checks for another error"
    );
}

macro_rules! caught {
    ($($name:ident: $bug:ident,)*) => {$(
        #[test]
        fn $name() {
            is_caught(Bug::$bug);
        }
    )*};
}

caught! {
    settling_without_a_token_is_caught: SettleWithoutToken,
    a_dead_worker_that_revives_is_caught: DeadWorkerRevives,
    a_dead_worker_that_claims_is_caught: DeadWorkerClaims,
    a_rescue_by_age_is_caught: RescueByAge,
    a_repeat_under_a_new_name_is_caught: RepeatWithoutReceipt,
    a_late_request_that_is_stored_is_caught: LateRequestIsStored,
    an_acknowledgement_before_the_write_is_caught: AcknowledgeBeforeWrite,
    a_forgotten_claim_is_caught: ForgetLostClaim,
    a_claim_after_its_own_repeat_is_caught: SpentTokenClaims,
    a_forgotten_settle_is_caught: ForgetLostSettle,
    a_stop_that_drops_what_is_prefetched_is_caught: StopDropsPrefetched,
    a_stop_that_drops_what_is_unsettled_is_caught: StopDropsUnsettled,
    a_counter_as_token_is_caught: CounterAsToken,
    a_crash_that_is_not_counted_is_caught: CrashNotCounted,
    a_key_that_death_does_not_free_is_caught: KeyNotFreedByDeath,
    a_claim_before_the_due_time_is_caught: ClaimBeforeDue,
    an_ignored_cancel_is_caught: CancelIgnored,
    silence_that_counts_while_no_heartbeat_can_be_stored_is_caught: SilenceOfAFullStoreCounts,
}

/// Prints the table of `docs/simulation.md`, measured from nine seeds for each bug.
#[test]
#[ignore = "long: more than a minute of computing"]
fn the_table_of_planted_bugs_can_be_printed() {
    println!("| planted bug | caught by | median histories |\n|---|---|---|");
    for bug in Bug::OF_A_JOB {
        let runs: Vec<_> = (0..9).filter_map(|run| catch(bug, 10_000 * (run + 1))).collect();
        let mut needed: Vec<_> = runs.iter().map(|caught| caught.histories).collect();
        needed.sort_unstable();
        let mut checks: Vec<_> = runs.iter().map(|caught| caught.check).collect();
        checks.sort_unstable();
        checks.dedup();
        let median = needed.get(needed.len() / 2).copied();
        println!("| `{bug:?}` | {} | {} |", checks.join(", "), median.unwrap_or(HISTORIES_MAX));
        assert_eq!(runs.len(), 9, "{bug:?} escaped {HISTORIES_MAX} histories");
    }
}
