//! The statements, one in each file of `sql/`. A new file needs no entry in any list: the build script
//! names it here. They name the schema `windlass`; an engine in another schema replaces the name once, when
//! it is opened.

use std::borrow::Cow;

/// A statement, ready for the engine's schema.
#[derive(Debug, Clone)]
pub(super) struct Statement(String);

impl Statement {
    pub(super) fn new(text: &str, schema: &str) -> Self {
        Self(in_schema(text, schema))
    }

    /// Returns the statement with a part inserted at a mark.
    pub(super) fn with(&self, mark: &str, part: &str) -> Self {
        Self(self.0.replace(mark, part))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// Rewrites a text that names the schema `windlass` for another schema.
pub(super) fn in_schema(text: &str, schema: &str) -> String {
    if schema == "windlass" {
        return text.to_owned();
    }
    text.replace("windlass.", &format!("{schema}."))
}

/// The text of a statement, from its file. `claim_fairness_keys` is `claim` with another way to pick jobs:
/// the rest is the same, and long.
fn whole(name: &str, text: &'static str) -> Cow<'static, str> {
    if name != "claim_fairness_keys" {
        return Cow::Borrowed(text);
    }
    let claim = include_str!(concat!(env!("OUT_DIR"), "/postgres/claim.sql"));
    let picks = text.find("picked AS").map_or("", |start| text[start..].trim_end());
    let (head, rest) = claim.split_once("picked AS").expect("claim.sql has the CTE `picked`");
    let (_, tail) = rest.split_once(", wanted AS").expect("claim.sql has the CTE `wanted`");
    let named = head.replacen("-- claim:", "-- claim_fairness_keys:", 1);
    Cow::Owned(format!("{named}{picks}, wanted AS{tail}"))
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// All statements.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) fn for_schema(schema: &str) -> Self {
                Self {
                    $($name: Statement::new(
                        &whole(stringify!($name), include_str!(concat!(env!("OUT_DIR"), "/postgres/", stringify!($name), ".sql"))),
                        schema,
                    ),)*
                }
            }

            /// Their names and texts, for tests that check all of them.
            #[cfg(test)]
            pub(super) fn all() -> Vec<(&'static str, &'static str)> {
                vec![$((
                    stringify!($name),
                    &*String::leak(
                        whole(stringify!($name), include_str!(concat!(env!("OUT_DIR"), "/postgres/", stringify!($name), ".sql"))).into_owned(),
                    ),
                ),)*]
            }
        }
    };
}
// Both are written by the build script: a name for each file of `sql/`, and how many columns a job has.
include!(concat!(env!("OUT_DIR"), "/postgres_statements.rs"));
include!(concat!(env!("OUT_DIR"), "/postgres_columns.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::{PostgresEngine, PostgresOptions};

    #[test]
    fn every_statement_has_a_header_with_its_name() {
        for (name, text) in Statements::all() {
            assert!(text.starts_with(&format!("-- {name}: ")), "{name}");
        }
    }

    #[test]
    fn the_longest_wait_is_looked_for_among_as_many_jobs_as_core_says() {
        let limit = format!("LIMIT {}\n", windlass_core::limits::OLDEST_SCANNED_MAX);
        assert!(include_str!("sql/queue_counts.sql").contains(&limit));
    }

    #[tokio::test]
    async fn every_statement_can_be_prepared_on_a_fresh_schema() {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("sql_{:016x}", fastrand::u64(..));
        let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
        let _engine = PostgresEngine::connect(&url, options).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        assert!(Statements::all().len() > 70);
        for (name, text) in Statements::all() {
            let prepared = client.prepare(&in_schema(text, &schema)).await;
            prepared.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
}
