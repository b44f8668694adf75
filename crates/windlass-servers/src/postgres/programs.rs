//! The programs of PostgreSQL, all of one version.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, programs};

const INSTALL: &str = "Debian, Ubuntu: `apt install postgresql`; Fedora: `dnf install postgresql-server`";
/// Debian installs versions side by side, outside of `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";

#[derive(Debug)]
pub(super) struct Programs {
    pub(super) initdb: PathBuf,
    pub(super) postgres: PathBuf,
    pub(super) psql: PathBuf,
    pub(super) basebackup: PathBuf,
}

impl Programs {
    pub(super) fn find() -> Result<Self, Error> {
        let versions = newest_first(Path::new(DEBIAN));
        let initdb = programs::find("initdb", &versions, INSTALL)?;
        // The entry in `PATH` may be a link to the folder that holds all programs of a version.
        let beside = initdb.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
        let find = |program: &'static str| match programs::find_in(program, beside.clone()).next() {
            Some(path) => Ok(path),
            None => programs::find(program, &versions, INSTALL),
        };
        Ok(Self {
            postgres: find("postgres")?,
            psql: find("psql")?,
            basebackup: find("pg_basebackup")?,
            initdb,
        })
    }
}

/// Returns the folders `15/bin`, `9.6/bin` and so on below a folder, the newest version first.
fn newest_first(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<_> =
        entries.filter_map(|entry| version(&entry.file_name().to_string_lossy())).collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, name)| folder.join(name).join("bin")).collect()
}

fn version(name: &str) -> Option<(Vec<u32>, String)> {
    let numbers = name.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok()?;
    Some((numbers, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("15") > version("9.6"));
        assert_eq!(version("common"), None);
    }
}
