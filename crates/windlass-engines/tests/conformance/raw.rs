//! Access below each engine, for behaviours about texts that another version has stored.

use windlass_conformance::harness::{RawCall, RawSpec, RawStore};

/// A file of SQLite.
#[cfg(feature = "sqlite")]
pub(crate) struct File(pub(crate) std::path::PathBuf);

/// Returns table and column of a text.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn column_of(spec: &RawSpec) -> (&'static str, &'static str) {
    match spec {
        RawSpec::Queue(_) => ("queues", "spec"),
        RawSpec::Type(_) => ("job_types", "spec"),
        RawSpec::Breaker(_) => ("job_breakers", "state"),
    }
}

fn name_of(spec: &RawSpec) -> &str {
    match spec {
        RawSpec::Queue(name) => name.as_str(),
        RawSpec::Type(name) => name.as_str(),
        RawSpec::Breaker(name) => name.as_str(),
    }
}

#[cfg(feature = "sqlite")]
impl RawStore for File {
    fn read<'a>(&'a self, spec: &'a RawSpec) -> RawCall<'a, String> {
        Box::pin(async move {
            let (table, column) = column_of(spec);
            let sql = format!("SELECT {column} FROM {table} WHERE name = ?1");
            let conn = rusqlite::Connection::open(&self.0).expect("the file of the engine");
            conn.query_row(&sql, [name_of(spec)], |row| row.get(0)).expect("the text is stored")
        })
    }

    fn write<'a>(&'a self, spec: &'a RawSpec, text: &'a str) -> RawCall<'a, ()> {
        Box::pin(async move {
            let (table, column) = column_of(spec);
            let sql = format!("UPDATE {table} SET {column} = ?2 WHERE name = ?1");
            let conn = rusqlite::Connection::open(&self.0).expect("the file of the engine");
            let changed = conn.execute(&sql, [name_of(spec), text]).expect("the text can be changed");
            assert_eq!(changed, 1, "{spec:?}");
        })
    }
}

/// A schema of PostgreSQL.
#[cfg(feature = "postgres")]
pub(crate) struct Tables {
    pub(crate) url: String,
    pub(crate) schema: String,
}

#[cfg(feature = "postgres")]
impl Tables {
    async fn run(
        &self,
        script: String,
    ) -> Vec<windlass_engines::postgres::tokio_postgres::SimpleQueryMessage> {
        use windlass_engines::postgres::tokio_postgres::{NoTls, connect};

        let (client, connection) = connect(&self.url, NoTls).await.expect("the server answers");
        let connection = tokio::spawn(connection);
        let answers = client.simple_query(&script).await.expect("the script is valid");
        drop(client);
        connection
            .await
            .expect("the connection does not panic")
            .expect("the server closes the connection cleanly");
        answers
    }
}

#[cfg(feature = "postgres")]
impl RawStore for Tables {
    fn read<'a>(&'a self, spec: &'a RawSpec) -> RawCall<'a, String> {
        use windlass_engines::postgres::tokio_postgres::SimpleQueryMessage;

        Box::pin(async move {
            let ((table, column), name) = (column_of(spec), name_of(spec));
            let sql = format!("SELECT {column} FROM {}.{table} WHERE name = '{name}'", self.schema);
            let text = self.run(sql).await.into_iter().find_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            text.expect("the text is stored")
        })
    }

    fn write<'a>(&'a self, spec: &'a RawSpec, text: &'a str) -> RawCall<'a, ()> {
        Box::pin(async move {
            let ((table, column), name, schema) = (column_of(spec), name_of(spec), &self.schema);
            let text = text.replace('\'', "''");
            self.run(format!(
                "UPDATE {schema}.{table} SET {column} = '{text}' WHERE name = '{name}';
                UPDATE {schema}.catalogue SET version = version + 1"
            ))
            .await;
        })
    }
}

/// A namespace of Redis.
#[cfg(feature = "redis")]
pub(crate) struct Hashes {
    pub(crate) url: String,
    pub(crate) namespace: String,
}

#[cfg(feature = "redis")]
impl Hashes {
    fn ask<T: redis::FromRedisValue>(&self, command: &str, hash: &str, args: &[&str]) -> T {
        let client = redis::Client::open(self.url.as_str()).expect("the URL of a server");
        let mut conn = client.get_connection().expect("a connection");
        let key = format!("{{{}}}:{hash}", self.namespace);
        redis::cmd(command).arg(key).arg(args).query(&mut conn).expect("the command is valid")
    }

    /// Returns the number before the text, and the text.
    fn stored(&self, spec: &RawSpec) -> (String, String) {
        let stored: String = self.ask("HGET", hash_of(spec), &[name_of(spec)]);
        match spec {
            RawSpec::Queue(_) => (String::new(), stored),
            RawSpec::Type(_) | RawSpec::Breaker(_) => {
                let (number, text) = stored.split_once(' ').expect("a number precedes the text");
                (format!("{number} "), text.to_owned())
            }
        }
    }
}

#[cfg(feature = "redis")]
fn hash_of(spec: &RawSpec) -> &'static str {
    match spec {
        RawSpec::Queue(_) => "queues",
        RawSpec::Type(_) => "types",
        RawSpec::Breaker(_) => "breakers",
    }
}

#[cfg(feature = "redis")]
impl RawStore for Hashes {
    fn read<'a>(&'a self, spec: &'a RawSpec) -> RawCall<'a, String> {
        Box::pin(async move { self.stored(spec).1 })
    }

    fn write<'a>(&'a self, spec: &'a RawSpec, text: &'a str) -> RawCall<'a, ()> {
        Box::pin(async move {
            let (before, _) = self.stored(spec);
            let _: i64 = self.ask("HSET", hash_of(spec), &[name_of(spec), &format!("{before}{text}")]);
            let _: i64 = self.ask("HINCRBY", "layout", &["catalogue", "1"]);
        })
    }
}
