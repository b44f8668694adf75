use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;

/// Returns the behaviours in the sources, as `module::sentence`.
fn written() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(src).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .flat_map(|path| read(&path))
        .collect()
}

fn read(path: &Path) -> Vec<String> {
    let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(path).unwrap();
    let heads = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
    // The formatter breaks the line of a long sentence behind the bracket.
    let is_behaviour = |rest: &&str| rest.is_empty() || rest.starts_with("h: &Harness)");
    heads
        .filter_map(|head| head.split_once('(').filter(|(_, rest)| is_behaviour(rest)))
        .map(|(name, _)| format!("{module}::{name}"))
        .collect()
}

#[test]
fn every_behaviour_that_is_written_is_listed_once() {
    let listed: BTreeSet<_> = BEHAVIOURS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(listed.len(), BEHAVIOURS.len(), "no behaviour is listed twice");
    let written = written();
    assert_eq!(written.difference(&listed).collect::<Vec<_>>(), [] as [&String; 0], "written, not listed");
    assert_eq!(listed.difference(&written).collect::<Vec<_>>(), [] as [&String; 0], "listed, not written");
}

#[test]
fn a_skip_is_found_by_its_name() {
    let skips = [("claim::never_more_than_asked_for", "because")];
    assert_eq!(skip_reason("claim::never_more_than_asked_for", &skips), Some("because"));
    assert_eq!(skip_reason("claim::more_urgent_jobs_leave_first", &skips), None);
}

#[test]
#[should_panic(expected = "expected a behaviour's name")]
fn a_skip_of_nothing_is_noticed() {
    check_skips(&[("claim::nothing_of_that_name", "because")]);
}

#[test]
#[should_panic(expected = "expected a reason")]
fn a_skip_without_a_reason_is_noticed() {
    check_skips(&[("claim::never_more_than_asked_for", " ")]);
}
