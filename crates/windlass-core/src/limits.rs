//! Every limit of the system, in one place. A limit is part of the contract: a request past it gets a
//! typed error at enqueue, never a surprise later.

use std::time::Duration;

/// Bytes of a job's payload as JSON text.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// How deep arrays and objects of a payload may nest.
pub const PAYLOAD_DEPTH_MAX: usize = 64;
/// Bytes of a result that a job stores.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of an error's text; longer texts are truncated, with a note.
pub const ERROR_BYTES_MAX: usize = 8 * 1024;
/// Bytes of the output of a handler in one attempt; later lines are dropped, with a note.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a progress note.
pub const PROGRESS_BYTES_MAX: usize = 1024;

/// Characters of a queue's or a job type's name.
pub const NAME_CHARS_MAX: usize = 64;
/// Bytes of a key, of the name of an ordering key or a group, or of a correlation id.
pub const KEY_BYTES_MAX: usize = 256;
/// Bytes of a tag.
pub const TAG_BYTES_MAX: usize = 64;
/// Tags on one job.
pub const TAGS_MAX: usize = 32;
/// Bytes of the reason that a person gives for an act.
pub const REASON_BYTES_MAX: usize = 1024;

/// How far in the future a job may be scheduled: ten years of 365 days.
pub const DELAY_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The longest pause that a platform can request after too many calls. A longer request counts as this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest time-out of a handler: thirty days.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest retention in days: ten years.
pub const RETENTION_DAYS_MAX: u32 = 3650;
/// Failures after which a job is dead under even the most patient retry policy.
pub const FAILURES_MAX: u32 = 1_000;

/// Jobs in one enqueue request.
pub const ENQUEUE_BATCH_MAX: usize = 1_000;
/// Jobs in one claim.
pub const CLAIM_BATCH_MAX: u32 = 1_000;
/// Fairness keys that one claim or scan queries, due or not; the next claim continues behind them.
pub const FAIRNESS_KEYS_PER_SCAN_MAX: u32 = 200;
/// Fairness keys of one queue and priority that an engine remembers as having a due job.
pub const FAIRNESS_KEYS_KNOWN_MAX: usize = 1_000;
/// Settlements in one request.
pub const SETTLE_BATCH_MAX: usize = 1_000;
/// Rows of a page of a list.
pub const LIST_PAGE_MAX: u32 = 200;
/// Rows that one call of a maintenance duty changes at most.
pub const MAINTENANCE_BATCH_MAX: u32 = 500;
/// Jobs that one call releases from a gate at most: as many as a claim takes. Redis takes fewer, since
/// the server does nothing else meanwhile.
pub const OPEN_BATCH_MAX: u32 = 1_000;
/// Attempts shown of one job, the newest ones.
pub const ATTEMPTS_SHOWN_MAX: u32 = 100;

/// Circuit breakers that a store keeps.
pub const BREAKERS_MAX: u32 = 1_000;
/// Probes of a half-open breaker.
pub const PROBES_MAX: u32 = 100;
/// Tokens of a rate limit in one period, and its burst.
pub const RATE_MAX: u32 = 1_000_000;
/// Rate limits of which tokens are taken in one request.
pub const TAKES_MAX: usize = 100;

/// Slots of one worker pool.
pub const CONCURRENCY_MAX: u32 = 1_000;
/// Queues that one claim may serve.
pub const QUEUES_PER_CLAIM_MAX: usize = 64;

/// How long a receipt answers a repeated enqueue.
pub const RECEIPT_TTL: Duration = Duration::from_secs(60 * 60);

/// How long a claim tombstone is kept after a repeated claim request: longer than any server continues a
/// call whose client has gone.
pub const CLAIM_TOMBSTONE_TTL: Duration = RECEIPT_TTL;
/// How long the row of a dead worker is kept for people to inspect.
pub const DEAD_WORKER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The job that has waited longest is searched among this number of the first ready jobs of a priority.
pub const OLDEST_SCANNED_MAX: u32 = 100;

