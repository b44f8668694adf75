//! JSON that a store keeps and that another version may have written. Fields that this version does not know
//! are ignored when it reads and preserved when it writes. What it cannot read is an error, and is never
//! replaced by defaults.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// An error: a stored text cannot be read. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error(
    "expected {what} to be stored as this version can read it, got {}{why}; run the version that stored it, or correct it in the store",
    in_field(.field.as_deref())
)]
pub struct Unreadable {
    /// What the text is about, with its name: `queue mail`.
    pub what: String,
    /// The first invalid field, if a single field is invalid.
    pub field: Option<String>,
    /// Why it cannot be read.
    pub why: String,
}

fn in_field(field: Option<&str>) -> String {
    field.map(|field| format!("a wrong `{field}`: ")).unwrap_or_default()
}

/// A declaration as a store keeps it: the text, and what this version reads in it.
///
/// It can be used like the declaration itself, because the ends of running jobs must be stored whatever
/// was damaged meanwhile. If it is unreadable, the declaration contains the fields that can be read.
/// Every decision about something new must call [`checked`](Self::checked) first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSpec<T> {
    text: String,
    spec: T,
    unreadable: Option<Unreadable>,
}

impl<T> Deref for StoredSpec<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.spec
    }
}

impl<T: Serialize + DeserializeOwned + PartialEq> StoredSpec<T> {
    /// Reads a text. `base` has the name under which the store keeps it, which the text must not
    /// contradict: `contradicts` returns the field in which a declaration differs from its row.
    pub(crate) fn read(
        text: String,
        what: String,
        base: T,
        contradicts: impl Fn(&T, &T) -> Option<&'static str>,
    ) -> Self {
        let (spec, wrong) = read_over(&text, &base);
        let (spec, wrong) = match contradicts(&spec, &base) {
            None => (spec, wrong),
            Some(field) => (base, Some((Some(field.to_owned()), "it belongs to another row".to_owned()))),
        };
        Self { text, spec, unreadable: wrong.map(|(field, why)| Unreadable { what, field, why }) }
    }

    /// Returns the declaration, if all of it could be read.
    pub fn checked(&self) -> Result<&T, Unreadable> {
        self.unreadable.clone().map_or(Ok(&self.spec), Err)
    }

    /// Why a part of the declaration cannot be read, if so.
    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.unreadable.as_ref()
    }

    /// Whether the store has exactly this declaration already, apart from fields of newer versions.
    pub fn says(&self, spec: &T) -> bool {
        self.unreadable.is_none() && self.spec == *spec
    }

    /// Returns the text to store for another declaration of the same name: with the fields that only
    /// newer versions know.
    pub fn rewritten(&self, to: &T) -> Result<String, Unreadable> {
        Ok(rewritten(&self.text, self.checked()?, to))
    }
}

/// Reads one text that must be readable as a whole.
pub(crate) fn read_or_default<T>(text: &str, what: String) -> Result<T, Unreadable>
where
    T: Serialize + DeserializeOwned + Default,
{
    match read_over(text, &T::default()) {
        (value, None) => Ok(value),
        (_, Some((field, why))) => Err(Unreadable { what, field, why }),
    }
}

/// The first invalid field, if a single field is invalid, and the reason.
type Wrong = (Option<String>, String);

/// Reads a text. If that fails, sets its fields on another value one by one, and leaves out the invalid
/// ones.
fn read_over<T: Serialize + DeserializeOwned>(text: &str, base: &T) -> (T, Option<Wrong>) {
    let error = match serde_json::from_str(text) {
        Ok(value) => return (value, None),
        Err(error) => error.to_string(),
    };
    let mut readable = value_of(base);
    let mut wrong = None;
    if let (Value::Object(readable), Ok(Value::Object(stored))) = (&mut readable, serde_json::from_str(text))
    {
        for (field, value) in stored {
            let mut with_field = readable.clone();
            with_field.insert(field.clone(), value);
            match serde_json::from_value::<T>(Value::Object(with_field.clone())) {
                Ok(_) => *readable = with_field,
                Err(why) => _ = wrong.get_or_insert((Some(field), why.to_string())),
            }
        }
    }
    let value = serde_json::from_value(readable).expect("our own types read what they write");
    (value, Some(wrong.unwrap_or((None, error))))
}

