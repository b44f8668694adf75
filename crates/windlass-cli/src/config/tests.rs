use std::time::Duration;

use super::*;

fn vars(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn load_text(file: &str, text: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file);
    std::fs::write(&path, text).unwrap();
    let prefix = format!("{}/", dir.path().display());
    load(Some(&path), &vars(variables))
        .map_err(|errors| errors.iter().map(|p| p.to_string().replace(&prefix, "")).collect())
}

fn toml(text: &str) -> Result<Config, Vec<String>> {
    load_text("windlass.toml", text, &[])
}

fn defaults() -> Config {
    load(None, &[]).unwrap()
}

#[test]
fn without_a_file_the_five_queues_and_the_documented_defaults_hold() {
    let config = defaults();
    let names: Vec<_> = config.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["high", "default", "screenshot", "low", "bulk"]);
    assert_eq!(config.store, StoreSettings::default());
    assert_eq!(config.worker.stop_grace, Duration::from_secs(25));
    assert_eq!(config.retry, RetryPolicy::default());
}

#[test]
fn the_example_file_sets_every_default_to_itself() {
    let config = toml(example::EXAMPLE).unwrap();
    assert_eq!(Config { file: None, ..config }, defaults());
}

#[test]
fn the_example_file_is_right_with_its_commented_settings_too() {
    let uncommented: Vec<_> = example::EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(setting)
                if ["[types", "[breakers", "[rate_limits", "[schedules", "[triggers"]
                    .iter()
                    .any(|s| setting.starts_with(s)) =>
            {
                setting
            }
            Some(setting) if setting.split_once(" = ").is_some_and(|(key, _)| !key.contains([' ', '`'])) => {
                setting
            }
            _ => line,
        })
        .collect();
    let config = toml(&uncommented.join("\n")).unwrap();
    assert_eq!((config.types.len(), config.schedules.len(), config.triggers.len()), (1, 1, 1));
    assert_eq!((config.limits.breakers.len(), config.limits.rate_limits.len()), (1, 1));
    assert_eq!(config.queues[4].capacity, Some(100_000));
}

#[test]
fn yaml_says_the_same_as_toml() {
    let by_toml = toml("[worker]\nlease = \"1m\"\n[queues.mail]\nconcurrency = 7\n[types.send]\nqueue = \"mail\"\nretry = { policy = \"list\", delays = [\"1s\", \"2s\"] }\n").unwrap();
    let text = "worker:\n  lease: 1m\nqueues:\n  mail:\n    concurrency: 7\ntypes:\n  send:\n    queue: mail\n    retry:\n      policy: list\n      delays: [1s, 2s]\n";
    let by_yaml = load_text("windlass.yaml", text, &[]).unwrap();
    assert_eq!(Config { file: None, ..by_toml }, Config { file: None, ..by_yaml });
}

