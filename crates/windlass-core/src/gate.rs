//! Gates: why a waiting job is held back. A parked job leaves the claim's order and keeps its due time.

use std::fmt;
use std::sync::Arc;

use crate::job::Counters;
use crate::names::{BreakerName, LimitName, OrderingKey, TypeName};

/// What the gate of an ordering key begins with; stores look for it.
pub const ORDERING_KEY: &str = "ordering_key:";

/// What holds a parked job back, as the text that the store keeps: a kind and, after a colon, a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gate(Arc<str>);

impl Gate {
    /// For jobs whose worker died while it held them. They are claimed one by one, so that a job that
    /// kills its process does not take its neighbours with it each time.
    pub fn suspect() -> Self {
        Self("suspect".into())
    }

    /// For jobs whose type no live worker handles.
    pub fn no_handler(job_type: &TypeName) -> Self {
        Self(format!("no-handler:{job_type}").into())
    }

    /// For jobs that wait until a platform may be called again.
    pub fn breaker(name: &BreakerName) -> Self {
        Self(format!("breaker:{name}").into())
    }

    /// For jobs that wait for a token of a rate limit; each key has a line of its own.
    pub fn rate_limit(name: &LimitName, key: &str) -> Self {
        Self(format!("rate:{name}:{key}").into())
    }

    /// For jobs that wait until those before them in their ordering keys have ended.
    pub fn ordering_key(job_type: &TypeName, name: &OrderingKey) -> Self {
        Self(format!("{ORDERING_KEY}{job_type}:{name}").into())
    }

    /// Whether those behind it wait in an ordering key. Nobody opens it by hand: the end of a job lets the next one through.
    pub fn is_of_ordering_key(&self) -> bool {
        self.0.starts_with(ORDERING_KEY)
    }

    /// What comes after all gates of ordering keys, by name: no gate, but a place from which to look on.
    pub fn after_ordering_key() -> Self {
        Self("ordering_key;".into())
    }

    /// Whether nothing but the want of a handler closes it.
    pub fn is_for_a_handler(&self) -> bool {
        self.0.starts_with("no-handler:")
    }

    /// Whether those behind it leave for another store. Nobody may claim, change or end them meanwhile.
    pub fn is_of_spool(&self) -> bool {
        self.0.starts_with("spool:")
    }

    /// The breaker whose gate this is.
    pub fn of_breaker(&self) -> Option<BreakerName> {
        BreakerName::parse(self.0.strip_prefix("breaker:")?).ok()
    }

    /// The rate limit whose gate this is, and the key.
    pub fn of_rate_limit(&self) -> Option<(LimitName, &str)> {
        let (name, key) = self.0.strip_prefix("rate:")?.split_once(':')?;
        Some((LimitName::parse(name).ok()?, key))
    }

    /// A gate that a policy closes, such as `semaphore:screenshot`. Text from a store comes in here too.
    pub fn named(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether this is the gate of suspects.
    pub fn is_suspect(&self) -> bool {
        &*self.0 == "suspect"
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What it means, for people.
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
                "it is on its way to a store that was away, and may be there by now".to_owned()
            }
            _ if self.is_suspect() => "its worker died while running it; it is tried on its own".to_owned(),
            _ => format!("held back by {}", self.0),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Behind which gate a job waits because of what happened to it.
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
