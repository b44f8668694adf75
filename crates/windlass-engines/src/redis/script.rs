//! Scripts: one file in `lua/` for each operation, and parts that they share. Rules of core that fit into a
//! table are passed to the scripts as a table, so that no rule is written twice.

use std::fmt::Write;

use windlass_core::boost::{ClaimRange, claim_order};
use windlass_core::clock::Timestamp;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{Counters, JobId};
use windlass_core::key::{HolderStage, KeyHolder, KeyScope, KeyVerdict, OnConflict, resolve};
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, CLAIM_BATCH_MAX, MAINTENANCE_BATCH_MAX};
use windlass_core::names::TypeName;
use windlass_core::priority::Priority;

use super::row::damaged;

/// The parts of scripts, in the order in which they depend on each other. Each script names the parts that it
/// uses, since the server runs all of a script each time.
const BEGIN: &str = include_str!("lua/parts/begin.lua");
const HASHES: &str = include_str!("lua/parts/hashes.lua");
const STATE: &str = include_str!("lua/parts/state.lua");
const ANSWER: &str = include_str!("lua/parts/answer.lua");
const WAITING: &str = include_str!("lua/parts/waiting.lua");
const ENDING: &str = include_str!("lua/parts/ending.lua");
const GATES: &str = include_str!("lua/parts/gates.lua");
const LANES: &str = include_str!("lua/parts/lanes.lua");
const TURNS: &str = include_str!("lua/parts/turns.lua");
const WORKERS: &str = include_str!("lua/parts/workers.lua");
const LEAVING: &str = include_str!("lua/parts/leaving.lua");
const BREAKERS: &str = include_str!("lua/parts/breakers.lua");
const LEASES: &str = include_str!("lua/parts/leases.lua");
const MEMBERS: &str = include_str!("lua/parts/members.lua");
const PUTTING: &str = include_str!("lua/parts/putting.lua");
const SCHEDULES: &str = include_str!("lua/parts/schedules.lua");
const TRIGGERS: &str = include_str!("lua/parts/triggers.lua");

const COMMON: &[&str] = &[BEGIN, HASHES, STATE, ANSWER];
const WAIT: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING];
const MOVE: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING];
const LEAVE: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, MEMBERS, LEAVING];
const LEASE: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, LEASES];
const PUT: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, PUTTING];
const WITH_SCHEDULES: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, SCHEDULES];
const LET: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, GATES];
const WALK: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, LANES];
const TAKE: &[&str] = &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, LANES, TURNS];

/// The number of workers that one script reads; if there are more, it is sent again for the next ones.
const WORKERS_PAGE: u32 = 100;
/// The maximum number of types, or of gates of types, that one script reads.
pub(super) const TYPES_PER_CALL: usize = 200;
/// The maximum number of queues and types that one script reads; if there are more, they are read page by
/// page.
const CATALOGUE_AT_ONCE: u32 = 1_000;

/// A script as the server gets it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) sha: String,
    /// Whether it writes: then a lost answer leaves open whether the script ran.
    pub(super) writes: bool,
}

/// The effect of a script on the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    Reads,
    /// It adds jobs, and is refused when the server's memory is full.
    Grows,
    /// It brings jobs nearer to their end, and must run when the memory is full: nothing else frees memory.
    Ends,
}
use crate::kit::to_json;
use Effect::{Ends, Grows, Reads};

macro_rules! scripts {
    ($($name:ident: $effect:ident $parts:expr,)*) => {
        /// All scripts.
        #[derive(Debug)]
        pub(super) struct Scripts { $(pub(super) $name: Script,)* }

        impl Scripts {
            /// Builds the scripts for a server of this version.
            pub(super) fn for_server(major: u32) -> Self {
                Self {
                    $($name: script(
                        include_str!(concat!("lua/", stringify!($name), ".lua")),
                        $effect,
                        $parts,
                        major,
                    ),)*
                }
            }

            /// The text of each script.
            pub(super) fn texts(&self) -> Vec<&str> {
                vec![$(&self.$name.text,)*]
            }

            /// Each script with its name, for tests.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, &Script)> {
                vec![$((stringify!($name), &self.$name),)*]
            }
        }
    };
}

