//! The errors that an engine logs, for tests that expect one.

use std::fmt;
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// All error lines of this test program. The lines of one test contain its namespace.
static RAISED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records error lines from now on.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// Returns the recorded lines about a namespace.
pub(crate) fn about(namespace: &str) -> Vec<String> {
    let raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
    raised.iter().filter(|text| text.contains(namespace)).cloned().collect()
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        RAISED.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}
