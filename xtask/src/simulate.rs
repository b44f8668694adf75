//! `cargo xtask simulate`: runs whole clusters on a virtual clock, each from one seed, with faults.

use std::process::Command;

use crate::{command, features};

/// Runs the simulation with the requested number of histories, from the requested seed.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let Plan { histories, seed } = Plan::read(options)?;
    let features = features::for_tests(&command::root())?;
    let mut command =
        command::cargo(&["test", "--workspace", "--features", &features, "--test", "simulation"]);
    command.args(["--", "--include-ignored", "--nocapture"]);
    command::run(tell(&mut command, histories, seed))
}

/// Passes the number of histories and the first seed to the simulation.
pub(crate) fn tell(command: &mut Command, histories: u64, seed: u64) -> &mut Command {
    command.env("WINDLASS_SIM_HISTORIES", histories.to_string()).env("WINDLASS_SIM_SEED", seed.to_string())
}

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    histories: u64,
    seed: u64,
}

impl Plan {
    fn read(options: &[&str]) -> Result<Self, String> {
        let mut plan = Self { histories: 10_000, seed: 1 };
        let pairs = options.chunks_exact(2);
        if let [alone] = pairs.remainder() {
            return Err(format!("expected a whole number after {alone}"));
        }
        for pair in pairs {
            match pair {
                ["--histories", number] => plan.histories = whole(number)?,
                ["--seed", number] => plan.seed = whole(number)?,
                [other, ..] => return Err(format!("expected --histories N or --seed S, got {other:?}")),
                [] => {}
            }
        }
        Ok(plan)
    }
}

fn whole(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("expected a whole number, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order_and_have_defaults() {
        assert_eq!(
            Plan::read(&["--seed", "7", "--histories", "1_000"]),
            Ok(Plan { histories: 1000, seed: 7 })
        );
        assert_eq!(Plan::read(&[]), Ok(Plan { histories: 10_000, seed: 1 }));
    }

    #[test]
    fn what_is_not_a_number_or_not_an_option_is_refused() {
        for wrong in [&["--seed"][..], &["--seed", "many"], &["--sead", "1"], &["7"]] {
            assert!(Plan::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
