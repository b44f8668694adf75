//! Jobs that are enqueued and completed in the user's own transaction on PostgreSQL, from Rust and from
//! other languages.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

mod test_store;
mod through_sql;
#[path = "../schemas/mod.rs"]
mod schemas;

mod conformance;
mod users_transaction;
mod open_transactions;
mod schedules;
mod ordering_keys;
mod fairness_keys;
mod sql_functions;
mod refusals;
mod languages;
#[cfg(feature = "sqlx")]
mod sqlx_transaction;
