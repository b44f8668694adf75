//! What is kept of schedules and drains: a process of today has stored one of each, and one of an earlier version works with them.

use windlass_core::clock::Timestamp;
use windlass_core::job::JobId;
use windlass_core::names::{QueueName, ScheduleName, TriggerName, TypeName};
use windlass_core::schedule::Schedule;
use windlass_core::schedules::{
    self, JobTemplate, Origin, ScheduleChanged, ScheduleSpec, Schedules, WhichSchedules,
};
use windlass_core::triggers::{
    self, CompletionTrigger, CompletionTriggers, TriggerChanged, Watched, WhichTriggers,
};

use super::Stage;
use crate::postgres::sql::in_schema;

const SCHEDULE: &str = "hourly";
const DRAIN: &str = "done";

fn schedule_name() -> ScheduleName {
    ScheduleName::parse(SCHEDULE).unwrap()
}

fn trigger_name() -> TriggerName {
    TriggerName::parse(DRAIN).unwrap()
}

impl Stage {
    /// A schedule that is due since long ago, and a drain of the queue, with a mark.
    pub(super) async fn keep_a_schedule_and_a_trigger(&self) {
        let job = JobTemplate::new(TypeName::parse("work").unwrap());
        let hourly = Schedule::parse("every 1h").unwrap();
        let spec = ScheduleSpec::new(schedule_name(), hourly, job.clone());
        let change = schedules::acts::declare(&spec, Origin::Code, None, Timestamp::EPOCH).unwrap();
        let changed = self.today.change_schedules(&[change]).await.unwrap();
        assert!(matches!(changed[..], [ScheduleChanged::Done { .. }]), "{changed:?}");
        let of_queue = Watched::Queue(QueueName::parse("main").unwrap());
        let spec = CompletionTrigger::new(trigger_name(), of_queue, job);
        let change = triggers::acts::declare(&spec, Origin::Code, None, Timestamp::EPOCH).unwrap();
        let changed = self.today.change_triggers(&[change]).await.unwrap();
        assert!(matches!(changed[..], [TriggerChanged::Done { .. }]), "{changed:?}");
        let mark = format!("INSERT INTO windlass.completion_trigger_marks (drain) VALUES ('{DRAIN}')");
        self.old.batch_execute(&in_schema(&mark, &self.schema)).await.unwrap();
    }

    pub(super) async fn has_schedules(&self, name: &str, text: &str) -> bool {
        let named = format!("'{{{SCHEDULE}}}'");
        let told = match name {
            "due_schedules" => self.run(text, &["NULL", "10"]).await,
            "list_schedules" => self.run(text, &["NULL", "''", "10"]).await,
            "schedules_named" => self.run(text, &["NULL", &named]).await,
            _ => {
                self.run(text, &[&named, "'{7}'"]).await;
                let which = WhichSchedules::Named(vec![schedule_name()]);
                let read = self.today.schedules(&which).await.unwrap();
                return read.schedules[0].last_job == Some(JobId(7));
            }
        };
        told.len() == 1 && told[0].get(2) == Some(SCHEDULE)
    }

    pub(super) async fn has_triggers(&self, name: &str, text: &str) -> bool {
        let (quoted, named) = (format!("'{DRAIN}'"), format!("'{{{DRAIN}}}'"));
        let own_jobs = format!("'trigger/{DRAIN}/'");
        let told = match name {
            "triggers_named" => self.run(text, &["NULL", &named]).await,
            "list_triggers" => self.run(text, &["NULL", "''", "10"]).await,
            "queue_has_work" | "type_has_work" => {
                let of = if name == "queue_has_work" { "'main'" } else { "'work'" };
                let told = self.run(text, &[of, "NULL", &own_jobs, "false", &quoted, "10"]).await;
                // Something could run, and there is the mark.
                return told[0].get(0) == Some("t") && told[0].get(2) == Some("{1}");
            }
            _ => return self.saves_a_trigger(text, &named).await,
        };
        // The name, and that it is marked.
        told.len() == 1 && told[0].get(2) == Some(DRAIN) && told[0].get(5) == Some("t")
    }

    /// From a queue to a type, by the version that it had, which goes up.
    async fn saves_a_trigger(&self, text: &str, named: &str) -> bool {
        let which = WhichTriggers::Named(vec![trigger_name()]);
        let before = self.today.triggers(&which).await.unwrap().triggers.remove(0);
        let mut record = before.record.clone();
        record.spec.watch = Watched::Type(TypeName::parse("work").unwrap());
        let (was, next) = (format!("'{{{}}}'", before.version), format!("'{{{}}}'", before.version + 1));
        let written = format!("ARRAY['{}']", record.to_text());
        let told = self.run(text, &[named, &was, &next, "'{type}'", "'{work}'", "'{f}'", &written]).await;
        let after = self.today.triggers(&which).await.unwrap().triggers.remove(0);
        told.len() == 1 && after.version == before.version + 1 && after.record == record
    }
}
