//! `windlass schedule` as people type it.

mod common;

use common::Dir;

const OVER_THE_CHANGE: [&str; 9] = [
    "schedule",
    "next",
    "*/5 9-16 * * 1-5",
    "--tz",
    "America/New_York",
    "--from",
    "2027-03-12T16:40:00-05:00",
    "--count",
    "20",
];

#[test]
fn the_next_times_are_right_over_a_change_of_clocks_and_say_so() {
    let done = Dir::new().ok(&OVER_THE_CHANGE);
    let mut expected = vec![
        "*/5 9-16 * * 1-5, America/New_York".to_owned(),
        "every 5 minutes from 09:00 to 16:55, Monday to Friday, New York time".to_owned(),
        String::new(),
        "America/New_York             UTC".to_owned(),
        "Fri 2027-03-12 16:45:00 EST  2027-03-12T21:45:00Z".to_owned(),
        "Fri 2027-03-12 16:50:00 EST  2027-03-12T21:50:00Z".to_owned(),
        "Fri 2027-03-12 16:55:00 EST  2027-03-12T21:55:00Z".to_owned(),
        "-- clocks go forward by 1h, from 02:00 to 03:00: Sun 2027-03-14 03:00:00 EDT --".to_owned(),
    ];
    for minutes in (0..17).map(|nth| nth * 5) {
        let (hour, minute) = (minutes / 60, minutes % 60);
        let (local, utc) = (9 + hour, 13 + hour);
        expected
            .push(format!("Mon 2027-03-15 {local:02}:{minute:02}:00 EDT  2027-03-15T{utc}:{minute:02}:00Z"));
    }
    assert_eq!(done.out.lines().collect::<Vec<_>>(), expected);
    assert_eq!(done.err, "");
}

#[test]
fn json_has_the_times_in_utc_and_the_change() {
    let json = Dir::new().ok(&[&OVER_THE_CHANGE[..], &["--json"]].concat()).json();
    let next = json["next"].as_array().unwrap();
    assert_eq!(next.len(), 20);
    assert_eq!(next[0]["utc"], "2027-03-12T21:45:00Z");
    assert_eq!(next[0]["local"], "2027-03-12T16:45:00-05:00");
    assert_eq!(next[3]["utc"], "2027-03-15T13:00:00Z");
    assert_eq!(next[19]["utc"], "2027-03-15T14:20:00Z");
    let change = &json["clock_changes"][0];
    assert_eq!((&change["utc"], &change["forward_s"]), (&"2027-03-14T07:00:00Z".into(), &3600.into()));
    assert_eq!((&change["clock_from"], &change["clock_to"]), (&"02:00".into(), &"03:00".into()));
    assert_eq!(json["schedule"], "*/5 9-16 * * 1-5, America/New_York");
    assert_eq!(json["zone"], "America/New_York");
    assert!(json["zone_data"].as_str().unwrap().starts_with("20"));
}

#[test]
fn a_time_that_is_left_out_and_one_that_comes_twice_are_seen_beside_their_marks() {
    let lines = |from: &str| -> Vec<String> {
        let args =
            ["schedule", "next", "daily at 02:30", "--tz", "Europe/Berlin", "--from", from, "--count", "2"];
        Dir::new().ok(&args).out.lines().skip(4).map(str::to_owned).collect()
    };
    assert_eq!(
        lines("2027-03-27T12:00:00Z"),
        [
            "-- clocks go forward by 1h, from 02:00 to 03:00: Sun 2027-03-28 03:00:00 CEST --",
            "Sun 2027-03-28 03:00:00 CEST  2027-03-28T01:00:00Z",
            "Mon 2027-03-29 02:30:00 CEST  2027-03-29T00:30:00Z",
        ]
    );
    assert_eq!(
        lines("2027-10-30T12:00:00Z"),
        [
            "Sun 2027-10-31 02:30:00 CEST  2027-10-31T00:30:00Z",
            "-- clocks go back by 1h, from 03:00 to 02:00: Sun 2027-10-31 02:00:00 CET --",
            "Mon 2027-11-01 02:30:00 CET   2027-11-01T01:30:00Z",
        ]
    );
}