/// Crashes after which a job is dead, whatever its attempts.
pub const CRASHES_MAX: u32 = 3;
/// Slots of a queue without a configured number.
pub const CONCURRENCY_DEFAULT: u32 = 4;
/// Days for which a finished job is kept.
pub const RETENTION_DAYS_DEFAULT: u32 = 7;
/// The time-out of a handler whose type sets none.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);

/// A worker's heartbeat is good for this long.
pub const WORKER_LEASE: Duration = Duration::from_secs(30);
/// A worker sends a heartbeat this often.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// Maintenance checks for dead workers this often.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The holder of a duty's lease renews it this often.
pub const DUTY_HEARTBEAT: Duration = Duration::from_secs(2);
/// A duty's lease is good for this long after its last heartbeat.
pub const DUTY_EXPIRY: Duration = Duration::from_secs(10);
/// The shortest expiry of a lease: below it, the round trip to a store takes most of it.
pub const DUTY_EXPIRY_MIN: Duration = Duration::from_millis(100);
/// The longest expiry of a lease: a duty may lie idle for this long after its holder has died.
pub const DUTY_EXPIRY_MAX: Duration = Duration::from_secs(60 * 60);
/// The shortest interval of a duty.
pub const DUTY_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// A leader is stuck when none of its runs has ended for three intervals, and for at least this long.
pub const DUTY_STUCK_AFTER_MIN: Duration = Duration::from_secs(5 * 60);
/// The restart of a run that was left unfinished several times in a row is delayed by this much more each
/// time.
pub const DUTY_AGAIN_PAUSE: Duration = Duration::from_secs(60);
/// Processes that start at once spread their first runs of a duty of every worker over its interval, and
/// over at most this long.
pub const DUTY_SPREAD_MAX: Duration = Duration::from_secs(60);
/// Characters of the error of a duty's last failed run that are kept with its lease.
pub const DUTY_ERROR_CHARS_MAX: usize = 200;
/// Bytes that a duty itself keeps with its lease.
pub const DUTY_KEPT_BYTES_MAX: usize = 2_560;
/// Duties in one call about leases.
pub const DUTIES_PER_CALL_MAX: usize = 100;
/// Duties whose leases a store keeps.
pub const DUTIES_MAX: u32 = 1_000;
/// A lease that no worker held for this long may be deleted if there is no room for another.
pub const LEASE_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Bytes of metadata that the holder of a lease keeps with it.
pub const LEASE_METADATA_BYTES_MAX: usize = 4 * 1024;
/// Workers that stand by to take over a lease.
pub const STAND_BYS: usize = 3;

/// The first job id in a spool, so that the id of a job says where it is. No other store comes this far,
/// and programs that keep numbers as floating point still tell them apart.
pub const SPOOL_IDS_FROM: i64 = 1_000_000_000_000_000;

/// Bytes of a schedule as text, both as written and as stored.
pub const SCHEDULE_BYTES_MAX: usize = 512;
/// Times of day in one daily or weekly schedule.
pub const SCHEDULE_TIMES_MAX: usize = 24;
/// How far a schedule is searched for its next tick: fifty years. Every tick that ever comes, comes
/// sooner: the rarest day, a 29 February on a given day of the week, comes within forty.
pub const SCHEDULE_SEARCH_MAX: Duration = Duration::from_secs(50 * 366 * 24 * 60 * 60);
/// The shortest interval of a schedule.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest interval of a schedule: ten years.
pub const INTERVAL_MAX: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
/// Missed ticks that a schedule catches up on.
pub const CATCH_UP_MAX: u32 = 1_000;
/// The shortest grace and lateness of missed ticks: below it, every tick would be noticed too late.
pub const CATCH_UP_SPAN_MIN: Duration = Duration::from_secs(1);
/// The longest grace and lateness of missed ticks: ten years.
pub const CATCH_UP_SPAN_MAX: Duration = INTERVAL_MAX;
/// Ticks that one backfill enqueues.
pub const BACKFILL_MAX: usize = 10_000;
/// Missed ticks that are counted individually; a larger number is reported as at least this.
pub const MISSED_COUNTED_MAX: u32 = 10_000;
/// Dates in a list of holidays.
pub const HOLIDAYS_MAX: usize = 10_000;
/// Bytes of a holiday's name.
pub const HOLIDAY_NAME_BYTES_MAX: usize = 256;
/// Schedules that a store keeps.
pub const SCHEDULES_MAX: u32 = 10_000;
/// Schedules in one call.
pub const SCHEDULES_PER_CALL_MAX: usize = 200;
/// Bytes of a declared schedule, with its payload and its holidays.
pub const SCHEDULE_RECORD_BYTES_MAX: usize = 256 * 1024;
/// How long a store remembers which job a tick has made: after that, a backfill of the tick makes another
/// job.
pub const TICK_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How often schedules are checked if nothing is due earlier: a schedule that another process stored may
/// begin this late.
pub const SCHEDULES_POLL_EVERY: Duration = Duration::from_secs(5);
/// How often schedules are checked while no schedule has a future tick.
pub const SCHEDULES_POLL_IDLE: Duration = Duration::from_secs(20);

