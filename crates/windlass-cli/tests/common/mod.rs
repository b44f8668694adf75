//! Runs the real binary in a separate directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A working directory for one test.
pub(crate) struct Dir(tempfile::TempDir);

/// How a command ended and what it printed.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    #[allow(dead_code, reason = "not every test file reads JSON")]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    #[allow(dead_code, reason = "not every test file reads JSON")]
    pub(crate) fn error(&self) -> serde_json::Value {
        let error: serde_json::Value =
            serde_json::from_str(&self.err).unwrap_or_else(|why| panic!("{why}: {self:?}"));
        error["error"].clone()
    }
}

#[allow(dead_code, reason = "each test file uses a part of this")]
impl Dir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("the directory is writable");
        path
    }

    /// A call of the binary, without the variables of our own environment that could change what it does.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let ours =
            |name: &str| name.starts_with("WINDLASS") || name.contains("REDIS") || name == "DATABASE_URL";
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.env_remove("RUST_LOG").current_dir(self.path()).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        finish(self.command(args))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> Done {
        let done = self.run(args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done
    }

    pub(crate) fn with_env(&self, variables: &[(&str, &str)], args: &[&str]) -> Done {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        finish(command)
    }

    pub(crate) fn with_input(&self, input: &str, args: &[&str]) -> Done {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("the input is a pipe");
        let input = input.to_owned();
        // A command that refuses its input early may close the pipe.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().expect("the binary ends");
        writer.join().expect("the writer ends");
        done(output)
    }
}

fn finish(mut command: Command) -> Done {
    done(command.output().expect("the binary starts"))
}

fn done(output: std::process::Output) -> Done {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Done { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// A limit that no test reaches; a test that does fails instead of hanging.
#[allow(dead_code, reason = "each test file uses a part of this")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Waits until another process has done something. Returns whether it happened.
#[allow(dead_code, reason = "each test file uses a part of this")]
pub(crate) fn wait_for(mut done: impl FnMut() -> bool) -> bool {
    let started = std::time::Instant::now();
    while started.elapsed() < PATIENCE {
        if done() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(20)); // may sleep: between two polls of another process
    }
    false
}

/// Sends SIGTERM.
#[allow(dead_code, reason = "each test file uses a part of this")]
pub(crate) fn terminate(child: &Child) {
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("the kill command exists");
    assert!(sent.success());
}

/// The exit code of a process that ends by itself, or `None` if it has to be killed.
#[allow(dead_code, reason = "each test file uses a part of this")]
pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    let over = wait_for(|| child.try_wait().expect("its state can be read").is_some());
    if !over {
        let _ = child.kill();
    }
    child.wait().expect("the process ends").code().filter(|_| over)
}
