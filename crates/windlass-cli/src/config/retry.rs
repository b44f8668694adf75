//! Retry policies as people write them: a table in a file, a word on the command line.

use std::time::Duration;

use windlass_core::limits::DELAY_MAX;
use windlass_core::retry::{Delay, RetryPolicy, Tier};
use windlass_core::span::parse_span;

use super::error::{ConfigError, ConfigErrors, suggest};
use super::section::{Section, any_span, span, text, whole};
use super::tree::{Entry, Node, Value};

/// The policies and the settings that each of them has.
pub(crate) const POLICIES: [(&str, &[&str]); 7] = [
    ("exponential", &["base", "max", "attempts"]),
    ("backfill", &["base", "max", "attempts"]),
    ("fibonacci", &["unit", "attempts"]),
    ("progressive", &["tiers"]),
    ("fixed", &["every", "attempts"]),
    ("list", &["delays"]),
    ("never", &[]),
];

/// A policy by its name, with the settings that were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PolicyParts {
    pub(crate) policy: String,
    pub(crate) base: Option<Duration>,
    pub(crate) max: Option<Duration>,
    pub(crate) unit: Option<Duration>,
    pub(crate) every: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) delays: Option<Vec<Duration>>,
    pub(crate) tiers: Option<Vec<Tier>>,
}

impl PolicyParts {
    /// Builds the policy. A setting that the policy does not have is refused, not ignored.
    pub(crate) fn build(self) -> Result<RetryPolicy, String> {
        self.refuse_unknown_settings()?;
        self.require_settings()?;
        // The stored form of a policy has every default, so no default is written down twice.
        let stored = serde_json::Value::Object(self.stored());
        let policy: RetryPolicy = serde_json::from_value(stored)
            .map_err(|why| format!("the policy `{}` is invalid: {why}", self.policy))?;
        policy.check().map_err(|why| why.to_string())?;
        Ok(policy)
    }

