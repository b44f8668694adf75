//! The account under which a server runs. PostgreSQL and PgBouncer refuse to run as root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Error;

/// The accounts that exist for this purpose, in the order of preference.
const NAMES: [&str; 2] = ["postgres", "daemon"];

/// An account other than the caller's. It is empty if the caller is not root and the server can run as the
/// caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account(Option<(u32, u32)>);

impl Account {
    /// Returns the caller's own account, or an unprivileged one if the caller is root.
    pub(crate) fn for_servers() -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self(None));
        }
        let passwd = fs::read_to_string("/etc/passwd").map_err(Error::io("reading /etc/passwd"))?;
        let found = NAMES.iter().find_map(|name| ids_of(name, &passwd));
        let missing = || std::io::Error::other("neither account exists, and servers refuse to run as root");
        let ids = found.ok_or_else(missing);
        let ids = ids.map_err(Error::io(format!("looking for an account called {}", NAMES.join(" or "))))?;
        Ok(Self(Some(ids)))
    }

    /// Makes the program run under the account.
    pub(crate) fn run_as(self, command: &mut Command) -> &mut Command {
        match self.0 {
            Some((uid, gid)) => command.uid(uid).gid(gid),
            None => command,
        }
    }

    /// Makes the account own a file or folder.
    pub(crate) fn own(self, path: &Path) -> Result<(), Error> {
        let Some((uid, gid)) = self.0 else { return Ok(()) };
        let doing = || format!("changing the owner of {}", path.display());
        chown(path, Some(uid), Some(gid)).map_err(Error::io(doing()))
    }
}

/// Reads user and group from a line such as `postgres:x:114:120::/var/lib/postgresql:/bin/bash`.
fn ids_of(name: &str, passwd: &str) -> Option<(u32, u32)> {
    let mut lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.len() > 3 && fields[0] == name)?;
    Some((line[2].parse().ok()?, line[3].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(ids_of("postgres", passwd), Some((101, 104)));
        assert_eq!(ids_of("missing", passwd), None);
    }
}
