//! What happened in each minute, and what workers have seen that is not yet added to it. A minute is a hash with a field for each
//! type; a round of folding is one script.

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::admin::{BatchDone, Totals};
use windlass_core::aggregates::{
    Aggregates, Delta, FoldChange, Folded, Minute, MinuteKey, MinutesEnd, MinutesRead, MinutesRequest,
    StoredDelta, StoredMark, Tally, Unfolded, check_deltas,
};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::limits::{DELTAS_KEPT_MAX, DELTAS_PER_CALL_MAX};
use windlass_core::names::{QueueName, TypeName};

use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::micros;
use super::fault::Step;
use super::reply::Items;
use super::script::TYPES_PER_CALL;
use super::{RedisEngine, Store};

#[async_trait]
impl Aggregates for RedisEngine {
    async fn append_deltas(&self, deltas: &[Delta]) -> Result<()> {
        check_deltas(deltas)?;
        let deltas = deltas.to_vec();
        self.run(|store| async move { store.append_deltas(&deltas).await }).await
    }

    async fn unfolded(&self, limit: u32) -> Result<Unfolded> {
        self.run(|store| async move { store.unfolded(limit).await }).await
    }

    async fn minutes_of(&self, keys: &[MinuteKey]) -> Result<MinutesRead> {
        let keys = keys.to_vec();
        self.run(|store| async move { store.minutes_of(&keys).await }).await
    }

    async fn apply_fold(&self, change: &FoldChange) -> Result<Folded> {
        let change = change.clone();
        self.run(|store| async move { store.apply_fold(&change).await }).await
    }

    async fn minutes(&self, request: &MinutesRequest) -> Result<MinutesRead> {
        let request = request.clone();
        self.run(|store| async move { store.minutes(&request).await }).await
    }

    async fn forget_minutes(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        self.run(|store| async move { store.forget_minutes(kept, limit).await }).await
    }
}

impl Store {
    async fn append_deltas(&self, deltas: &[Delta]) -> Step<()> {
        let mut args = Args::new();
        args.shown(format_args!("{DELTAS_KEPT_MAX}")).count(deltas.len());
        for Delta { ago, text } in deltas {
            args.number(micros(*ago)).text(text);
        }
        self.call(&self.scripts().append_deltas, args).await?;
        Ok(())
    }

