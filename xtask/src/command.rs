//! Runs other programs: prints the command, and passes its output on or reads it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies one folder below the root").to_owned()
}

/// A call of cargo at the root of the repository. It reads nothing from the terminal.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    // Cargo passes its own path to the programs that it runs, so a toolchain chosen with `+` stays chosen.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    as_from_a_shell(command.args(arguments)).current_dir(root()).stdin(Stdio::null());
    command
}

/// Removes the variables that cargo has set for this program. Crates that build C (`ring`) are rebuilt
/// whenever those variables change, and so is everything that depends on them. A build started here would
/// otherwise undo a build that a person started, and the other way round.
pub(crate) fn as_from_a_shell(command: &mut Command) -> &mut Command {
    let about_this_package = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(about_this_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a program to its end. Fails if the program fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    announce(command);
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs a program to its end, and passes every line of its output to `reader`.
pub(crate) fn run_and_read(command: &mut Command, mut reader: impl FnMut(&str)) -> Result<(), String> {
    announce(command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| cannot_start(command, &error))?;
    let output = child.stdout.take().expect("the output was requested as a pipe");
    for line in BufReader::new(output).split(b'\n') {
        let bytes = line.map_err(|error| format!("reading the output of `{}`: {error}", shown(command)))?;
        reader(&String::from_utf8_lossy(&bytes));
    }
    let status = child.wait().map_err(|error| format!("waiting for `{}`: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs a program without printing anything, and returns its output.
pub(crate) fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed ({})\n{errors}", shown(command), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn announce(command: &Command) {
    println!("\n$ {}", shown(command));
}

fn cannot_start(command: &Command, error: &std::io::Error) -> String {
    format!("starting `{}` failed: {error}", shown(command))
}

/// The command as a person would type it, with the variables that are set for it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or(command.get_program());
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        let quote = if value.contains(' ') { "'" } else { "" };
        Some(format!("{}={quote}{value}{quote}", name.to_string_lossy()))
    });
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let words = variables.chain([program.to_string_lossy().into_owned()]).chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_person_would_type_it() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn whom_this_program_starts_is_not_told_of_this_package() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "cargo sets it for tests");
        let mut command = Command::new("sh");
        command.args(["-c", "echo ${CARGO_MANIFEST_DIR-nothing} ${CARGO_PKG_NAME-nothing} ${PATH:+a path}"]);
        assert_eq!(output_of(as_from_a_shell(&mut command)).unwrap(), "nothing nothing a path\n");
    }

    #[test]
    fn every_line_is_read_and_a_failure_is_told() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exit 3"]);
        let failure = run_and_read(&mut command, |line| lines.push(line.to_owned())).unwrap_err();
        assert_eq!(lines, ["one", "two"]);
        assert!(failure.contains("exit status: 3"), "{failure}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let failure = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(failure.contains("no-such-program-here"), "{failure}");
    }
}
