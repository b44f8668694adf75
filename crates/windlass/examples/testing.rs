//! How an application tests its jobs. In your own code each of these functions would be a `#[tokio::test]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::testing::{FakeJob, TestWorker, run_handler};
use windlass::types::job::JobState;
use windlass::types::settle::Transition;
use windlass::{Client, Context, EnqueueError, Handlers, JobType, State};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Invoice {
    order: u64,
}

impl JobType for Invoice {
    const NAME: &'static str = "invoice.send";
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Remind {
    order: u64,
}

impl JobType for Remind {
    const NAME: &'static str = "invoice.remind";
}

/// A mail server that may be down.
#[derive(Clone)]
struct Mailer {
    is_up: bool,
}

async fn invoice(job: Invoice, ctx: Context, State(mailer): State<Mailer>) -> Result<(), String> {
    if !mailer.is_up {
        return Err("the mail server is down".to_owned());
    }
    ctx.log(format!("invoice for order {}", job.order));
    let in_two_weeks = Duration::from_secs(14 * 24 * 3600);
    ctx.enqueue(Remind { order: job.order }).delay(in_two_weeks).await.map_err(|error| error.to_string())?;
    Ok(())
}

async fn remind(job: Remind, ctx: Context) {
    ctx.log(format!("please pay order {}", job.order));
}

/// The application's code, which does not know of the tests.
async fn check_out(client: &Client, order: u64) -> Result<(), EnqueueError> {
    client.enqueue(Invoice { order }).key(&format!("order:{order}")).await?;
    Ok(())
}

#[tokio::main]
async fn main() {
    a_check_out_enqueues_an_invoice().await;
    a_handler_is_called_on_a_made_up_job().await;
    a_reminder_follows_after_two_weeks().await;
    an_invoice_is_dead_after_five_attempts().await;
}

async fn a_check_out_enqueues_an_invoice() {
    let worker = TestWorker::new(Handlers::new(()));
    worker.client().register::<Invoice>().await.expect("the type is registered");
    check_out(worker.client(), 7).await.expect("the job is accepted");
    let invoice = worker.assert_enqueued::<Invoice>(|invoice| invoice.order == 7);
    println!("A check-out enqueued {invoice:?}.");
}

async fn a_handler_is_called_on_a_made_up_job() {
    let ran = run_handler(invoice, Invoice { order: 7 }, Mailer { is_up: true }).await;
    assert_eq!(ran.follow_ups_of::<Remind>(), [Remind { order: 7 }]);
    print!("The handler wrote: {}", ran.output());

    let third = FakeJob::new(Invoice { order: 7 }).attempt(3);
    let ran = run_handler(invoice, third, Mailer { is_up: false }).await;
    assert!(matches!(ran.transition, Transition::Retry { .. }));
    println!("With the server down it failed: {}.", ran.error().expect("the handler failed").text);
}

async fn a_reminder_follows_after_two_weeks() {
    let handlers = Handlers::new(Mailer { is_up: true }).handle(invoice).handle(remind);
    let mut worker = TestWorker::new(handlers);
    check_out(worker.client(), 7).await.expect("the job is accepted");
    let ran = worker.run().await;
    assert_eq!((ran.len(), worker.waiting::<Remind>().len()), (1, 1));
    worker.advance(Duration::from_secs(14 * 24 * 3600));
    print!("Two weeks later: {}", worker.run().await[0].output());
}

async fn an_invoice_is_dead_after_five_attempts() {
    let mut worker = TestWorker::new(Handlers::new(Mailer { is_up: false }).handle(invoice));
    let id = worker.client().enqueue(Invoice { order: 7 }).await.expect("the job is accepted").id;
    let ran = worker.run_for(Duration::from_secs(24 * 3600)).await;
    assert_eq!((ran.len(), worker.job(id).job_state()), (5, JobState::Dead));
    println!(
        "A day later, after {} attempts, the last error is: {}.",
        ran.len(),
        worker.last_errors()[4].error
    );
}
