//! The channels on which processes tell each other that something changed.

/// The channels on which processes of one schema tell each other.
#[derive(Debug, Clone)]
pub(super) struct Channels {
    all: String,
    own: String,
}

impl Channels {
    /// A channel for all, by the schema's name, and one for this engine alone.
    pub(super) fn for_schema(schema: &str, engine: u64) -> Self {
        // A channel's name holds 63 bytes, and a schema's name alone may be as long.
        let mut short = schema.to_owned();
        short.truncate(40);
        Self { all: format!("wl_{short}"), own: format!("wl_{short}_{engine:016x}") }
    }

    /// Everybody listens.
    pub(super) fn all(&self) -> &str {
        &self.all
    }

    /// This engine alone listens.
    pub(super) fn own(&self) -> &str {
        &self.own
    }
}
