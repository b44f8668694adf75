//! Where a job comes from. It is carried from the enqueue to the history and to follow-up jobs, and decides
//! nothing. Engines store it as it is, so a new field needs no engine code.

use std::fmt;
use std::sync::Arc;

use crate::limits::KEY_BYTES_MAX;
use crate::names::{NameError, is_printable, name, shortened};

name!(
    /// Who or what caused a job, such as `user:42`.
    Cause,
    "a cause",
    "1 to 256 bytes without control characters",
    |text| is_printable(text, KEY_BYTES_MAX).then(|| text.into())
);
name!(
    /// The trace that a job continues: the W3C header `traceparent`.
    TraceContext,
    "a trace context",
    "55 characters as in the W3C header traceparent",
    |text| is_traceparent(text).then(|| text.into())
);

/// Where a job comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Provenance {
    /// Who or what caused the job, such as `user:42`: costs are broken down by it, and everything that one
    /// cause has left can be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caused_by: Option<Cause>,
    /// The trace that the job continues, as the W3C header `traceparent` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_context: Option<TraceContext>,
}

impl Provenance {
    /// The names of the fields, in the API, the configuration and JSON.
    pub const FIELDS: [&'static str; 2] = ["caused_by", "trace_context"];

    /// Each field with its value, in the order of [`FIELDS`](Self::FIELDS).
    pub fn entries(&self) -> [(&'static str, Option<&str>); Self::FIELDS.len()] {
        let [caused_by, trace_context] = Self::FIELDS;
        [
            (caused_by, self.caused_by.as_ref().map(Cause::as_str)),
            (trace_context, self.trace_context.as_ref().map(TraceContext::as_str)),
        ]
    }

    /// Sets a field by its name, which is one of [`FIELDS`](Self::FIELDS).
    pub fn set(&mut self, field: &str, text: &str) -> Result<(), NameError> {
        let [caused_by, trace_context] = Self::FIELDS;
        match field {
            _ if field == caused_by => self.caused_by = Some(Cause::parse(text)?),
            _ if field == trace_context => self.trace_context = Some(TraceContext::parse(text)?),
            _ => {}
        }
        Ok(())
    }
}

/// Version, trace id, parent id and flags in lower-case hex. Ids of zeros and the version ff are invalid.
fn is_traceparent(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let is_zero = |part: &str| part.bytes().all(|b| b == b'0');
    let parts: Vec<_> = text.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else { return false };
    [version, trace, parent, flags].map(str::len) == [2, 32, 16, 2]
        && [version, trace, parent, flags].into_iter().all(is_hex)
        && version != "ff"
        && !is_zero(trace)
        && !is_zero(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_set_by_its_name_shown_and_stored_under_it() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut provenance = Provenance::default();
        assert_eq!(serde_json::to_string(&provenance).unwrap(), "{}");
        for field in Provenance::FIELDS {
            provenance.set(field, trace).unwrap();
        }
        assert_eq!(provenance.entries(), Provenance::FIELDS.map(|field| (field, Some(trace))));
        let stored: serde_json::Value = serde_json::to_value(&provenance).unwrap();
        for field in Provenance::FIELDS {
            assert_eq!(stored[field], trace);
        }
        assert_eq!(serde_json::from_value::<Provenance>(stored).unwrap(), provenance);
    }

    #[test]
    fn a_trace_context_has_the_form_of_the_w3c_header() {
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        assert!(TraceContext::parse(&format!("00-{trace}-{parent}-01")).is_ok());
        let zeros = "0".repeat(32);
        for odd in [
            String::new(),
            format!("00-{trace}-{parent}"),
            format!("00-{trace}-{parent}-01-"),
            format!("ff-{trace}-{parent}-01"),
            format!("00-{}-{parent}-01", trace.to_uppercase()),
            format!("00-{zeros}-{parent}-01"),
            format!("00-{trace}-{}-01", &zeros[..16]),
            format!("00-{parent}-{trace}-01"),
        ] {
            assert!(TraceContext::parse(&odd).is_err(), "{odd:?}");
        }
    }
}
