//! A link from one of our pages leads to an existing file, and to an existing heading if it names one.

use super::Finding;
use super::tree::{File, Tree};
use crate::command;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let root = command::root();
    check_with(tree, |path| root.join(path).exists())
}

fn check_with(tree: &Tree, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let links = tree.below("", ".md").flat_map(|file| links_of(file).map(move |link| (file, link)));
    let wrong = |(file, (index, target)): (&File, (usize, &str))| {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        let page = tree.files.iter().find(|page| page.path == path);
        let what = match page {
            None if !exists(&path) => "file",
            Some(page) if path.ends_with(".md") && !has_heading(page, heading) => "heading",
            _ => return None,
        };
        Some(Finding::of_line(&file.path, index, format!("no such {what}: {target}")))
    };
    links.filter_map(wrong).collect()
}

/// The targets of links to files, each with the index of its line.
fn links_of(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().enumerate();
    lines.flat_map(|(index, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let ours =
            targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '));
        ours.map(move |target| (index, target))
    })
}

/// Whether a page has a heading whose anchor this is. Every page has its beginning.
fn has_heading(page: &File, anchor: &str) -> bool {
    let mut is_code = false;
    let headings = page.text.lines().filter(move |line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    anchor.is_empty() || headings.map(anchor_of).any(|known| known == anchor)
}

/// The anchor of a heading, as GitHub makes it.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The target relative to the root.
fn resolve(page: &str, target: &str) -> String {
    let mut steps: Vec<_> = page.split('/').collect();
    steps.pop();
    for step in target.split('/') {
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            name => steps.push(name),
        }
    }
    steps.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(page: &str, text: &str) -> usize {
        check_with(&Tree::of(&[(page, text)]), |path| path == "docs/keys.md").len()
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        assert_eq!(broken("README.md", "see [keys](docs/keys.md) and [x](https://example.org/a)"), 0);
        assert_eq!(broken("README.md", "see [keys](docs/locks.md)"), 1);
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_found() {
        let keys = ("docs/keys.md", "# Keys\n## `[keys.NAME]`: the modes\n```sh\n# modes\n```\n");
        let broken = |text: &str| check_with(&Tree::of(&[("docs/a.md", text), keys]), |_| true).len();
        assert_eq!(broken("[keys](keys.md#keysname-the-modes) and [here](#below)\n## Below\n"), 0);
        assert_eq!(broken("[keys](keys.md#modes) and [here](#above)\n"), 2);
    }

    #[test]
    fn a_link_is_read_from_where_its_page_lies() {
        assert_eq!(broken("docs/retries.md", "[keys](keys.md)"), 0);
        assert_eq!(broken("docs/decisions/0001.md", "[keys](../keys.md)"), 0);
        assert_eq!(broken("docs/decisions/0001.md", "[keys](keys.md)"), 1);
    }
}
