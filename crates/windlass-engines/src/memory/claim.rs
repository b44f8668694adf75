//! Claims: gives ready jobs to a live worker, in the order that core decides.

use std::collections::{HashSet, VecDeque};

use windlass_core::boost::{ClaimRange, claim_order};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, NextDue, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::fairness::interleave;
use windlass_core::job::{EXPIRED_REASON, JobId};
use windlass_core::limits::{CLAIM_BATCH_MAX, CLAIM_TOMBSTONE_TTL, DELAY_MAX, QUEUES_PER_CLAIM_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::planted::{Bug, planted};

use super::state::{Claim, JobRow, Stage, State, TypeAt, next_after};
use crate::kit::check_batch_size;

impl State {
    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Result<ClaimAnswer> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", request.queues.len())?;
        if !self.is_alive(request.worker) && !planted(Bug::DeadWorkerClaims) {
            return Ok(ClaimAnswer::WorkerDead);
        }
        let queues = self.open_queues(&request.queues, &request.types, now);
        let jobs = match request.suspects {
            _ if request.repeat => self.repeat_claim(request, now),
            _ if self.is_too_late(request) => Vec::new(),
            Suspects::LeaveOut => self.claim_ordinary(request, &queues, now),
            Suspects::One { crashes_max } => self.claim_suspect(request, &queues, crashes_max, now),
        };
        let peek = self.next_due_of(&queues.concat(), now);
        let peek = peek.with_ends_of_pauses(self.ends_of_pauses(&request.queues), now);
        Ok(ClaimAnswer::Claimed { jobs, peek })
    }

    pub(super) fn peek(
        &self,
        queues: &[QueueName],
        types: &[TypeName],
        now: Timestamp,
    ) -> Result<Vec<(QueueName, NextDue)>> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", queues.len())?;
        let peek = |queue: &QueueName| {
            let types = self.open_queues(std::slice::from_ref(queue), types, now).concat();
            let ends = self.ends_of_pauses(std::slice::from_ref(queue));
            (queue.clone(), self.next_due_of(&types, now).with_ends_of_pauses(ends, now))
        };
        Ok(queues.iter().map(peek).collect())
    }

    /// Lists when the pauses of these queues end by themselves.
    fn ends_of_pauses(&self, queues: &[QueueName]) -> impl Iterator<Item = Timestamp> {
        queues.iter().filter_map(|name| self.index.queue_named(name)?.pause.as_ref()?.until)
    }

    /// Lists the requested types of each queue that is not paused, each type once.
    fn open_queues(&self, queues: &[QueueName], types: &[TypeName], now: Timestamp) -> Vec<Vec<TypeAt>> {
        let mut requested: Vec<_> = types.iter().filter_map(|name| self.index.type_at(name)).collect();
        requested.sort_unstable();
        requested.dedup();
        let open = queues.iter().filter_map(|name| self.index.queue_named(name));
        let open = open.filter(|queue| !queue.is_paused(now));
        open.map(|queue| requested.iter().copied().filter(|at| queue.types.contains(at)).collect()).collect()
    }

    /// Returns the jobs that the first message of this request claimed, and stores a tombstone so that it
    /// claims nothing from now on.
    fn repeat_claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Vec<Claimed> {
        self.spent_tokens.spend(request.token, now);
        self.claimed_before(request, now)
    }

    /// Whether this is a first message that arrives after its repeat.
    fn is_too_late(&self, request: &ClaimRequest) -> bool {
        self.spent_tokens.contains(request.token) && !planted(Bug::SpentTokenClaims)
    }

    /// Lists the jobs that an earlier message of this request claimed.
    fn claimed_before(&self, request: &ClaimRequest, now: Timestamp) -> Vec<Claimed> {
        let rows = self.index.held_by(request.worker).filter_map(|id| self.live.get(&id));
        let mut rows: Vec<_> =
            rows.filter(|row| row.claim().is_some_and(|claim| claim.token == request.token)).collect();
        rows.sort_by_key(|row| (row.job.priority, row.job.due, row.job.id));
        rows.into_iter().filter_map(|row| claimed(row, now)).collect()
    }

    fn claim_ordinary(
        &mut self,
        request: &ClaimRequest,
        queues: &[Vec<TypeAt>],
        now: Timestamp,
    ) -> Vec<Claimed> {
        let mut taking = Taking {
            room: request.limit.min(CLAIM_BATCH_MAX) as usize,
            boosted: request.boosted_max as usize,
            // Expired jobs are cancelled on the way, which must not hold the lock for long.
            expired: CLAIM_BATCH_MAX as usize,
            jobs: Vec::new(),
        };
        let horizon = if planted(Bug::ClaimBeforeDue) { now.plus(DELAY_MAX) } else { now };
        for types in queues {
            let boosted_max = u32::try_from(taking.boosted).unwrap_or(u32::MAX);
            let oldest = |priority| self.index.oldest(types, priority);
            for range in claim_order(horizon, boosted_max, oldest) {
                if !range.boosted && self.index.has_fairness_keys(types, range.priority) {
                    self.take_by_turns(request, types, &range, &mut taking, now);
                } else {
                    self.take_range(request, types, &range, &mut taking, now);
                }
            }
        }
        taking.jobs
    }

    /// Takes jobs from one range of the order, up to the limit.
    fn take_range(
        &mut self,
        request: &ClaimRequest,
        types: &[TypeAt],
        range: &ClaimRange,
        taking: &mut Taking,
        now: Timestamp,
    ) {
        loop {
            let room = taking.room_in(range);
            let first = self.index.first_in(types, range, room);
            let found = first.len();
            for id in first {
                match self.take(id, request, range.boosted, now) {
                    Some(job) => taking.took(job),
                    None => taking.expired = taking.expired.saturating_sub(1),
                }
            }
            // Expired jobs left room, and others may follow them.
            if found < room || taking.room_in(range) == 0 {
                return;
            }
        }
    }

    /// Takes jobs from one range in which jobs have fairness keys: fairness keys take turns, and the unused
    /// portion of one goes to the others.
    fn take_by_turns(
        &mut self,
        request: &ClaimRequest,
        types: &[TypeAt],
        range: &ClaimRange,
        taking: &mut Taking,
        now: Timestamp,
    ) {
        loop {
            let room = u32::try_from(taking.room_in(range)).unwrap_or(u32::MAX);
            if room == 0 {
                return;
            }
            let mut taken = Vec::new();
            for (line, portion) in self.index.deal(types, range, room) {
                let first = self.index.first_of_key(types, range, &line, portion as usize);
                let found = first.len();
                let jobs: Vec<_> =
                    first.into_iter().filter_map(|id| self.take(id, request, false, now)).collect();
                taking.expired = taking.expired.saturating_sub(found - jobs.len());
                taken.push(jobs);
            }
            if taken.is_empty() {
                return;
            }
            interleave(taken).into_iter().for_each(|job| taking.took(job));
        }
    }

    /// Claims one due suspect, and no other job.
    fn claim_suspect(
        &mut self,
        request: &ClaimRequest,
        queues: &[Vec<TypeAt>],
        crashes_max: u32,
        now: Timestamp,
    ) -> Vec<Claimed> {
        if request.limit == 0 {
            return Vec::new();
        }
        let due: Vec<_> =
            queues.iter().flat_map(|types| self.suspects_due(types, crashes_max, now)).collect();
        due.into_iter().find_map(|id| self.take(id, request, false, now)).into_iter().collect()
    }

    /// Lists due suspects with at most this number of crashes, most urgent first. There are few: each had
    /// its worker die.
    fn suspects_due(&self, types: &[TypeAt], crashes_max: u32, now: Timestamp) -> Vec<JobId> {
        let due = types.iter().flat_map(|at| self.index.suspects_due(*at, now));
        let jobs = due.filter_map(|id| self.live.get(&id)).map(|row| &row.job);
        let mut jobs: Vec<_> = jobs.filter(|job| job.counters.crashes <= crashes_max).collect();
        jobs.sort_unstable_by_key(|job| (job.priority, job.due, job.id));
        jobs.into_iter().map(|job| job.id).collect()
    }

    /// Claims a waiting job for the worker, or cancels it if it has expired.
    fn take(&mut self, id: JobId, request: &ClaimRequest, boosted: bool, now: Timestamp) -> Option<Claimed> {
        let row = self.live.get_mut(&id)?;
        if row.has_expired(now) {
            self.cancel_waiting(id, EXPIRED_REASON, now);
            return None;
        }
        self.index.leave_waiting(row);
        row.job.counters.attempts += 1;
        let counted = ClaimToken::from_random(row.job.counters.attempts.into());
        let token = if planted(Bug::CounterAsToken) { counted } else { request.token };
        let cancel_requested = None;
        row.stage =
            Stage::Running(Claim { worker: request.worker, token, since: now, boosted, cancel_requested });
        self.index.start_running(row);
        claimed(row, now)
    }

    fn next_due_of(&self, types: &[TypeAt], now: Timestamp) -> NextDue {
        let rows = || types.iter().map(|at| self.index.type_row(*at));
        let next = rows().flat_map(|row| [row.lanes.next_after(now), next_after(&row.suspects, now)]);
        NextDue {
            more_due: rows().any(|row| row.lanes.oldest().is_some_and(|due| due <= now)),
            next_due_in: next.flatten().min().map(|due| due.since(now)),
            suspect_due: rows().any(|row| row.suspects.first().is_some_and(|(due, _)| *due <= now)),
        }
    }
}

