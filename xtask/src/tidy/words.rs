//! Replaced words do not come back: phrases that name no actor, and old names. The words of the project are
//! in `docs/glossary.md`.

use super::Finding;
use super::tree::{File, Tree};

/// Phrases without an actor. Names of functions are not checked: there a word is a part of a sentence.
const PHRASES: [&str; 6] = ["whoever", "somebody", "nobody", "anybody", "everybody", "so many"];

/// Old names of types, modules, files and commands, and the names that replace them.
const NAMES: &[(&str, &str)] = &[
    ("DrainSpec", "`CompletionTrigger`"),
    ("DrainRecord", "`TriggerRecord`"),
    ("SeriesName", "`OrderingKey`"),
    ("ShareName", "`FairnessKey`"),
    ("Placed", "`Enqueued`"),
    ("Placement", "`EnqueueOutcome`"),
    ("Finish", "`Outcome`"),
    ("QueueAtDoor", "`QueueState`"),
    ("at_door", "`queue_state`"),
    ("knock", "`try_accept`"),
    ("upkeep", "`maintenance`"),
    ("Upkeep", "`Maintenance`"),
    ("aggregates", "`rollups`"),
    ("Aggregates", "`Rollups`"),
    ("MinuteKey", "`RollupKey`"),
    ("MinuteRow", "`Rollup`"),
    ("minute_deltas", "`rollup_samples`"),
    ("minute_mark", "`rollup_watermark`"),
    ("job_minutes", "`job_rollups`"),
    ("spill", "`spool`"),
    ("Spill", "`Spool`"),
    ("spilled", "`spooled`"),
    ("Spilled", "`Spooled`"),
    ("bring_home", "`replay`"),
    ("until_home", "`until_replayed`"),
    ("set_aside", "`stage`"),
    ("enqueue_aside", "`enqueue_staged`"),
    ("coming_home", "`replaying`"),
    ("Brought", "`ClaimOutcome`"),
    ("be_thorough", "`scan_all`"),
    ("CrowdCount", "`MemberCount`"),
    ("Crowds", "`Membership`"),
    ("is_heard", "`is_live`"),
    ("LongLook", "`FullScan`"),
    ("RowPlace", "`Ctid`"),
    ("row_places", "`ctid_cache`"),
    ("Appetite", "`IdleRegistry`"),
    ("Ear", "`Listener`"),
    ("Landing", "`AppliedTransition`"),
    ("Parting", "`AttemptEnd`"),
    ("Flights", "`Batcher`"),
    ("Passenger", "`Pending`"),
    ("JobRecord", "`StoredJob`"),
    ("AttemptRecord", "`StoredAttempt`"),
    ("LeaseRecord", "`StoredLease`"),
    ("spend_token", "`write_claim_tombstone`"),
    ("asked_about", "`claim_tombstones`"),
    ("put_backs", "`requeued_jobs`"),
    ("undo_to_mark", "`rollback_to_savepoint`"),
    ("be_brief", "`set_statement_timeout`"),
    ("mend_claims", "`repair_claims`"),
    ("misplaced", "`invalid_priority`"),
    ("left_of_type", "`type_has_work`"),
    ("left_in_queue", "`queue_has_work`"),
    ("left_of_group", "`group_has_work`"),
    ("keys_there", "`existing_keys`"),
    ("make_days", "`create_partitions`"),
    ("drop_days", "`drop_partitions`"),
    ("refuse_over", "`check_batch_size`"),
    ("incarnation", "`store_epoch`"),
    ("LeaseKeeper", "`LeaseClient`"),
    ("BoardEvent", "`DutyStatusEvent`"),
    ("BoardEffect", "`DutyStatusEffect`"),
    ("Manner", "`Coordination`"),
    ("Pulse", "`HeartbeatAnswer`"),
    ("HeardPulse", "`HeardHeartbeat`"),
    ("Handful", "`TokenBatch`"),
    ("Teller", "`StatsFlusher`"),
    ("Looker", "`TriggerPoller`"),
    ("heard_log", "`log_capture`"),
    ("declare_what_can_be", "`apply_lenient`"),
    ("outlook", "`peek`"),
    ("Outlook", "`NextDue`"),
    ("dice", "`test_rng`"),
    ("crowd", "`membership`"),
    ("Bed", "`Fixture`"),
    ("Board", "`DutyStatus`"),
    ("Book", "`Ledger`"),
    ("Crew", "`Workers`"),
    ("Ground", "`Env`"),
    ("Home", "`IoThread`"),
    ("Keeper", "`GateOpener` or `LeaseClient`"),
    ("News", "a dirty flag"),
    ("Said", "`Reply`"),
    ("Scene", "`Scenario`"),
    ("Sight", "`ScanResult`"),
    ("Spot", "`CountedState`"),
    ("Stand", "`JobState`"),
    ("Told", "`Notified`"),
    ("Whom", "`ClaimRange`"),
    ("Positions", "`ClaimCursors`"),
    ("hungry", "`idle`"),
    ("seat", "`ring_position`"),
    ("told_of", "`notified`"),
    ("step_back", "`rewind`"),
    ("look_every", "`scan_every`"),
    ("Complaint", "`Finding`"),
    ("put_jobs", "`accept_jobs`"),
    ("words_of", "`refusal_text`"),
];

