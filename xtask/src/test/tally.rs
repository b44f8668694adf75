//! The results of all tests, added up.

/// The results that test programs have reported.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    programs: u32,
    passed: u32,
    pub(crate) failed: Vec<String>,
    ignored: Vec<String>,
}

impl Tally {
    /// Reads one line of a test program's output.
    pub(crate) fn read(&mut self, of: &str, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.programs += 1;
            self.passed += count_before(counts, " passed");
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            match result.split([',', ' ']).next() {
                Some("FAILED") => self.failed.push(format!("{name} ({of})")),
                Some("ignored") => self.ignored.push(format!("{name} ({of})")),
                _ => {}
            }
        }
    }

    /// The results in words. Ignored tests are named: nothing is skipped silently.
    pub(crate) fn summary(&self) -> String {
        let Self { programs, passed, failed, ignored } = self;
        let mut lines = vec![format!(
            "summary: {passed} tests passed, {} failed, {} ignored, in {programs} test programs",
            failed.len(),
            ignored.len()
        )];
        lines.extend(failed.iter().map(|name| format!("  failed:  {name}")));
        lines.extend(ignored.iter().map(|name| format!("  ignored: {name}")));
        lines.join("\n")
    }
}

fn count_before(text: &str, word: &str) -> u32 {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_all_programs_and_names_what_failed_and_what_was_left_out() {
        let mut tally = Tally::default();
        let output = "\
test settle::tests::a ... ok
test settle::tests::b ... FAILED
test boost::tests::c ... ignored, needs a server
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 41 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        output.lines().for_each(|line| tally.read("tests/a.rs", line));
        let summary = tally.summary();
        assert!(summary.starts_with("summary: 42 tests passed, 1 failed, 1 ignored, in 2"), "{summary}");
        assert!(summary.contains("failed:  settle::tests::b (tests/a.rs)"), "{summary}");
        assert!(summary.contains("ignored: boost::tests::c (tests/a.rs)"), "{summary}");
    }
}
