//! The claims: which worker got which job.

use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::limits::CRASHES_MAX;

use super::{Moment, Observer};

impl Observer {
    pub(super) fn saw_claim(&mut self, request: &ClaimRequest, jobs: &[Claimed], at: &Moment<'_>) {
        if self.workers.get(&request.worker).is_none_or(|lease| lease.dead || lease.retired) {
            let worker = request.worker;
            self.broke("dead claims", format!("{worker} is dead or has left, and its claim was answered"));
        }
        if request.repeat {
            self.repeated.insert(request.token);
        } else if self.repeated.contains(&request.token) && !jobs.is_empty() {
            self.broke("claimed late", format!("{} was repeated before, and claims jobs", request.token));
        }
        for claimed in jobs {
            self.saw_claimed(request, claimed, at);
        }
        if jobs.len() > request.limit as usize {
            self.broke("claimed too many", format!("{} of {}", jobs.len(), request.limit));
        }
    }

    fn saw_claimed(&mut self, request: &ClaimRequest, claimed: &Claimed, at: &Moment<'_>) {
        let (id, job) = (claimed.job.id, &claimed.job);
        let process = at.process.expect("only processes claim");
        let repeated =
            request.repeat.then(|| self.claims.get(&(process, claimed.fence()))).flatten().copied();
        let Some(seen) = self.jobs.get_mut(&id) else {
            return self.broke("unexpected", format!("job {id} was claimed, and was never enqueued"));
        };
        if repeated.is_some() && seen.holder.map(|(claim, _)| claim) == repeated {
            return;
        }
        if request.repeat {
            return self.broke("repeat claims", format!("job {id}, which the first request had not claimed"));
        }
        let (held, ended, cancelled) = (seen.holder, seen.ended, seen.cancelled);
        self.next_claim += 1;
        seen.holder = Some((self.next_claim, request.worker));
        self.claims.insert((process, claimed.fence()), self.next_claim);
        if let Some((_, by)) = held {
            self.broke("claimed while held", format!("job {id} is held by {by}"));
        }
        if ended || cancelled {
            self.broke("claimed after its end", format!("job {id}"));
        }
        if job.due > at.store.now() {
            self.broke(
                "started early",
                format!("job {id} is due at {}, claimed at {}", job.due, at.store.now()),
            );
        }
        // Expiry applies to the first start only, and the counter includes this attempt already.
        let first = job.counters.attempts <= 1;
        if first && job.expires_at.is_some_and(|expires| expires <= at.store.now()) {
            self.broke("started late", format!("job {id} had expired"));
        }
        if job.counters.crashes >= CRASHES_MAX {
            self.broke("over limits", format!("job {id} is claimed after {} crashes", job.counters.crashes));
        }
    }
}
