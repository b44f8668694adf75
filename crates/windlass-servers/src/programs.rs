//! Finds programs on this machine.

use std::path::{Path, PathBuf};

use crate::Error;

/// Looks in `PATH`, then in the given folders.
pub(crate) fn find(
    program: &'static str,
    elsewhere: &[PathBuf],
    install: &'static str,
) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(elsewhere.iter().cloned());
    find_in(program, folders).ok_or(Error::MissingProgram { program, install })
}

/// The real place of a program: Debian has symbolic links and wrappers in `PATH`, and programs of one version lie
/// side by side.
pub(crate) fn find_in(program: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let candidates = folders.into_iter().map(|folder| folder.join(program));
    candidates.filter(|path| is_program(path)).find_map(|path| path.canonicalize().ok())
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
    fn a_file_that_cannot_be_run_is_no_program() {
        assert!(find_in("passwd", [PathBuf::from("/etc")]).is_none());
        assert!(find_in("sh", [PathBuf::from("/nowhere"), PathBuf::from("/bin")]).is_some());
    }
}
