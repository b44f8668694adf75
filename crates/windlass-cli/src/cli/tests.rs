use clap::CommandFactory;

use super::*;

const DOCS: &str = include_str!("../../../../docs/cli.md");

/// Every command that has no subcommands, with its full name.
fn leaves(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
    if !command.has_subcommands() {
        return vec![(name.to_owned(), command.clone())];
    }
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below.flat_map(|below| leaves(below, &format!("{name} {}", below.get_name()))).collect()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_is_documented_with_all_its_flags_and_has_an_example() {
    for (name, command) in leaves(&Cli::command(), "windlass") {
        assert!(DOCS.contains(&format!("`{name}")), "{name} is missing in docs/cli.md");
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(DOCS.contains(&format!("--{flag}")), "--{flag} of {name} is missing in docs/cli.md");
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let plain = ["windlass version", "windlass check"].contains(&name.as_str());
        assert!(plain || help.contains(&name), "{name} has no example of itself: {help}");
        assert!(command.get_about().is_some(), "{name} has no description");
    }
}

#[test]
fn every_exit_code_is_documented() {
    for line in CODES_HELP.lines().skip(1) {
        let (code, meaning) = line.trim().split_once("  ").expect("a code and its meaning");
        let row = DOCS.lines().find(|row| row.starts_with(&format!("| {code} |")));
        assert!(
            row.is_some_and(|row| row.ends_with(&format!("{} |", meaning.trim())) || code == "130"),
            "{line}"
        );
    }
}
