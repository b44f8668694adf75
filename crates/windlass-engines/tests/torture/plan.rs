//! The plan of a run: as `cargo xtask torture` requests it, or in short.

use std::time::Duration;

use windlass_core::limits::WORKER_LEASE;

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The server is killed with all its processes, and restarted.
    Kill,
    /// The server is killed and has lost the writes that it had not synced. Only for stores that sync
    /// periodically.
    PowerCut,
    /// The server is stopped cleanly, and restarted.
    Restart,
    /// Connections are cut.
    Cut,
    /// The answers of the server are lost, and its requests are executed.
    Swallow,
    /// A worker's process is frozen until its jobs were rescued, and is resumed.
    FreezeWorker,
    /// The server is frozen, and resumed.
    FreezeStore,
    /// The server forgets the scripts that were sent to it. Only for Redis.
    ScriptFlush,
    /// The server has no memory left for a second, and then gets some. Only for Redis.
    Full,
}

impl Fault {
    /// The faults that every store must survive.
    pub(crate) const ALL: [Self; 6] =
        [Self::Kill, Self::Restart, Self::Cut, Self::Swallow, Self::FreezeWorker, Self::FreezeStore];
    /// The faults for Redis alone, beside the others.
    pub(crate) const REDIS: [Self; 2] = [Self::ScriptFlush, Self::Full];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerCut => "power-cut",
            Self::Restart => "restart",
            Self::Cut => "cut",
            Self::Swallow => "swallow",
            Self::FreezeWorker => "freeze-worker",
            Self::FreezeStore => "freeze-store",
            Self::ScriptFlush => "script-flush",
            Self::Full => "full",
        }
    }
}

/// The long form is used from this number of seconds on.
const LONG_FROM: u64 = 60;
/// In the long form, the store is frozen in one of this number of turns.
const FREEZE_STORE_EVERY: u32 = 10;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) faults: Vec<Fault>,
    pub(crate) seed: u64,
    /// Turns continue for this time…
    pub(crate) lasts: Duration,
    /// …and until the server was killed this number of times.
    pub(crate) kills_min: u32,
    /// The lease of the workers in this process.
    pub(crate) lease: Duration,
    /// The lease of the workers in other processes: short, since one of them is rescued again and again.
    pub(crate) process_lease: Duration,
    /// How long the store is frozen.
    pub(crate) freeze: Duration,
    /// How long connections are cut or answers are lost.
    pub(crate) unrest: Duration,
    pub(crate) is_long: bool,
}

impl Plan {
    /// Returns a plan with each fault once, within seconds.
    pub(crate) fn short(faults: &[Fault]) -> Self {
        // A run fails if a worker is declared dead, and shorter leases do expire where a busy machine gives
        // a process no processor for that long. The frozen processes are meant to be declared dead.
        let lease = Duration::from_secs(3);
        Self {
            faults: faults.to_vec(),
            seed: 1,
            lasts: Duration::ZERO,
            kills_min: 0,
            lease,
            process_lease: Duration::from_millis(500),
            freeze: 2 * lease,
            unrest: Duration::from_millis(500),
            is_long: false,
        }
    }

    /// Returns a plan with only broken connections and lost answers, a little longer.
    pub(crate) fn unrest() -> Self {
        Self { unrest: Duration::from_millis(1500), ..Self::short(&[Fault::Cut, Fault::Swallow]) }
    }

    fn long(faults: &[Fault]) -> Self {
        Self {
            kills_min: 20,
            lease: WORKER_LEASE,
            process_lease: Duration::from_secs(1),
            freeze: Duration::from_secs(40),
            unrest: Duration::from_secs(1),
            is_long: true,
            ..Self::short(faults)
        }
    }

    /// Reads the plan from the environment, which `cargo xtask torture` has checked; without it the plan is
    /// short. `all` are the faults for the store unless the environment names some of them.
    pub(crate) fn asked_for(all: &[Fault]) -> Self {
        let asked = |name: &str| std::env::var(format!("WINDLASS_TORTURE_{name}")).ok();
        let number = |name: &str| asked(name).and_then(|number| number.parse::<u64>().ok());
        let names = asked("FAULTS");
        let is_named = |fault: &Fault| {
            names.as_ref().is_none_or(|names| names.split(',').any(|name| name == fault.name()))
        };
        let faults: Vec<_> = all.iter().copied().filter(is_named).collect();
        assert!(!faults.is_empty(), "expected faults out of {all:?}, got {names:?}");
        let seconds = number("SECONDS").unwrap_or(0);
        let plan = if seconds < LONG_FROM { Self::short(&faults) } else { Self::long(&faults) };
        Self { lasts: Duration::from_secs(seconds), seed: number("SEED").unwrap_or(plan.seed), ..plan }
    }

    /// Returns the faults of one turn, counted from 1, in a random order. In the long form the server is
    /// killed twice, and it is rarely frozen, since that takes as long as all the others.
    pub(crate) fn turn(&self, number: u32, rng: &mut fastrand::Rng) -> Vec<Fault> {
        let rests = self.is_long && number % FREEZE_STORE_EVERY != 1;
        let mut faults: Vec<_> =
            self.faults.iter().copied().filter(|fault| !(rests && *fault == Fault::FreezeStore)).collect();
        if self.is_long && faults.contains(&Fault::Kill) {
            faults.push(Fault::Kill);
        }
        rng.shuffle(&mut faults);
        faults
    }
}
