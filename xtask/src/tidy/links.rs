//! A link from one of our pages to one of our files leads to an existing file.

use super::Complaint;
use super::tree::{File, Tree};
use crate::command;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let root = command::root();
    check_with(tree, |path| root.join(path).exists())
}

fn check_with(tree: &Tree, exists: impl Fn(&str) -> bool) -> Vec<Complaint> {
    let links = tree.below("", ".md").flat_map(|file| links_of(file).map(move |link| (file, link)));
    let broken = links.filter(|(file, (_, target))| !exists(&resolve(&file.path, target)));
    broken
        .map(|(file, (index, target))| {
            Complaint::of_line(&file.path, index, format!("no such file: {target}"))
        })
        .collect()
}

/// The targets of links to files, without the part after `#`, each with the index of its line.
fn links_of(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().enumerate();
    lines.flat_map(|(index, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let ours =
            targets.filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '));
        ours.map(move |target| (index, target))
    })
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
        assert_eq!(broken("README.md", "see [keys](docs/keys.md#modes) and [x](https://example.org/a)"), 0);
        assert_eq!(broken("README.md", "see [keys](docs/locks.md)"), 1);
    }

    #[test]
    fn a_link_is_read_from_where_its_page_lies() {
        assert_eq!(broken("docs/retries.md", "[keys](keys.md)"), 0);
        assert_eq!(broken("docs/decisions/0001.md", "[keys](../keys.md)"), 0);
        assert_eq!(broken("docs/decisions/0001.md", "[keys](keys.md)"), 1);
    }
}
