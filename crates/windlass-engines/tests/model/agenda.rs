//! Schedules and completion triggers on both engines: stored, paused, forgotten and fired, sometimes once
//! more by a slower process.

use std::time::Duration;

use proptest::prelude::*;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::limits::{LIST_PAGE_MAX, TRIGGER_PAUSE_MAX};
use windlass_core::names::{GroupName, ScheduleName, TriggerName};
use windlass_core::schedule::Schedule;
use windlass_core::schedules::{
    self, JobTemplate, Origin, Overlap, Put, ScheduleAlert, ScheduleChange, ScheduleChanged, ScheduleSpec,
    StoredSchedule, WhichSchedules,
};
use windlass_core::triggers::{
    self, CompletionTrigger, StoredTrigger, TriggerChange, TriggerFired, Watched, WhichTriggers,
};

use crate::compare::Renumber;
use crate::pair::{Pair, Subject, queue, type_name};
use crate::steps::{GROUP, span};

const UP: &str = "the engine is up";

/// One step. Schedules and completion triggers are named by their index.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    SaveSchedule { which: usize, every: usize, overlap: usize, job: usize },
    PauseSchedule { which: usize, lasting: Option<Duration> },
    ResumeSchedule(usize),
    RemoveSchedule(usize),
    FireSchedules { again: bool },
    SaveTrigger { which: usize, watch: usize, waits: bool, job: usize },
    RemoveTrigger(usize),
    FireTriggers { again: bool },
}

/// The types of the enqueued jobs: in the watched queue, in another queue, and an unknown type.
const JOBS: [&str; 3] = ["work", "other.work", "not.registered"];

pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        4 => (0..2_usize, 0..2_usize, 0..3_usize, 0..JOBS.len())
            .prop_map(|(which, every, overlap, job)| Plan::SaveSchedule { which, every, overlap, job }),
        1 => (0..2_usize, prop::option::of(span()))
            .prop_map(|(which, lasting)| Plan::PauseSchedule { which, lasting }),
        1 => (0..2_usize).prop_map(Plan::ResumeSchedule),
        1 => (0..2_usize).prop_map(Plan::RemoveSchedule),
        6 => any::<bool>().prop_map(|again| Plan::FireSchedules { again }),
        4 => (0..2_usize, 0..4_usize, any::<bool>(), 0..JOBS.len())
            .prop_map(|(which, watch, waits, job)| Plan::SaveTrigger { which, watch, waits, job }),
        1 => (0..2_usize).prop_map(Plan::RemoveTrigger),
        6 => any::<bool>().prop_map(|again| Plan::FireTriggers { again }),
    ]
}

impl<S: Subject> Pair<S> {
    pub(crate) async fn plan(&mut self, step: Plan) {
        self.has_agenda = true;
        match step {
            Plan::SaveSchedule { which, every, overlap, job } => {
                let spec = schedule(which, every, overlap, job);
                let declare = |stored: Option<&StoredSchedule>, now| {
                    schedules::acts::declare(&spec, Origin::Code, stored, now)
                };
                self.change_schedule(which, declare).await;
            }
            Plan::PauseSchedule { which, lasting } => {
                let pause = |stored: Option<&StoredSchedule>, now| {
                    schedules::acts::pause(stored?, Some("repairs"), lasting, now)
                };
                self.change_schedule(which, pause).await;
            }
            Plan::ResumeSchedule(which) => {
                let resume = |stored: Option<&StoredSchedule>, now| schedules::acts::resume(stored?, now);
                self.change_schedule(which, resume).await;
            }
            Plan::RemoveSchedule(which) => {
                let remove = |stored: Option<&StoredSchedule>, _| {
                    stored.map(|stored| schedules::acts::remove(stored.name(), stored.version))
                };
                self.change_schedule(which, remove).await;
            }
            Plan::FireSchedules { again } => self.fire_schedules(again).await,
            Plan::SaveTrigger { which, watch, waits, job } => {
                let spec = trigger(which, watch, waits, job);
                let declare = |stored: Option<&StoredTrigger>, now| {
                    triggers::acts::declare(&spec, Origin::Code, stored, now)
                };
                self.change_trigger(which, declare).await;
            }
            Plan::RemoveTrigger(which) => {
                let remove = |stored: Option<&StoredTrigger>, _| {
                    stored.map(|stored| triggers::acts::remove(stored.name(), stored.version))
                };
                self.change_trigger(which, remove).await;
            }
            Plan::FireTriggers { again } => self.fire_triggers(again).await,
        }
    }

