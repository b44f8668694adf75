//! Redis that syncs once a second: writes that were acknowledged just before it failed may be lost, and
//! nothing else.

use std::time::Duration;

use crate::plan::{Fault, Plan};
use crate::process::work_if_asked;
use crate::redis::{Redis, open, options};
use crate::report::Report;
use crate::run::strike_as;

mod tail;

pub(crate) use tail::Tail;

/// Syncs are a second apart. While a sync takes long, the server keeps the next writes in its own memory
/// for up to two seconds, and answers all the same.
pub(crate) const MAY_LOSE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_turn_lose_nothing_older_than_two_seconds() {
    if work_if_asked(async |url, namespace| open(&url, options(&namespace)).await).await {
        return;
    }
    let all = [&Fault::ALL[..], &Fault::REDIS, &[Fault::PowerCut]].concat();
    strike(Plan::asked_for(&all)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_syncs_every_second_and_is_killed_loses_nothing_older_than_two_seconds() {
    strike(Plan::short(&[Fault::Kill, Fault::Kill, Fault::Kill])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loses_what_it_had_not_synced_loses_nothing_older_than_two_seconds() {
    let report = strike(Plan::short(&[Fault::PowerCut, Fault::PowerCut])).await;
    assert!(report.lost_within_reason() > 0, "expected a fault that loses writes, got {report}");
}

async fn strike(plan: Plan) -> Report {
    // Without rewrites the file only grows, until it is cut.
    let settings = [("appendfsync", "everysec"), ("auto-aof-rewrite-percentage", "0")];
    let test_name = "redis_everysec::faults_in_turn_lose_nothing_older_than_two_seconds";
    let mut store = Redis::start(&settings, test_name);
    store.tail = Some(Tail::watch(store.server.folder()));
    strike_as(plan, store).await
}
