//! Names of keys. All keys of one namespace share a hash tag, `{namespace}`, so that in a cluster they are in
//! one slot: scripts span queues, and no script can span slots. `lua/parts/` lists the names behind these
//! prefixes.

use windlass_core::engine::Result;
use windlass_core::error::EngineError;

/// The prefixes that every script gets as its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    /// The prefix of all keys.
    pub(super) all: String,
    /// The prefix of ready lanes.
    pub(super) ready: String,
    /// The prefix of scheduled lanes.
    pub(super) scheduled: String,
}

/// The maximum length of a namespace, and of the name of a lane.
const NAME_BYTES_MAX: usize = 100;

/// Names behind the common prefix that lanes may not have.
const TAKEN: [&str; 55] = [
    "agenda",
    "answers",
    "attempts",
    "body",
    "breakers",
    "counts",
    "members",
    "member_sets",
    "dead",
    "deaths",
    "trigger_jobs",
    "trigger_marks",
    "trigger_watches",
    "triggers",
    "ended",
    "expiring",
    "foresight",
    "gate",
    "gates",
    "graves",
    "group",
    "heard",
    "held",
    "keys",
    "kinds",
    "lanes",
    "lapsing",
    "later",
    "layout",
    "leases",
    "line",
    "lines",
    "rollup_samples",
    "rollup_watermark",
    "rollups",
    "notes",
    "parked",
    "pauses",
    "queues",
    "receipts",
    "ring",
    "schedule_names",
    "schedules",
    "sequence",
    "ordering_key",
    "shut",
    "spent",
    "state",
    "stops",
    "suspects",
    "tokens",
    "traces",
    "turns",
    "types",
    "waiters",
];
const TAKEN_BY_WORKERS: [&str; 3] = ["wake", "worker", "workers"];

impl Keys {
    /// The names of a namespace. `ready` and `scheduled` are whole prefixes; `None` means the defaults.
    pub(super) fn new(namespace: &str, ready: Option<&str>, scheduled: Option<&str>) -> Result<Self> {
        check_namespace(namespace)?;
        let all = format!("{{{namespace}}}:");
        let lanes =
            |given: Option<&str>, usual: &str| given.map_or_else(|| format!("{all}{usual}"), str::to_owned);
        let keys = Self { ready: lanes(ready, "ready"), scheduled: lanes(scheduled, "scheduled"), all };
        keys.check("ready_key", &keys.ready)?;
        keys.check("scheduled_key", &keys.scheduled)?;
        if keys.ready == keys.scheduled {
            return Err(EngineError::Refused(format!(
                "expected `ready_key` and `scheduled_key` to differ, got {:?} for both",
                keys.ready
            )));
        }
        Ok(Self {
            ready: format!("{}:", keys.ready),
            scheduled: format!("{}:", keys.scheduled),
            all: keys.all,
        })
    }

    /// Checks that a lane's name is in the slot of all other keys, and collides with no other name.
    fn check(&self, setting: &str, name: &str) -> Result<()> {
        let refused = |why: String| Err(EngineError::Refused(why));
        if hash_tag(name) != hash_tag(&self.all) {
            return refused(format!(
                "expected `{setting}` to hold the hash tag {} of its namespace, so that it lies in the same slot of a \
                 cluster, got {name:?}",
                self.all.trim_end_matches(':')
            ));
        }
        let is_plain = name.len() <= NAME_BYTES_MAX && name.bytes().all(|b| b.is_ascii_graphic());
        if !is_plain {
            return refused(format!(
                "expected `{setting}` of at most {NAME_BYTES_MAX} printable characters without spaces, got {name:?}"
            ));
        }
        let own = name.strip_prefix(&self.all).unwrap_or_default();
        let first = own.split(':').next().unwrap_or_default();
        if TAKEN.contains(&first)
            || TAKEN_BY_WORKERS.contains(&first)
            || name == self.all.trim_end_matches(':')
        {
            return refused(format!(
                "expected `{setting}` to be a name that Windlass does not use itself, got {name:?}"
            ));
        }
        Ok(())
    }

    /// Whether a name behind the common prefix is used by this engine.
    #[cfg(test)]
    pub(super) fn is_taken(name: &str) -> bool {
        TAKEN.contains(&name) || TAKEN_BY_WORKERS.contains(&name)
    }

    /// The channel on which one engine is woken.
    pub(super) fn wake_channel(&self, engine: &str) -> String {
        format!("{}wake:{engine}", self.all)
    }

    /// The channel on which all engines receive requests to stop.
    pub(super) fn stops_channel(&self) -> String {
        format!("{}stops", self.all)
    }
}

fn check_namespace(namespace: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-:".contains(&b);
    if (1..=NAME_BYTES_MAX).contains(&namespace.len()) && namespace.bytes().all(plain) {
        return Ok(());
    }
    Err(EngineError::Refused(format!(
        "expected `namespace` of 1 to {NAME_BYTES_MAX} characters out of A-Z a-z 0-9 _ . - :, got {namespace:?}"
    )))
}

/// The part of a name that determines its slot.
fn hash_tag(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once('{')?;
    rest.split_once('}').map(|(tag, _)| tag).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_names_share_the_tag_of_the_namespace() {
        let keys = Keys::new("windlass", None, None).unwrap();
        assert_eq!(keys.all, "{windlass}:");
        assert_eq!(
            (keys.ready.as_str(), keys.scheduled.as_str()),
            ("{windlass}:ready:", "{windlass}:scheduled:")
        );
    }

    #[test]
    fn lanes_may_have_other_names_in_the_same_slot() {
        let keys = Keys::new("shop", Some("orders:{shop}:now"), Some("orders:{shop}:later")).unwrap();
        assert_eq!(
            (keys.ready.as_str(), keys.scheduled.as_str()),
            ("orders:{shop}:now:", "orders:{shop}:later:")
        );
    }

    #[test]
    fn names_that_lose_the_tag_or_collide_are_refused_with_the_reason() {
        for (ready, scheduled, reason) in [
            ("ready", "{shop}:later", "hash tag"),
            ("{other}:now", "{shop}:later", "hash tag"),
            ("{shop}:state", "{shop}:later", "does not use itself"),
            ("{shop}:worker:x", "{shop}:later", "does not use itself"),
            ("{shop}:now", "{shop}:now", "differ"),
            ("{shop}:a b", "{shop}:later", "printable"),
        ] {
            let error = Keys::new("shop", Some(ready), Some(scheduled)).unwrap_err().to_string();
            assert!(error.contains(reason), "{ready} {scheduled}: {error}");
        }
        assert!(Keys::new("a}b", None, None).is_err());
    }
}
