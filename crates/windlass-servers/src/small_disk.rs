//! A disk that a test fills up: a file system in memory. Only one process and its children see it, and it
//! goes with them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// Says to a process that it may mount file systems.
const IS_APART: &str = "WINDLASS_TEST_IS_APART";

/// A disk with little space.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Runs a test of this program again, by its full name, in a process with a small disk. In that process
    /// it returns the disk. In the first process it returns nothing when the other process has succeeded.
    /// It is an error if the test failed there, or if this system does not allow the mount: a test that
    /// needs a full disk must not pass without one.
    pub fn for_test(name: &str, kilobytes: u32) -> Result<Option<Self>, Error> {
        if std::env::var_os(IS_APART).is_some() {
            return Self::mount(kilobytes).map(Some);
        }
        let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
        let mut test = apart()?;
        let test = test.arg(program).args([name, "--exact", "--nocapture"]).env(IS_APART, "1");
        let ended = test.stderr(Stdio::inherit()).output();
        let ended = ended.map_err(Error::io("running the test with a small disk"))?;
        let output = String::from_utf8_lossy(&ended.stdout);
        print!("{output}");
        // The program also succeeds if it has no test of this name.
        match ended.status.success() && output.contains("test result: ok. 1 passed") {
            true => Ok(None),
            false => Err(failed(format!("the test {name} with a small disk"), &ended.status.to_string())),
        }
    }

    fn mount(kilobytes: u32) -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("windlass-small-disk-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::io("creating a folder to mount on"))?;
        let size = format!("size={kilobytes}k");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path);
        let ended = mount.status().map_err(Error::io("running `mount`"))?;
        match ended.success() {
            true => Ok(Self { path }),
            false => Err(failed("mounting a small disk".to_owned(), &ended.to_string())),
        }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the disk completely.
    pub fn fill(&self) -> Result<(), Error> {
        let doing = "filling a small disk";
        let mut file = File::create(self.filler()).map_err(Error::io(doing))?;
        // Blocks become smaller and smaller, until no further byte fits.
        for size in [4_096, 1] {
            loop {
                match file.write(&vec![1; size]) {
                    Ok(1..) => {}
                    Ok(0) => break,
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(Error::io(doing)(error)),
                }
            }
        }
        Ok(())
    }

    /// Removes the file that [`fill`](Self::fill) wrote.
    pub fn make_room(&self) -> Result<(), Error> {
        fs::remove_file(self.filler()).map_err(Error::io("freeing space on a small disk"))
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The mount goes with the process; only the folder would stay. A file that is still open there does
        // no harm.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.path).status();
        if unmounted.is_ok_and(|ended| ended.success()) {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Runs a program where mounting is allowed and no other process sees the mount: as root by itself, else as
/// root of a name space.
fn apart() -> Result<Command, Error> {
    for rights in [&["--mount"][..], &["--mount", "--map-root-user"]] {
        let unshare = || {
            let mut unshare = Command::new("unshare");
            unshare.args(rights).arg("--");
            unshare
        };
        let tried = unshare().arg("true").stderr(Stdio::null()).status();
        if tried.map_err(Error::io("running `unshare`"))?.success() {
            return Ok(unshare());
        }
    }
    let why = "neither root nor name spaces for users; run the tests as root, or set kernel.unprivileged_userns_clone";
    Err(failed("mounting a file system for a test".to_owned(), why))
}

fn failed(doing: String, why: &str) -> Error {
    Error::io(doing)(io::Error::other(why.to_owned()))
}
