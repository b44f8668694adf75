//! States that a store gets into by being used. In such a state, engines may use other statements for the
//! same work, and every promise must hold in each state.

use std::time::Duration;

use windlass_core::claim::ClaimRequest;
use windlass_core::engine::Declaration;
use windlass_core::enqueue::NewJob;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::FairnessKey;
use windlass_core::queue::QueueSpec;

use super::{Harness, MAIN, UP, WORK, days, due_in, job_of, only, queue, type_name, type_spec, work};

/// A delay longer than any behaviour lasts.
const LONG: Duration = days(300);

/// What an engine has been used for before a behaviour begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    /// Jobs had fairness keys, a suspect waits for its next attempt, and a job of a type without retention
    /// was the last to succeed.
    ForAllKinds,
    /// The type that most behaviours use has no retention, and such a job was the last to succeed.
    ForJobsThatLeaveNothing,
}

impl Used {
    /// Returns the behaviours that cannot be observed in this state, and why.
    pub const fn skips(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ForAllKinds => COUNTS_WHAT_WAITS,
            Self::ForJobsThatLeaveNothing => READ_AFTER_THE_END,
        }
    }
}

const WAITS: &str = "it counts all waiting jobs of a queue, and a job waits there already";
const COUNTS_WHAT_WAITS: &[(&str, &str)] = &[
    ("ordering_keys::a_purge_ends_the_whole_ordering_key_and_the_next_one_starts_anew", WAITS),
    ("ordering_keys::who_waits_in_line_is_parked_and_uses_no_attempt", WAITS),
];

const GONE: &str = "it reads a job that has ended and was deleted";
const READ_AFTER_THE_END: &[(&str, &str)] = &[
    ("cancel::a_parked_job_is_cancelled_and_its_gate_lets_nothing_through", GONE),
    ("cancel::a_requested_cancel_wins_over_a_worker_that_leaves", GONE),
    ("cancel::a_requested_cancel_wins_over_the_death_of_the_worker", GONE),
    ("cancel::a_scheduled_job_is_cancelled", GONE),
    ("cancel::a_waiting_job_is_cancelled_with_its_reason", GONE),
    ("cancel::what_has_ended_is_not_cancelled_and_the_answer_says_how_it_ended", GONE),
    ("cancel::whatever_the_handler_returns_a_requested_cancel_wins", GONE),
    ("fence::a_repeated_end_of_any_kind_is_applied_once", GONE),
    ("fence::a_stale_end_after_the_owners_end_changes_nothing", GONE),
    ("fence::an_end_after_the_lease_but_before_a_rescue_is_taken", GONE),
    ("fence::one_stale_end_in_a_batch_spoils_no_other", GONE),
    ("fence::the_current_owner_ends_the_job_after_a_stale_try", GONE),
    ("ordering_keys::a_running_head_that_is_cancelled_lets_the_next_go_when_it_ends", GONE),
    ("ordering_keys::one_that_expires_in_line_is_passed_over", GONE),
];

impl Harness {
    /// Brings the engine into a state. No remaining job falls due within the time that behaviours take.
    pub async fn use_before(&self, used: Used) {
        match used {
            Used::ForAllKinds => {
                self.leave_a_job_with_a_fairness_key().await;
                self.leave_a_suspect().await;
            }
            Used::ForJobsThatLeaveNothing => {
                let types = vec![TypeSpec { retention_days: 0, ..type_spec(WORK, MAIN) }];
                self.engine.declare(Declaration { queues: vec![], types }).await.expect(UP);
            }
        }
        self.succeed_elsewhere().await;
    }

    /// From the first fairness key on, the jobs of a queue are claimed in turn.
    async fn leave_a_job_with_a_fairness_key(&self) {
        let fairness_key = FairnessKey::parse("used").expect("a plain name");
        self.enqueue(NewJob { fairness_key: Some(fairness_key), ..due_in(LONG) }).await;
    }

    async fn leave_a_suspect(&self) {
        self.enqueue(work()).await;
        self.crash_once().await;
        let suspect = self.claim_suspect().await.expect("a job whose worker crashed is a suspect");
        self.fail(&suspect, LONG).await;
    }

    /// Uses a queue of its own, so that behaviours do not count this job.
    async fn succeed_elsewhere(&self) {
        let (elsewhere, kind) = (queue("elsewhere"), type_name("elsewhere.work"));
        let types = vec![TypeSpec { retention_days: 0, ..TypeSpec::new(kind.clone(), elsewhere.clone()) }];
        let queues = vec![QueueSpec::new(elsewhere.clone())];
        self.engine.declare(Declaration { queues, types }).await.expect(UP);
        self.enqueue(job_of("elsewhere.work")).await;
        let request = self.claim_request(1);
        let request = ClaimRequest { queues: vec![elsewhere], types: vec![kind], ..request };
        self.succeed(&only(self.claim_with(request).await)).await;
    }
}