    fn stored(&self) -> serde_json::Map<String, serde_json::Value> {
        let spans = [("base", self.base), ("max", self.max), ("unit", self.unit), ("every", self.every)];
        let spans = spans.into_iter().filter_map(|(key, span)| Some((key, serde_json::json!(Delay(span?)))));
        let delays = self.delays.as_ref().map(|delays| delays.iter().copied().map(Delay).collect::<Vec<_>>());
        let others = [
            ("policy", Some(serde_json::json!(self.policy))),
            ("attempts", self.attempts.map(|attempts| serde_json::json!(attempts))),
            ("delays", delays.map(|delays| serde_json::json!(delays))),
            ("tiers", self.tiers.as_ref().map(|tiers| serde_json::json!(tiers))),
        ];
        let others = others.into_iter().filter_map(|(key, value)| Some((key, value?)));
        spans.chain(others).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn require_settings(&self) -> Result<(), String> {
        match self.policy.as_str() {
            "fixed" if self.every.is_none() => {
                Err("expected `every` for the policy `fixed`, such as 30s, got none".to_owned())
            }
            "list" if self.delays.is_none() => {
                Err("expected `delays` for the policy `list`, such as 1s, 30s, 5m, got none".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn refuse_unknown_settings(&self) -> Result<(), String> {
        let given = [
            ("base", self.base.is_some()),
            ("max", self.max.is_some()),
            ("unit", self.unit.is_some()),
            ("every", self.every.is_some()),
            ("attempts", self.attempts.is_some()),
            ("delays", self.delays.is_some()),
            ("tiers", self.tiers.is_some()),
        ];
        let known = settings_of(&self.policy).ok_or_else(|| unknown_policy(&self.policy))?;
        match given.iter().find(|(setting, given)| *given && !known.contains(setting)) {
            Some((setting, _)) => Err(unknown_setting(setting, &self.policy, known)),
            None => Ok(()),
        }
    }
}

fn settings_of(policy: &str) -> Option<&'static [&'static str]> {
    POLICIES.iter().find(|(name, _)| *name == policy).map(|(_, settings)| *settings)
}

fn unknown_setting(setting: &str, policy: &str, known: &[&str]) -> String {
    match known {
        [] => format!("the policy `{policy}` has no settings, got `{setting}`"),
        _ => format!("the policy `{policy}` has no setting `{setting}`; it has {}", known.join(", ")),
    }
}

fn unknown_policy(got: &str) -> String {
    let names = POLICIES.map(|(name, _)| name);
    let near = suggest(got, names);
    format!("expected a retry policy out of {}, got {got:?}; {near}", names.join(", "))
}

/// Parses a policy as the command line writes it: `fibonacci`, `fixed:every=30s,attempts=3`,
/// `list:1s,30s,5m`.
pub(crate) fn parse_policy(written: &str) -> Result<RetryPolicy, String> {
    let (name, settings) = written.split_once(':').unwrap_or((written, ""));
    let mut parts = PolicyParts { policy: name.to_owned(), ..PolicyParts::default() };
    if name == "list" {
        parts.delays = Some(parse_delays(settings)?);
        return parts.build();
    }
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("expected settings such as attempts=3, got {setting:?}"))?;
        parts.set(key.trim(), value.trim())?;
    }
    parts.build()
}

/// Parses `1s,30s,5m`.
pub(crate) fn parse_delays(written: &str) -> Result<Vec<Duration>, String> {
    written.split(',').map(|delay| parse_span(delay).map_err(|why| why.to_string())).collect()
}

impl PolicyParts {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let span = || parse_span(value).map(Some).map_err(|why| format!("`{key}`: {why}"));
        match key {
            "base" => self.base = span()?,
            "max" => self.max = span()?,
            "unit" => self.unit = span()?,
            "every" => self.every = span()?,
            "attempts" => {
                let number = value.parse();
                self.attempts =
                    Some(number.map_err(|_| format!("`attempts`: expected a whole number, got {value:?}"))?);
            }
            other => {
                let known = settings_of(&self.policy).ok_or_else(|| unknown_policy(&self.policy))?;
                return Err(unknown_setting(other, &self.policy, known));
            }
        }
        Ok(())
    }
}

/// Reads a policy from a file: a word such as `"fibonacci"`, or a table with `policy` and its settings.
pub(crate) fn read(name: &str, entry: &Entry, errors: &mut ConfigErrors) -> Option<RetryPolicy> {
    if let Value::Text(word) | Value::Raw(word) = &entry.node.value {
        let policy = parse_policy(word);
        return policy
            .map_err(|why| errors.push(ConfigError::at(&entry.node.position, format!("{name}: {why}"))))
            .ok();
    }
    read_table(name, &entry.node, errors)
}

fn read_table(name: &str, node: &Node, errors: &mut ConfigErrors) -> Option<RetryPolicy> {
    let mut section = Section::of(name, Some(node), errors);
    let policy = section.get("policy", text).unwrap_or_else(|| "exponential".to_owned());
    let Some(settings) = settings_of(&policy) else {
        let position = section.position("policy").unwrap_or(&node.position).clone();
        section.errors().push(ConfigError::at(&position, format!("{name}: {}", unknown_policy(&policy))));
        return None;
    };
    let parts = PolicyParts { policy, ..read_settings(&mut section, settings) };
    section.finish();
    let built = parts.build();
    built.map_err(|why| errors.push(ConfigError::at(&node.position, format!("{name}: {why}")))).ok()
}

/// Reads only the settings that the policy has, so that any other setting is an unknown key at its own
/// position.
fn read_settings(section: &mut Section<'_, '_>, settings: &[&str]) -> PolicyParts {
    let delay = || span(Duration::ZERO, DELAY_MAX);
    let mut parts = PolicyParts::default();
    for setting in settings {
        match *setting {
            "base" => parts.base = section.get("base", delay()),
            "max" => parts.max = section.get("max", delay()),
            "unit" => parts.unit = section.get("unit", delay()),
            "every" => parts.every = section.get("every", delay()),
            "attempts" => {
                parts.attempts = section.get("attempts", whole(1, 1_000)).and_then(|n| u32::try_from(n).ok());
            }
            "delays" => parts.delays = section.get("delays", delays),
            "tiers" => parts.tiers = section.get("tiers", tiers),
            other => unreachable!("the setting {other} is in the table of policies, and no code reads it"),
        }
    }
    parts
}

fn delays(value: &Value) -> Result<Vec<Duration>, String> {
    match value {
        Value::List(items) => items.iter().map(|item| any_span(&item.value)).collect(),
        Value::Text(written) | Value::Raw(written) => parse_delays(written),
        other => Err(format!("expected a list of spans such as [\"1s\", \"5m\"], got {}", other.describe())),
    }
}

fn tiers(value: &Value) -> Result<Vec<Tier>, String> {
    let wrong = |got: &Value| {
        format!("expected tiers such as {{ max_age = \"1d\", interval = \"5m\" }}, got {}", got.describe())
    };
    let Value::List(items) = value else { return Err(wrong(value)) };
    items
        .iter()
        .map(|item| {
            let Value::Table(tier) = &item.value else { return Err(wrong(&item.value)) };
            let part = |key| tier.get(key).ok_or_else(|| format!("expected `{key}` in every tier, got none"));
            if let Some(entry) =
                tier.0.iter().find(|entry| !["max_age", "interval"].contains(&entry.key.as_str()))
            {
                return Err(format!(
                    "unknown key `{}` in a tier; {}",
                    entry.key,
                    suggest(&entry.key, ["max_age", "interval"])
                ));
            }
            let max_age = any_span(&part("max_age")?.node.value)?;
            Ok(Tier { max_age, interval: any_span(&part("interval")?.node.value)? })
        })
        .collect()
}
