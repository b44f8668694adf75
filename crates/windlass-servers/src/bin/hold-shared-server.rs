//! A helper program for the tests of what servers leave behind. It starts the shared server, prints its
//! URL, and ends when its input closes. With `--child`, a child process waits for the same, and the server
//! stays until the child ends.

use std::io::{Read, stdin};
use std::process::{Command, ExitCode, Stdio};

use windlass_servers::shared;

fn main() -> ExitCode {
    let url = match shared::postgres_url() {
        Ok(url) => url,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if std::env::args().any(|argument| argument == "--child") {
        shared::wait_for_children().expect("the server was started above");
        start_a_child();
    }
    println!("{url}");
    // Any byte and the end of the input both end the program.
    let _ = stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

#[expect(clippy::zombie_processes, reason = "the child must outlive this process")]
fn start_a_child() {
    Command::new("cat").stdout(Stdio::null()).spawn().expect("every system has `cat`");
}
