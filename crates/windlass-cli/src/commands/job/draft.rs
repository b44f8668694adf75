//! A job as a person or a script writes it, before it is checked.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{NewJob, When};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::{
    CorrelationId, FairnessKey, GroupName, Key, OrderingKey, QueueName, Tag, TypeName,
};
use windlass_core::payload::Payload;
use windlass_core::provenance::{Cause, Provenance, TraceContext};
use windlass_core::retry::RetryPolicy;
use windlass_core::span::parse_span;
use windlass_core::stored::unknown_field;

use crate::config::retry::parse_policy;
use crate::context::Context;
use crate::exit::Failure;

/// A line of `--jsonl`, or the flags of one enqueue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    #[serde(rename = "type")]
    pub(crate) job_type: TypeName,
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) queue: Option<QueueName>,
    pub(crate) priority: Option<NumberOrLabel>,
    pub(crate) delay: Option<String>,
    pub(crate) at: Option<String>,
    pub(crate) key: Option<Key>,
    pub(crate) key_scope: Option<String>,
    pub(crate) on_conflict: Option<OnConflict>,
    pub(crate) ordering_key: Option<OrderingKey>,
    pub(crate) fairness_key: Option<FairnessKey>,
    pub(crate) correlation: Option<CorrelationId>,
    #[serde(default)]
    pub(crate) tags: Vec<Tag>,
    pub(crate) group: Option<GroupName>,
    pub(crate) expires: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) retry: Option<WordOrPolicy>,
    #[serde(flatten)]
    pub(crate) provenance: ProvenanceArgs,
}

/// Where a job comes from.
#[derive(Debug, Clone, Default, Args, Deserialize)]
pub(crate) struct ProvenanceArgs {
    /// Who or what causes the job, such as user:42; follow-up jobs have the same cause
    #[arg(long, value_name = "WHO")]
    caused_by: Option<Cause>,
    /// The trace that the job continues, as the W3C header traceparent has it
    #[arg(long, value_name = "TRACEPARENT")]
    trace_context: Option<TraceContext>,
}

impl From<ProvenanceArgs> for Provenance {
    fn from(args: ProvenanceArgs) -> Self {
        Self { caused_by: args.caused_by, trace_context: args.trace_context }
    }
}

/// A priority in JSON.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum NumberOrLabel {
    Number(i64),
    Label(String),
}

/// A retry policy in JSON.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum WordOrPolicy {
    Word(String),
    Policy(serde_json::Value),
}

impl Draft {
    /// Converts the draft into a job, or returns the first error that can be found without the store.
    pub(crate) fn into_new_job(self, context: &Context) -> Result<NewJob, Failure> {
        let payload = match &self.payload {
            Some(raw) => Payload::parse(raw.get()).map_err(|why| Failure::usage(why.to_string()))?,
            None => Payload::default(),
        };
        let priority = match &self.priority {
            Some(NumberOrLabel::Number(number)) => Some(context.priority(&number.to_string())?),
            Some(NumberOrLabel::Label(label)) => Some(context.priority(label)?),
            None => None,
        };
        let timeout = self.timeout.as_deref().map(parse_span).transpose();
        Ok(NewJob {
            when: self.when()?,
            key: self.key_claim()?,
            expires: self.expires.as_deref().map(parse_moment).transpose().map_err(Failure::usage)?,
            timeout: timeout.map_err(|why| Failure::usage(format!("timeout: {why}")))?,
            retry: self.retry.map(WordOrPolicy::policy).transpose().map_err(Failure::usage)?,
            queue: self.queue,
            label: priority.as_ref().and_then(|(_, label)| label.clone()),
            priority: priority.map(|(priority, _)| priority),
            ordering_key: self.ordering_key,
            fairness_key: self.fairness_key,
            correlation: self.correlation,
            provenance: self.provenance.into(),
            tags: self.tags,
            group: self.group,
            ..NewJob::new(self.job_type, payload)
        })
    }

    fn when(&self) -> Result<When, Failure> {
        let usage = |why: String| Failure::usage(why);
        match (&self.delay, &self.at) {
            (None, None) => Ok(When::Now),
            (Some(delay), None) => {
                Ok(When::In(parse_span(delay).map_err(|why| usage(format!("delay: {why}")))?))
            }
            (None, Some(at)) => Ok(When::At(Timestamp::parse(at).map_err(|why| usage(why.to_string()))?)),
            (Some(_), Some(_)) => Err(usage("expected a delay or an instant, got both".to_owned())),
        }
    }

    fn key_claim(&self) -> Result<Option<KeyClaim>, Failure> {
        let Some(key) = self.key.clone() else {
            return match (&self.key_scope, self.on_conflict) {
                (None, None) => Ok(None),
                _ => Err(Failure::usage("expected a key with its scope or its rule for conflicts, got none")),
            };
        };
        let scope = self.key_scope.as_deref().map(parse_scope).transpose().map_err(Failure::usage)?;
        let on_conflict = self.on_conflict.unwrap_or_default();
        Ok(Some(KeyClaim { key, scope: scope.unwrap_or_default(), on_conflict }))
    }
}

impl WordOrPolicy {
    fn policy(self) -> Result<RetryPolicy, String> {
        match self {
            Self::Word(word) => parse_policy(&word),
            Self::Policy(written) => read_policy(&written),
        }
    }
}

/// Parses a policy in the form in which stores keep it. Stores ignore unknown fields; for a person an
/// unknown field is an error.
fn read_policy(written: &serde_json::Value) -> Result<RetryPolicy, String> {
    let policy =
        RetryPolicy::deserialize(written).map_err(|why| format!("expected a retry policy, got {why}"))?;
    match unknown_field(written, &policy) {
        Some(field) => Err(format!("the policy `{}` has no setting `{field}`; leave it out", policy.name())),
        None => Ok(policy),
    }
}

/// Parses `live`, `live-or-dead` or `for:SPAN`.
pub(crate) fn parse_scope(written: &str) -> Result<KeyScope, String> {
    match (written, written.strip_prefix("for:")) {
        ("live", _) => Ok(KeyScope::WhileLive),
        ("live-or-dead", _) => Ok(KeyScope::WhileLiveOrDead),
        (_, Some(span)) => Ok(KeyScope::For(parse_span(span).map_err(|why| format!("key scope: {why}"))?)),
        _ => Err(format!("expected a key scope out of live, live-or-dead, for:SPAN, got {written:?}")),
    }
}

/// Parses a span from now, or an instant.
pub(crate) fn parse_moment(written: &str) -> Result<When, String> {
    let by_span = parse_span(written).map(|span: Duration| When::In(span));
    by_span.or_else(|_| Timestamp::parse(written).map(When::At)).map_err(|_| {
        format!("expected a span such as 1h or an instant such as 2026-11-15T20:30:00Z, got {written:?}")
    })
}
