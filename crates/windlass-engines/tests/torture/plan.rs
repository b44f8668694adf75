//! What is to be done: as `cargo xtask torture` asks for it, or in short.

use std::time::Duration;

use windlass_core::limits::WORKER_LEASE;

/// Something bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The server is killed with all its processes, and comes back.
    Kill,
    /// The server is killed and has lost what it had not synced. Only for those that sync now and then.
    PowerCut,
    /// The server is ended in good order, and comes back.
    Restart,
    /// Connections are cut.
    Cut,
    /// What the server answers is lost, and what it was asked for is done.
    Swallow,
    /// A worker's process stands still until its jobs were rescued, and is woken.
    FreezeWorker,
    /// The server stands still, and goes on.
    FreezeStore,
    /// The server forgets the scripts that it was sent. Only for Redis.
    ScriptFlush,
    /// The server has no memory left for a second, and gets some. Only for Redis.
    Full,
}

impl Fault {
    /// Those that every store must survive.
    pub(crate) const ALL: [Self; 6] =
        [Self::Kill, Self::Restart, Self::Cut, Self::Swallow, Self::FreezeWorker, Self::FreezeStore];
    /// Those that strike Redis alone, beside the others.
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

/// From so many seconds on the long forms are used.
const LONG_FROM: u64 = 60;
/// In the long form the store stands still in one turn of so many.
const FREEZE_STORE_EVERY: u32 = 10;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) faults: Vec<Fault>,
    pub(crate) seed: u64,
    /// Turns go on for so long…
    pub(crate) lasts: Duration,
    /// …and until the server was killed so often.
    pub(crate) kills_min: u32,
    /// The worker lease of those who live in this process.
    pub(crate) lease: Duration,
    /// …and in others: short, since one of them is to be rescued again and again.
    pub(crate) process_lease: Duration,
    /// So long the store stands still.
    pub(crate) freeze: Duration,
    /// So long connections are cut or answers are lost.
    pub(crate) unrest: Duration,
    pub(crate) is_long: bool,
}

impl Plan {
    /// Each fault once, within seconds.
    pub(crate) fn short(faults: &[Fault]) -> Self {
        // That nobody is declared dead is part of the judgement, and shorter ones do run out where a busy machine gives a
        // process no processor for that long. The processes that are frozen are meant to be.
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

    /// Nothing but broken connections and lost answers, a little longer.
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

    /// As the environment says, which `cargo xtask torture` has checked; in short if it says nothing. `all` are the faults
    /// that the store is struck with unless some of them are named.
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

    /// The faults of one turn, counted from 1, in an order that the dice choose. In the long form the server is killed
    /// twice, and it rarely stands still, since that takes as long as all the others.
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