scripts! {
    now: Reads COMMON,
    catalogue: Reads COMMON,
    declare: Grows COMMON,
    enqueue: Grows PUT,
    receipt: Reads COMMON,
    ask: Grows COMMON,
    claim: Ends TAKE,
    repeat_claim: Ends WALK,
    peek: Reads WALK,
    settle: Ends MOVE,
    report: Ends COMMON,
    register: Ends &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, GATES, MEMBERS],
    extend: Ends &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, GATES, WORKERS, MEMBERS],
    asked_to_stop: Reads &[BEGIN, HASHES, STATE, ANSWER, WORKERS],
    retire: Ends LEAVE,
    renew: Ends LEAVE,
    workers: Reads COMMON,
    rescue: Ends MOVE,
    sweep: Ends &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, GATES, LANES],
    prune: Ends MOVE,
    job: Reads COMMON,
    head_of: Reads COMMON,
    attempts: Reads COMMON,
    list: Reads COMMON,
    list_dead: Reads COMMON,
    queues: Reads WALK,
    cancel: Ends MOVE,
    retry: Ends MOVE,
    discard: Ends MOVE,
    set_priority: Ends WAIT,
    pause: Ends COMMON,
    resume: Ends COMMON,
    set_shut: Ends COMMON,
    purge: Ends WALK,
    open_gate: Ends LET,
    breakers: Reads &[BEGIN, HASHES, STATE, ANSWER, BREAKERS],
    save_breaker: Ends &[BEGIN, HASHES, STATE, ANSWER, BREAKERS],
    still_hold: Reads COMMON,
    take_tokens: Ends COMMON,
    gates: Reads COMMON,
    behind: Reads COMMON,
    take_leases: Ends LEASE,
    renew_leases: Ends LEASE,
    release_leases: Ends LEASE,
    leases_hold: Reads LEASE,
    leases: Reads LEASE,
    step_down: Ends LEASE,
    schedules_named: Reads WITH_SCHEDULES,
    list_schedules: Reads WITH_SCHEDULES,
    due_schedules: Reads WITH_SCHEDULES,
    change_schedules: Grows &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, PUTTING, SCHEDULES],
    read_triggers: Reads &[BEGIN, HASHES, STATE, ANSWER, TRIGGERS],
    change_triggers: Grows &[BEGIN, HASHES, STATE, ANSWER, TRIGGERS],
    fire_trigger: Grows &[BEGIN, HASHES, STATE, ANSWER, WAITING, ENDING, PUTTING, TRIGGERS],
    append_samples: Grows COMMON,
    rollup_input: Reads COMMON,
    rollups_of: Reads COMMON,
    apply_rollup: Grows COMMON,
    rollups: Reads COMMON,
    forget_rollups: Ends COMMON,
}

/// The script that creates a namespace. It uses no parts.
pub(super) const OPEN: &str = include_str!("lua/open.lua");

fn script(body: &str, effect: Effect, parts: &[&str], major: u32) -> Script {
    let mut text = first_line(effect, major).to_owned();
    text.push_str(&tables());
    parts.iter().for_each(|part| text.push_str(part));
    text.push_str(body);
    let sha = redis::Script::new(&text).get_hash().to_owned();
    Script { text, sha, writes: effect != Reads }
}

/// The first line of a script. From version 7 on it sets the flags of the script: a script that adds jobs is
/// refused before it begins if the memory is full. Before version 7, a script had to request that its
/// effects, not its text, are replicated.
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
    let _ = writeln!(text, "local NO_HANDLER = '{}'", no_handler());
    let _ = writeln!(text, "local ATTEMPTS_KEPT, CLAIM_MAX = {ATTEMPTS_SHOWN_MAX}, {CLAIM_BATCH_MAX}");
    let _ = writeln!(text, "local BATCH_MAX, WORKERS_PAGE = {MAINTENANCE_BATCH_MAX}, {WORKERS_PAGE}");
    let _ = writeln!(text, "local GATES_MAX, CATALOGUE_AT_ONCE = {TYPES_PER_CALL}, {CATALOGUE_AT_ONCE}");
    let _ = writeln!(text, "local PRIORITY_LAST = {}", Priority::LEAST_URGENT.level());
    let _ = writeln!(text, "local DAMAGED = [==[{}]==]", to_json(&damaged("its state cannot be read")));
    let _ = writeln!(text, "local VERDICTS = '{}'", decision_table());
    let order = claim_order(NOW, 1, |_| Some(Timestamp::EPOCH));
    let risen = order.iter().filter(|range| range.boosted).map(|range| before_now(range.until)).min();
    let _ = writeln!(text, "local RISES_AFTER = {}", risen.unwrap_or(i64::MAX));
    let _ = writeln!(text, "local function order_with_risen() return {{{}}} end", ranges(&order));
    let plain: Vec<_> = order.into_iter().filter(|range| !range.boosted).collect();
    let _ = writeln!(text, "local function order_of_priorities() return {{{}}} end", ranges(&plain));
    text
}

/// The common prefix of the gates of types that no live worker handles.
fn no_handler() -> String {
    const ANY: &str = "any";
    let gate = Gate::no_handler(&TypeName::parse(ANY).expect("a plain word is a name"));
    gate.as_str().trim_end_matches(ANY).to_owned()
}

/// The decision on a new job, for every combination of values that core considers.
fn decision_table() -> String {
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
                    let _ = write!(text, "{conflict}{at}{kind}{over}{verdict} ");
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

/// An instant that is late enough for everything to have happened before it.
const NOW: Timestamp = Timestamp::from_micros(i64::MAX / 2);

fn before_now(instant: Timestamp) -> i64 {
    NOW.as_micros() - instant.as_micros()
}

/// The ranges of a claim's order, as if every priority had jobs of any age: a script leaves out ranges that
/// its lanes do not have. Instants are spans before now.
fn ranges(order: &[ClaimRange]) -> String {
    let mut text = String::new();
    for range in order {
        let after = range.after.map_or_else(String::new, |after| format!("after={},", before_now(after)));
        let (priority, upto, boosted) = (range.priority.level(), before_now(range.until), range.boosted);
        let _ = write!(text, "{{priority={priority},{after}upto={upto},boosted={boosted}}},");
    }
    text
}

#[cfg(test)]
mod tests;
