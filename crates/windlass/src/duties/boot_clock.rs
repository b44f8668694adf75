//! A clock that also runs while the machine is suspended, as the store's does: otherwise a lease holder on
//! a suspended machine would trust its lease on resume. `std::time::Instant` stands still meanwhile on
//! Linux.

use crate::worker::Moment;

/// A clock that counts from its creation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BootClock(Moment);

impl BootClock {
    pub(crate) fn start() -> Self {
        Self(since_boot())
    }

    pub(crate) fn now(self) -> Moment {
        since_boot().saturating_sub(self.0)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Moment {
    read(rustix::time::ClockId::Boottime)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn since_boot() -> Moment {
    read(rustix::time::ClockId::Monotonic)
}

fn read(clock: rustix::time::ClockId) -> Moment {
    let time = rustix::time::clock_gettime(clock);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Moment::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_when_it_was_made_and_never_runs_back() {
        let clock = BootClock::start();
        let readings: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(readings.is_sorted());
        assert!(readings[0] < Moment::from_secs(3_600));
    }
}
