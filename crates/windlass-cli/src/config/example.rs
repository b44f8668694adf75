//! The example file. It sets every key to its default, so that it can be copied whole and cut down.

/// A commented example with every key.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");
