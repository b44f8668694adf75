//! For the tests of what is left behind: starts the shared server, prints its URL, and ends when its input does.
//! With `--child`, a child waits for the same, and the server stays for it.

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
    // Whatever it is, it ends this.
    let _ = stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

#[expect(clippy::zombie_processes, reason = "the child shall outlive this process")]
fn start_a_child() {
    Command::new("cat").stdout(Stdio::null()).spawn().expect("every system has `cat`");
}