#[test]
fn where_many_changes_lie_between_two_times_one_line_stands_for_them() {
    let args = [
        "schedule",
        "next",
        "0 0 29 2 *",
        "--tz",
        "Europe/Berlin",
        "--from",
        "2027-06-01T00:00:00Z",
        "--count",
        "2",
    ];
    let done = Dir::new().ok(&args);
    assert_eq!(
        done.out.lines().skip(4).collect::<Vec<_>>(),
        [
            "-- clocks go back by 1h, from 03:00 to 02:00: Sun 2027-10-31 02:00:00 CET --",
            "Tue 2028-02-29 00:00:00 CET  2028-02-28T23:00:00Z",
            "-- clocks change 8 times --",
            "Sun 2032-02-29 00:00:00 CET  2032-02-28T23:00:00Z",
        ]
    );
}

#[test]
fn without_flags_it_begins_now_in_utc_and_words_need_no_quotes() {
    let done = Dir::new().ok(&["schedule", "next", "every", "15", "minutes", "--json"]);
    let json = done.json();
    assert_eq!(
        (json["schedule"].as_str(), json["next"].as_array().unwrap().len()),
        (Some("every 15m, UTC"), 10)
    );
    assert!(json["next"][0]["utc"].as_str() > json["from"].as_str(), "{json}");
}

#[test]
fn holidays_come_from_a_file_and_are_named() {
    let dir = Dir::new();
    dir.write(
        "holidays.txt",
        "# of the exchange\n2027-12-24 Christmas Day (observed)\n2028-01-17 King's Day\n",
    );
    let text = "daily at 09:30, weekdays, except holidays, America/New_York";
    let from = ["--from", "2027-12-23T00:00:00Z", "--count", "3", "--holidays", "holidays.txt"];
    let done = dir.ok(&[&["schedule", "next", text], &from[..]].concat());
    assert_eq!(
        done.out.lines().skip(4).collect::<Vec<_>>(),
        [
            "Thu 2027-12-23 09:30:00 EST  2027-12-23T14:30:00Z",
            "-- 2027-12-24 is a holiday: Christmas Day (observed) --",
            "Mon 2027-12-27 09:30:00 EST  2027-12-27T14:30:00Z",
            "Tue 2027-12-28 09:30:00 EST  2027-12-28T14:30:00Z",
        ]
    );
    let later = ["--from", "2028-01-17T23:00:00Z", "--holidays", "holidays.txt"];
    let done = dir.ok(&[&["schedule", "next", text], &later[..]].concat());
    assert!(done.err.contains("the list of holidays ends on 2028-01-17"), "{done:?}");
}

