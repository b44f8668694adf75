//! Opening a database file: its checks, and the settings of its connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use windlass_core::clock::Clock;
use windlass_core::engine::Durability;
use windlass_core::error::EngineError;
use windlass_core::limits::SPOOL_IDS_FROM;

use super::migrate;
use super::sql::sql;
use super::store_error::{Failure, StoreError, StoreResult};
use crate::clock::SystemClock;
use crate::spool_ids;

/// Older libraries can damage a file in WAL mode.
const LIBRARY_VERSION_MIN: i32 = 3_051_003;

/// The number of prepared statements that a connection keeps: all of ours, and some lists.
const STATEMENTS_MAX: usize = 128;

/// The options of an SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// What a commit waits for.
    pub synchronous: Synchronous,
    /// How long to wait for another process's write lock before an error.
    pub busy_timeout: Duration,
    /// Whether to bring the schema up to date by itself; otherwise an old schema is refused.
    pub migrate: bool,
    /// Whether it keeps jobs for another engine. Such a file has ids of its own, and a file with other jobs
    /// is refused.
    pub is_spool: bool,
    /// The source of the time; tests pass a clock that they move.
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
            migrate: true,
            is_spool: false,
            clock: Arc::new(SystemClock),
        }
    }
}

impl SqliteOptions {
    /// Returns options for the jobs of another engine that is away.
    pub fn for_spool() -> Self {
        Self { is_spool: true, ..Self::default() }
    }
}

/// The event that a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// The disk: an acknowledged job survives a power cut.
    #[default]
    Full,
    /// The system: an acknowledged job survives the death of the process, but perhaps not a power cut.
    Normal,
}

impl Synchronous {
    /// Returns what an acknowledged job survives.
    pub fn durability(self) -> Durability {
        match self {
            Self::Full => Durability::PowerCut,
            Self::Normal => Durability::Crash,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// Checks a path and returns its full form. The file itself need not exist.
pub(super) fn check_path(path: &Path) -> StoreResult<PathBuf> {
    check_library(rusqlite::version_number())?;
    if path.is_dir() {
        return Err(unusable(format!(
            "expected a database file, got the directory {}; name a file in it",
            path.display()
        )));
    }
    let folder = folder_of(path);
    let full = folder.canonicalize().map_err(|error| {
        unusable(format!("expected the directory {} to exist ({error}); create it first", folder.display()))
    })?;
    if let Some(kind) = file_system(&full).and_then(network_file_system) {
        return Err(unusable(format!(
            "expected a local file system, got {kind} at {}; its locks cannot be trusted, so put the file on a local disk or use a database server",
            full.display()
        )));
    }
    let name = path.file_name().ok_or_else(|| unusable(format!("expected a file name, got {path:?}")))?;
    Ok(full.join(name))
}

fn check_library(got: i32) -> StoreResult<()> {
    if got >= LIBRARY_VERSION_MIN {
        return Ok(());
    }
    Err(unusable(format!(
        "expected SQLite 3.51.3 or newer, since older ones can damage a file in WAL mode, got {}.{}.{}; build with the bundled library",
        got / 1_000_000,
        got / 1_000 % 1_000,
        got % 1_000
    )))
}

/// Returns how many bytes a file at this path may still grow by, as far as its disk is concerned.
pub fn room_at(path: &Path) -> std::io::Result<u64> {
    let disk = rustix::fs::statvfs(folder_of(path))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(target_os = "linux")]
fn file_system(folder: &Path) -> Option<u64> {
    let magic = rustix::fs::statfs(folder).ok()?.f_type;
    // The word is signed on some systems and unsigned on others; all magic numbers have 32 bits.
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "only the low 32 bits are used")]
    Some(magic as u64 & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn file_system(_folder: &Path) -> Option<u64> {
    None
}

/// Returns the name of a file system whose locks cannot be trusted, by the number that `statfs` returns.
fn network_file_system(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x786f_4256 => "a shared folder of VirtualBox",
        _ => return None,
    })
}

/// Opens the writer's connection, with the schema up to date.
pub(super) fn open_writer(path: &Path, options: &SqliteOptions) -> StoreResult<Connection> {
    let conn = connect(path, options)?;
    enter_wal(&conn, options.busy_timeout)?;
    conn.pragma_update(None, "synchronous", options.synchronous.as_str())?;
    conn.pragma_update(None, "cache_size", -16_000)?;
    // Fewer checkpoints write a hot page less often; the log stays small all the same.
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    if options.migrate {
        migrate::apply_all(&conn)?
    } else {
        migrate::check_applied(&conn)?
    }
    if options.is_spool {
        begin_spool(&conn)?;
    }
    Ok(conn)
}

/// Lets the ids of jobs begin in the range of spools, in a file that has given none yet.
fn begin_spool(conn: &Connection) -> StoreResult<()> {
    let next: i64 = conn.query_row(sql!("load_sequence"), [], |row| row.get(0))?;
    if next >= SPOOL_IDS_FROM {
        return Ok(());
    }
    if next > 1 {
        return Err(unusable(
            "expected a file of its own for the spool, got one that holds other jobs; name another file"
                .to_owned(),
        ));
    }
    conn.execute(sql!("save_sequence"), [spool_ids::first()])?;
    Ok(())
}

/// Opens a connection that cannot write.
pub(super) fn open_reader(path: &Path, options: &SqliteOptions) -> StoreResult<Connection> {
    let conn = connect(path, options)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.pragma_update(None, "cache_size", -2_000)?;
    Ok(conn)
}

fn connect(path: &Path, options: &SqliteOptions) -> StoreResult<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(conn)
}

/// Sets WAL mode. Changing the journal mode does not wait for locks by itself, and many processes may open
/// a fresh file at once: so it is retried until the busy time-out is over.
fn enter_wal(conn: &Connection, busy_timeout: Duration) -> StoreResult<()> {
    const TRY_EVERY: Duration = Duration::from_millis(5);
    let start = Instant::now();
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => {
                return Err(unusable(format!(
                    "expected the file to accept WAL mode, got mode {mode}; put it on a local disk"
                )));
            }
            Err(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                    if start.elapsed() < busy_timeout =>
                {
                    std::thread::sleep(TRY_EVERY);
                }
                _ => return Err(StoreError::Engine(Failure::of(&error).into())),
            },
        }
    }
}

fn unusable(why: String) -> StoreError {
    EngineError::Unusable { why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_library_is_refused_by_name() {
        let error = EngineError::from(check_library(3_046_001).unwrap_err()).to_string();
        assert!(error.contains("3.46.1") && error.contains("3.51.3"), "{error}");
        assert!(check_library(rusqlite::version_number()).is_ok());
    }

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not_taken_for_them() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9p"), (0x6573_5546, "FUSE")]
        {
            assert_eq!(network_file_system(magic), Some(name));
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_file_system(local), None, "{local:#x}");
        }
    }
}
