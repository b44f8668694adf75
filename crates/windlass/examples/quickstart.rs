//! The shortest program: a job, a handler, a worker.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::MemoryEngine;
use windlass::prelude::*;

#[derive(Serialize, Deserialize)]
struct SendMail {
    to: String,
}

impl JobType for SendMail {
    const NAME: &'static str = "mail.send";
}

async fn send_mail(job: SendMail) -> Result<(), std::io::Error> {
    println!("Dear {}, your job ran.", job.to);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let handlers = Handlers::new(()).handle(send_mail);
    let mut worker = Worker::start(Arc::new(MemoryEngine::new()), handlers, WorkerOptions::default()).await?;
    worker.client().enqueue(SendMail { to: "Ada".to_owned() }).await?;
    worker.drain().await;
    Ok(())
}