#[test]
fn what_is_wrong_with_holidays_is_said() {
    let dir = Dir::new();
    dir.write("bad.txt", "2027-02-30 Never\n");
    let text = "daily at 09:30, except holidays";
    for (args, expected) in [
        (&[text][..], "--holidays"),
        (&[text, "--holidays", "missing.txt"], "missing.txt"),
        (&[text, "--holidays", "bad.txt"], "bad.txt: line 1: expected a date"),
        (&["daily at 09:30", "--holidays", "bad.txt"], "except holidays"),
    ] {
        let done = dir.run(&[&["schedule", "next"], args].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {done:?}");
        assert!(done.err.contains(expected), "{args:?}: {done:?}");
    }
}

#[test]
fn wrong_schedules_are_wrong_usage_and_say_what_to_write() {
    let kilobyte = vec!["1"; 512].join(",") + " * * * *";
    for (args, expected) in [
        (&["0 0 30 2 *"][..], "no 30 February"),
        (&["daily at 08:00, 09:30-16:00"], "outside of its window"),
        (&["daily at 02:00", "--tz", "America/NewYork"], "did you mean America/New_York?"),
        (&["daily at 02:00, Europe/Berln"], "did you mean Europe/Berlin?"),
        (&["daily at 02:00, Europe/Berlin", "--tz", "Asia/Tokyo"], "Europe/Berlin beside Asia/Tokyo"),
        (&[&kilobyte], "at most 512 bytes"),
        (&["every 0s"], "from 1s"),
        (&["every 5m\u{1b}[2J"], "printable"),
        (&["0 0 9 * * *"], "every 10s"),
        (&["soon"], "daily at 02:00"),
        (&["every 5m", "--count", "0"], "1..=1000"),
        (&["every 5m", "--from", "tomorrow"], "expected an instant"),
        (&[], "EXPR"),
    ] {
        let done = Dir::new().run(&[&["schedule", "next"], args].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {done:?}");
        assert!(done.err.contains(expected), "{args:?}: {done:?}");
        assert!(!done.err.contains('\u{1b}'), "{done:?}");
    }
    let error = Dir::new().run(&["schedule", "next", "soon", "--json"]).error();
    assert_eq!(error["code"], "usage");
}

#[test]
fn a_schedule_that_ends_with_the_calendar_says_so() {
    let done = Dir::new().ok(&["schedule", "next", "daily at 09:00", "--from", "9999-12-28T12:00:00Z"]);
    assert!(done.err.contains("no further time within fifty years"), "{done:?}");
}

/// A schedule of the far future, so that nothing fires during the test.
const CONFIGURED: &str =
    "[schedules.yearly]\nschedule = \"0 0 29 2 *\"\njob = \"sample.notify\"\npayload = { millis = 1 }\n";

#[test]
fn what_is_configured_is_stored_by_serve_and_goes_on_until_it_is_removed() {
    let dir = Dir::new();
    dir.write("windlass.toml", CONFIGURED);
    dir.ok(&["migrate"]);
    let diff = |dir: &Dir| dir.ok(&["schedule", "diff", "--json"]).json()[0]["difference"].clone();
    assert_eq!(diff(&dir), "not stored");
    let mut serve = dir.command(&["serve", "--quiet"]).spawn().expect("the binary starts");
    let stored = || dir.run(&["schedule", "show", "yearly", "--json"]).code == 0;
    assert!(common::wait_for(stored), "serve stores what is configured");
    assert_eq!(diff(&dir), "same");
    let shown = dir.ok(&["schedule", "show", "yearly", "--json"]).json();
    assert_eq!((&shown["origin"], &shown["job"]["payload"]["millis"]), (&"configuration".into(), &1.into()));
    common::terminate(&serve);
    assert_eq!(common::ended(&mut serve), Some(0));
    dir.write("windlass.toml", "");
    assert_eq!(diff(&dir), "no longer declared");
    dir.ok(&["schedule", "remove", "yearly", "--yes"]);
    assert_eq!(dir.ok(&["schedule", "list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn a_wrong_schedule_in_the_configuration_is_told_with_its_place() {
    let dir = Dir::new();
    dir.write(
        "windlass.toml",
        "[schedules.a]\nschedule = \"0 0 30 2 *\"\njob = \"x\"\n[schedules.b]\nschedule = \"every 1h\"\n[schedules.c]\nschedule = \"every 1h\"\njob = \"x\"\noverlap = \"skipp\"\n[schedules.C]\nschedule = \"every 1h\"\njob = \"x\"\n",
    );
    let done = dir.run(&["check"]);
    assert_eq!(done.code, 78, "{done:?}");
    for said in
        ["windlass.toml:2:", "30 February", "[schedules.b]", "did you mean `skip`?", "c once, got it twice"]
    {
        assert!(done.err.contains(said), "{said}: {}", done.err);
    }
}
