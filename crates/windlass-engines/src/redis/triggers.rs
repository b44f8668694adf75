//! Completion triggers, their marks, and the jobs that they enqueue: one script evaluates a trigger, and
//! enqueues its job.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::error::EngineError;
use windlass_core::limits::{TRIGGER_PAUSE, TRIGGER_PAUSE_MAX, TRIGGERS_MAX};
use windlass_core::names::TriggerName;
use windlass_core::triggers::rules::{look_after_failure, may_look};
use windlass_core::triggers::spec::{CompletionTrigger, Watched};
use windlass_core::triggers::{
    StoredTrigger, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggersRead, WhichTriggers,
};

use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::{limits, micros, push_job, read_answers};
use super::reply::ReplyReader;
use super::row::body;
use super::store_error::{StoreError, StoreResult};
use super::{RedisEngine, Store};
use crate::kit::on_store;

on_store!(CompletionTriggers for RedisEngine {});

/// A row of a trigger.
struct TriggerRow {
    name: TriggerName,
    version: u64,
    last_job: Option<i64>,
    is_marked: bool,
    look_at: Option<Timestamp>,
    record: String,
}

impl Store {
    async fn triggers(&self, which: WhichTriggers) -> StoreResult<TriggersRead> {
        let mut args = Args::new();
        match &which {
            WhichTriggers::Named(names) => {
                args.text("named").count(names.len());
                names.iter().for_each(|name| _ = args.text(name.as_str()));
            }
            WhichTriggers::After(..) => _ = args.text("all").count(0),
            WhichTriggers::Marked(_) => _ = args.text("marked").count(0),
        }
        let reply = self.call(&self.scripts().read_triggers, args).await?;
        let (mut items, now) = (ReplyReader::of(reply.value)?, reply.now);
        let any = items.text()? == "1";
        let mut rows = read_rows(&mut items)?;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let mut read = TriggersRead { triggers: Vec::new(), damaged: Vec::new(), any, next: None, now };
        match &which {
            WhichTriggers::After(Some(after), _) => rows.retain(|row| row.name > *after),
            WhichTriggers::Marked(_) => {
                let later = |row: &TriggerRow| row.look_at.filter(|at| !may_look(Some(*at), now));
                read.next = rows.iter().filter_map(later).min();
                rows.retain(|row| may_look(row.look_at, now));
            }
            WhichTriggers::Named(_) | WhichTriggers::After(None, _) => {}
        }
        for row in rows.into_iter().take(which.limit() as usize) {
            let TriggerRow { name, version, last_job, is_marked, record, .. } = row;
            match StoredTrigger::from_store(&name, version, last_job, is_marked, &record) {
                Some(trigger) => read.triggers.push(trigger),
                None => read.damaged.push((name, version)),
            }
        }
        Ok(read)
    }

    async fn change_triggers(&self, changes: Vec<TriggerChange>) -> StoreResult<Vec<TriggerChanged>> {
        let mut args = Args::new();
        args.number(TRIGGERS_MAX.into()).count(changes.len());
        for change in &changes {
            args.text(change.name.as_str()).text(&change.read.to_string());
            args.text(&change.to.as_ref().map_or_else(String::new, |record| record.to_text()));
            args.text(&change.to.as_ref().map_or_else(String::new, |record| watch(&record.spec)));
        }
        let reply = self.call(&self.scripts().change_triggers, args).await?;
        let mut answers = ReplyReader::of(reply.value)?;
        let mut changed = Vec::with_capacity(changes.len());
        for _ in &changes {
            let (answer, version) = (answers.text()?, answers.text()?);
            changed.push(match answer.as_str() {
                "changed" => TriggerChanged::Changed,
                "full" => TriggerChanged::NoRoom,
                _ => TriggerChanged::Done { version: version.parse().unwrap_or_default() },
            });
        }
        Ok(changed)
    }

    /// Evaluates each trigger by a script of its own: the jobs that one enqueues are seen by the next.
    async fn fire_triggers(&self, firings: Vec<TriggerFiring>) -> StoreResult<Vec<TriggerFired>> {
        let mut fired = Vec::with_capacity(firings.len());
        for firing in &firings {
            fired.push(match self.fire_trigger(firing, None).await {
                Err(fault) => self.postpone_trigger(firing, fault).await?,
                result => result?,
            });
        }
        Ok(fired)
    }