/// Returns the text of `to`, with all parts of a stored text that this version does not know or does not
/// change. `before` is what this version read in that text.
fn rewritten<T: Serialize>(stored: &str, before: &T, to: &T) -> String {
    let (before, to) = (value_of(before), value_of(to));
    match serde_json::from_str::<&RawValue>(stored) {
        Ok(stored) => merged(stored, &before, &to).get().to_owned(),
        Err(_) => to.to_string(),
    }
}

/// Returns the first field of a text that its reader does not know, for input that must have no other
/// fields.
pub fn unknown_field<T: Serialize>(written: &Value, read: &T) -> Option<String> {
    first_unknown(written, &value_of(read))
}

fn first_unknown(written: &Value, read: &Value) -> Option<String> {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            written.iter().find_map(|(field, value)| match read.get(field) {
                Some(read) => first_unknown(value, read),
                None => Some(field.clone()),
            })
        }
        (Value::Array(written), Value::Array(read)) => {
            written.iter().zip(read).find_map(|(written, read)| first_unknown(written, read))
        }
        _ => None,
    }
}

/// Merges raw values, which keep numbers and texts of unknown fields as they were written.
fn merged(stored: &RawValue, before: &Value, to: &Value) -> Box<RawValue> {
    match (before, to) {
        _ if before == to => stored.to_owned(),
        (Value::Object(before), Value::Object(to)) => merged_object(stored, before, to),
        (Value::Array(before), Value::Array(to)) => merged_array(stored, before, to),
        _ => raw(to),
    }
}

type Object = serde_json::Map<String, Value>;

fn merged_object(stored: &RawValue, before: &Object, to: &Object) -> Box<RawValue> {
    let Ok(stored) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(stored.get()) else {
        return raw(to);
    };
    let known = to.iter().map(|(field, to)| match (stored.get(field), before.get(field)) {
        (Some(stored), Some(before)) => (field, merged(stored, before, to)),
        _ => (field, raw(to)),
    });
    let is_unknown = |field: &String| !before.contains_key(field) && !to.contains_key(field);
    let unknown = stored.iter().filter(|(field, _)| is_unknown(field));
    let fields: BTreeMap<&String, Box<RawValue>> =
        unknown.map(|(field, value)| (field, value.clone())).chain(known).collect();
    raw(&fields)
}

/// Merges arrays, whose elements have no names. An unchanged element is found wherever it is now; an
/// element that was changed at its position counts as the same one if the length is unchanged.
fn merged_array(stored: &RawValue, before: &[Value], to: &[Value]) -> Box<RawValue> {
    let Ok(stored) = serde_json::from_str::<Vec<Box<RawValue>>>(stored.get()) else { return raw(to) };
    if stored.len() != before.len() {
        return raw(to);
    }
    let has_same_length = before.len() == to.len();
    let element = |(at, to): (usize, &Value)| {
        let same_place = before.get(at).filter(|before| *before == to).map(|_| at);
        let moved = || before.iter().position(|before| before == to);
        let changed = || has_same_length.then_some(at);
        match same_place.or_else(moved).or_else(changed) {
            Some(from) => merged(&stored[from], &before[from], to),
            None => raw(to),
        }
    };
    raw(&to.iter().enumerate().map(element).collect::<Vec<_>>())
}

fn value_of<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("our own types have string keys and no failing serializers")
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("what was read as JSON can be written")
}

/// The text from which a record was read, so that the record is written back with the fields that only
/// newer versions know. It is no part of the record's value: two records are equal whatever text they
/// were read from.
#[derive(Debug, Clone, Default)]
pub struct Source(Option<Arc<str>>);

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Source {}

impl Source {
    /// Creates a source from a text, without the fields that are meant for a single reader.
    pub(crate) fn of(text: &str, without: &str) -> Self {
        let fields = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text).map(|mut fields| {
            fields.remove(without);
            raw(&fields).get().into()
        });
        Self(fields.ok())
    }

    /// Creates a source from a text as it is stored.
    pub fn verbatim(text: &str) -> Self {
        Self(Some(text.into()))
    }

    /// Whether nothing was read.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the text of a record that was derived from the record read from this source. A source that
    /// cannot be read is returned as it is.
    pub fn rewritten<T: Serialize + DeserializeOwned>(&self, to: &T) -> String {
        match self.0.as_deref().map(|text| (text, serde_json::from_str::<T>(text))) {
            Some((text, Ok(before))) => rewritten(text, &before, to),
            Some((text, Err(_))) => text.to_owned(),
            None => raw(to).get().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
