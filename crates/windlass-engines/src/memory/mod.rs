//! Jobs in memory.
