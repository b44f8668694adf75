//! The examples of limits do what they show. They are run as anybody runs them, as programs: `cargo test` builds all examples before it
//! runs tests.

use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts examples: beside the folder of this test program.
fn program(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    let folder = this.parent().and_then(std::path::Path::parent).expect("it lies two folders deep");
    folder.join("examples").join(name)
}

/// The lines that an example prints until it ends, which it does well.
fn lines_of(name: &str) -> Vec<String> {
    let program = program(name);
    assert!(program.exists(), "expected {program:?}; `cargo build --examples -p windlass` makes it");
    let output = Command::new(program).env_remove("USE_REDIS_QUEUE").output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_example_of_affiliate_reports_leaves_nothing_but_one_dead_letter() {
    let lines = lines_of("affiliate_reports");
    let last = lines.last().expect("it says something");
    assert!(last.ends_with("0 left; 1 report waits for a person as a dead letter"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.ends_with(" in the queue, engine memory")), "{lines:#?}");
}

#[test]
fn the_example_of_a_flaky_platform_fetches_everything_with_few_calls_in_vain() {
    let lines = lines_of("flaky_platform");
    let last = lines.last().expect("it says something");
    let calls = lines.iter().filter(|line| line.starts_with("  call ")).count();
    assert_eq!(*last, format!("All 20 reports are there, after {calls} calls."), "{lines:#?}");
    // Three failures open the breaker, and then one probe at a time finds out for two seconds.
    assert!((23..=32).contains(&calls), "{lines:#?}");
}

#[test]
fn the_example_of_tenants_refuses_two_of_each_and_runs_the_rest_at_their_pace() {
    let lines = lines_of("tenant_limits");
    for tenant in ["ada", "bob"] {
        let about = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
        let refused =
            lines.iter().filter(|line| line.contains("is refused") && line.contains(tenant)).count();
        assert_eq!((refused, about(&format!("{tenant} page "))), (2, 8), "{lines:#?}");
    }
    let last = lines.last().expect("it says something");
    let seconds = last.trim().split('s').next().and_then(|seconds| seconds.parse::<f32>().ok());
    assert!(
        seconds.is_some_and(|seconds| seconds >= 1.9),
        "six at two a second, two of them at once: {lines:#?}"
    );
}
