//! Where a job comes from. It is carried from the enqueue to the history and to follow-up jobs, and decides
//! nothing. Engines store it as it is, so a new field needs no engine code.

use crate::names::{Cause, NameError, TraceContext};

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
}
