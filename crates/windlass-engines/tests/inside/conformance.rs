//! The behaviours about enqueues once more, with the SQL function in place of the engine's own enqueue. The
//! function repeats the rules of core in another language; these tests show that it gives the same answers.

use std::sync::Arc;

use windlass_conformance::harness::{Fixture, Harness};
use windlass_core::clock::ManualClock;

use super::schemas::Schema;
use super::test_store::TestStore;
use super::through_sql::ThroughSql;

/// Runs the behaviours of some modules, one test each. The other modules do not concern enqueues; each is
/// named, so that a module with another name does not compile.
macro_rules! some_modules {
    (; $($module:ident: $($name:ident)*;)*) => {
        $(some_modules!(@ $module: $($name)*);)*
    };
    (@ enqueue: $($name:ident)*) => { some_modules!(@@ enqueue: $($name)*); };
    (@ keys: $($name:ident)*) => { some_modules!(@@ keys: $($name)*); };
    (@ ordering_keys: $($name:ident)*) => { some_modules!(@@ ordering_keys: $($name)*); };
    (@ receipts: $($name:ident)*) => { some_modules!(@@ receipts: $($name)*); };
    (@ queues: $($name:ident)*) => { some_modules!(@@ queues: $($name)*); };
    (@ expiry: $($name:ident)*) => { some_modules!(@@ expiry: $($name)*); };
    (@ counts: $($name:ident)*) => { some_modules!(@@ counts: $($name)*); };
    (@ fairness_keys: $($name:ident)*) => {};
    (@ claim: $($name:ident)*) => {};
    (@ repeats: $($name:ident)*) => {};
    (@ boost: $($name:ident)*) => {};
    (@ suspects: $($name:ident)*) => {};
    (@ peek: $($name:ident)*) => {};
    (@ settle: $($name:ident)*) => {};
    (@ fence: $($name:ident)*) => {};
    (@ retry_and_dead: $($name:ident)*) => {};
    (@ cancel: $($name:ident)*) => {};
    (@ workers: $($name:ident)*) => {};
    (@ rescue: $($name:ident)*) => {};
    (@ maintenance: $($name:ident)*) => {};
    (@ types: $($name:ident)*) => {};
    (@ admin_reads: $($name:ident)*) => {};
    (@ stored_specs: $($name:ident)*) => {};
    (@ policies: $($name:ident)*) => {};
    (@ leases: $($name:ident)*) => {};
    (@ schedules: $($name:ident)*) => {};
    (@ triggers: $($name:ident)*) => {};
    (@ trigger_marks: $($name:ident)*) => {};
    (@ trigger_groups: $($name:ident)*) => {};
    (@ rollups: $($name:ident)*) => {};
    (@ shown_times: $($name:ident)*) => {};
    (@ hints: $($name:ident)*) => {};
    (@@ $module:ident: $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                super::run(concat!(stringify!($module), "::", stringify!($name)));
            })*

            #[test]
            fn there_are_behaviours_in_this_module() {
                assert!(!<[&str]>::is_empty(&[$(stringify!($name)),*]));
            }
        }
    };
}

windlass_conformance::every_behaviour!([some_modules]);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn run(behaviour: &str) {
    (windlass_conformance::behaviour(behaviour).run)(&harness().await).await;
}

async fn harness() -> Harness {
    let clock = Arc::new(ManualClock::default());
    let schema = Schema::borrow().await;
    let place = TestStore { url: schema.url(), schema: schema.name.clone() };
    let engine = place.open_with_clock(clock.clone()).await;
    let engine = Arc::new(ThroughSql { engine, url: place.url });
    Harness::start(Fixture { engine, clock, raw: None, keep: Box::new(schema) }, |task| {
        drop(tokio::spawn(task))
    })
    .await
}
