//! The errors of a configuration: all of them, not just the first.

use std::fmt;

use super::tree::Position;

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The position, if the error has one.
    pub(crate) position: Option<Position>,
    /// What was expected and what was found.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

impl ConfigError {
    pub(crate) fn at(position: &Position, message: impl Into<String>) -> Self {
        Self { position: Some(position.clone()), message: message.into(), hint: None }
    }

    pub(crate) fn nowhere(message: impl Into<String>) -> Self {
        Self { position: None, message: message.into(), hint: None }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// All errors, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(crate) fn push(&mut self, error: ConfigError) {
        self.0.push(error);
    }

    /// Returns the value if there is no error.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Vec<ConfigError>> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|error| error.position.as_ref().map(Position::rank));
        Err(self.0)
    }
}

/// The known name that is most similar to a given name.
pub(crate) fn nearest<'a>(got: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let got = got.to_ascii_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&got, &name.to_ascii_lowercase().replace('-', "_")), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// A hint for an unknown name: `did you mean …?`, or else the known names.
pub(crate) fn suggest<'a>(got: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(got, known.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known here: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}
