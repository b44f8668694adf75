//! Lends PostgreSQL schemas to tests. The server needs a tenth of a second to create one, under a lock that
//! admits one creator at a time: longer than most tests run. A schema that a test returns is emptied for the
//! next test.

use std::sync::{Mutex, PoisonError};

use windlass_engines::postgres::tokio_postgres::{self, Client, NoTls};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::shared;

/// The schemas that no test uses at the moment: of tests that connect to the server, and of tests behind a
/// pooler.
static FREE: [Mutex<Vec<String>>; 2] = [Mutex::new(Vec::new()), Mutex::new(Vec::new())];

/// A schema with the tables of Windlass and nothing else in it. Dropping it returns it.
pub(crate) struct Schema {
    pub(crate) name: String,
    is_pooled: bool,
}

impl Schema {
    /// Empties a returned schema, or creates one if none is free.
    pub(crate) async fn borrow() -> Self {
        Self::borrow_for(false).await
    }

    /// The same for a test whose engine connects to a pooler.
    #[allow(dead_code, reason = "only the conformance tests run behind a pooler")]
    pub(crate) async fn borrow_pooled() -> Self {
        Self::borrow_for(true).await
    }

    async fn borrow_for(is_pooled: bool) -> Self {
        let url = shared::postgres_url().expect("a PostgreSQL server");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the server answers");
        let connection = tokio::spawn(connection);
        let free = FREE[usize::from(is_pooled)].lock().unwrap_or_else(PoisonError::into_inner).pop();
        let name = match free {
            Some(name) => {
                empty(&client, &name, is_pooled).await;
                name
            }
            None => create(&client, &url).await,
        };
        drop(client);
        let closed = connection.await.expect("the connection does not panic");
        closed.expect("the server closes the connection cleanly");
        Self { name, is_pooled }
    }

    /// Returns an address whose sessions are recognised as those of this schema, so that the next borrower
    /// can end them.
    pub(crate) fn url(&self) -> String {
        self.url_at(&shared::postgres_url().expect("a PostgreSQL server"))
    }

    /// The same for another address of the server. The sessions of a pooler serve several clients: the next
    /// borrower waits until they are idle.
    pub(crate) fn url_at(&self, url: &str) -> String {
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}application_name={}", self.name)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        FREE[usize::from(self.is_pooled)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(std::mem::take(&mut self.name));
    }
}

async fn create(client: &Client, url: &str) -> String {
    let name = format!("lent_{:016x}", fastrand::u64(..));
    let options = PostgresOptions { schema: name.clone(), listen: false, ..PostgresOptions::default() };
    drop(PostgresEngine::connect(url, options).await.expect("a fresh schema"));
    client.batch_execute(&text(include_str!("keep.sql"), &name)).await.expect("the first rows are kept");
    name
}

/// Resets the schema to its state after creation.
async fn empty(client: &Client, name: &str, is_pooled: bool) {
    let script = include_str!("empty.sql").replace("{is_pooled}", &is_pooled.to_string());
    client.batch_execute(&text(&script, name)).await.expect("the schema can be emptied");
}

fn text(script: &str, schema: &str) -> String {
    script.replace("{schema}", schema)
}
