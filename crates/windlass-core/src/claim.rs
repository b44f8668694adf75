//! Claims: the right to run a job, and its proof.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::job::{Job, JobId};
use crate::names::{QueueName, TypeName};
use crate::settle::{AttemptReport, Settlement, Transition};
use crate::worker::WorkerId;

/// The proof of a claim: 128 random bits, made by the client, one for each claim request.
///
/// The token is random rather than counted. If a store forgets a claim (a lost tail, a failover), a
/// counter would be issued a second time, and the end reported by the forgotten worker would be taken for
/// the end of the new claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClaimToken(u128);

impl TryFrom<String> for ClaimToken {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        u128::from_str_radix(&text, 16).map(Self)
    }
}

impl From<ClaimToken> for String {
    fn from(token: ClaimToken) -> Self {
        token.to_string()
    }
}

random_bits!(ClaimToken);

impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimToken({self})")
    }
}

impl fmt::Display for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The pair that every write after a claim names, compared by equality in the statement that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Fence {
    /// The job.
    pub job: JobId,
    /// The proof.
    pub token: ClaimToken,
}

/// A job that this process may run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The job. Its counters count this attempt already.
    pub job: Job,
    /// The proof.
    pub token: ClaimToken,
    /// How long it had waited when it was claimed, by the store's clock: since it fell due or was
    /// enqueued, whichever was later.
    pub waited: Duration,
    /// How long ago it was enqueued, by the store's clock.
    pub age: Duration,
    /// Whether it was claimed ahead of its turn because of its age.
    pub boosted: bool,
}

impl Claimed {
    /// Returns the pair to name in every write.
    pub fn fence(&self) -> Fence {
        Fence { job: self.job.id, token: self.token }
    }

    /// Ends the claim. The claimed job is consumed, so it cannot be ended a second time.
    pub fn settled(self, transition: Transition, report: AttemptReport) -> Settlement {
        Settlement { fence: self.fence(), transition, report }
    }
}

/// A worker's request for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// New for each request.
    pub token: ClaimToken,
    /// Whether this request was sent before and its answer was lost. A repeat never claims: it returns
    /// the jobs that its token holds, and writes a claim tombstone for the token. A first request whose
    /// token has a tombstone claims nothing and is answered with no jobs: a server may continue a call
    /// whose client has gone, and no process would know of jobs that it took after the repeat was
    /// answered.
    pub repeat: bool,
    /// The requesting worker; it must have a live row.
    pub worker: WorkerId,
    /// The queues, in the order in which to serve them.
    pub queues: Vec<QueueName>,
    /// The types that this process handles; jobs of other types are left to other workers.
    pub types: Vec<TypeName>,
    /// The maximum number of jobs.
    pub limit: u32,
    /// The maximum number of them that are claimed ahead of their turn because of their age.
    pub boosted_max: u32,
    /// Whether to claim ordinary jobs or a suspect.
    pub suspects: Suspects,
}

/// Whether a claim takes ordinary jobs or a suspect, which is a job whose worker died while running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspects {
    /// Ordinary jobs only.
    LeaveOut,
    /// One suspect, alone, with at most this number of crashes: the most urgent in the first queue that
    /// has one.
    One {
        /// The maximum number of its crashes.
        crashes_max: u32,
    },
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The claimed jobs, most urgent first, and the next due time.
    Claimed {
        /// The jobs.
        jobs: Vec<Claimed>,
        /// What falls due next in the requested queues.
        peek: NextDue,
    },
    /// The worker was declared dead or never registered. It must start over with a new identity.
    WorkerDead,
}

/// What falls due next in a set of queues, for the requested types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextDue {
    /// Another job is due right now.
    pub more_due: bool,
    /// No further job falls due before this time is over, and no pause ends: claim again then.
    pub next_due_in: Option<Duration>,
    /// A suspect is due.
    pub suspect_due: bool,
}

impl NextDue {
    /// Adds the ends of pauses: a job in a paused queue may be claimed from then on, and no notification
    /// would wake a worker for it.
    #[must_use]
    pub fn with_ends_of_pauses(self, ends: impl IntoIterator<Item = Timestamp>, now: Timestamp) -> Self {
        let ahead = ends.into_iter().filter(|end| *end > now).map(|end| end.since(now));
        Self { next_due_in: ahead.chain(self.next_due_in).min(), ..self }
    }
}
