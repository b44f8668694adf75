//! Readers of a script's answer, value by value. A value of another kind than expected is reported as damage.

use std::sync::Arc;

use redis::Value;
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;

use super::store_epoch::Opened;
use super::store_error::{StoreError, StoreResult};

/// The answer of a script.
#[derive(Debug)]
pub(super) struct Reply {
    /// The store that answered.
    pub(super) from: Arc<Opened>,
    /// The store's clock.
    pub(super) now: Timestamp,
    /// The returned value.
    pub(super) value: Value,
}

/// A list, read from the front.
#[derive(Debug)]
pub(super) struct ReplyReader(std::vec::IntoIter<Value>);

impl ReplyReader {
    pub(super) fn of(value: Value) -> StoreResult<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            // An empty table of Lua, and a missing value.
            Value::Nil => Ok(Self(Vec::new().into_iter())),
            Value::BulkString(bytes) if bytes.is_empty() => Ok(Self(Vec::new().into_iter())),
            other => Err(damaged("a list", &other)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(super) fn value(&mut self) -> Value {
        self.0.next().unwrap_or(Value::Nil)
    }

    pub(super) fn list(&mut self) -> StoreResult<Self> {
        Self::of(self.value())
    }

    pub(super) fn bytes(&mut self) -> StoreResult<Vec<u8>> {
        bytes(self.value())
    }

    pub(super) fn text(&mut self) -> StoreResult<String> {
        text(self.value())
    }

    pub(super) fn number(&mut self) -> StoreResult<i64> {
        number(&self.value())
    }

    pub(super) fn count(&mut self) -> StoreResult<u64> {
        Ok(u64::try_from(self.number()?).unwrap_or_default())
    }

    /// Reads a number; `None` if the text is empty.
    pub(super) fn number_or_none(&mut self) -> StoreResult<Option<i64>> {
        match self.value() {
            Value::BulkString(bytes) if bytes.is_empty() => Ok(None),
            Value::Nil => Ok(None),
            value => number(&value).map(Some),
        }
    }

    /// Whether the text is not empty.
    pub(super) fn flag(&mut self) -> StoreResult<bool> {
        Ok(!self.bytes()?.is_empty())
    }
}

pub(super) fn bytes(value: Value) -> StoreResult<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::Nil => Ok(Vec::new()),
        Value::Int(number) => Ok(number.to_string().into_bytes()),
        other => Err(damaged("a text", &other)),
    }
}

/// Reads a text. Invalid bytes are replaced: one damaged text must not keep others from being read.
pub(super) fn text(value: Value) -> StoreResult<String> {
    let bytes = bytes(value)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn number(value: &Value) -> StoreResult<i64> {
    let parsed = match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    parsed.ok_or_else(|| damaged("a number", value))
}

/// An error about an unexpected value. The value may be a payload, so the error names only its kind.
fn damaged(expected: &str, got: &Value) -> StoreError {
    let got = match got {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
        Value::Array(_) => "a list",
        _ => "something else",
    };
    StoreError::Engine(EngineError::Unusable {
        why: format!(
            "expected {expected} in an answer of the store, got {got}; its keys may have been changed manually"
        ),
    })
}
