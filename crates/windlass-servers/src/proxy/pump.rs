//! Moves bytes from one side of a link to the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::link::Link;
use super::switches::{Switches, Verdict};

const CHUNK: usize = 16 * 1024;
/// The pause between two checks of a switch that is on.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Question,
    Answer,
}

/// Forwards in both directions, and returns when both have ended.
pub(super) fn both_ways(link: &Arc<Link>, switches: &Arc<Switches>) {
    let answers = {
        let (link, switches) = (Arc::clone(link), Arc::clone(switches));
        thread::spawn(move || one_way(&link, &switches, Direction::Answer))
    };
    one_way(link, switches, Direction::Question);
    // A panic in the thread has been printed.
    let _ = answers.join();
}

fn one_way(link: &Link, switches: &Switches, direction: Direction) {
    let (from, to) = match direction {
        Direction::Question => (&link.client, &link.server),
        Direction::Answer => (&link.server, &link.client),
    };
    if forward(from, to, link, switches, direction).is_err() {
        return link.cut();
    }
    // The end of one direction is forwarded like a byte: not while forwarding is suspended.
    while switches.is_still(direction) && !link.is_cut() {
        thread::sleep(PAUSE);
    }
    // A side that is gone already is no error.
    let _ = to.shutdown(Shutdown::Write);
}

/// Forwards until the sender has ended its direction.
fn forward(
    mut from: &TcpStream,
    to: &TcpStream,
    link: &Link,
    switches: &Switches,
    direction: Direction,
) -> io::Result<()> {
    let mut chunk = [0; CHUNK];
    loop {
        let count = from.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        if direction == Direction::Answer {
            thread::sleep(switches.answer_delay());
        }
        pass_all(&chunk[..count], to, link, switches, direction)?;
    }
}

fn pass_all(
    mut bytes: &[u8],
    to: &TcpStream,
    link: &Link,
    switches: &Switches,
    direction: Direction,
) -> io::Result<()> {
    while !bytes.is_empty() {
        if link.is_cut() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let moved = switches.decide(direction, bytes.len(), |verdict| pass_some(bytes, to, verdict))?;
        if direction == Direction::Question {
            link.note_stuck(moved == 0);
        }
        if moved == 0 {
            thread::sleep(PAUSE);
        }
        bytes = &bytes[moved..];
    }
    Ok(())
}

/// Returns how many bytes are dealt with.
fn pass_some(bytes: &[u8], mut to: &TcpStream, verdict: Verdict) -> io::Result<usize> {
    match verdict {
        Verdict::Wait => Ok(0),
        Verdict::Drop => Ok(bytes.len()),
        Verdict::Pass(count) => match to.write(&bytes[..count]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
            written => written,
        },
    }
}