    async fn change_schedule(
        &self,
        which: usize,
        decide: impl Fn(Option<&StoredSchedule>, Timestamp) -> Option<ScheduleChange>,
    ) {
        let named = WhichSchedules::Named(vec![schedule_name(which)]);
        let (expected, got) = self
            .both(async |engine, _| {
                let read = engine.schedules(&named).await.expect(UP);
                match decide(read.schedules.first(), read.now) {
                    Some(change) => engine.change_schedules(&[change]).await.expect(UP),
                    None => Vec::new(),
                }
            })
            .await;
        assert_eq!(got, expected);
    }

    /// Each side fires the schedules that it has read itself. A slower process that has read the same
    /// version changes nothing.
    async fn fire_schedules(&mut self, again: bool) {
        let due = WhichSchedules::Due(None, LIST_PAGE_MAX);
        let (expected, got) = self
            .both(async |engine, _| {
                let read = engine.schedules(&due).await.expect(UP);
                let firings =
                    read.schedules.iter().filter_map(|stored| schedules::fire::fire(stored, read.now));
                let changes: Vec<_> = firings.map(|firing| firing.change).collect();
                if changes.is_empty() {
                    return (read.schedules, Vec::new(), Vec::new());
                }
                let fired = engine.change_schedules(&changes).await.expect(UP);
                let later = match again {
                    true => engine.change_schedules(&changes).await.expect(UP),
                    false => Vec::new(),
                };
                (read.schedules, fired, later)
            })
            .await;
        for pair in expected.1.iter().zip(&got.1) {
            if let (ScheduleChanged::Done { jobs: ours, .. }, ScheduleChanged::Done { jobs: theirs, .. }) =
                pair
            {
                self.learn(
                    ours.iter()
                        .zip(theirs)
                        .filter_map(|(one, other)| Some((answer_of(one)?, answer_of(other)?))),
                );
            }
        }
        assert_eq!(self.as_model(got.0), expected.0, "the schedules that are due");
        assert_eq!(self.as_model(got.1), expected.1, "the answers to their ticks");
        assert_eq!(self.as_model(got.2), expected.2, "the answers to the slower process");
    }

    async fn change_trigger(
        &self,
        which: usize,
        decide: impl Fn(Option<&StoredTrigger>, Timestamp) -> Option<TriggerChange>,
    ) {
        let named = WhichTriggers::Named(vec![trigger_name(which)]);
        let (expected, got) = self
            .both(async |engine, _| {
                let read = engine.triggers(&named).await.expect(UP);
                match decide(read.triggers.first(), read.now) {
                    Some(change) => engine.change_triggers(&[change]).await.expect(UP),
                    None => Vec::new(),
                }
            })
            .await;
        assert_eq!(got, expected);
    }

    /// How long a completion trigger pauses after an evaluation depends on how long that took. The pause is
    /// over by then.
    async fn fire_triggers(&mut self, again: bool) {
        self.clock.advance(TRIGGER_PAUSE_MAX + Duration::from_secs(1));
        let (expected, got) = self
            .both(async |engine, _| {
                let read = engine.triggers(&WhichTriggers::Marked(LIST_PAGE_MAX)).await.expect(UP);
                let firings: Vec<_> =
                    read.triggers.iter().map(|stored| triggers::acts::fire(stored, read.now)).collect();
                if firings.is_empty() {
                    return (read.triggers, Vec::new(), Vec::new());
                }
                let fired = engine.fire_triggers(&firings).await.expect(UP);
                let later = match again {
                    true => engine.fire_triggers(&firings).await.expect(UP),
                    false => Vec::new(),
                };
                (read.triggers, fired, later.into_iter().map(without_pause).collect())
            })
            .await;
        let answers = |(one, other): (&TriggerFired, &TriggerFired)| match (one, other) {
            (TriggerFired::Fired { job: ours, .. }, TriggerFired::Fired { job: theirs, .. }) => {
                Some((ours.clone(), theirs.clone()))
            }
            _ => None,
        };
        self.learn(expected.1.iter().zip(&got.1).filter_map(answers));
        assert_eq!(self.as_model(got.0), expected.0, "the completion triggers that are marked");
        assert_eq!(self.as_model(got.1), expected.1, "the answers");
        assert_eq!(self.as_model(got.2), expected.2, "the answers to the slower process");
    }