    /// Postpones a trigger whose evaluation failed. If the store accepts writes, only this trigger is
    /// affected, and the others are evaluated; otherwise none is.
    async fn postpone_trigger(&self, firing: &TriggerFiring, fault: StoreError) -> StoreResult<TriggerFired> {
        let pause = look_after_failure(fault.is_connection_error());
        let Ok(postponed) = self.fire_trigger(firing, Some(pause)).await else { return Err(fault) };
        let error = EngineError::from(fault);
        tracing::error!(trigger = %firing.name, %error, "evaluating a completion trigger failed; it is evaluated again later");
        Ok(postponed)
    }

    async fn fire_trigger(
        &self,
        firing: &TriggerFiring,
        postpone_by: Option<Duration>,
    ) -> StoreResult<TriggerFired> {
        let body = body(&firing.job);
        let build = |catalogue: &Catalogue| Ok(self.firing_args(firing, postpone_by, &body, catalogue));
        let reply = self.call_with_catalogue(&self.scripts().fire_trigger, build).await?;
        let mut answer = ReplyReader::of(reply.value)?;
        Ok(match answer.text()?.as_str() {
            "held" => TriggerFired::Held,
            "unmarked" => TriggerFired::Unmarked,
            "later" => TriggerFired::Later,
            "changed" => TriggerFired::Changed,
            _ => {
                let version = answer.count()?;
                let job = read_answers(&answer.text()?)?.pop().ok_or_else(|| EngineError::Unusable {
                    why: "expected an answer about the job of a completion trigger, got none".to_owned(),
                })?;
                if let EnqueueAnswer::New(id) = &job {
                    reply.from.seen.jobs(std::iter::once(*id));
                }
                TriggerFired::Fired { version, job }
            }
        })
    }

    fn firing_args(
        &self,
        firing: &TriggerFiring,
        postpone_by: Option<Duration>,
        body: &str,
        catalogue: &Catalogue,
    ) -> Args {
        let (spec, mut args) = (&firing.to.spec, Args::new());
        args.text(firing.name.as_str());
        args.text(&postpone_by.map_or_else(String::new, |pause| micros(pause).to_string()));
        limits(std::iter::once(&firing.job), catalogue, &mut args);
        args.text(&firing.read.to_string());
        args.number(spec.wait_for_retries.into());
        args.number(micros(TRIGGER_PAUSE)).number(micros(TRIGGER_PAUSE_MAX));
        args.text(&firing.to.to_text());
        let types: Vec<u32> = match &spec.watch {
            Watched::Group(_) => Vec::new(),
            Watched::Queue(queue) => catalogue.types_of(queue).iter().map(|entry| entry.number).collect(),
            Watched::Type(name) => catalogue.type_named(name).map(|entry| entry.number).into_iter().collect(),
        };
        args.text(if let Watched::Group(group) = &spec.watch { group.as_str() } else { "" });
        args.count(types.len());
        types.iter().for_each(|number| _ = args.number((*number).into()));
        push_job(&firing.job, body, catalogue, self.estimated_now(), &mut args);
        args
    }
}

/// What a trigger watches, in the form that scripts read.
fn watch(spec: &CompletionTrigger) -> String {
    let kind = match &spec.watch {
        Watched::Group(_) => 'g',
        Watched::Queue(_) => 'q',
        Watched::Type(_) => 't',
    };
    format!("{}{kind}{}", u8::from(spec.wait_for_retries), spec.watch.name())
}

fn read_rows(items: &mut ReplyReader) -> StoreResult<Vec<TriggerRow>> {
    let mut rows = Vec::new();
    while !items.is_empty() {
        let (name, version, job) = (items.text()?, items.count()?, items.text()?);
        let (is_marked, look_at, record) = (items.text()? == "1", items.text()?, items.text()?);
        // A damaged name must not keep the others from being read.
        let Ok(name) = TriggerName::parse(&name) else { continue };
        let look_at = look_at.parse().ok().map(Timestamp::from_micros);
        rows.push(TriggerRow { name, version, last_job: job.parse().ok(), is_marked, look_at, record });
    }
    Ok(rows)
}
