//! Rollups of each minute, and samples of workers that are not yet in them. A minute is a hash with a field
//! for each type; a rollup round is one script.

use std::time::Duration;

use windlass_core::admin::{BatchDone, Totals};
use windlass_core::clock::Timestamp;
use windlass_core::limits::{SAMPLES_KEPT_MAX, SAMPLES_PER_CALL_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::{
    Minute, RollupChange, RollupInput, RollupKey, RollupOutcome, RollupsEnd, RollupsRead, RollupsRequest,
    Sample, StoredSample, StoredWatermark, Tally,
};

use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::micros;
use super::reply::ReplyReader;
use super::script::TYPES_PER_CALL;
use super::store_error::StoreResult;
use super::{RedisEngine, Store};
use crate::kit::on_store;

on_store!(Rollups for RedisEngine {});

impl Store {
    async fn append_samples(&self, samples: &[Sample]) -> StoreResult<()> {
        let mut args = Args::new();
        args.shown(format_args!("{SAMPLES_KEPT_MAX}")).count(samples.len());
        for Sample { ago, text } in samples {
            args.number(micros(*ago)).text(text);
        }
        self.call(&self.scripts().append_samples, args).await?;
        Ok(())
    }

    /// Reads the totals of some types at a time. The first call reads the watermark, so no total is older
    /// than it.
    async fn rollup_input(&self, limit: u32) -> StoreResult<RollupInput> {
        let limit = (limit as usize).min(SAMPLES_PER_CALL_MAX);
        let mut head: Option<RollupInput> = None;
        let mut totals = Vec::new();
        loop {
            let (mut names, mut all) = (Vec::new(), 0);
            let wanted = if head.is_some() { 0 } else { limit + 1 };
            let build = |catalogue: &Catalogue| {
                // Numbers only grow, so further types come behind those that were read.
                let mut types: Vec<_> = catalogue.types().collect();
                types.sort_unstable_by_key(|entry| entry.number);
                all = types.len();
                let part = types.into_iter().skip(totals.len()).take(TYPES_PER_CALL);
                let mut numbers = Vec::new();
                names.clear();
                for entry in part {
                    numbers.push(entry.number);
                    names.push((entry.spec.queue.clone(), entry.spec.name.clone()));
                }
                let mut args = Args::new();
                args.count(wanted).count(numbers.len());
                numbers.iter().for_each(|number| _ = args.number((*number).into()));
                Ok(args)
            };
            let reply = self.call_with_catalogue(&self.scripts().rollup_input, build).await?;
            let mut answer = ReplyReader::of(reply.value)?;
            let read = read_head(&mut answer, limit, reply.now)?;
            head.get_or_insert(read);
            let mut numbers = answer.list()?;
            for name in names {
                totals.push((name, read_totals(&mut numbers)?));
            }
            if totals.len() >= all {
                let head = head.expect("the first call has set it");
                return Ok(RollupInput { totals, ..head });
            }
        }
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> StoreResult<RollupsRead> {
        let mut args = Args::new();
        args.count(keys.len());
        for key in keys {
            args.number(key.minute.number());
            args.shown(format_args!("{} {}", key.queue, key.job_type));
        }
        let reply = self.call(&self.scripts().rollups_of, args).await?;
        let (mut answer, mut read) = (ReplyReader::of(reply.value)?, RollupsRead::default());
        for key in keys {
            let kept = answer.text()?;
            let (queue, job_type) = (key.queue.to_string(), key.job_type.to_string());
            if !kept.is_empty() {
                read.push(RollupsEnd { minute: key.minute, queue, job_type }, read_tally(&kept));
            }
        }
        Ok(read)
    }

    async fn apply_rollup(&self, change: &RollupChange) -> StoreResult<RollupOutcome> {
        let mut args = Args::new();
        args.shown(format_args!("{}", change.read)).shown(format_args!("{}", change.version));
        args.text(&change.watermark).count(change.rolled_up.len());
        args.shown(format_args!("{}", change.rolled_up.iter().max().copied().unwrap_or_default()));
        args.count(change.rows.len());
        for row in &change.rows {
            args.number(row.key.minute.number());
            args.shown(format_args!("{} {}", row.key.queue, row.key.job_type)).text(&write_tally(&row.tally));
        }
        let reply = self.call(&self.scripts().apply_rollup, args).await?;
        Ok(if super::reply::text(reply.value)?.is_empty() {
            RollupOutcome::Overtaken
        } else {
            RollupOutcome::Done
        })
    }

    async fn rollups(&self, request: &RollupsRequest) -> StoreResult<RollupsRead> {
        let first = RollupsEnd { minute: request.first(), queue: String::new(), job_type: String::new() };
        let after = request.after.clone().filter(|after| *after > first).unwrap_or(first);
        let mut args = Args::new();
        args.number(after.minute.number());
        args.shown(format_args!("{} {}", after.queue, after.job_type)).number(request.last().number());
        args.text(request.queue.as_ref().map_or("", QueueName::as_str));
        args.text(request.job_type.as_ref().map_or("", TypeName::as_str));
        args.number(request.limit().into());
        let reply = self.call(&self.scripts().rollups, args).await?;
        let (mut answer, mut read) = (ReplyReader::of(reply.value)?, RollupsRead::default());
        while !answer.is_empty() {
            let (minute, field, kept) = (answer.number()?, answer.text()?, answer.text()?);
            let (queue, job_type) = field.split_once(' ').unwrap_or((&field, ""));
            let minute = Minute::from_number(minute);
            let at = RollupsEnd { minute, queue: queue.to_owned(), job_type: job_type.to_owned() };
            match kept.is_empty() && answer.is_empty() {
                true => read.end = Some(at),
                false => read.push(at, read_tally(&kept)),
            }
        }
        Ok(read)
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> StoreResult<BatchDone> {
        let mut args = Args::new();
        args.number(micros(kept)).number(limit.into());
        let reply = self.call(&self.scripts().forget_rollups, args).await?;
        let mut answer = ReplyReader::of(reply.value)?;
        Ok(BatchDone { changed: answer.count()?, more: answer.flag()? })
    }
}

/// Reads the values before the totals.
fn read_head(answer: &mut ReplyReader, limit: usize, now: Timestamp) -> StoreResult<RollupInput> {
    let (version, booked) = (answer.text()?, answer.text()?);
    let watermark = version.parse().ok().map(|version| StoredWatermark { version, text: booked });
    let (mut stored, mut samples) = (answer.list()?, Vec::new());
    while !stored.is_empty() {
        samples.push(read_sample(&stored.text()?, now));
    }
    let more = samples.len() > limit;
    samples.truncate(limit);
    Ok(RollupInput { watermark, totals: Vec::new(), samples, more, now })
}

/// Parses a sample. An unreadable sample has the number 0, and a text that no process can read: so it is
/// deleted with the rest.
fn read_sample(text: &str, now: Timestamp) -> StoredSample {
    let mut parts = text.splitn(3, ' ');
    let mut part = || parts.next();
    let (id, at) = (part().and_then(read_number), part().and_then(|at| at.parse().ok()));
    match (id, at, part()) {
        (Some(id), Some(at), Some(seen)) => {
            StoredSample { id, at: Timestamp::from_micros(at), text: seen.to_owned() }
        }
        _ => StoredSample { id: id.unwrap_or_default(), at: now, text: "damaged".to_owned() },
    }
}

/// Parses a number as the scripts read it: of at most 16 digits, since scripts distinguish numbers only up to
/// that length.
fn read_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.len() <= 16)
}

fn read_totals(numbers: &mut ReplyReader) -> StoreResult<Totals> {
    Ok(Totals {
        enqueued: numbers.count()?,
        succeeded: numbers.count()?,
        retried: numbers.count()?,
        dead: numbers.count()?,
        cancelled: numbers.count()?,
        started_over: numbers.count()?,
    })
}

/// Formats six counts and two histograms, with a space between.
fn write_tally(tally: &Tally) -> String {
    let counts = tally.counts().map(|count| count.to_string()).join(" ");
    format!("{counts} {} {}", tally.waits.encode(), tally.runs.encode())
}

/// Parses a tally; `None` if it is damaged.
fn read_tally(text: &str) -> Option<Tally> {
    let words: Vec<_> = text.split(' ').collect();
    let [counts @ .., waits, runs] = &words[..] else { return None };
    let counts: Option<Vec<u64>> = counts.iter().map(|count| count.parse().ok()).collect();
    Tally::from_store(counts?.try_into().ok()?, waits, runs)
}
