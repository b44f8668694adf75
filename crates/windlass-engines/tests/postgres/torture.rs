//! Real faults, one after the other, under the feet of a crew that works on: short here, and for as long as
//! `cargo xtask torture` is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass_servers::postgres::{Options, Server};
use windlass_servers::proxy::Proxy;

mod plan;
mod strike;
mod report;

use super::Place;
use super::crew::{Crew, work_if_asked};
use plan::{Fault, Plan};
use report::{Report, Tally};

/// The pace of each producer.
const PACE: Duration = Duration::from_millis(4);
/// So many jobs come in between two faults.
const BETWEEN: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_turn_lose_nothing_and_end_nothing_twice() {
    if work_if_asked().await {
        return;
    }
    let plan = Plan::asked_for();
    println!("\nfaults in turn: {plan:?}\n");
    let report = Torture::begin(plan).await.run().await;
    println!("\n{report}\n");
    assert!(report.is_clean(), "{report}");
    assert!(report.jobs() >= 50, "expected a run worth checking, got {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stopped_until_its_jobs_were_rescued_settles_nothing_when_it_is_woken() {
    let report = Torture::begin(Plan::short(&[Fault::FreezeWorker])).await.run().await;
    assert!(report.is_clean(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_declared_dead_because_the_store_stood_still() {
    let report = Torture::begin(Plan::short(&[Fault::FreezeStore])).await.run().await;
    assert!(report.is_clean(), "{report}");
}

struct Torture {
    plan: Plan,
    dice: fastrand::Rng,
    tally: Tally,
    server: Server,
    proxy: Proxy,
    place: Place,
    /// For questions. No proxy stands in its way.
    engine: PostgresEngine,
    crew: Crew,
}

impl Torture {
    /// Starts a server and everybody who works on it.
    async fn begin(plan: Plan) -> Self {
        let server = Server::start(&Options::default()).unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        let url = format!("{}?options={}", proxy.url(&server.url()), plan.session_settings());
        let place = Place { url, ..Place::on(server.url()) };
        let direct = Place::at(place.direct.clone(), place.schema.clone());
        let engine = direct.open().await;
        super::declare(&engine).await;
        let mut crew = Crew::new(plan.lease);
        for engine in [place.open().await, impatient(&place).await].map(Arc::new) {
            crew.producer(&engine, PACE);
            crew.worker(&engine);
            crew.rescuer(&engine);
        }
        for _ in 0..2 {
            crew.process(&place, plan.process_lease);
        }
        let dice = fastrand::Rng::with_seed(plan.seed);
        Self { plan, dice, tally: Tally::default(), server, proxy, place, engine, crew }
    }

    /// Faults in turn, until it was enough; then everything is healed and judged.
    async fn run(mut self) -> Report {
        let start = Instant::now();
        self.crew.let_work(BETWEEN).await;
        while self.tally.turns == 0 || !self.is_enough(start.elapsed()) {
            self.tally.turns += 1;
            for fault in self.plan.turn(self.tally.turns, &mut self.dice) {
                let began = Instant::now();
                self.strike(fault).await;
                self.crew.let_work(BETWEEN).await;
                *self.tally.faults.entry(fault).or_default() += 1;
                let (turn, at, took) = (self.tally.turns, start.elapsed().as_secs(), began.elapsed());
                let put_in = self.crew.put_in();
                println!("{at:>5} s  turn {turn:<4} {:<14} {took:>6.1?}  {put_in} jobs", fault.name());
            }
        }
        self.judge().await
    }

    fn is_enough(&self, elapsed: Duration) -> bool {
        let killed =
            !self.plan.faults.contains(&Fault::Kill) || self.tally.count(Fault::Kill) >= self.plan.kills_min;
        elapsed >= self.plan.lasts && killed
    }

    async fn judge(self) -> Report {
        self.proxy.cut_after_answers(usize::MAX);
        let history = self.crew.end(&self.engine).await;
        // All sessions of this server are ours. One may be between two statements at this moment, and is not in the next.
        let open = "pg_stat_activity WHERE state LIKE 'idle in transaction%'";
        let start = Instant::now();
        let mut left_open = self.place.count(open);
        while left_open > 0 && start.elapsed() < Duration::from_secs(5) {
            left_open = self.place.count(open);
        }
        Report::new(self.tally, &history, left_open)
    }
}

/// An engine that gives up on silence sooner than others, and keeps nothing in a session.
async fn impatient(place: &Place) -> PostgresEngine {
    let periods = Periods { answer_within: Duration::from_secs(1), ..Periods::default() };
    place.open_with(PostgresOptions { periods, pooled: true, ..place.options() }).await
}
