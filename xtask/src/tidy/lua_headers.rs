//! Every Lua script has a header that names the keys it touches itself, its arguments and its answers.
//! Parts, which scripts share, name the keys they touch.

use super::Finding;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.below("", ".lua").flat_map(complaints_about).collect()
}

fn complaints_about(file: &File) -> Vec<Finding> {
    let is_part = file.path.contains("/parts/");
    let header: Vec<_> = file.text.lines().take_while(|line| line.starts_with("--")).collect();
    let has = |word: &str| header.iter().any(|line| line.starts_with(&format!("-- {word}")));
    let mut missing = Vec::new();
    for (word, sample) in [
        ("keys ", "-- keys worker:, held:` or `-- keys those of its parts"),
        ("ARGV", "-- ARGV id, why` or `-- ARGV none"),
        ("answers ", "-- answers for each '1' or ''"),
    ] {
        if !is_part && !has(word) {
            missing.push(format!("expected a line in the header such as `{sample}`"));
        }
    }
    let named = named(&header);
    missing.extend(touched(&file.text).into_iter().filter(|key| !named.contains(key)).map(|key| {
        format!("expected the key `{key}`, which this script touches, in the line `-- keys …` of its header")
    }));
    missing.into_iter().map(|words| Finding::of_line(&file.path, 0, &words)).collect()
}

/// The names after `-- keys`, also in indented lines below it.
fn named<'a>(header: &[&'a str]) -> Vec<&'a str> {
    let from = header.iter().skip_while(|line| !line.starts_with("-- keys "));
    let lines = from.enumerate().take_while(|(nth, line)| *nth == 0 || line.starts_with("--    "));
    let words =
        lines.flat_map(|(_, line)| line.trim_start_matches("-- keys").trim_start_matches("--").split(','));
    words.map(str::trim).collect()
}

/// The names in calls of `key('…')`.
fn touched(text: &str) -> Vec<&str> {
    let calls = text.match_indices("key('").filter(|(at, _)| !text[..*at].ends_with('_'));
    let mut keys: Vec<_> =
        calls.filter_map(|(at, call)| text[at + call.len()..].split('\'').next()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_does_not_say_what_it_touches_takes_or_answers_is_found() {
        let body = "\nredis.call('HGET', key('layout'), arg())\nfree_key('x')";
        let bare = format!("-- now: tells the time{body}");
        let half = format!(
            "-- now: tells the time\n-- keys worker:,\n--      held:\n-- ARGV none\n-- answers it{body}"
        );
        let good = format!(
            "-- now: tells the time\n-- keys held:,\n--      layout\n-- ARGV none\n-- answers it{body}"
        );
        let part = format!("-- begin: what every script starts with{body}");
        let count = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        assert_eq!(
            (count("lua/a.lua", &bare), count("lua/a.lua", &half), count("lua/a.lua", &good)),
            (4, 1, 0)
        );
        assert_eq!(count("lua/parts/a.lua", &part), 1);
    }
}