    /// Some types at a time. The mark is read by the first call, so no total is older than it.
    async fn unfolded(&self, limit: u32) -> Step<Unfolded> {
        let limit = (limit as usize).min(DELTAS_PER_CALL_MAX);
        let mut head: Option<Unfolded> = None;
        let mut totals = Vec::new();
        loop {
            let (mut names, mut all) = (Vec::new(), 0);
            let wanted = if head.is_some() { 0 } else { limit + 1 };
            let build = |catalogue: &Catalogue| {
                // Numbers only go up, so those of further types come behind the ones that were asked for.
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
            let reply = self.call_with_catalogue(&self.scripts().unfolded, build).await?;
            let mut said = Items::of(reply.value)?;
            let read = read_head(&mut said, limit, reply.now)?;
            head.get_or_insert(read);
            let mut numbers = said.list()?;
            for name in names {
                totals.push((name, read_totals(&mut numbers)?));
            }
            if totals.len() >= all {
                let head = head.expect("it was just put there");
                return Ok(Unfolded { totals, ..head });
            }
        }
    }

    async fn minutes_of(&self, keys: &[MinuteKey]) -> Step<MinutesRead> {
        let mut args = Args::new();
        args.count(keys.len());
        for key in keys {
            args.number(key.minute.number());
            args.shown(format_args!("{} {}", key.queue, key.job_type));
        }
        let reply = self.call(&self.scripts().minutes_of, args).await?;
        let (mut said, mut read) = (Items::of(reply.value)?, MinutesRead::default());
        for key in keys {
            let kept = said.text()?;
            let (queue, job_type) = (key.queue.to_string(), key.job_type.to_string());
            if !kept.is_empty() {
                read.push(MinutesEnd { minute: key.minute, queue, job_type }, read_tally(&kept));
            }
        }
        Ok(read)
    }

    async fn apply_fold(&self, change: &FoldChange) -> Step<Folded> {
        let mut args = Args::new();
        args.shown(format_args!("{}", change.read)).shown(format_args!("{}", change.version));
        args.text(&change.mark).count(change.folded.len());
        args.shown(format_args!("{}", change.folded.iter().max().copied().unwrap_or_default()));
        args.count(change.rows.len());
        for row in &change.rows {
            args.number(row.key.minute.number());
            args.shown(format_args!("{} {}", row.key.queue, row.key.job_type)).text(&write_tally(&row.tally));
        }
        let reply = self.call(&self.scripts().apply_fold, args).await?;
        Ok(if super::reply::text(reply.value)?.is_empty() { Folded::Overtaken } else { Folded::Done })
    }

    async fn minutes(&self, request: &MinutesRequest) -> Step<MinutesRead> {
        let first = MinutesEnd { minute: request.first(), queue: String::new(), job_type: String::new() };
        let after = request.after.clone().filter(|after| *after > first).unwrap_or(first);
        let mut args = Args::new();
        args.number(after.minute.number());
        args.shown(format_args!("{} {}", after.queue, after.job_type)).number(request.last().number());
        args.text(request.queue.as_ref().map_or("", QueueName::as_str));
        args.text(request.job_type.as_ref().map_or("", TypeName::as_str));
        args.number(request.limit().into());
        let reply = self.call(&self.scripts().minutes, args).await?;
        let (mut said, mut read) = (Items::of(reply.value)?, MinutesRead::default());
        while !said.is_empty() {
            let (minute, field, kept) = (said.number()?, said.text()?, said.text()?);
            let (queue, job_type) = field.split_once(' ').unwrap_or((&field, ""));
            let minute = Minute::from_number(minute);
            let at = MinutesEnd { minute, queue: queue.to_owned(), job_type: job_type.to_owned() };
            match kept.is_empty() && said.is_empty() {
                true => read.end = Some(at),
                false => read.push(at, read_tally(&kept)),
            }
        }
        Ok(read)
    }

    async fn forget_minutes(&self, kept: Duration, limit: u32) -> Step<BatchDone> {
        let mut args = Args::new();
        args.number(micros(kept)).number(limit.into());
        let reply = self.call(&self.scripts().forget_minutes, args).await?;
        let mut said = Items::of(reply.value)?;
        Ok(BatchDone { changed: said.count()?, more: said.flag()? })
    }
}

/// What stands before the totals.
fn read_head(said: &mut Items, limit: usize, now: Timestamp) -> Step<Unfolded> {
    let (version, booked) = (said.text()?, said.text()?);
    let mark = version.parse().ok().map(|version| StoredMark { version, text: booked });
    let (mut stored, mut deltas) = (said.list()?, Vec::new());
    while !stored.is_empty() {
        deltas.push(read_delta(&stored.text()?, now));
    }
    let more = deltas.len() > limit;
    deltas.truncate(limit);
    Ok(Unfolded { mark, totals: Vec::new(), deltas, more, now })
}

/// One that cannot be read has the number nought, and words that nobody understands: so it goes with the rest.
fn read_delta(text: &str, now: Timestamp) -> StoredDelta {
    let mut parts = text.splitn(3, ' ');
    let mut part = || parts.next();
    let (id, at) = (part().and_then(read_number), part().and_then(|at| at.parse().ok()));
    match (id, at, part()) {
        (Some(id), Some(at), Some(seen)) => {
            StoredDelta { id, at: Timestamp::from_micros(at), text: seen.to_owned() }
        }
        _ => StoredDelta { id: id.unwrap_or_default(), at: now, text: "damaged".to_owned() },
    }
}

/// A number as the scripts read it: of at most 16 digits, which are told apart there too.
fn read_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.len() <= 16)
}

fn read_totals(numbers: &mut Items) -> Step<Totals> {
    Ok(Totals {
        enqueued: numbers.count()?,
        succeeded: numbers.count()?,
        retried: numbers.count()?,
        dead: numbers.count()?,
        cancelled: numbers.count()?,
        started_over: numbers.count()?,
    })
}

/// Six counts and two histograms, with a space between.
fn write_tally(tally: &Tally) -> String {
    let counts = tally.counts().map(|count| count.to_string()).join(" ");
    format!("{counts} {} {}", tally.waits.encode(), tally.runs.encode())
}

/// Nothing if it is damaged.
fn read_tally(text: &str) -> Option<Tally> {
    let words: Vec<_> = text.split(' ').collect();
    let [counts @ .., waits, runs] = &words[..] else { return None };
    let counts: Option<Vec<u64>> = counts.iter().map(|count| count.parse().ok()).collect();
    Tally::from_store(counts?.try_into().ok()?, waits, runs)
}