/// The jobs that a claim has taken, and how many more it may take.
struct Taking {
    room: usize,
    boosted: usize,
    expired: usize,
    jobs: Vec<Claimed>,
}

impl Taking {
    fn room_in(&self, range: &ClaimRange) -> usize {
        match range.boosted {
            _ if self.expired == 0 => 0,
            true => self.room.min(self.boosted),
            false => self.room,
        }
    }

    fn took(&mut self, job: Claimed) {
        self.room -= 1;
        self.boosted -= usize::from(job.boosted);
        self.jobs.push(job);
    }
}

/// Returns a running job as its worker gets it.
fn claimed(row: &JobRow, now: Timestamp) -> Option<Claimed> {
    let claim = row.claim()?;
    Some(Claimed {
        job: row.job.clone(),
        token: claim.token,
        waited: row.job.waited(claim.since),
        age: row.job.age(now),
        boosted: claim.boosted,
    })
}

/// Tokens of requests that were repeated, until their first message can no longer arrive.
#[derive(Debug, Default)]
pub(super) struct SpentTokens {
    tokens: HashSet<ClaimToken>,
    /// In the order in which they were spent.
    by_age: VecDeque<(Timestamp, ClaimToken)>,
}

impl SpentTokens {
    fn spend(&mut self, token: ClaimToken, now: Timestamp) {
        if self.tokens.insert(token) {
            self.by_age.push_back((now, token));
        }
    }

    fn contains(&self, token: ClaimToken) -> bool {
        self.tokens.contains(&token)
    }

    /// Forgets old tokens, at most `limit`, and returns how many.
    pub(super) fn prune(&mut self, limit: usize, now: Timestamp) -> usize {
        let mut pruned = 0;
        while pruned < limit && self.has_old(now) {
            let Some((_, token)) = self.by_age.pop_front() else { break };
            self.tokens.remove(&token);
            pruned += 1;
        }
        pruned
    }

    pub(super) fn has_old(&self, now: Timestamp) -> bool {
        self.by_age.front().is_some_and(|(at, _)| at.plus(CLAIM_TOMBSTONE_TTL) <= now)
    }
}
