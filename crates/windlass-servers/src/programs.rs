//! Finds programs on this machine.

use std::path::{Path, PathBuf};

use crate::Error;

/// Searches `PATH`, then the given folders.
pub(crate) fn find(
    program: &'static str,
    elsewhere: &[PathBuf],
    install: &'static str,
) -> Result<PathBuf, Error> {
    find_all(program, elsewhere).next().ok_or(Error::MissingProgram { program, install })
}

/// Returns all programs of that name, in the same order.
pub(crate) fn find_all(program: &str, elsewhere: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.extend_from_slice(elsewhere);
    find_in(program, folders)
}

/// Returns absolute paths, since servers run in folders of their own. Links are not followed:
/// `redis-server` is a link to a program that checks the name by which it was called.
pub(crate) fn find_in(
    program: &str,
    folders: impl IntoIterator<Item = PathBuf>,
) -> impl Iterator<Item = PathBuf> {
    let candidates = folders.into_iter().map(move |folder| folder.join(program));
    candidates.filter(|path| is_program(path)).filter_map(|path| std::path::absolute(path).ok())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_what_brings_it() {
        let missing = find("no-such-program-here", &[], "Debian: `apt install nothing`").unwrap_err();
        let text = missing.to_string();
        assert!(text.contains("no-such-program-here") && text.contains("apt install nothing"), "{text}");
    }

    #[test]
    fn a_program_keeps_the_name_that_was_asked_for() {
        let folder = crate::folder::Folder::new(crate::account::Account::for_servers().unwrap()).unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("other-name")).unwrap();
        let found = find_in("other-name", [folder.path().to_owned()]).next();
        folder.remove();
        assert_eq!(found, Some(folder.path().join("other-name")));
    }

    #[test]
    fn a_file_that_cannot_be_run_is_no_program() {
        assert_eq!(find_in("passwd", [PathBuf::from("/etc")]).next(), None);
        assert_eq!(
            find_in("sh", ["/nowhere", "/bin"].map(PathBuf::from)).next(),
            Some(PathBuf::from("/bin/sh"))
        );
    }
}
