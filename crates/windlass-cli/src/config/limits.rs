//! `[breakers.NAME]` and `[rate_limits.NAME]`: the limits that hold jobs back.

use std::time::Duration;

use windlass::limits::{BreakerSpec, LimitAt, LimitOptions, LimitScope, RateLimitSpec};
use windlass_core::breaker::{BreakerOptions, FailureRate};
use windlass_core::limits::{DELAY_MAX, PROBES_MAX, RATE_MAX};
use windlass_core::names::{BreakerName, LimitName, NameError, TypeName};
use windlass_core::rate_limit::{KeyBy, RateLimit};

use super::error::{ConfigError, ConfigErrors};
use super::section::{Section, boolean, span, text, whole, word};
use super::tree::{Entry, Value};

const SCOPES: &[(&str, LimitScope)] = &[("store", LimitScope::Store), ("process", LimitScope::Process)];
const PLACES: &[(&str, LimitAt)] = &[("run", LimitAt::Run), ("enqueue", LimitAt::Enqueue)];
const SHORTEST: Duration = Duration::from_millis(1);

/// Reads breakers and rate limits, and sorts them by name.
pub(crate) fn read(breakers: &[Entry], rate_limits: &[Entry], errors: &mut ConfigErrors) -> LimitOptions {
    check_once(breakers, errors);
    check_once(rate_limits, errors);
    let mut options = LimitOptions {
        breakers: breakers.iter().filter_map(|entry| read_breaker(entry, errors)).collect(),
        rate_limits: rate_limits.iter().filter_map(|entry| read_rate_limit(entry, errors)).collect(),
    };
    options.breakers.sort_by(|a, b| a.name.cmp(&b.name));
    options.rate_limits.sort_by(|a, b| a.name.cmp(&b.name));
    options
}

fn check_once(entries: &[Entry], errors: &mut ConfigErrors) {
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].iter().any(|other| other.key.eq_ignore_ascii_case(&entry.key)) {
            let message =
                format!("expected {} once, got it twice; names are matched without case", entry.key);
            errors.push(ConfigError::at(&entry.key_position, message));
        }
    }
}

fn read_breaker(entry: &Entry, errors: &mut ConfigErrors) -> Option<BreakerSpec> {
    let name = name(entry, BreakerName::parse, errors)?;
    let default = BreakerSpec::new(name);
    let title = format!("[breakers.{}]", default.name);
    let mut section = Section::of(title, Some(&entry.node), errors);
    let failure_rate = read_failure_rate(&mut section);
    let seconds = section.get("open_cooldown_seconds", whole(1, i64::from(u32::MAX)));
    let options = BreakerOptions {
        failures_in_a_row: section
            .get("failures_in_a_row", count_or_false)
            .unwrap_or(default.options.failures_in_a_row.filter(|_| failure_rate.is_none())),
        failure_rate,
        open_cooldown: seconds
            .map_or(default.options.open_cooldown, |seconds| Duration::from_secs(seconds.unsigned_abs())),
        half_open_probe_count: number(&mut section, "half_open_probe_count", PROBES_MAX)
            .unwrap_or(default.options.half_open_probe_count),
        rate_limit_pause: section
            .get("rate_limit_pause", span(SHORTEST, DELAY_MAX))
            .unwrap_or(default.options.rate_limit_pause),
        rate_limit_pause_max: section
            .get("rate_limit_pause_max", span(SHORTEST, DELAY_MAX))
            .unwrap_or(default.options.rate_limit_pause_max),
    };
    let scope = section.get("scope", word(SCOPES)).unwrap_or_default();
    let types = section.get("types", types).unwrap_or_default();
    if let Err(why) = options.check() {
        section
            .errors()
            .push(ConfigError::at(&entry.key_position, format!("[breakers.{}]: {why}", default.name)));
        return None;
    }
    section.finish();
    Some(BreakerSpec { options, scope, types, ..default })
}

/// The failure rate that opens a breaker, if `failure_percent` is given.
fn read_failure_rate(section: &mut Section<'_, '_>) -> Option<FailureRate> {
    let percent = section.get("failure_percent", whole(1, 100));
    let window = section.get("failure_window", span(SHORTEST, DELAY_MAX));
    let calls_min = number(section, "failure_calls_min", u32::MAX);
    Some(FailureRate {
        percent: u8::try_from(percent?).ok()?,
        window: window.unwrap_or(Duration::from_secs(60)),
        calls_min: calls_min.unwrap_or(10),
    })
}

fn read_rate_limit(entry: &Entry, errors: &mut ConfigErrors) -> Option<RateLimitSpec> {
    let name = name(entry, LimitName::parse, errors)?;
    let title = format!("[rate_limits.{name}]");
    let mut section = Section::of(title.as_str(), Some(&entry.node), errors);
    let limit = number(&mut section, "limit", RATE_MAX);
    let per = section.get("per", span(SHORTEST, DELAY_MAX)).unwrap_or(Duration::from_secs(1));
    let burst = number(&mut section, "burst", RATE_MAX);
    let by = section.get("by", key_by).unwrap_or_default();
    let at = section.get("at", word(PLACES)).unwrap_or_default();
    let scope = section.get("scope", word(SCOPES)).unwrap_or_default();
    let types = section.get("types", types).unwrap_or_default();
    let Some(limit) = limit else {
        if section.position("limit").is_none() {
            let message = format!(
                "expected `limit` in {title}, got none; set the number of tokens of each period `per`"
            );
            section.errors().push(ConfigError::at(&entry.key_position, message));
        }
        return None;
    };
    section.finish();
    let limit = RateLimit { burst: burst.unwrap_or(limit), by, ..RateLimit::new(limit, per) };
    Some(RateLimitSpec { name, limit, scope, at, types })
}

fn number(section: &mut Section<'_, '_>, key: &'static str, most: u32) -> Option<u32> {
    section.get(key, whole(1, most.into())).and_then(|number| u32::try_from(number).ok())
}

/// A count, or `None` for `false`: then failures in a row do not open the breaker.
fn count_or_false(value: &Value) -> Result<Option<u32>, String> {
    match whole(1, u32::MAX.into())(value) {
        Ok(number) => Ok(u32::try_from(number).ok()),
        Err(_) if boolean(value) == Ok(false) => Ok(None),
        Err(why) => Err(format!("{why}; use false if failures in a row must not open the breaker")),
    }
}

fn key_by(value: &Value) -> Result<KeyBy, String> {
    match text(value)?.as_str() {
        "nothing" => Ok(KeyBy::Nothing),
        "group" => Ok(KeyBy::Group),
        pointer if pointer.starts_with('/') => Ok(KeyBy::Payload(pointer.to_owned())),
        _ => Err(format!(
            "expected nothing, group, or a JSON pointer into the payload such as /tenant, got {}",
            value.describe()
        )),
    }
}

fn types(value: &Value) -> Result<Vec<TypeName>, String> {
    let Value::List(items) = value else {
        return Err(format!("expected a list of job types, got {}", value.describe()));
    };
    let parse = |text: String| TypeName::parse(&text).map_err(|why| why.to_string());
    items.iter().map(|item| text(&item.value).and_then(parse)).collect()
}

fn name<T>(
    entry: &Entry,
    parse: impl Fn(&str) -> Result<T, NameError>,
    errors: &mut ConfigErrors,
) -> Option<T> {
    parse(&entry.key).map_err(|why| errors.push(ConfigError::at(&entry.key_position, why.to_string()))).ok()
}
