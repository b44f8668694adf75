//! Gates: why a waiting job is held back. A parked job leaves the claim's order and keeps its due time.

use std::fmt;
use std::sync::Arc;

use crate::job::Counters;
use crate::names::{BreakerName, LimitName, OrderingKey, TypeName};

/// The prefix of the gates of ordering keys, by which stores find them.
pub const ORDERING_KEY: &str = "ordering_key:";

/// What holds a parked job back, as the text that the store keeps: a kind and, after a colon, a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gate(Arc<str>);

impl Gate {
    /// Returns the gate of jobs whose worker died while it held them. They are claimed one by one, so
    /// that a job that kills its process does not take other jobs with it each time.
    pub fn suspect() -> Self {
        Self("suspect".into())
    }

    /// Returns the gate of jobs whose type no live worker handles.
    pub fn no_handler(job_type: &TypeName) -> Self {
        Self(format!("no-handler:{job_type}").into())
    }

    /// Returns the gate of jobs that wait until a platform may be called again.
    pub fn breaker(name: &BreakerName) -> Self {
        Self(format!("breaker:{name}").into())
    }

    /// Returns the gate of jobs that wait for a token of a rate limit; each key has a gate of its own.
    pub fn rate_limit(name: &LimitName, key: &str) -> Self {
        Self(format!("rate:{name}:{key}").into())
    }

    /// Returns the gate of jobs that wait until the jobs before them in their ordering key have ended.
    pub fn ordering_key(job_type: &TypeName, name: &OrderingKey) -> Self {
        Self(format!("{ORDERING_KEY}{job_type}:{name}").into())
    }

    /// Whether the jobs behind it wait in an ordering key. No operator opens it: the end of a job
    /// releases the next one.
    pub fn is_of_ordering_key(&self) -> bool {
        self.0.starts_with(ORDERING_KEY)
    }

    /// Returns a text that sorts after all gates of ordering keys: no gate, but a point from which a scan
    /// continues.
    pub fn after_ordering_key() -> Self {
        Self("ordering_key;".into())
    }

    /// Whether only a missing handler closes it.
    pub fn is_for_a_handler(&self) -> bool {
        self.0.starts_with("no-handler:")
    }

    /// Whether the jobs behind it are being moved to another store. No process may claim, change or end
    /// them meanwhile.
    pub fn is_of_spool(&self) -> bool {
        self.0.starts_with("spool:")
    }

    /// Returns the breaker whose gate this is.
    pub fn of_breaker(&self) -> Option<BreakerName> {
        BreakerName::parse(self.0.strip_prefix("breaker:")?).ok()
    }

    /// Returns the rate limit whose gate this is, and the key.
    pub fn of_rate_limit(&self) -> Option<(LimitName, &str)> {
        let (name, key) = self.0.strip_prefix("rate:")?.split_once(':')?;
        Some((LimitName::parse(name).ok()?, key))
    }

    /// Returns a gate that a policy closes, such as `semaphore:screenshot`. Text from a store is read
    /// with this too.
    pub fn named(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether this is the gate of suspects.
    pub fn is_suspect(&self) -> bool {
        &*self.0 == "suspect"
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns an explanation for people.
    pub fn explain(&self) -> String {
        match self.0.split_once(':') {
            Some(("no-handler", job_type)) => format!("no live worker handles job type {job_type}"),
            Some(("breaker", name)) => {
                format!(
                    "breaker {name} is open: the platform failed too often; see `windlass breaker show {name}`"
                )
            }
            Some(("rate", limit)) => match limit.split_once(':') {
                Some((name, "")) => format!("rate limit {name} has no token left"),
                None => format!("rate limit {limit} has no token left"),
                Some((name, key)) => format!("rate limit {name} has no token left for {key}"),
            },
            Some(("ordering_key", line)) => {
                let (job_type, name) = line.split_once(':').unwrap_or(("", line));
                format!("another job of type {job_type} with ordering key {name} comes first")
            }
            Some(("spool", _)) => {
                "it is being moved to a store that was unavailable, and may be there already".to_owned()
            }
            _ if self.is_suspect() => "its worker died while running it; it is claimed alone".to_owned(),
            _ => format!("held back by {}", self.0),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Returns the gate behind which a job waits because of its history.
pub fn gate_by_history(counters: &Counters) -> Option<Gate> {
    (counters.crashes > 0).then(Gate::suspect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_of_a_policy_tells_whose_it_is() {
        let name = BreakerName::parse("shop").unwrap();
        assert_eq!(Gate::breaker(&name).of_breaker(), Some(name));
        let name = LimitName::parse("per-tenant").unwrap();
        let gate = Gate::rate_limit(&name, "a:b");
        assert_eq!(gate.of_rate_limit(), Some((name, "a:b")));
        assert_eq!((gate.of_breaker(), Gate::suspect().of_rate_limit()), (None, None));
    }

    #[test]
    fn a_gate_explains_itself_to_people() {
        let explain = |text: &str| Gate::named(text).explain();
        assert!(explain("breaker:shop").contains("shop is open"));
        assert_eq!(explain("rate:mails:tenant 7"), "rate limit mails has no token left for tenant 7");
        assert_eq!(explain("rate:mails:"), "rate limit mails has no token left");
        assert_eq!(
            explain("ordering_key:ledger.post:account:42"),
            "another job of type ledger.post with ordering key account:42 comes first"
        );
        assert_eq!(explain("semaphore:x"), "held back by semaphore:x");
    }
}
