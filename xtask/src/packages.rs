//! The programs that tests run beside our own. They are searched first, so that missing programs are
//! reported at once. They are installed where this affects no user's machine: as root on a Debian, which is
//! what a CI container is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_servers::{pgbouncer, postgres, python, redis};

use crate::command;

/// A package that tests need.
struct Package {
    /// Its name on Debian.
    debian: &'static str,
    is_there: fn() -> bool,
}

const NEEDED: [Package; 5] = [
    Package { debian: "postgresql", is_there: || postgres::is_installed().is_ok() },
    Package { debian: "redis-server", is_there: || redis::is_installed().is_ok() },
    Package { debian: "pgbouncer", is_there: || pgbouncer::is_installed().is_ok() },
    Package { debian: "python3-psycopg", is_there: || python::with_psycopg().is_ok() },
    Package { debian: "openssl", is_there: || answers("openssl", &["version"]) },
];

/// Installs the missing packages, or returns an error that names them.
pub(crate) fn need_all() -> Result<(), String> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !may_install() {
        return Err(advice(&missing));
    }
    install(&missing)?;
    let missing = self::missing();
    if missing.is_empty() { Ok(()) } else { Err(advice(&missing)) }
}

fn missing() -> Vec<&'static str> {
    NEEDED.iter().filter(|package| !(package.is_there)()).map(|package| package.debian).collect()
}

fn advice(missing: &[&str]) -> String {
    let list = missing.join(" ");
    format!(
        "expected the programs that tests need, got no {list}; install the packages (Debian: `apt install {list}`)"
    )
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

pub(crate) fn may_install() -> bool {
    // Only root can install, and only Debian has packages of these names.
    is_root() && answers("apt-get", &["--version"])
}

fn is_root() -> bool {
    command::output_of(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn install(packages: &[&str]) -> Result<(), String> {
    let _quiet = Quiet::begin(Path::new("/"))?;
    command::run(&mut apt_get(&["update"]))?;
    command::run(apt_get(&["install", "--yes", "--no-install-recommends"]).args(packages))
}

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Another installation may be under way.
    command.args(["-o", "DPkg::Lock::Timeout=300"]);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Keeps the packages of servers from starting them. Debian reads two files that prevent this while they
/// exist: no database is created and no service is started. A file that exists already is left as it is.
struct Quiet {
    /// The created files and folders, in the order of their creation.
    made: Vec<PathBuf>,
}

const QUIET: [(&str, &str); 2] = [
    ("etc/postgresql-common/createcluster.d/windlass.conf", "create_main_cluster = false\n"),
    ("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n"),
];

impl Quiet {
    fn begin(root: &Path) -> Result<Self, String> {
        let mut quiet = Self { made: Vec::new() };
        for (path, text) in QUIET.map(|(path, text)| (root.join(path), text)) {
            if !path.exists() {
                quiet.make(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        Ok(quiet)
    }

    fn make(&mut self, path: &Path, text: &str) -> std::io::Result<()> {
        let missing: Vec<_> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.made.push(folder.to_owned());
        }
        self.made.push(path.to_owned());
        fs::write(path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // A folder in which a package has created something in between is not removed.
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_command_that_brings_it() {
        let advice = advice(&["pgbouncer", "python3-psycopg"]);
        assert!(advice.contains("apt install pgbouncer python3-psycopg"), "{advice}");
    }

    #[test]
    fn a_program_that_is_not_there_does_not_answer() {
        assert!(answers("sh", &["-c", "exit 0"]));
        assert!(!answers("sh", &["-c", "exit 1"]));
        assert!(!answers("no-such-program-here", &[]));
    }

    #[test]
    fn what_keeps_services_quiet_is_gone_afterwards_and_what_was_there_before_stays() {
        let root = std::env::temp_dir().join(format!("xtask-quiet-{}", std::process::id()));
        let [ours, theirs] = QUIET.map(|(path, _)| root.join(path));
        fs::create_dir_all(theirs.parent().unwrap()).unwrap();
        fs::write(&theirs, "theirs").unwrap();
        let quiet = Quiet::begin(&root).unwrap();
        assert!(fs::read_to_string(&ours).unwrap().contains("create_main_cluster = false"));
        // A package creates a file in between.
        fs::write(root.join("etc/postgresql-common/packaged"), "").unwrap();
        drop(quiet);
        assert!(!ours.parent().unwrap().exists());
        assert!(root.join("etc/postgresql-common/packaged").exists());
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        fs::remove_dir_all(&root).unwrap();
    }
}
