//! What a person at a terminal sees while the measurement runs.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal, nothing elsewhere.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(json: bool) -> Self {
        let bar = if json || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::no_length()
        };
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// A new scenario begins.
    pub(super) fn scenario(&self, name: &'static str) {
        self.0.set_prefix(name);
    }

    /// A new part of it begins.
    pub(super) fn part(&self, name: &'static str, steps: u64) {
        let style =
            ProgressStyle::with_template("{prefix:21} {msg:20} {wide_bar} {human_pos}/{human_len} {per_sec}");
        self.0.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.0.reset();
        self.0.set_length(steps);
        self.0.set_message(name);
    }

    pub(super) fn at(&self, step: u64) {
        self.0.set_position(step);
    }

    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}