/// Files that are not checked. Decisions use the names of their time, and this file has the list.
const LEFT_OUT: [&str; 2] = ["docs/decisions/", "xtask/src/tidy/words.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let read = tree.files.iter().filter(|file| !LEFT_OUT.iter().any(|out| file.path.starts_with(out)));
    read.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let stem = file.path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    findings.extend(gone(stem).map(|advice| Finding::of_file(&file.path, advice)));
    for (index, line) in file.text.lines().enumerate() {
        let names = words(line).filter_map(gone);
        let phrases = PHRASES.into_iter().filter(|phrase| has_phrase(line, phrase)).map(unnamed);
        findings.extend(names.chain(phrases).map(|advice| Finding::of_line(&file.path, index, advice)));
    }
    findings
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

fn gone(word: &str) -> Option<String> {
    let (old, new) = NAMES.iter().find(|(old, _)| *old == word)?;
    Some(format!("`{old}` is gone; expected {new}"))
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    let line = line.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase)
        .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + phrase.len()..].starts_with(is_word))
}

fn unnamed(phrase: &str) -> String {
    format!(
        "expected the name of the actor or the number, got \"{phrase}\": the worker, another process, the caller, no process"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_phrase_without_an_actor_is_found_in_comments_texts_and_docs() {
        for phrase in PHRASES {
            assert_eq!(count("crates/a/src/b.rs", &format!("/// {phrase} runs it.")), 1, "{phrase}");
            assert_eq!(
                count("docs/a.md", &format!("Then {} runs it.", phrase.to_uppercase())),
                1,
                "{phrase}"
            );
        }
    }

    #[test]
    fn a_word_in_the_name_of_a_function_is_no_phrase() {
        assert_eq!(count("crates/a/src/b.rs", "fn whoever_dies_loses_nothing() {}"), 0);
    }

    #[test]
    fn a_name_that_is_gone_is_found_in_code_and_as_the_name_of_a_file() {
        for (old, _) in NAMES {
            assert_eq!(count("crates/a/src/b.rs", &format!("use a::{old};")), 1, "{old}");
            assert_eq!(count(&format!("crates/a/src/{old}.rs"), ""), 1, "{old}");
            assert_eq!(count("crates/a/src/b.rs", &format!("use a::{old}x;")), 0, "{old}");
        }
    }

    #[test]
    fn decisions_may_name_what_is_gone() {
        let (old, _) = NAMES[0];
        assert_eq!(count("docs/decisions/0001-a.md", &format!("{old} {}", PHRASES[0])), 0);
    }
}
