//! Jobs and your own tables in one SQLite file, in one transaction. A job exists exactly if your writes do,
//! and is done exactly if its own writes are committed.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use windlass::sqlite::rusqlite::{Connection, params};
use windlass::sqlite::{SqliteEngine, SqliteOptions, complete_in, enqueue_in};
use windlass::types::enqueue::NewJob;
use windlass::types::payload::Payload;
use windlass::types::settle::Settled;
use windlass::{Context, Handlers, JobType, State, Worker, WorkerOptions};

#[derive(Serialize, Deserialize)]
struct Charge {
    order: i64,
}

impl JobType for Charge {
    const NAME: &'static str = "order.charge";
}

/// The application's own connection to the file.
type Database = Arc<Mutex<Connection>>;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn charge(job: Charge, ctx: Context, State(database): State<Database>) -> Result<(), AnyError> {
    let fence = ctx.fence();
    // SQLite blocks, so it runs on a blocking thread.
    tokio::task::spawn_blocking(move || {
        let mut connection = database.lock().map_err(|_| "a handler panicked with the connection")?;
        let tx = connection.transaction()?;
        tx.execute("UPDATE orders SET charged = charged + 1 WHERE id = ?1", params![job.order])?;
        match complete_in(&tx, fence)? {
            Settled::Applied => tx.commit()?,
            // Another worker has the job now. The writes of this handler are rolled back.
            Settled::ClaimLost => tx.rollback()?,
        }
        Ok(())
    })
    .await?
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");
    let engine = Arc::new(SqliteEngine::open(&path, SqliteOptions::default())?);
    let database: Database = Arc::new(Mutex::new(Connection::open(&path)?));
    in_transaction(&database, |tx| {
        Ok(tx.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, charged INTEGER NOT NULL)")?)
    })?;

    let handlers = Handlers::new(Arc::clone(&database)).handle(charge);
    let mut worker = Worker::start(engine, handlers, WorkerOptions::default()).await?;

    in_transaction(&database, |tx| place_order(tx, 1))?;
    println!("Order 1 and its job are committed together.");
    let failed = in_transaction(&database, |tx| {
        place_order(tx, 2)?;
        Err("the customer changed their mind".into())
    });
    if let Err(why) = failed {
        println!("Order 2 is rolled back, and so is its job: {why}.");
    }

    worker.drain().await;
    let charged: Vec<(i64, i64)> = {
        let connection = database.lock().map_err(|_| "a handler panicked with the connection")?;
        let mut rows = connection.prepare("SELECT id, charged FROM orders")?;
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?
    };
    for (order, times) in charged {
        println!("Order {order} was charged {times} time(s).");
    }
    Ok(())
}

fn place_order(tx: &windlass::sqlite::rusqlite::Transaction<'_>, order: i64) -> Result<(), AnyError> {
    tx.execute("INSERT INTO orders VALUES (?1, 0)", params![order])?;
    let job = NewJob::new(Charge::NAME.parse()?, Payload::encode(&Charge { order })?);
    for enqueued in enqueue_in(tx, vec![job])? {
        enqueued.job().map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
}

fn in_transaction(
    database: &Database,
    work: impl FnOnce(&windlass::sqlite::rusqlite::Transaction<'_>) -> Result<(), AnyError>,
) -> Result<(), AnyError> {
    let mut connection = database.lock().map_err(|_| "a handler panicked with the connection")?;
    let tx = connection.transaction()?;
    work(&tx)?;
    Ok(tx.commit()?)
}
