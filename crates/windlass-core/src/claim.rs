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
/// Random rather than counted: if a store forgets a claim (a lost tail, a failover), a counter would be
/// issued a second time, and the forgotten worker's end would be taken for the new one's.
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
    /// How long it had waited when it was claimed, by the store's clock: since it fell due or was put in, whichever was
    /// later.
    pub waited: Duration,
    /// How long ago it was put in, by the store's clock.
    pub age: Duration,
    /// Whether it came ahead of its turn because of its age.
    pub boosted: bool,
}

impl Claimed {
    /// The pair to name in every write.
    pub fn fence(&self) -> Fence {
        Fence { job: self.job.id, token: self.token }
    }

    /// Ends the claim. The claimed job is gone afterwards: no second end.
    pub fn settled(self, transition: Transition, report: AttemptReport) -> Settlement {
        Settlement { fence: self.fence(), transition, report }
    }
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// New for each request.
    pub token: ClaimToken,
    /// Whether this request was sent before and its answer got lost. A repeat never claims: it tells what its
    /// token holds, and spends the token. A first sending whose token is spent claims nothing and is answered
    /// with no jobs: a server may go on with a call whose client has gone, and whatever it took after the
    /// repeat was answered, nobody would know of.
    pub repeat: bool,
    /// Who asks; must have a live row.
    pub worker: WorkerId,
    /// In the order in which to serve them.
    pub queues: Vec<QueueName>,
    /// What this process handles; jobs of other types are left to others.
    pub types: Vec<TypeName>,
    /// At most so many.
    pub limit: u32,
    /// At most so many of them ahead of their turn because of their age.
    pub boosted_max: u32,
    /// Which side of the suspects' gate to look at.
    pub suspects: Suspects,
}

/// Whether a claim takes ordinary jobs or a suspect, one whose worker died while running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspects {
    /// Ordinary jobs only.
    LeaveOut,
    /// One suspect, alone, of at most so many crashes: the most urgent in the first queue that has one.
    One {
        /// Its crashes at most.
        crashes_max: u32,
    },
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// What was claimed, most urgent first, and what lies ahead.
    Claimed {
        /// The jobs.
        jobs: Vec<Claimed>,
        /// What lies ahead in the queues asked for.
        peek: NextDue,
    },
    /// The worker was declared dead or never registered. It must start over with a new identity.
    WorkerDead,
}

/// What lies ahead for a set of queues, as far as types asked for go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NextDue {
    /// More is due right now.
    pub more_due: bool,
    /// Nothing more falls due before this time is over, and no pause ends: look again then.
    pub next_due_in: Option<Duration>,
    /// A suspect is due.
    pub suspect_due: bool,
}

impl NextDue {
    /// The same with the ends of pauses: what waits in a paused queue may be claimed from then on, and
    /// nobody else would wake a worker for it.
    #[must_use]
    pub fn with_ends_of_pauses(self, ends: impl IntoIterator<Item = Timestamp>, now: Timestamp) -> Self {
        let ahead = ends.into_iter().filter(|end| *end > now).map(|end| end.since(now));
        Self { next_due_in: ahead.chain(self.next_due_in).min(), ..self }
    }
}