#[test]
fn a_misspelt_key_names_file_line_column_and_the_nearest_key() {
    let errors = toml("[worker]\nlease = \"30s\"\n\n[queues.high]\nconcurency = 5\n").unwrap_err();
    assert_eq!(
        errors,
        ["windlass.toml:5:1: unknown key `concurency` in [queues.high]; did you mean `concurrency`?"]
    );
    let errors = load_text("windlass.yaml", "queues:\n  high:\n    concurency: 5\n", &[]).unwrap_err();
    assert_eq!(
        errors,
        ["windlass.yaml:3:5: unknown key `concurency` in [queues.high]; did you mean `concurrency`?"]
    );
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let errors = toml(
        "[store]\nengine = \"sqllite\"\n[worker]\nlease = 30\nmax_crashes = 0\n[queues.\"odd name\"]\n[queues.high]\nconcurrency = \"many\"\npoll_interval = \"1ms\"\n[types.send]\nqueue = \"hihg\"\n[types.lost]\n[wrker]\n",
    )
    .unwrap_err();
    let expected = [
        "windlass.toml:2:10: `engine` in [store]: expected one of sqlite, postgres, redis, memory, got \"sqllite\"; did you mean `sqlite`?",
        "windlass.toml:4:9: `lease` in [worker]: expected a span of time such as 250ms, 30s or 5m, got the bare number 30; write \"30s\" for seconds",
        "windlass.toml:5:15: `max_crashes` in [worker]: expected a whole number from 1 to 100, got 0",
        "windlass.toml:6:9: expected a queue name of 1 to 64 characters out of a-z 0-9 _ . -, got \"odd name\"",
        "windlass.toml:8:15: `concurrency` in [queues.high]: expected a whole number from 1 to 1000, got \"many\"",
        "windlass.toml:9:17: `poll_interval` in [queues.high]: expected a span of time from 100ms to 1d, got \"1ms\"",
        "windlass.toml:11:9: `queue` in [types.send]: expected a declared queue, got \"hihg\"; did you mean `high`?",
        "windlass.toml:12:8: expected `queue` in [types.lost], got none; every job type belongs to one queue",
        "windlass.toml:13:2: unknown key `wrker` in the top level; did you mean `worker`?",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn the_environment_goes_over_the_file_and_says_so_when_it_is_wrong() {
    let file = "[queues.high]\nconcurrency = 5\n[types.\"mail.send\"]\nqueue = \"high\"\n";
    let config = load_text(
        "windlass.toml",
        file,
        &[
            ("WINDLASS__QUEUES__HIGH__CONCURRENCY", "6"),
            ("WINDLASS__TYPES__MAIL_SEND__TIMEOUT", "9s"),
            ("WINDLASS__TYPES__MAIL_SEND__RETRY", "{ policy = \"list\", delays = [\"1s\"] }"),
            ("WINDLASS__TYPES__MAIL_SEND__KEEP_RESULT", "true"),
            ("WINDLASS__QUEUES__NEW__CAPACITY", "10"),
            ("WINDLASS__PRIORITIES__URGENT", "1"),
            ("WINDLASS__STORE__PATH", "/tmp/5"),
            ("WINDLASS_OTHER", "not ours"),
        ],
    )
    .unwrap();
    assert_eq!(config.queues[0].concurrency, 6);
    assert_eq!(config.types[0].timeout, Duration::from_secs(9));
    assert_eq!(config.types[0].retry.name(), "list");
    assert!(config.types[0].keep_result);
    assert!(config.queues.iter().any(|queue| queue.name.as_str() == "new" && queue.capacity == Some(10)));
    assert_eq!(config.priorities.resolve("urgent").unwrap().1.level(), 1);
    assert_eq!(config.store.path, PathBuf::from("/tmp/5"));

    let errors = load_text(
        "windlass.toml",
        file,
        &[
            ("WINDLASS__QUEUES__HIGH__CONCURENCY", "6"),
            ("WINDLASS__WORKER__LEASE", "soon"),
            ("WINDLASS__WORKER____X", "1"),
            ("WINDLASS__RETRY", "{ policy = "),
            ("WINDLASS__A__B__C__D__E__F__G__H__I", "1"),
            ("WINDLASS__QUEUES__HIGH__CONCURRENCY__DEEP", "1"),
        ],
    )
    .unwrap_err();
    let starts = [
        "environment variable WINDLASS__A__B__C__D__E__F__G__H__I: expected at most 8 parts, got 9",
        "environment variable WINDLASS__QUEUES__HIGH__CONCURENCY: unknown key `concurency` in [queues.high]; did you mean `concurrency`?",
        "environment variable WINDLASS__QUEUES__HIGH__CONCURRENCY__DEEP: expected a table at `concurrency` to set a part of, got 5",
        "environment variable WINDLASS__RETRY: expected a TOML list or inline table, got a syntax error",
        "environment variable WINDLASS__WORKER__LEASE: `lease` in [worker]: expected a span of time",
        "environment variable WINDLASS__WORKER____X: expected a name such as WINDLASS__WORKER__LEASE",
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}\n{start}");
    }
}

#[test]
fn redis_is_chosen_by_its_name_its_url_or_the_variable_of_older_deployments() {
    let url = ("REDIS_URL", "redis://:secret@host:1/2");
    let chosen = |text: &str| load(None, &vars(&[("USE_REDIS_QUEUE", text), url])).unwrap().store;
    for (text, engine) in [
        ("true", EngineChoice::Redis),
        ("1", EngineChoice::Redis),
        ("false", EngineChoice::Sqlite),
        ("", EngineChoice::Sqlite),
    ] {
        assert_eq!(chosen(text).engine, engine, "{text}");
    }
    assert_eq!(chosen("yes").redis.url.map(|url| url.to_string()).as_deref(), Some("redis://host:1"));
    assert_eq!(load(None, &vars(&[("USE_REDIS_QUEUE", "maybe")])).unwrap_err().len(), 1);
    assert_eq!(toml("[store]\nengine = \"redis\"\n").unwrap().store.engine, EngineChoice::Redis);
    let by_url = toml("[store]\nurl = \"rediss://host\"\nnamespace = \"shop\"\n").unwrap().store;
    assert_eq!((by_url.engine, by_url.redis.namespace.as_str()), (EngineChoice::Redis, "shop"));
    assert!(by_url.postgres.url.is_none());
}

#[test]
fn redis_by_the_variable_of_old_comes_with_a_spool_on_disk_unless_something_else_is_said() {
    let on = ("USE_REDIS_QUEUE", "true");
    let fallback = |more: &[(&str, &str)]| {
        let all: Vec<_> = [on].iter().chain(more).copied().collect();
        load(None, &vars(&all)).unwrap().fallback
    };
    assert_eq!(fallback(&[]).engine, Some(FallbackChoice::Sqlite));
    assert_eq!(fallback(&[("WINDLASS__FALLBACK__ENGINE", "none")]).engine, Some(FallbackChoice::None));
    assert_eq!(load(None, &[]).unwrap().fallback.engine, None);
}

#[test]
fn the_time_that_a_check_may_take_is_read_in_seconds_from_the_variable_of_old() {
    let of = |text: &str| load(None, &vars(&[("REDIS_HEALTH_CHECK_TIMEOUT", text)]));
    assert_eq!(of("0.5").unwrap().fallback.check_timeout, Duration::from_millis(500));
    for wrong in ["soon", "0", "-1", "61", "NaN", "1e400"] {
        let errors = of(wrong).unwrap_err();
        assert!(errors[0].to_string().contains("such as 2.0"), "{wrong}: {errors:?}");
    }
}

#[test]
fn built_in_queues_can_be_changed_added_to_and_removed() {
    let config =
        toml("[queues.HIGH]\nconcurrency = 2\n[queues.bulk]\nremove = true\n[queues.mine]\n").unwrap();
    let rows: Vec<_> = config.queues.iter().map(|q| (q.name.as_str(), q.concurrency)).collect();
    assert_eq!(rows, [("high", 2), ("default", 10), ("mine", 4), ("screenshot", 3), ("low", 5)]);
    let twice = toml("[queues.HIGH]\n[queues.high]\n").unwrap_err();
    assert!(twice[0].starts_with("windlass.toml:2:9:"), "{twice:?}");
    let orphan = toml("[queues.bulk]\nremove = true\n[types.a]\nqueue = \"bulk\"\n").unwrap_err();
    assert!(orphan[0].contains("expected a declared queue, got \"bulk\""), "{orphan:?}");
}

#[test]
fn every_setting_of_a_queue_and_a_type_arrives() {
    let config = toml(
        "[queues.q]\npriority = 1\nconcurrency = 2\npoll_interval = \"3s\"\np95_target = \"4s\"\ncolour = \"green\"\nescalation = \"page\"\ncapacity = 50\nwarn_depth = 6\n[types.t]\nqueue = \"q\"\nretry = \"fixed:every=5s\"\ntimeout = \"6s\"\npriority = 7\nretention_days = 8\nkeep_result = true\n",
    )
    .unwrap();
    let queue = serde_json::to_value(config.queues.iter().find(|q| q.name.as_str() == "q").unwrap()).unwrap();
    assert_eq!(
        queue,
        serde_json::json!({ "name": "q", "priority": 1, "concurrency": 2, "poll_interval": "3s", "p95_target": "4s", "colour": "green", "escalation": "page", "capacity": 50, "warn_depth": 6 })
    );
    assert_eq!(
        serde_json::to_value(&config.types[0]).unwrap(),
        serde_json::json!({ "name": "t", "queue": "q", "retry": { "policy": "fixed", "every": "5s", "attempts": 5 }, "timeout": "6s", "priority": 7, "retention_days": 8, "keep_result": true })
    );
}

#[test]
fn a_colour_may_be_spelled_color_but_not_both_ways_at_once() {
    let config = toml("[queues.q]\ncolor = \"green\"\n").unwrap();
    let queue = config.queues.iter().find(|q| q.name.as_str() == "q").unwrap();
    assert_eq!(queue.colour, windlass_core::queue::Colour::Green);
    let both = toml("[queues.q]\ncolour = \"green\"\ncolor = \"blue\"\n").unwrap_err();
    assert!(both[0].contains("unknown key `color`"), "{both:?}");
}

#[test]
fn labels_are_added_changed_and_taken_away() {
    let config = toml("[priorities]\nURGENT = 1\nhigh = 2\nlow = false\n").unwrap();
    let level = |label| config.priorities.resolve(label).map(|(_, priority)| priority.level());
    assert_eq!((level("urgent"), level("high"), level("normal")), (Ok(1), Ok(2), Ok(5)));
    assert!(level("low").is_err());
    for wrong in ["a = 11", "a = -1", "a = true", "a = \"x\"", "\"a b\" = 1"] {
        assert_eq!(toml(&format!("[priorities]\n{wrong}\n")).unwrap_err().len(), 1, "{wrong}");
    }
}

#[test]
fn the_default_retry_is_taken_by_types_that_say_nothing() {
    let config = toml("[retry]\npolicy = \"backfill\"\nbase = \"1m\"\n[types.a]\nqueue = \"high\"\n[types.b]\nqueue = \"high\"\nretry = \"never\"\n").unwrap();
    assert_eq!(config.types[0].retry, config.retry);
    assert_eq!(config.types[0].retry.name(), "backfill");
    assert_eq!(config.types[1].retry, RetryPolicy::Never);
}

#[test]
fn a_setting_that_the_policy_does_not_have_is_refused_at_its_place() {
    let errors = toml("[retry]\npolicy = \"fibonacci\"\nbase = \"1m\"\n").unwrap_err();
    assert_eq!(
        errors,
        ["windlass.toml:3:1: unknown key `base` in [retry]; known here: policy, unit, attempts"]
    );
    let errors = toml("[retry]\npolicy = \"fibonaci\"\n").unwrap_err();
    assert!(errors[0].contains("did you mean `fibonacci`?"), "{errors:?}");
    let errors = toml("[retry]\npolicy = \"fixed\"\n").unwrap_err();
    assert!(errors[0].contains("expected `every`"), "{errors:?}");
    let errors = toml("[retry]\npolicy = \"progressive\"\ntiers = [{ max_age = \"1d\" }]\n").unwrap_err();
    assert!(errors[0].contains("expected `interval`"), "{errors:?}");
}

#[test]
fn a_heartbeat_must_fit_twice_into_the_lease() {
    assert!(toml("[worker]\nlease = \"20s\"\n").is_ok());
    let errors = toml("[worker]\nlease = \"15s\"\n").unwrap_err();
    assert!(errors[0].starts_with("windlass.toml:2:9: expected `heartbeat`"), "{errors:?}");
}

#[test]
fn a_warning_past_the_capacity_is_refused() {
    assert!(toml("[queues.q]\ncapacity = 10\nwarn_depth = 9\n").is_ok());
    assert_eq!(toml("[queues.q]\ncapacity = 10\nwarn_depth = 10\n").unwrap_err().len(), 1);
}

#[test]
fn sections_that_are_no_tables_are_refused() {
    let errors = toml("store = 1\nworker = \"x\"\npriorities = []\nqueues = true\ntypes = 2\nretry = 3\n")
        .unwrap_err();
    assert_eq!(errors.len(), 6, "{errors:#?}");
    let errors = toml("[queues]\nhigh = 3\n").unwrap_err();
    assert_eq!(errors, ["windlass.toml:2:8: expected [queues.high] to be a table, got 3"]);
}

#[test]
fn a_missing_file_another_extension_and_bad_bytes_are_refused() {
    let load = |path: &Path| load(Some(path), &[]).unwrap_err()[0].to_string();
    assert!(load(Path::new("/nowhere/windlass.toml")).contains("reading the configuration file failed"));
    assert!(load(Path::new("windlass.json")).contains(".toml, .yaml or .yml"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.toml");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(load(&path).contains("reading the configuration file failed"));
    std::fs::write(&path, "#".repeat(2 * 1024 * 1024)).unwrap();
    assert!(load(&path).contains("at most"));
}

#[test]
fn a_policy_is_written_in_one_word_on_the_command_line() {
    let parse = retry::parse_policy;
    assert_eq!(parse("fibonacci"), Ok(RetryPolicy::fibonacci()));
    assert_eq!(parse("backfill:attempts=9"), Ok(RetryPolicy::backfill().with_attempts(9)));
    assert_eq!(parse("list:1s,1m 30s").map(|policy| policy.name()), Ok("list"));
    assert_eq!(parse("never"), Ok(RetryPolicy::Never));
    for wrong in [
        "",
        "nope",
        "fixed",
        "fixed:every",
        "fixed:every=x",
        "fixed:unit=1s",
        "list:",
        "never:attempts=2",
        "exponential:attempts=0",
        "exponential:attempts=-1",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_page_about_configuration_names_every_key_and_holds_the_example_in_full() {
    let page = include_str!("../../../../docs/configuration.md");
    assert!(page.contains(example::EXAMPLE.trim_end()), "docs/configuration.md has another example");
    let keys = example::EXAMPLE.lines().filter_map(|line| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        if let Some(section) = line.strip_prefix('[') {
            return section.split_once(']').map(|(section, _)| (true, section));
        }
        line.split_once(" = ").filter(|(key, _)| !key.contains([' ', '`'])).map(|(key, _)| (false, key))
    });
    let mut section = "";
    for (is_section, name) in keys {
        if is_section {
            section = name.split('.').next().unwrap_or(name);
            continue;
        }
        let variable = match section {
            "queues" | "types" | "breakers" | "rate_limits" | "schedules" | "triggers" => {
                format!("`{section}__NAME__{name}`")
            }
            "priorities" => "`priorities__LABEL`".to_owned(),
            _ => format!("`{section}__{name}`"),
        };
        let variable = variable.replace("LABEL", "label").to_uppercase();
        assert!(page.contains(&variable), "{variable} is missing");
        assert!(section == "priorities" || page.contains(&format!("| `{name}` |")), "{name} is missing");
    }
}

#[test]
fn nesting_without_end_is_refused_and_never_a_crash() {
    let deep = "[".repeat(100_000);
    assert!(toml(&format!("a = {deep}")).is_err());
    assert!(load_text("windlass.yaml", &format!("a: {deep}"), &[]).is_err());
    assert!(load(None, &vars(&[("WINDLASS__STORE__PATH", &deep)])).is_err());
    let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    assert!(load_text("windlass.yaml", bomb, &[]).is_err());
}

#[test]
fn every_setting_of_workers_reaches_the_worker() {
    let config = toml(
        "[worker]\nlease = \"31s\"\nheartbeat = \"11s\"\nsweep = \"6s\"\nduty_heartbeat = \"3s\"\nduty_expiry = \"12s\"\nmaintenance_mode = \"advisory-lock\"\nmaintenance_rotation = \"1h\"\nstop_grace = \"26s\"\nmax_crashes = 4\n[queues.q]\nconcurrency = 9\n[priorities]\nurgent = 1\n",
    )
    .unwrap();
    let options = config.worker_options();
    let spans = [options.lease, options.heartbeat_every, options.sweep_every, options.stop_grace];
    assert_eq!(spans.map(|span| span.as_secs()), [31, 11, 6, 26]);
    let duties = options.duty_leases;
    assert_eq!([duties.heartbeat, duties.expiry].map(|span| span.as_secs()), [3, 12]);
    assert_eq!(options.crashes_max, 4);
    assert_eq!(options.maintenance_mode, windlass::duties::DutyMode::AdvisoryLock);
    assert_eq!(options.maintenance_rotation.map(|span| span.as_secs()), Some(3_600));
    assert!(options.queues.iter().any(|queue| queue.name.as_str() == "q" && queue.concurrency == 9));
    assert_eq!(options.labels.resolve("urgent").map(|(_, priority)| priority.level()), Ok(1));
    assert_eq!(defaults().worker_options().stop_grace, windlass::WorkerOptions::default().stop_grace);
}

#[test]
fn heartbeats_of_duties_that_are_too_rare_for_their_expiry_are_refused() {
    let errors = toml("[worker]\nduty_heartbeat = \"9s\"\n").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(format!("{errors:?}").contains("two fit into"), "{errors:#?}");
}

#[test]
fn turns_without_a_leader_are_refused_and_so_are_turns_that_are_too_short() {
    let refused =
        toml("[worker]\nmaintenance_mode = \"every-worker\"\nmaintenance_rotation = \"1h\"\n").unwrap_err();
    assert!(format!("{refused:?}").contains("expected no `maintenance_rotation`"), "{refused:#?}");
    assert!(toml("[worker]\nmaintenance_rotation = \"30s\"\n").is_err());
    assert!(toml("[worker]\nmaintenance_mode = \"stealing\"\n").is_err());
}

#[test]
fn breakers_and_rate_limits_say_what_is_wrong_with_them() {
    let errors = toml("[breakers.shop]\nopen_cooldown_seconds = 0\nfailure_percnt = 50\n[breakers.bank]\nfailures_in_a_row = false\n[rate_limits.all]\nper = \"1s\"\n[rate_limits.mails]\nlimit = 5\nby = \"tenant\"\n").unwrap_err();
    assert_eq!(errors.len(), 5, "{errors:#?}");
    for (error, words) in errors.iter().zip([
        ["open_cooldown_seconds", "from 1"],
        ["failure_percnt", "did you mean `failure_percent`"],
        ["[breakers.bank]", "never opens"],
        ["[rate_limits.all]", "`limit`"],
        ["`by` in [rate_limits.mails]", "/tenant"],
    ]) {
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn breakers_and_rate_limits_mean_what_they_say() {
    use windlass_core::rate_limit::KeyBy;
    let config = toml("[breakers.Shop]\nfailure_percent = 20\nhalf_open_probe_count = 3\nscope = \"process\"\ntypes = [\"fetch\"]\n[rate_limits.mails]\nlimit = 5\nper = \"1m\"\nby = \"/tenant\"\nat = \"enqueue\"\n").unwrap();
    let shop = &config.limits.breakers[0];
    assert_eq!((shop.name.as_str(), shop.types[0].as_str()), ("shop", "fetch"));
    assert_eq!((shop.options.failures_in_a_row, shop.options.half_open_probe_count), (None, 3));
    assert_eq!(shop.options.failure_rate.map(|rate| (rate.percent, rate.calls_min)), Some((20, 10)));
    let mails = &config.limits.rate_limits[0];
    assert_eq!((mails.limit.limit, mails.limit.burst, mails.limit.per), (5, 5, Duration::from_secs(60)));
    assert_eq!(mails.limit.by, KeyBy::Payload("/tenant".to_owned()));
    assert_eq!(config.worker_options().limits, config.limits);
}
