//! What `dev` itself knows of its jobs, outside the store: a line before each enqueue, one after its
//! acknowledgement, and what handlers saw. If the store ever forgets an acknowledged job, this shows it.

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
    /// About to be put in.
    Invoke { uid: String },
    /// Acknowledged under this number.
    Acknowledged { uid: String, job: JobId },
    /// Refused: certainly not stored.
    Refused { uid: String },
    /// Its handler started.
    Started { uid: String, job: JobId, token: String, process: u32 },
    /// Its handler ended.
    Ended { uid: String, job: JobId, token: String, done: bool },
}

/// An append-only file; clones share it. Each line is one write, so lines of several threads do not mix, and
/// what was written survives the death of the process.
#[derive(Clone)]
pub(crate) struct Ledger {
    path: PathBuf,
    file: Arc<File>,
}

/// The ledger's place beside a database.
pub(crate) fn beside(database: &Path) -> PathBuf {
    PathBuf::from(format!("{}.ledger", database.display()))
}

impl Ledger {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(|why| {
            Failure::new(Code::Store, format!("the ledger {} cannot be opened: {why}", path.display()))
        })?;
        Ok(Self { path, file: Arc::new(file) })
    }

    pub(crate) fn write(&self, line: &Line) {
        let text = serde_json::to_string(line).expect("a line is made of texts and numbers");
        if let Err(why) = (&*self.file).write_all(format!("{text}\n").as_bytes()) {
            tracing::error!(%why, "the ledger cannot be written");
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

    /// The numbers of all acknowledged jobs. A line that was cut off by a kill is no acknowledgement.
    pub(crate) fn acknowledged(&self) -> Result<BTreeSet<JobId>, Failure> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|why| Failure::new(Code::Store, format!("the ledger cannot be read: {why}")))?;
        let jobs = text.lines().filter_map(|line| match serde_json::from_str(line) {
            Ok(Line::Acknowledged { job, .. }) => Some(job),
            _ => None,
        });
        Ok(jobs.collect())
    }
}
