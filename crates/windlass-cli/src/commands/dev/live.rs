//! The live table of `dev`. On a terminal it is redrawn in place. Elsewhere a line a second would be noise,
//! so nothing is printed.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use windlass::Client;
use windlass_core::admin::QueueStatus;
use windlass_core::span::show_span;

use super::has_gone;
use crate::exit::Failure;
use crate::output::Output;

const EVERY: Duration = Duration::from_millis(500);

/// Draws the table until the future is dropped. Returns only on a failure.
pub(super) async fn show(client: &Client, output: &Output) -> Failure {
    if output.is_json() || !std::io::stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    let mut drawn_lines = 0;
    loop {
        match client.queues().await {
            Ok(queues) => {
                let text = table(&queues);
                draw(&text, drawn_lines);
                drawn_lines = text.lines().count();
            }
            Err(error) if has_gone(client, &error) => {}
            Err(error) => return error.into(),
        }
        // may sleep: a table that changes more often than this cannot be read.
        tokio::time::sleep(EVERY).await;
    }
}

/// Moves the cursor up over the previous table and draws the new one.
fn draw(text: &str, drawn_lines: usize) {
    let mut terminal = std::io::stderr().lock();
    let up = if drawn_lines > 0 { format!("\x1b[{drawn_lines}A\x1b[J") } else { String::new() };
    // Write errors are ignored: a closed terminal needs no table.
    let _ = write!(terminal, "{up}{text}");
    let _ = terminal.flush();
}

fn table(queues: &[QueueStatus]) -> String {
    let mut text = format!(
        "{:<12} {:>7} {:>9} {:>7} {:>8} {:>10} {:>8} {:>6} {:>9} {:>7}\n",
        "QUEUE",
        "READY",
        "SCHEDULED",
        "RUNNING",
        "SLOTS",
        "SUCCEEDED",
        "RETRIED",
        "DEAD",
        "CANCELLED",
        "OLDEST"
    );
    for queue in queues {
        let (counts, totals) = (&queue.counts, &queue.totals);
        let oldest = queue.oldest_ready.map_or_else(|| "–".to_owned(), show_span);
        text += &format!(
            "{:<12} {:>7} {:>9} {:>7} {:>8} {:>10} {:>8} {:>6} {:>9} {:>7}\n",
            queue.spec.name,
            counts.ready,
            counts.scheduled,
            counts.running,
            if queue.unreadable.is_some() { "?".to_owned() } else { queue.spec.concurrency.to_string() },
            totals.succeeded,
            totals.retried,
            totals.dead,
            totals.cancelled,
            oldest,
        );
    }
    text
}
