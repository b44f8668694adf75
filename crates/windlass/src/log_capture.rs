//! Captures the log lines of a thread for a test.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The log lines of this thread from now on, until it is dropped.
pub(crate) struct LogCapture {
    lines: Arc<Mutex<Vec<String>>>,
    _until: DefaultGuard,
}

impl LogCapture {
    /// Captures all events of at least this level.
    pub(crate) fn from(level: Level) -> Self {
        let lines = Arc::default();
        let until = tracing::subscriber::set_default(Listener { lines: Arc::clone(&lines), level });
        Self { lines, _until: until }
    }

    /// The lines that contain `part`: each has the message, and each field as `name=value`.
    pub(crate) fn lines_with(&self, part: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.contains(part)).cloned().collect()
    }
}

struct Listener {
    lines: Arc<Mutex<Vec<String>>>,
    level: Level,
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
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
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }
}
