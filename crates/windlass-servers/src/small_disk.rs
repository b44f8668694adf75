//! A disk of a few megabytes that a test can fill up: a file system in memory, mounted on a folder of its own.
//!
//! Mounting needs root, as in a CI container. A small shell holds the mount and takes it away when this value is dropped or its
//! process is killed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::Error;
use crate::port::random;

/// Mounts, says so, waits for the end of its input, and leaves nothing behind.
const HOLD: &str = r#"mkdir -m 700 "$1" && mount -t tmpfs -o "size=$2,mode=0777" tmpfs "$1" || exit 1
echo mounted
read -r _
umount -l "$1"
rmdir "$1""#;

/// The disk. Whatever a test has on it is gone when it is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    shell: Child,
    lifeline: Option<ChildStdin>,
}

impl SmallDisk {
    /// A new, empty disk with room for so many bytes.
    pub fn new(bytes: u64) -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("windlass-disk-{:016x}", random()));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", HOLD, "disk"]).arg(&path).arg(bytes.to_string()).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = command.spawn().map_err(Error::io("starting /bin/sh"))?;
        let lifeline = shell.stdin.take();
        let mut said = String::new();
        let output = shell.stdout.take().expect("the output was asked for as a pipe");
        BufReader::new(output).read_line(&mut said).map_err(Error::io("mounting a small disk"))?;
        if said.is_empty() {
            let output = shell.wait_with_output().map_err(Error::io("mounting a small disk"))?;
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::Failed { program: "mount -t tmpfs (needs root)".to_owned(), output: why });
        }
        Ok(Self { path, shell, lifeline })
    }

    /// Where files go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the room that is left.
    pub fn fill(&self) -> Result<(), Error> {
        let doing = "filling a small disk";
        let mut file = File::create(self.filler()).map_err(Error::io(doing))?;
        loop {
            match file.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(Error::io(doing)(error)),
            }
        }
    }

    /// Gives the room back.
    pub fn free(&self) -> Result<(), Error> {
        fs::remove_file(self.filler()).map_err(Error::io("freeing a small disk"))
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = self.shell.wait();
    }
}
