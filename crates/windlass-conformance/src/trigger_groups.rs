//! Several completion triggers, and what happens to a trigger whose group is changed.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::job::JobState;
use windlass_core::schedules::JobTemplate;
use windlass_core::triggers::{CompletionTrigger, Watched, acts};

use crate::harness::*;
use crate::triggers::{
    DONE, apart, apply, claim, declare, evaluate, fires, fires_not, group, grouped, made, of_group, of_queue,
    of_type, run, stored, watching,
};

/// Puts the trigger's own job into the queue, and gives it the type, that other triggers watch.
fn into_the_group(spec: CompletionTrigger) -> CompletionTrigger {
    CompletionTrigger { job: JobTemplate::new(type_name(WORK)), ..spec }
}

pub async fn triggers_of_one_group_do_not_fire_each_other(h: &Harness) {
    for watching in [of_queue, of_type] {
        for wait_for_retries in [false, true] {
            for called in ["first", "second"] {
                declare(h, &CompletionTrigger { wait_for_retries, ..into_the_group(watching(called)) }).await;
            }
            run(h, work()).await;
            assert_eq!(evaluate(h).await.iter().map(made).count(), 2);
            // One of the hooks runs and one waits while the group finishes again.
            let hooks = h.claim(2).await;
            h.release(&hooks[1]).await;
            let other = h.enqueue(work()).await;
            let (other, hook) = apart(h.claim(2).await, other);
            h.succeed(&other).await;
            h.release(&hook).await;
            assert_eq!(
                evaluate(h).await.iter().map(made).count(),
                2,
                "neither hook holds either completion trigger"
            );
            h.succeed(&hooks[0]).await;
            let waiting = h.claim(5).await;
            h.fail(&waiting[0], minutes(1)).await;
            h.bury(&waiting[1]).await;
            h.succeed(&waiting[2]).await;
            assert_eq!(evaluate(h).await, [], "the end of a hook marks neither");
            h.engine.purge(&queue(MAIN), 10).await.expect(UP);
            assert_eq!(evaluate(h).await, []);
            for called in ["first", "second"] {
                let trigger = stored(h, called).await;
                assert_eq!(trigger.record.fired, 2);
                apply(h, acts::remove(trigger.name(), trigger.version)).await;
            }
        }
    }
}

pub async fn a_hooks_job_holds_and_fires_a_trigger_of_another_group(h: &Harness) {
    declare(h, &of_queue("first")).await;
    declare(h, &watching("then", Watched::Queue(queue(OTHER)))).await;
    let claimed = claim(h, job_of(OTHER_WORK)).await;
    run(h, work()).await;
    let hook = fires(h).await;
    h.succeed(&claimed).await;
    fires_not(h).await;
    assert_eq!(h.job_state_of(hook).await, JobState::Ready);
    let hook = h.claim_one().await;
    run(h, job_of(OTHER_WORK)).await;
    fires_not(h).await;
    h.succeed(&hook).await;
    fires(h).await;
    assert_eq!((stored(h, "first").await.record.fired, stored(h, "then").await.record.fired), (1, 1));
}

pub async fn the_job_of_a_removed_trigger_is_a_job_like_any_other(h: &Harness) {
    let gone = declare(h, &into_the_group(of_queue("gone"))).await;
    run(h, work()).await;
    fires(h).await;
    let hook = h.claim_one().await;
    declare(h, &of_queue("stays")).await;
    apply(h, acts::remove(gone.name(), stored(h, "gone").await.version)).await;
    run(h, work()).await;
    fires_not(h).await;
    h.succeed(&hook).await;
    fires(h).await;
}

pub async fn a_trigger_that_watches_something_else_forgets_the_marks_of_what_it_watched(h: &Harness) {
    let watched = [
        Watched::Group(group("import 7")),
        Watched::Group(group("import 8")),
        Watched::Queue(queue(OTHER)),
        Watched::Type(type_name(OTHER_WORK)),
    ];
    declare(h, &of_queue(DONE)).await;
    for watch in watched {
        run(h, grouped()).await;
        run(h, job_of(OTHER_WORK)).await;
        let now_watching = watching(DONE, watch);
        declare(h, &now_watching).await;
        assert_eq!(evaluate(h).await, [], "nothing has ended in {}", now_watching.watch);
    }
    run(h, job_of(OTHER_WORK)).await;
    fires(h).await;
}

pub async fn any_other_change_of_a_trigger_keeps_its_marks(h: &Harness) {
    declare(h, &of_group()).await;
    run(h, grouped()).await;
    declare(h, &CompletionTrigger { wait_for_retries: true, ..of_group() }).await;
    fires(h).await;
}

pub async fn a_hooks_job_that_is_started_over_does_not_belong_to_the_group(h: &Harness) {
    declare(h, &into_the_group(of_queue(DONE))).await;
    run(h, work()).await;
    fires(h).await;
    let hook = h.claim_one().await;
    h.bury(&hook).await;
    // Evaluates the trigger while the job is a dead letter.
    run(h, work()).await;
    fires(h).await;
    let second = h.claim_one().await;
    h.engine.retry(hook.job.id).await.expect(UP);
    let again = h.claim_one().await;
    assert_eq!(again.job.id, hook.job.id);
    run(h, work()).await;
    fires(h).await;
    h.succeed(&again).await;
    h.succeed(&second).await;
    assert_eq!(evaluate(h).await, []);
}
