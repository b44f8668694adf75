//! Counts of jobs by state. No count reads the jobs one by one.

use std::collections::HashMap;

use windlass_core::admin::{Counts, QueueStatus, Totals, TypeStatus};
use windlass_core::clock::Timestamp;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::OLDEST_SCANNED_MAX;
use windlass_core::names::TypeName;
use windlass_core::queue::QueueSpec;

use super::Store;
use super::call::Args;
use super::catalogue::{Catalogue, QueueEntry};
use super::reply::ReplyReader;
use super::script::TYPES_PER_CALL;
use super::store_error::StoreResult;

/// How many jobs behind the first of each priority one script reads, for all of its types together: while it
/// runs, the server does nothing else.
const OLDEST_SCANNED_IN_ALL: u32 = 10 * OLDEST_SCANNED_MAX;

/// The counts of the jobs of one type.
#[derive(Debug, Clone, Default)]
struct Tally {
    counts: Counts,
    totals: Totals,
    /// Since when the longest-waiting ready job has waited.
    oldest: Option<Timestamp>,
}

impl Tally {
    /// Reads a row of `queues.lua`. Running jobs are those that have neither ended nor wait.
    fn read(mut row: ReplyReader) -> StoreResult<Self> {
        let totals = Totals {
            enqueued: row.count()?,
            succeeded: row.count()?,
            retried: row.count()?,
            dead: row.count()?,
            cancelled: row.count()?,
            started_over: row.count()?,
        };
        let (ready, scheduled) = (row.count()?, row.count()?);
        let parked = row.count()? + row.count()?;
        let ended = totals.succeeded + totals.dead + totals.cancelled;
        let running = totals.enqueued.saturating_sub(ended + ready + scheduled + parked);
        let counts = Counts { ready, scheduled, parked, running, dead_letters: row.count()? };
        Ok(Self { counts, totals, oldest: row.number_or_none()?.map(Timestamp::from_micros) })
    }

    fn add(self, other: &Self) -> Self {
        let (a, b) = (self.counts, other.counts);
        let (s, t) = (self.totals, other.totals);
        Self {
            counts: Counts {
                ready: a.ready + b.ready,
                scheduled: a.scheduled + b.scheduled,
                parked: a.parked + b.parked,
                running: a.running + b.running,
                dead_letters: a.dead_letters + b.dead_letters,
            },
            totals: Totals {
                enqueued: s.enqueued + t.enqueued,
                succeeded: s.succeeded + t.succeeded,
                retried: s.retried + t.retried,
                dead: s.dead + t.dead,
                cancelled: s.cancelled + t.cancelled,
                started_over: s.started_over + t.started_over,
            },
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

impl Store {
    /// All queues, by priority and name.
    pub(super) async fn queues(&self) -> StoreResult<Vec<QueueStatus>> {
        let (tallies, now) = self.tallies().await?;
        let catalogue = self.catalogue();
        let status = |queue| queue_status(queue, &catalogue, &tallies, now);
        let mut statuses = catalogue.queues().map(status).collect::<Vec<_>>();
        statuses.sort_by(|a, b| (a.spec.priority, &a.spec.name).cmp(&(b.spec.priority, &b.spec.name)));
        Ok(statuses)
    }

    /// All types, by name.
    pub(super) async fn types(&self) -> StoreResult<Vec<TypeStatus>> {
        let (tallies, _) = self.tallies().await?;
        let workers = self.workers().await?;
        let catalogue = self.catalogue();
        let handles =
            |name: &TypeName| workers.iter().filter(|worker| worker.card.types.contains(name)).count();
        let status = |entry: &std::sync::Arc<super::catalogue::TypeEntry>| {
            let (spec, unreadable) = (TypeSpec::clone(&entry.spec), entry.spec.unreadable().cloned());
            let unfinished = tallies.get(&entry.number).map_or(0, |tally| tally.counts.unfinished());
            let workers = handles(&entry.spec.name) as u64;
            TypeStatus { spec, unreadable, workers, unfinished }
        };
        let mut statuses = catalogue.types().map(status).collect::<Vec<_>>();
        statuses.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(statuses)
    }

    /// Reads the counts of each type: some types at a time, each group at one instant.
    async fn tallies(&self) -> StoreResult<(HashMap<u32, Tally>, Timestamp)> {
        let mut tallies = HashMap::new();
        loop {
            let (mut numbers, mut all) = (Vec::new(), 0);
            let build = |catalogue: &Catalogue| {
                // Numbers only grow, so further types come behind those that were read.
                let mut types: Vec<u32> = catalogue.types().map(|entry| entry.number).collect();
                types.sort_unstable();
                all = types.len();
                numbers = types.into_iter().skip(tallies.len()).take(TYPES_PER_CALL).collect();
                let mut args = Args::new();
                args.number(OLDEST_SCANNED_MAX.into()).number(OLDEST_SCANNED_IN_ALL.into());
                args.count(numbers.len());
                numbers.iter().for_each(|number| _ = args.number((*number).into()));
                Ok(args)
            };
            let reply = self.call_with_catalogue(&self.scripts().queues, build).await?;
            let mut rows = ReplyReader::of(reply.value)?;
            for number in numbers {
                tallies.insert(number, Tally::read(rows.list()?)?);
            }
            if tallies.len() >= all {
                return Ok((tallies, reply.now));
            }
        }
    }
}

fn queue_status(
    queue: &QueueEntry,
    catalogue: &Catalogue,
    tallies: &HashMap<u32, Tally>,
    now: Timestamp,
) -> QueueStatus {
    let types = catalogue.types_of(&queue.spec.name);
    let of_types = types.iter().filter_map(|entry| tallies.get(&entry.number));
    let tally = of_types.fold(Tally::default(), Tally::add);
    QueueStatus {
        spec: QueueSpec::clone(&queue.spec),
        unreadable: queue.spec.unreadable().cloned(),
        pause: queue.pause.clone().filter(|pause| pause.holds(now)),
        shut: queue.shut,
        counts: tally.counts,
        totals: tally.totals,
        oldest_ready: tally.oldest.map(|since| now.since(since)),
    }
}