    /// Records the jobs that the same step created on both sides.
    fn learn(&mut self, answers: impl Iterator<Item = (EnqueueAnswer, EnqueueAnswer)>) {
        for answer in answers {
            if let (EnqueueAnswer::New(model), EnqueueAnswer::New(subject)) = answer {
                self.jobs.push((model, subject));
                self.model_ids.insert(subject, model);
            }
        }
    }

    /// Compares all schedules and completion triggers, and the marks.
    pub(crate) async fn compare_agenda(&self) {
        let (expected, got) = self
            .both(async |engine, _| {
                let read = engine.schedules(&WhichSchedules::After(None, LIST_PAGE_MAX)).await.expect(UP);
                (read.schedules, read.next)
            })
            .await;
        assert_eq!((self.as_model(got.0), got.1), expected, "the schedules");
        let (expected, got) = self
            .both(async |engine, _| {
                engine.triggers(&WhichTriggers::After(None, LIST_PAGE_MAX)).await.expect(UP).triggers
            })
            .await;
        assert_eq!(self.as_model(got), expected, "the completion triggers");
    }
}

fn answer_of(put: &Put) -> Option<EnqueueAnswer> {
    match put {
        Put::Answered(answer) => Some(answer.clone()),
        Put::Overlaps(_) => None,
    }
}

/// A second evaluation may return that nothing is marked, or that it is too soon.
fn without_pause(fired: TriggerFired) -> TriggerFired {
    if fired == TriggerFired::Later { TriggerFired::Unmarked } else { fired }
}

fn schedule_name(which: usize) -> ScheduleName {
    ScheduleName::parse(["early", "late"][which]).expect("a plain name")
}

fn schedule(which: usize, every: usize, overlap: usize, job: usize) -> ScheduleSpec {
    let text = ["every 20s", "every 10m"][every];
    let schedule = Schedule::parse(text).expect("the text is a schedule");
    ScheduleSpec {
        overlap: [Overlap::Allow, Overlap::Skip, Overlap::Replace][overlap],
        ..ScheduleSpec::new(schedule_name(which), schedule, JobTemplate::new(type_name(JOBS[job])))
    }
}

fn trigger_name(which: usize) -> TriggerName {
    TriggerName::parse(["first", "second"][which]).expect("a plain name")
}

fn trigger(which: usize, watch: usize, waits: bool, job: usize) -> CompletionTrigger {
    let watched = match watch {
        0 => Watched::Group(GroupName::parse(GROUP).expect("a plain name")),
        1 => Watched::Queue(queue("main")),
        2 => Watched::Queue(queue("other")),
        _ => Watched::Type(type_name("work")),
    };
    CompletionTrigger {
        wait_for_retries: waits,
        ..CompletionTrigger::new(trigger_name(which), watched, JobTemplate::new(type_name(JOBS[job])))
    }
}

type Ids = std::collections::HashMap<windlass_core::job::JobId, windlass_core::job::JobId>;

impl Renumber for StoredSchedule {
    fn renumber(&mut self, ids: &Ids) {
        self.last_job.iter_mut().for_each(|job| job.renumber(ids));
        if let Some(ScheduleAlert::Overlaps { job, .. }) =
            self.record.alert.as_mut().map(|alert| &mut alert.what)
        {
            job.renumber(ids);
        }
    }
}

impl Renumber for ScheduleChanged {
    fn renumber(&mut self, ids: &Ids) {
        let Self::Done { jobs, .. } = self else { return };
        for put in jobs {
            match put {
                Put::Answered(answer) => answer.renumber(ids),
                Put::Overlaps(job) => job.renumber(ids),
            }
        }
    }
}

impl Renumber for StoredTrigger {
    fn renumber(&mut self, ids: &Ids) {
        self.last_job.iter_mut().for_each(|job| job.renumber(ids));
    }
}

impl Renumber for TriggerFired {
    fn renumber(&mut self, ids: &Ids) {
        if let Self::Fired { job, .. } = self {
            job.renumber(ids);
        }
    }
}
