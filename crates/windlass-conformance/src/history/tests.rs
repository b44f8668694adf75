use super::*;
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, JobId, JobState};

mod forged;
mod clean;
mod files;

/// A history that a test builds line by line; each line is a second later than the line before.
#[derive(Default)]
struct Tale(History);

fn uid() -> Uid {
    Uid::from("p/1")
}

impl Tale {
    fn tell(mut self, event: Event) -> Self {
        let at = Timestamp::from_micros(1_000_000 * (self.0.entries.len() as i64 + 1));
        self.0.push(at, event);
        self
    }

    fn put_in() -> Self {
        Self::default().invoke().tell(Event::Acknowledged { uid: uid(), job: JobId(1) })
    }

    fn invoke(self) -> Self {
        self.tell(Event::Invoke { uid: uid(), due: None })
    }

    fn start(self, token: &str, worker: &str) -> Self {
        self.tell(Event::start(uid(), token, worker))
    }

    fn end(self, token: &str, outcome: Outcome) -> Self {
        self.tell(Event::end(uid(), token, outcome))
    }

    fn applied(self, token: &str) -> Self {
        self.tell(Event::applied(uid(), token))
    }

    fn lost(self, token: &str) -> Self {
        self.tell(Event::lost(uid(), token))
    }

    fn kill(self, worker: &str) -> Self {
        self.tell(Event::fault(FaultKind::Kill, worker))
    }

    fn run(self, token: &str, outcome: Outcome) -> Self {
        self.start(token, "w1").end(token, outcome).applied(token)
    }

    fn stored(self, job_state: JobState, counters: Counters) -> Self {
        self.tell(Event::Final { uid: uid(), job: JobId(1), job_state, counters })
    }

    fn succeeded(self, attempts: u32) -> Self {
        self.stored(JobState::Succeeded, Counters { attempts, ..Counters::default() })
    }

    fn verdict(&self) -> Verdict {
        check(&self.0, &Rules::default())
    }

    /// Asserts that the check finds exactly these kinds of fault, and that the verdict names the job.
    fn must_be_flagged_as(self, kinds: &[&str]) {
        let verdict = self.verdict();
        let found = verdict.faults();
        let found: Vec<_> = found.iter().filter(|(_, f)| !f.is_empty()).map(|(kind, _)| *kind).collect();
        assert_eq!(found, kinds, "{verdict}");
        assert!(!verdict.is_clean());
        assert!(verdict.to_string().contains("p/1"), "{verdict}");
    }

    fn must_be_clean(self) {
        let verdict = self.verdict();
        assert!(verdict.is_clean(), "{verdict}");
        assert!(verdict.to_string().contains("nothing wrong"), "{verdict}");
    }
}
