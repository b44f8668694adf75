//! Schedules that cannot be read, as a newer version or a manual change may leave them, and a worker with
//! other schedules.

use windlass::WorkerOptions;
use windlass::sqlite::rusqlite::{Connection, params};
use windlass::types::schedule::Schedule;
use windlass::types::schedules::{ScheduleSpec, WhichSchedules};

use crate::bench::Bench;
use crate::schedules::every_second;

/// More damaged schedules than one page holds.
const BROKEN: usize = 201;

#[tokio::test]
async fn however_many_cannot_be_read_a_worker_starts_and_fires_the_others() {
    let file = crate::fresh_file();
    let engine = crate::open(&file);
    let connection = Connection::open(&file).expect("the file opens");
    let sql = "INSERT INTO job_schedules (name, version, look_at, record) VALUES (?1, 1, 0, '{')";
    for number in 0..BROKEN {
        connection.execute(sql, params![format!("broken-{number:03}")]).expect("the row is inserted");
    }
    connection.execute(sql, params!["No Name At All"]).expect("the row is inserted");
    let rare = Schedule::parse("weekly on mon at 09:00").expect("the schedule is valid");
    let rare = ScheduleSpec { schedule: rare, ..every_second("rare") };
    let schedules = vec![every_second("broken-007"), every_second("sound"), rare];
    let mut bench = Bench::on(engine, WorkerOptions { schedules, ..WorkerOptions::default() }).await;
    let early = "UPDATE job_schedules SET look_at = 0 WHERE name = 'rare'";
    assert_eq!(connection.execute(early, []).expect("the row exists"), 1);
    let is_repaired = || -> bool {
        let sql = "SELECT look_at > 0 FROM job_schedules WHERE name = 'rare'";
        connection.query_row(sql, [], |row| row.get(0)).expect("the row exists")
    };
    for number in 0.. {
        if number >= 3 && is_repaired() {
            break;
        }
        assert!(number < 60, "the store should have repaired the next time");
        let (id, _) = bench.started().await;
        let record = bench.client.job(id).await.expect("the store answers").expect("the job is known");
        let tick = record.job.correlation.expect("the job names its tick").to_string();
        assert!(tick.starts_with("schedule/sound/"), "{tick}");
    }
    let all = bench.client.schedules().all().await.expect("the store answers");
    assert_eq!((all.schedules.len(), all.damaged.len()), (2, BROKEN));
    let page = bench.engine.schedules(&WhichSchedules::Due(None, 200)).await.expect("the store answers");
    assert_eq!(
        (page.schedules.len(), page.damaged.len()),
        (0, 200 - 1),
        "one of them has no valid name to report"
    );
}
