//! A lint is switched off only with a reason: the reasons are also the list of functions that may be too
//! long.

use super::Finding;
use super::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.below("", ".rs").flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let switched_off = file.code().filter(|(_, code)| is_switch(code.trim_start()));
    let unexplained = switched_off.filter(|(index, _)| !attribute_at(file, *index).contains("reason ="));
    let advice = "a lint is switched off without a reason; write `reason = \"…\"` into the attribute";
    unexplained.map(|(index, _)| Finding::of_line(&file.path, index, advice)).collect()
}

fn is_switch(code: &str) -> bool {
    ["#[allow(", "#![allow(", "#[expect(", "#![expect("].iter().any(|start| code.starts_with(start))
}

/// The attribute that begins on this line, up to the line that closes it.
fn attribute_at(file: &File, index: usize) -> String {
    let mut attribute = String::new();
    for line in file.text.lines().skip(index) {
        attribute.push_str(line);
        if line.trim_end().ends_with(")]") {
            break;
        }
    }
    attribute
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[("a.rs", text)])).len()
    }

    #[test]
    fn a_lint_that_is_switched_off_without_a_reason_is_found() {
        assert_eq!(count("#[allow(clippy::too_many_lines)]\nfn long() {}"), 1);
        assert_eq!(count("#[allow(clippy::too_many_lines, reason = \"one big match\")]\nfn long() {}"), 0);
    }

    #[test]
    fn an_attribute_may_go_over_several_lines() {
        assert_eq!(count("#[expect(\n    dead_code,\n    reason = \"used on macOS\"\n)]\nfn a() {}"), 0);
        assert_eq!(count("#[expect(\n    dead_code\n)]\nfn reason() {}"), 1);
    }
}
