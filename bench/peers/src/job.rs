//! The job of all measurements: a number, and text that fills up the payload.

use serde::{Deserialize, Serialize};

/// A job. The number identifies the handler's call; the text is never read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) number: u64,
    text: String,
}

impl Job {
    /// A job whose payload has the given number of bytes as JSON.
    pub(crate) fn sized(number: u64, payload_bytes: u64) -> Self {
        let frame = r#"{"number":,"text":""}"#.len() + number.to_string().len();
        let filler = usize::try_from(payload_bytes).unwrap_or(usize::MAX).saturating_sub(frame);
        Self { number, text: "x".repeat(filler) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_size_that_was_asked_for_whatever_its_number() {
        for number in [0, 9, 10, 99_999] {
            let json = serde_json::to_string(&Job::sized(number, 100)).unwrap();
            assert_eq!(json.len(), 100, "{json}");
        }
    }
}
