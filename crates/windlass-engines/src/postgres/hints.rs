//! The channels on which processes notify each other of changes.

/// The channels on which processes of one schema notify each other.
#[derive(Debug, Clone)]
pub(super) struct Channels {
    all: String,
    own: String,
}

impl Channels {
    /// Names a channel for all, by the schema's name, and one for this engine alone.
    pub(super) fn for_schema(schema: &str, engine: u64) -> Self {
        // The name of a channel holds 63 bytes, and the name of a schema alone may be as long.
        let mut short = schema.to_owned();
        short.truncate(40);
        Self { all: format!("wl_{short}"), own: format!("wl_{short}_{engine:016x}") }
    }

    /// The channel that every engine of the schema listens on.
    pub(super) fn all(&self) -> &str {
        &self.all
    }

    /// The channel that only this engine listens on.
    pub(super) fn own(&self) -> &str {
        &self.own
    }
}
