//! The payload of a job: JSON text that was checked at enqueue.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::limits::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};

/// A job's payload: JSON, at most 1 MiB, at most 64 levels deep, without NUL characters.
///
/// The text is kept as it came, so that large numbers survive, and shared, so that copies are cheap.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

/// Why a payload was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It is not JSON.
    #[error("expected the payload to be JSON, got {why}")]
    NotJson {
        /// The parser's message.
        why: String,
    },
    /// It is too big.
    #[error(
        "expected a payload of at most {PAYLOAD_BYTES_MAX} bytes, got {bytes}; keep big data elsewhere and put a reference to it in the job"
    )]
    TooBig {
        /// Its size.
        bytes: usize,
    },
    /// It nests too deep.
    #[error("expected a payload of at most {PAYLOAD_DEPTH_MAX} levels, got more")]
    TooDeep,
    /// It holds a NUL character, which PostgreSQL cannot store.
    #[error("expected a payload without NUL characters, got one")]
    Nul,
}

impl Payload {
    /// Encodes a value as a payload.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        let text = serde_json::to_string(value).map_err(|e| PayloadError::NotJson { why: e.to_string() })?;
        check(&text)?;
        Ok(Self(text.into()))
    }

    /// Parses JSON text as a payload.
    pub fn parse(text: &str) -> Result<Self, PayloadError> {
        check(text)?;
        // Parsing into a raw value checks the syntax without building a tree.
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|e| PayloadError::NotJson { why: e.to_string() })?;
        Ok(Self(raw.get().into()))
    }

    /// Takes text from a store without checking it again. A row that was damaged there fails when it is
    /// decoded, and ends as a dead letter; it must not prevent the reading of other rows.
    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }

    /// Decodes the value.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Payload {
    /// Creates an empty object.
    fn default() -> Self {
        Self("{}".into())
    }
}

impl fmt::Debug for Payload {
    /// Writes only the size, since payloads may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

fn check(text: &str) -> Result<(), PayloadError> {
    if text.len() > PAYLOAD_BYTES_MAX {
        return Err(PayloadError::TooBig { bytes: text.len() });
    }
    if text.contains('\0') || text.contains("\\u0000") {
        return Err(PayloadError::Nul);
    }
    if depth(text) > PAYLOAD_DEPTH_MAX {
        return Err(PayloadError::TooDeep);
    }
    Ok(())
}

/// Returns the depth of brackets outside strings. It is counted before parsing, so that depth costs no
/// stack.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives() {
        let payload = Payload::encode(&("a", 18_446_744_073_709_551_615_u64)).unwrap();
        assert_eq!(payload.decode::<(String, u64)>().unwrap(), ("a".to_owned(), u64::MAX));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["", "{", "nope", "{} {}", "{\"a\":}"] {
            assert!(matches!(Payload::parse(text), Err(PayloadError::NotJson { .. })), "{text}");
        }
    }

    #[test]
    fn size_depth_and_nul_are_limited() {
        let big = format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX));
        assert!(matches!(Payload::parse(&big), Err(PayloadError::TooBig { .. })));
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(Payload::parse(&nested(PAYLOAD_DEPTH_MAX)).is_ok());
        assert_eq!(Payload::parse(&nested(PAYLOAD_DEPTH_MAX + 1)), Err(PayloadError::TooDeep));
        assert_eq!(Payload::parse(&nested(500_000)), Err(PayloadError::TooDeep));
        assert_eq!(Payload::parse("\"\\u0000\""), Err(PayloadError::Nul));
        assert!(Payload::parse("\"[[[[\\\"[[[\"").is_ok(), "brackets in strings do not count");
    }

    #[test]
    fn a_debug_print_shows_no_content() {
        assert_eq!(format!("{:?}", Payload::encode("secret").unwrap()), "Payload(8 bytes)");
    }
}
