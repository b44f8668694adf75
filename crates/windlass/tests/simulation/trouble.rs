//! The faults of processes and of the store, and the acts of an operator.

use std::time::Duration;

use windlass_conformance::history::FaultKind;
use windlass_core::engine::Hint;
use windlass_core::job::JobState;

use crate::observer::Moment;
use crate::plan::{BEAT_EVERY, queue_names};
use crate::process::Input;
use crate::store::Call;
use crate::world::{Away, Caller, Happening, World};

impl World {
    /// Injects a random fault.
    pub(crate) fn strikes(&mut self) {
        if self.healed.is_some() {
            return;
        }
        self.come_back_if_due();
        let at =
            usize::try_from(self.rng.below(self.processes.len() as u64)).expect("there are few processes");
        match self.rng.below(100) {
            0..=17 => self.kill(at),
            18..=35 => self.freeze(at),
            36..=55 => self.stop(at),
            56..=63 => self.store_goes_away(),
            64..=75 if self.plan.clock_steps => self.step_clock(),
            _ => {}
        }
        let after = self.rng.millis(200, 12_000);
        self.later(after, Happening::Strikes);
    }

    fn freeze(&mut self, at: usize) {
        let lasts = if self.rng.per_mille(500) {
            self.rng.millis(40_000, 90_000)
        } else {
            self.rng.millis(50, 30_000)
        };
        let process = &mut self.processes[at];
        let (Some(body), false) = (&process.body, process.frozen) else { return };
        let (worker, life) = (body.worker, process.life);
        process.frozen = true;
        let moment =
            Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process: Some(at) };
        // The process is reliable again after its next heartbeat: until then it may start jobs that it no
        // longer holds.
        let until = self.now + lasts + BEAT_EVERY;
        self.observer.fault(FaultKind::Freeze, worker, Some(until), &moment);
        self.later(lasts, Happening::Thaws { at, life });
    }

    fn stop(&mut self, at: usize) {
        let life = self.processes[at].life;
        let grace = self.rng.millis(0, 6000);
        self.later(Duration::ZERO, Happening::ToProcess { at, life, input: Input::Stop { grace } });
    }

    /// Makes the store unavailable for a while. A full disk lasts longer than other faults, since a person
    /// has to free space.
    fn store_goes_away(&mut self) {
        let how = [Away::Refusing, Away::Frozen, Away::ReadOnly][self.rng.below(3) as usize];
        let lasts = match how {
            Away::ReadOnly => self.rng.millis(20_000, 100_000),
            _ if self.rng.per_mille(300) => self.rng.millis(20_000, 60_000),
            _ => self.rng.millis(20, 8000),
        };
        if self.away.is_none() {
            self.away = Some((how, self.now + lasts));
            self.later(lasts, Happening::Looks);
        }
    }

    fn come_back_if_due(&mut self) {
        if self.away.is_some_and(|(_, until)| until <= self.now) {
            self.away = None;
        }
    }

    fn step_clock(&mut self) {
        let by = i64::try_from(self.rng.below(240_000)).expect("minutes") - 120_000;
        self.store.step_clock(by);
        self.store.at(self.now);
    }

    /// An operator cancels, retries dead letters, pauses and resumes.
    pub(crate) fn operates(&mut self) {
        if self.healed.is_some() {
            return;
        }
        let jobs = self.observer.known_jobs();
        let queue = self.rng.pick(&queue_names()).expect("there are two").clone();
        let job = self.rng.pick(&jobs).copied();
        match (self.rng.below(10), job) {
            (0..=2, Some(job)) => self.send(Caller::Operator, Call::Cancel(job)),
            (3..=6, Some(_)) => {
                let dead = self.store.jobs().into_iter().find(|record| record.job_state() == JobState::Dead);
                let job = dead.map(|record| record.job.id).or(job).expect("there are jobs");
                self.send(Caller::Operator, Call::Retry(job));
            }
            (7, _) => {
                let lasting = self.rng.per_mille(500).then(|| self.rng.millis(1000, 30_000));
                self.send(Caller::Operator, Call::Pause(queue, lasting));
            }
            (8, _) => self.send(Caller::Operator, Call::Resume(queue)),
            _ => {}
        }
        let after = self.rng.millis(500, 15_000);
        self.later(after, Happening::Operates);
    }

    /// Ends the time of faults: all faults are removed, and the cluster must come to rest by itself.
    pub(crate) fn heals(&mut self) {
        // Calls that wait before a frozen store must arrive before later calls, as in a real one.
        if let Some((_, until)) = self.away.filter(|(_, until)| *until > self.now) {
            return self.later(until - self.now, Happening::Heals);
        }
        self.healed = Some(self.now);
        self.away = None;
        for at in 0..self.processes.len() {
            let life = self.processes[at].life;
            self.later(Duration::ZERO, Happening::Thaws { at, life });
            self.later(Duration::from_secs(1), Happening::Starts { at });
        }
        self.later(Duration::from_secs(1), Happening::Looks);
    }

    /// Resumes all queues, as an operator would, also queues that a late pause has stopped.
    fn resume_all(&mut self) {
        for queue in queue_names() {
            self.store.apply(Call::Resume(queue)).expect("the memory engine answers");
            // The notification of this resume is dropped, so that polling alone must find the released
            // jobs.
            let _: Vec<Hint> = self.store.take_hints();
        }
    }

    /// Checks whether the store becomes available again, and after the faults, whether all checks hold.
    pub(crate) fn looks(&mut self) {
        self.come_back_if_due();
        if self.healed.is_some() {
            self.resume_all();
            self.check_along_the_way();
            self.later(Duration::from_secs(1), Happening::Looks);
        }
    }
}
