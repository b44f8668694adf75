//! The enqueued jobs, and the effects of their keys.

use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest};
use windlass_core::job::{JobId, JobState};
use windlass_core::key::KeyScope;

use super::{Moment, Observer, Seen};

impl Observer {
    pub(super) fn saw_enqueue(
        &mut self,
        request: &EnqueueRequest,
        answers: &[EnqueueAnswer],
        at: &Moment<'_>,
    ) {
        let repeat = !self.requests.insert(request.request);
        for (job, answer) in request.jobs.iter().zip(answers) {
            let uid: String = job.payload.decode().expect("payloads are texts");
            match answer {
                EnqueueAnswer::New(id) | EnqueueAnswer::Spooled(id) => {
                    self.jobs.entry(*id).or_insert(Seen { uid, ..Seen::default() });
                }
                _ if repeat => {}
                EnqueueAnswer::Duplicate(id) | EnqueueAnswer::Replaced(id) => self.check_key(*id, at),
                EnqueueAnswer::Revived(id) => self.saw_retry(*id, at),
                EnqueueAnswer::Refused(_) => {}
            }
        }
    }

    /// Checks that a key that refused a new job is held by the rules of its holder.
    fn check_key(&mut self, holder: JobId, at: &Moment<'_>) {
        let Some(record) = at.store.job(holder) else {
            return self.broke("key not freed", format!("job {holder} does not exist, and holds its key"));
        };
        let scope = record.job.key.as_ref().map(|claim| claim.scope);
        let by_period = scope
            .and_then(|scope| scope.held_until(record.job.enqueued_at))
            .is_some_and(|until| until > at.store.now());
        let holds = match record.job_state() {
            JobState::Dead => scope == Some(KeyScope::WhileLiveOrDead) || by_period,
            job_state => !job_state.has_ended() || by_period,
        };
        if !holds {
            let job_state = record.job_state();
            self.broke(
                "key not freed",
                format!("job {holder} is {job_state}, and holds its key ({scope:?})"),
            );
        }
    }
}
