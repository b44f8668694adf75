//! A free port on loopback.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use crate::Error;

/// The range lies below the ports that Linux gives to outgoing connections: an outgoing connection could
/// take a killed server's port before the server is restarted.
const PORTS: Range<u16> = 15_000..32_000;
const TRIES_MAX: usize = 1_000;
const STARTS_MAX: usize = 5;
/// The system's error for a port that is not free, which every server writes to its log.
const TAKEN: &str = "Address already in use";

/// Starts a server on a free port, and on another port if another process took the first one meanwhile.
pub(crate) fn on_a_free_one(mut start: impl FnMut(u16) -> Result<(), Error>) -> Result<u16, Error> {
    let mut tries = 0;
    loop {
        let port = free()?;
        tries += 1;
        match start(port) {
            Ok(()) => return Ok(port),
            Err(Error::Failed { output, .. }) if output.contains(TAKEN) && tries < STARTS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns a port on which no process listens now.
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

/// Returns a number that differs from call to call and from process to process.
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

    #[test]
    fn a_port_that_was_taken_meanwhile_is_left_for_another() {
        let failure =
            |output: &str| Error::Failed { program: "server".to_owned(), output: output.to_owned() };
        let mut tried = Vec::new();
        let port = on_a_free_one(|port| {
            tried.push(port);
            if tried.len() < 3 { Err(failure("bind: Address already in use")) } else { Ok(()) }
        });
        assert_eq!(port.unwrap(), tried[2]);
    }

    #[test]
    fn any_other_failure_is_told_at_once_and_a_taken_port_after_some_tries() {
        let mut starts = 0;
        let mut fail_with = |output: &str| {
            starts = 0;
            let failed = on_a_free_one(|_| {
                starts += 1;
                Err(Error::Failed { program: "server".to_owned(), output: output.to_owned() })
            });
            assert!(failed.is_err());
            starts
        };
        assert_eq!(fail_with("out of memory"), 1);
        assert_eq!(fail_with(TAKEN), STARTS_MAX);
    }
}
