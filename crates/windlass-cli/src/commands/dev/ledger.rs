//! The ledger that `dev` keeps of its jobs outside the store: a line before each enqueue, a line after its
//! acknowledgement, and what handlers saw. If the store ever loses an acknowledged job, the ledger shows
//! it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::claim::Fence;
use windlass_core::job::JobId;

use crate::exit::{Code, Failure};

/// One line of the ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Line {
    /// About to be enqueued.
    Invoke { uid: String },
    /// Acknowledged by the store, under this id.
    Acknowledged { uid: String, job: JobId },
    /// Refused by the store, so certainly not stored.
    Refused { uid: String },
    /// Its handler started.
    Started { uid: String, job: JobId, token: String, process: u32 },
    /// Its handler ended.
    Ended { uid: String, job: JobId, token: String, done: bool },
}

/// An append-only file that its clones share. Each line is one write, so lines of several threads do not
/// mix, and what was written survives the death of the process.
#[derive(Clone)]
pub(crate) struct Ledger {
    path: PathBuf,
    file: Arc<File>,
}

/// The path of the ledger beside a database.
pub(crate) fn beside(database: &Path) -> PathBuf {
    PathBuf::from(format!("{}.ledger", database.display()))
}

impl Ledger {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(|why| {
            Failure::new(Code::Store, format!("opening the ledger {} failed: {why}", path.display()))
        })?;
        Ok(Self { path, file: Arc::new(file) })
    }

    pub(crate) fn write(&self, line: &Line) {
        let text = serde_json::to_string(line).expect("a line is made of texts and numbers");
        if let Err(why) = (&*self.file).write_all(format!("{text}\n").as_bytes()) {
            tracing::error!(error = %why, "writing the ledger failed; the summary will not count this event");
        }
    }

    pub(crate) fn started(&self, uid: &str, fence: Fence) {
        let (uid, job, token) = (uid.to_owned(), fence.job, fence.token.to_string());
        self.write(&Line::Started { uid, job, token, process: std::process::id() });
    }

    pub(crate) fn ended(&self, uid: &str, fence: Fence, done: bool) {
        self.write(&Line::Ended {
            uid: uid.to_owned(),
            job: fence.job,
            token: fence.token.to_string(),
            done,
        });
    }

    /// The ids of all acknowledged jobs. A line that a kill has cut off is no acknowledgement.
    pub(crate) fn acknowledged(&self) -> Result<BTreeSet<JobId>, Failure> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|why| Failure::new(Code::Store, format!("reading the ledger failed: {why}")))?;
        let jobs = text.lines().filter_map(|line| match serde_json::from_str(line) {
            Ok(Line::Acknowledged { job, .. }) => Some(job),
            _ => None,
        });
        Ok(jobs.collect())
    }
}
