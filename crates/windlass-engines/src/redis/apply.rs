//! The order that tells a script how to change a job after a transition (`apply` in `lua/parts/ending.lua`).
//! Core decides here. But what a job has gone through, and whether it was requested to stop, is known only
//! inside the script. So core is called with placeholder values, and the order says which values change and
//! which stay.

use crate::kit::to_json;
use serde::Serialize;
use windlass_core::admin::AttemptEnding;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::Counters;
use windlass_core::settle::{
    AppliedTransition, AttemptReport, NewState, Settlement, Transition, crash_error,
};

/// The changes of a running job.
#[derive(Debug, Default, Serialize)]
pub(super) struct Order {
    place: &'static str,
    /// What is added to each counter.
    attempts: i64,
    failures: i64,
    crashes: i64,
    holds: i64,
    /// The new due time, in microseconds from now; `None` keeps the due time.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<i64>,
    /// The gate that the job waits behind if no worker ever died while it ran the job, and if one did.
    gate: String,
    gate_if_crashed: String,
    /// How the attempt ended, if it counts as an attempt; also for a job that was requested to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending_if_cancelled: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// The output that is stored instead if the job's type keeps results.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_if_kept: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    death: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retried: bool,
}

/// A placeholder for the job's current due time.
const ITS_OWN_DUE: Timestamp = Timestamp::from_micros(-1);
/// A placeholder for the counters of a running job.
const BEFORE: Counters = Counters { attempts: 1, failures: 0, crashes: 0, holds: 0 };

impl Order {
    /// Core's decision for a settlement, as JSON; empty for a plain success.
    pub(super) fn of(settlement: Settlement) -> String {
        let is_plain = matches!(settlement.transition, Transition::Succeed { result: None })
            && settlement.report.output.is_none();
        if is_plain {
            return String::new();
        }
        let discarding = settlement.clone().bounded(false);
        let Settlement { transition, report, .. } = settlement.bounded(true);
        let mut order = Self::of_transition(&transition);
        order.output = discarding.report.output;
        order.output_if_kept = report.output;
        to_json(&order)
    }

    /// Core's decision for a success without result and output.
    pub(super) fn plain_success() -> String {
        to_json(&Self::of_transition(&Transition::Succeed { result: None }))
    }

    /// Core's decision for a job that a stopping worker gives back.
    pub(super) fn release() -> String {
        to_json(&Self::of_transition(&Transition::Release { started: true }))
    }

    fn of_transition(transition: &Transition) -> Self {
        let apply = |before| transition.clone().apply(Timestamp::EPOCH, ITS_OWN_DUE, before, None);
        let mut order = Self::of_landing(apply(BEFORE), BEFORE);
        if let NewState::Waiting { gate, .. } = apply(Counters { crashes: 1, ..BEFORE }).state {
            order.gate_if_crashed = text(gate);
        }
        order.ending = transition.ending(false).map(AttemptEnding::as_str);
        order.ending_if_cancelled = transition.ending(true).map(AttemptEnding::as_str);
        order.error = transition.error().map(to_json);
        order.retried = matches!(transition, Transition::Retry { .. });
        order
    }

    /// Core's decision for a job whose worker died.
    pub(super) fn after_crash(applied: AppliedTransition, before: Counters) -> String {
        let crashed = Some(AttemptEnding::Crashed.as_str());
        let mut order = Self::of_landing(applied, before);
        order.after = None;
        order.gate_if_crashed.clone_from(&order.gate);
        order.error = Some(to_json(&crash_error()));
        (order.ending, order.ending_if_cancelled) = (crashed, crashed);
        to_json(&order)
    }

    fn of_landing(applied: AppliedTransition, before: Counters) -> Self {
        let added = |now: u32, then: u32| i64::from(now) - i64::from(then);
        let now = applied.counters;
        let order = Self {
            attempts: added(now.attempts, before.attempts),
            failures: added(now.failures, before.failures),
            crashes: added(now.crashes, before.crashes),
            holds: added(now.holds, before.holds),
            ..Self::default()
        };
        match applied.state {
            NewState::Waiting { due, gate } => Self {
                place: "waiting",
                after: (due != ITS_OWN_DUE).then_some(due.as_micros()),
                gate: text(gate),
                ..order
            },
            NewState::Succeeded { result } => Self { place: "succeeded", result, ..order },
            NewState::Dead { error } => Self { place: "dead", death: Some(to_json(&error)), ..order },
            NewState::Cancelled { why } => Self { place: "cancelled", why: Some(why), ..order },
        }
    }
}

fn text(gate: Option<Gate>) -> String {
    gate.map_or_else(String::new, |gate| gate.to_string())
}

/// How long an attempt ran, and how long ago its job ended if it ends, for the script.
pub(super) fn spans(transition: &Transition, report: &AttemptReport) -> [i64; 2] {
    [report.ran_for, transition.ended_ago(report)].map(super::enqueue::micros)
}
