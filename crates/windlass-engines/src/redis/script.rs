//! Scripts: one file in `lua/` for each thing that is done, and parts that they share. What core decides by rules that need
//! no more than a table is handed to them as one, so that no rule is written twice.

use std::fmt::Write;

use windlass_core::boost::claim_order;
use windlass_core::clock::Timestamp;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{Counters, JobId};
use windlass_core::key::{HolderStage, KeyHolder, KeyScope, KeyVerdict, OnConflict, resolve};

/// What scripts begin with, in the order in which they need each other.
const PARTS: [&str; 6] = [
    include_str!("lua/parts/begin.lua"),
    include_str!("lua/parts/state.lua"),
    include_str!("lua/parts/waiting.lua"),
    include_str!("lua/parts/ending.lua"),
    include_str!("lua/parts/lanes.lua"),
    include_str!("lua/parts/workers.lua"),
];

/// A script as the server gets it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) sha: String,
    /// Whether it writes: then a lost answer leaves open whether it happened.
    pub(super) writes: bool,
}

/// What a script does to the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// It lets jobs in, and is refused when the server's memory is full.
    Grows,
    /// It brings jobs nearer to their end, and must go on when the memory is full: nothing else makes room.
    Ends,
}
use Effect::{Ends, Grows, Reads};

macro_rules! scripts {
    ($($name:ident: $effect:ident,)*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(super) struct Scripts { $(pub(super) $name: Script,)* }

        impl Scripts {
            /// The scripts for a server of this version.
            pub(super) fn for_server(major: u32) -> Self {
                let tables = tables();
                Self { $($name: script(include_str!(concat!("lua/", stringify!($name), ".lua")), $effect, major, &tables),)* }
            }

            /// Each with its name, for tests.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, &Script)> {
                vec![$((stringify!($name), &self.$name),)*]
            }
        }
    };
}

scripts! {
    now: Reads, catalogue: Reads, declare: Grows,
    enqueue: Grows, receipt: Reads,
    claim: Ends, outlook: Ends, settle: Ends, report: Ends,
    register: Ends, extend: Ends, asked_to_stop: Reads, retire: Ends, workers: Reads, rescue: Ends,
    sweep: Ends, prune: Ends,
    job: Reads, attempts: Reads, list: Reads, queues: Ends,
    cancel: Ends, retry: Ends, discard: Ends, set_priority: Ends,
    pause: Ends, resume: Ends, set_shut: Ends, purge: Ends, open_gate: Ends,
}

/// The script that makes a namespace. It begins with nothing.
pub(super) const OPEN: &str = include_str!("lua/open.lua");

fn script(body: &str, effect: Effect, major: u32, tables: &str) -> Script {
    let mut text = first_line(effect, major).to_owned();
    text.push_str(tables);
    PARTS.iter().for_each(|part| text.push_str(part));
    text.push_str(body);
    let sha = redis::Script::new(&text).get_hash().to_owned();
    Script { text, sha, writes: effect != Reads }
}

/// From version 7 on a script says by its first line what may be done to it: one that lets jobs in is refused before it
/// begins if the memory is full. Before that, a script had to ask for its effects, not its text, to be replicated.
fn first_line(effect: Effect, major: u32) -> &'static str {
    match effect {
        _ if major < 7 => "redis.replicate_commands()\n",
        Reads => "#!lua flags=no-writes\n",
        Grows => "#!lua\n",
        Ends => "#!lua flags=allow-oom\n",
    }
}

/// Core's rules as tables.
fn tables() -> String {
    let mut text = String::new();
    let gate = |crashes| {
        let gate = gate_by_history(&Counters { crashes, ..Counters::default() });
        gate.as_ref().map_or_else(String::new, |gate: &Gate| gate.to_string())
    };
    let _ = writeln!(text, "local GATE_WITHOUT_CRASH, GATE_AFTER_CRASH = '{}', '{}'", gate(0), gate(1));
    let _ = writeln!(text, "local VERDICTS = {{{}}}", verdicts());
    let _ = writeln!(text, "local CLAIM_ORDER = {{{}}}", order());
    text
}

/// What becomes of a newcomer, by everything that core looks at.
fn verdicts() -> String {
    const NOW: Timestamp = Timestamp::from_micros(1_000_000);
    let mut text = String::new();
    let period = KeyScope::For(std::time::Duration::ZERO);
    for (conflict, on_conflict) in
        [('k', OnConflict::Keep), ('r', OnConflict::Replace), ('v', OnConflict::Revive)]
    {
        for (at, stage) in [
            ('w', HolderStage::Waiting),
            ('r', HolderStage::Running),
            ('d', HolderStage::Dead),
            ('e', HolderStage::Ended),
        ] {
            for (kind, scope) in [('l', KeyScope::WhileLive), ('d', KeyScope::WhileLiveOrDead), ('p', period)]
            {
                for (over, until) in [('0', NOW.plus(std::time::Duration::from_secs(1))), ('1', NOW)] {
                    let until = (kind == 'p').then_some(until);
                    let holder = KeyHolder { job: JobId(1), stage, scope, until };
                    let verdict = letter(resolve(Some(&holder), on_conflict, NOW));
                    let _ = write!(text, "{conflict}{at}{kind}{over}='{verdict}',");
                }
            }
        }
    }
    text
}

fn letter(verdict: KeyVerdict) -> char {
    match verdict {
        KeyVerdict::Insert => 'i',
        KeyVerdict::Keep(_) => 'k',
        KeyVerdict::Replace(_) => 'r',
        KeyVerdict::Revive(_) => 'v',
    }
}

/// All parts of a claim's order, as if every priority had jobs as old as can be: a script leaves out what its lanes do not
/// have. Instants are spans before now.
fn order() -> String {
    const NOW: Timestamp = Timestamp::from_micros(i64::MAX / 2);
    let mut text = String::new();
    for range in claim_order(NOW, 1, |_| Some(Timestamp::EPOCH)) {
        let before_now = |instant: Timestamp| NOW.as_micros() - instant.as_micros();
        let after = range.after.map_or_else(String::new, |after| format!("after={},", before_now(after)));
        let (priority, upto, boosted) = (range.priority.level(), before_now(range.until), range.boosted);
        let _ = write!(text, "{{priority={priority},{after}upto={upto},boosted={boosted}}},");
    }
    text
}

#[cfg(test)]
mod tests;
