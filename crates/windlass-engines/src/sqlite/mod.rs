//! Jobs in an SQLite file.
