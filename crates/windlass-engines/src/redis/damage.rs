//! Tests that a script reads and judges everything before it writes anything, because a script has no
//! rollback. Each test sends every script with a damaged last argument, or lets it find damaged rows, and
//! compares the store afterwards with the store before.

mod scenario;
mod acts;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::call::Args;
use super::script::{Script, Scripts};
use acts::{ACTS, Act};
use scenario::{Dump, Scenario, notes};

/// The damage that is done to arguments of scripts, and the scripts that were sent.
#[derive(Debug, Default)]
pub(super) struct Damage {
    to_last: Mutex<Option<Last>>,
    sent: Mutex<BTreeSet<String>>,
}

/// The damage that is done to the last argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Missing,
    Nonsense,
}

impl Damage {
    /// The arguments as they are sent.
    pub(super) fn of(&self, script: &Script, args: &Args) -> Args {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(script.sha.clone());
        let mut args = args.clone();
        match self.begun() {
            Some(Last::Nonsense) if args.drop_last() => _ = args.text("?"),
            Some(Last::Missing) => _ = args.drop_last(),
            _ => {}
        }
        args
    }

    fn begun(&self) -> Option<Last> {
        *self.to_last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, to_last: Option<Last>) {
        *self.to_last.lock().unwrap_or_else(PoisonError::into_inner) = to_last;
    }
}

fn assert_same(before: &Dump, after: &Dump, what: &str) {
    for name in before.keys().chain(after.keys()) {
        assert_eq!(before.get(name), after.get(name), "{name:?}: {what}");
    }
}

/// Runs one act on a scenario of its own, with damaged arguments. Returns whether it failed.
async fn does_fail(act: &Act, last: Last) -> bool {
    let scenario = Scenario::new().await;
    let before = scenario.dump();
    scenario.store().damage.begin(Some(last));
    let done = (act.run)(&scenario).await;
    if done.is_err() {
        assert_same(
            &before,
            &scenario.dump(),
            &format!("{}, the last argument {last:?}: {done:?}", act.name),
        );
    }
    done.is_err()
}

#[tokio::test]
async fn a_call_that_is_damaged_leaves_everything_as_it_was() {
    let (mut sent, mut spoilt) = (BTreeSet::new(), 0);
    for act in ACTS {
        if act.has_arguments {
            assert!(does_fail(act, Last::Missing).await, "{} succeeded without its last argument", act.name);
            spoilt += u32::from(does_fail(act, Last::Nonsense).await);
        }
        let scenario = Scenario::new().await;
        let before = scenario.dump();
        (act.run)(&scenario).await.unwrap_or_else(|error| panic!("{}: {error}", act.name));
        assert_eq!(scenario.dump() != before, act.writes, "{}", act.name);
        sent.extend(scenario.store().damage.sent.lock().unwrap().clone());
    }
    assert!(spoilt >= 15, "expected at least 15 acts to fail on a nonsensical last argument, got {spoilt}");
    for (name, script) in Scripts::for_server(7).all() {
        assert!(sent.contains(&script.sha), "{name} was not sent");
    }
}

/// Runs every act of an engine on this server, with scripts of the form that servers of this version require.
pub(super) async fn do_everything(url: &str, scripts_of: u32) {
    let mut sent = BTreeSet::new();
    for act in ACTS {
        let scenario = Scenario::on(url, Some(scripts_of)).await;
        (act.run)(&scenario).await.unwrap_or_else(|error| panic!("{}: {error}", act.name));
        sent.extend(scenario.store().damage.sent.lock().unwrap().clone());
    }
    for (name, script) in Scripts::for_server(scripts_of).all() {
        assert!(sent.contains(&script.sha), "{name} was not sent in this form");
    }
}

/// Rows that only some jobs have, so that other jobs of the same call come before them; and the acts that
/// must fail on them.
const ROWS: [(&str, &[&str]); 2] = [
    (
        "notes:",
        &[
            "claim",
            "settle",
            "retire",
            "renew",
            "sweep",
            "purge",
            "open_gate",
            "report",
            "enqueue",
            "retry",
            "discard",
            "cancel a running job",
        ],
    ),
    ("attempts:", &["settle"]),
];

#[tokio::test]
async fn a_row_that_is_damaged_leaves_everything_as_it_was() {
    for (rows, who_fails) in ROWS {
        let mut failed = BTreeSet::new();
        for act in ACTS.iter().filter(|act| !act.in_steps) {
            let scenario = Scenario::new().await;
            scenario.spoil(rows);
            let before = scenario.dump();
            let done = (act.run)(&scenario).await;
            if done.is_err() {
                failed.insert(act.name);
                assert_same(
                    &before,
                    &scenario.dump(),
                    &format!("{} with damaged {rows}: {done:?}", act.name),
                );
            }
        }
        for name in who_fails {
            assert!(
                failed.contains(name),
                "expected {name} to fail on damaged {rows}; acts that failed: {failed:?}"
            );
        }
    }
}

/// The next head of an ordering key is read last, when all ends are known; and yet before anything is
/// written.
#[tokio::test]
async fn a_damaged_row_of_one_in_line_leaves_everything_as_it_was() {
    let mut failed = BTreeSet::new();
    for act in ACTS.iter().filter(|act| !act.in_steps) {
        let scenario = Scenario::new().await;
        scenario.in_line.iter().for_each(|id| scenario.spoil(&notes(*id)));
        let before = scenario.dump();
        let done = (act.run)(&scenario).await;
        if done.is_err() {
            failed.insert(act.name);
            assert_same(&before, &scenario.dump(), &format!("{}: {done:?}", act.name));
        }
    }
    for name in ["claim", "settle", "settle plainly", "sweep", "purge"] {
        assert!(
            failed.contains(name),
            "expected {name} to fail on the damaged next head; acts that failed: {failed:?}"
        );
    }
}
