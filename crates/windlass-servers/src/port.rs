//! A free port on loopback.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use crate::Error;

/// Below the ports that Linux gives to outgoing connections: one of those could take a killed server's port before
/// it is restarted.
const PORTS: Range<u16> = 15_000..32_000;
const TRIES_MAX: usize = 1_000;

/// A port that nobody listens on now. Somebody else may take it before the server does: be ready to try another.
pub(crate) fn free() -> Result<u16, Error> {
    let free = std::iter::repeat_with(any).take(TRIES_MAX).find(|port| is_free(*port));
    let none = || std::io::Error::other(format!("none of {TRIES_MAX} ports in {PORTS:?} is free"));
    free.ok_or_else(none).map_err(Error::io("looking for a free port"))
}

fn any() -> u16 {
    let span = u64::from(PORTS.end - PORTS.start);
    let offset = random() % span;
    PORTS.start
        + u16::try_from(offset).expect("an offset is smaller than the span of ports, which are 16 bits")
}

/// A number that differs from call to call and from process to process.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_not_free() {
        let port = free().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(listener);
        assert!(is_free(port));
    }
}