/// Completion triggers that a store keeps. Each end of a job is compared with all of them.
pub const TRIGGERS_MAX: u32 = 100;
/// Completion triggers in one call.
pub const TRIGGERS_PER_CALL_MAX: usize = 100;
/// Bytes of a declared trigger, with its payload.
pub const TRIGGER_RECORD_BYTES_MAX: usize = SCHEDULE_RECORD_BYTES_MAX;
/// The shortest pause between two evaluations of one trigger, whichever process evaluates it.
pub const TRIGGER_PAUSE: Duration = Duration::from_millis(200);
/// The pause after an evaluation of a trigger is this many times as long as the evaluation took.
pub const TRIGGER_TIME_SHARE: u32 = 20;
/// The longest pause between two evaluations of one trigger.
pub const TRIGGER_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often a process polls for marks whose process died before it could evaluate them.
pub const TRIGGERS_POLL_EVERY: Duration = Duration::from_secs(1);
/// How often a process polls for marks while there is no trigger. A process that marks a trigger
/// evaluates it itself, so only the marks of a process that died wait this long, and only for the first
/// trigger of a store.
pub const TRIGGERS_POLL_IDLE: Duration = Duration::from_secs(20);

/// Bytes of one sample that a worker appends.
pub const SAMPLE_BYTES_MAX: usize = 64 * 1024;
/// The greatest age of a sample; a sample that waited longer for its store counts as measured this long
/// ago.
pub const SAMPLE_AGE_MAX: Duration = Duration::from_secs(60 * 60);
/// Samples in one call.
pub const SAMPLES_PER_CALL_MAX: usize = 200;
/// Samples that a store keeps if no process rolls them up: the newest.
pub const SAMPLES_KEPT_MAX: u64 = 10_000;
/// Rollups that one round writes, approximately: a round ends with the sample that reaches this number.
pub const ROLL_UP_ROWS_MAX: usize = 1_000;
/// Rollups in one page.
pub const ROLLUPS_PAGE_MAX: u32 = 1_000;
/// Minutes, hours or days in one report.
pub const REPORT_SLOTS_MAX: usize = 2_000;
/// Rollups that one report reads.
pub const REPORT_ROWS_MAX: usize = 1_000_000;
/// How long rollups are kept.
pub const ROLLUPS_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The shortest time for which rollups can be kept.
pub const ROLLUPS_KEPT_MIN: Duration = Duration::from_secs(60 * 60);
/// The longest time for which rollups can be kept: ten years.
pub const ROLLUPS_KEPT_MAX: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
/// A worker flushes its sample this often, if it has measured something.
pub const SAMPLES_EVERY: Duration = Duration::from_secs(10);
/// The usual interval between two rollup rounds.
pub const ROLL_UP_EVERY: Duration = Duration::from_secs(10);
/// The interval between two rollup rounds while nothing happens.
pub const ROLL_UP_IDLE: Duration = Duration::from_secs(60);
