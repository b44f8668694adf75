//! Lines by share: the waiting jobs of one type and priority that have a share, for claims that take turns.
//!
//! Which lines have something due follows the clock as the lanes' counts do: a line moves from `later` to `due` once its first
//! job has fallen due, and back when a claim finds that it has not. So millions of shares that lie in the future cost a claim
//! nothing.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;
use windlass_core::names::ShareName;
use windlass_core::share::{Cursor, Line};

use super::lanes::{Turn, span};

#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// All of them, whatever their share.
    all: BTreeSet<Turn>,
    lines: BTreeMap<ShareName, BTreeSet<Turn>>,
    /// Lines whose first job may be due.
    due: BTreeSet<Line>,
    /// The others, by when their first job falls due.
    later: BTreeSet<(Timestamp, ShareName)>,
}

impl Shares {
    pub(crate) fn all(&self) -> &BTreeSet<Turn> {
        &self.all
    }

    pub(crate) fn insert(&mut self, share: &ShareName, turn: Turn) {
        self.all.insert(turn);
        self.change(share, |line| _ = line.insert(turn));
    }

    pub(crate) fn remove(&mut self, share: &ShareName, turn: Turn) {
        self.all.remove(&turn);
        self.change(share, |line| _ = line.remove(&turn));
    }

    /// Changes a line and keeps its place among those that fall due later.
    fn change(&mut self, share: &ShareName, change: impl FnOnce(&mut BTreeSet<Turn>)) {
        let line = self.lines.entry(share.clone()).or_default();
        let before = first_due(line);
        change(line);
        let after = first_due(line);
        if after.is_none() {
            self.lines.remove(share);
        }
        if before == after {
            return;
        }
        before.map(|due| self.later.remove(&(due, share.clone())));
        match after {
            None => _ = self.due.remove(&Some(share.clone())),
            Some(_) if self.due.contains(&Some(share.clone())) => {}
            Some(due) => _ = self.later.insert((due, share.clone())),
        }
    }

    /// The first lines by turns that have something due, at most so many.
    pub(crate) fn due_lines(&mut self, cursor: &Cursor, until: Timestamp, most: usize) -> Vec<Line> {
        self.let_fall_due(until);
        if most == 0 {
            return Vec::new();
        }
        let (mut found, mut not_yet) = (Vec::new(), Vec::new());
        for line in cursor.order(&self.due) {
            let Some(share) = line else { continue };
            match self.lines.get(share).and_then(first_due) {
                Some(due) if due <= until => found.push(line.clone()),
                due => not_yet.push((due, share.clone())),
            }
            if found.len() >= most {
                break;
            }
        }
        for (due, share) in not_yet {
            self.later.extend(due.map(|due| (due, share.clone())));
            self.due.remove(&Some(share));
        }
        found
    }

    fn let_fall_due(&mut self, until: Timestamp) {
        while self.later.first().is_some_and(|(due, _)| *due <= until) {
            let first = self.later.pop_first();
            self.due.extend(first.map(|(_, share)| Some(share)));
        }
    }

    /// The jobs of a line in a part of the claim's order.
    pub(crate) fn range(
        &self,
        share: &ShareName,
        range: &ClaimRange,
    ) -> impl Iterator<Item = &Turn> + use<'_> {
        let line = self.lines.get(share).map(|line| line.range(span(range)));
        line.into_iter().flat_map(|turns: btree_set::Range<'_, Turn>| turns)
    }
}

fn first_due(line: &BTreeSet<Turn>) -> Option<Timestamp> {
    line.first().map(|(due, _)| *due)
}

#[cfg(test)]
mod tests {
    use windlass_core::job::JobId;

    use super::*;

    fn share(name: &str) -> ShareName {
        ShareName::parse(name).unwrap()
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn due(shares: &mut Shares, until: i64) -> Vec<String> {
        let lines = shares.due_lines(&Cursor::default(), at(until), 10);
        lines.into_iter().flatten().map(String::from).collect()
    }

    #[test]
    fn a_line_takes_turns_from_when_its_first_job_falls_due_and_as_long_as_one_is() {
        let mut shares = Shares::default();
        shares.insert(&share("b"), (at(10), JobId(1)));
        shares.insert(&share("a"), (at(30), JobId(2)));
        assert_eq!(due(&mut shares, 5), Vec::<String>::new());
        assert_eq!(due(&mut shares, 10), ["b"]);
        shares.insert(&share("b"), (at(50), JobId(3)));
        shares.remove(&share("b"), (at(10), JobId(1)));
        assert_eq!(due(&mut shares, 40), ["a"], "the next of b is not due");
        assert_eq!(due(&mut shares, 50), ["a", "b"]);
        assert_eq!(due(&mut shares, 20), Vec::<String>::new(), "a clock that went back");
        shares.insert(&share("a"), (at(1), JobId(4)));
        assert_eq!(due(&mut shares, 20), ["a"], "one came in before the first");
    }

    #[test]
    fn no_more_lines_are_told_of_than_asked_for() {
        let mut shares = Shares::default();
        for (n, name) in (1..).zip(["a", "b", "c"]) {
            shares.insert(&share(name), (at(10), JobId(n)));
        }
        let mut count = |most| shares.due_lines(&Cursor::default(), at(10), most).len();
        assert_eq!([count(0), count(1), count(2), count(9)], [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_is_left_of_a_line_that_is_empty() {
        let mut shares = Shares::default();
        for until in [0, 100] {
            shares.insert(&share("a"), (at(10), JobId(1)));
            due(&mut shares, until);
            shares.remove(&share("a"), (at(10), JobId(1)));
            assert!(shares.lines.is_empty() && shares.due.is_empty() && shares.later.is_empty());
        }
    }
}
