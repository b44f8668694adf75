//! Waiting jobs by fairness key: the jobs of one type and priority that have a fairness key, for claims
//! that take turns.
//!
//! Which fairness keys have a due job follows the clock as the counts of ready jobs do: a key moves from
//! `later` to `due` once its first job has fallen due, and back when a claim finds that it has not. So
//! millions of fairness keys whose jobs are due in the future cost a claim nothing.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::{Cursor, Line};
use windlass_core::names::FairnessKey;

use super::lanes::{Turn, span};

#[derive(Debug, Default)]
pub(crate) struct FairnessKeys {
    /// All jobs, whatever their fairness key.
    all: BTreeSet<Turn>,
    lines: BTreeMap<FairnessKey, BTreeSet<Turn>>,
    /// Fairness keys whose first job may be due.
    due: BTreeSet<Line>,
    /// The other fairness keys, by when their first job falls due.
    later: BTreeSet<(Timestamp, FairnessKey)>,
}

impl FairnessKeys {
    pub(crate) fn all(&self) -> &BTreeSet<Turn> {
        &self.all
    }

    pub(crate) fn insert(&mut self, fairness_key: &FairnessKey, turn: Turn) {
        self.all.insert(turn);
        self.change(fairness_key, |line| _ = line.insert(turn));
    }

    pub(crate) fn remove(&mut self, fairness_key: &FairnessKey, turn: Turn) {
        self.all.remove(&turn);
        self.change(fairness_key, |line| _ = line.remove(&turn));
    }

    /// Changes the jobs of a fairness key and updates its entry in `later`.
    fn change(&mut self, fairness_key: &FairnessKey, change: impl FnOnce(&mut BTreeSet<Turn>)) {
        let line = self.lines.entry(fairness_key.clone()).or_default();
        let before = first_due(line);
        change(line);
        let after = first_due(line);
        if after.is_none() {
            self.lines.remove(fairness_key);
        }
        if before == after {
            return;
        }
        before.map(|due| self.later.remove(&(due, fairness_key.clone())));
        match after {
            None => _ = self.due.remove(&Some(fairness_key.clone())),
            Some(_) if self.due.contains(&Some(fairness_key.clone())) => {}
            Some(due) => _ = self.later.insert((due, fairness_key.clone())),
        }
    }

    /// Lists the next fairness keys by turns that have a due job, at most `most`.
    pub(crate) fn due_keys(&mut self, cursor: &Cursor, until: Timestamp, most: usize) -> Vec<Line> {
        self.let_fall_due(until);
        if most == 0 {
            return Vec::new();
        }
        let (mut found, mut not_yet) = (Vec::new(), Vec::new());
        for line in cursor.order(&self.due) {
            let Some(fairness_key) = line else { continue };
            match self.lines.get(fairness_key).and_then(first_due) {
                Some(due) if due <= until => found.push(line.clone()),
                due => not_yet.push((due, fairness_key.clone())),
            }
            if found.len() >= most {
                break;
            }
        }
        for (due, fairness_key) in not_yet {
            self.later.extend(due.map(|due| (due, fairness_key.clone())));
            self.due.remove(&Some(fairness_key));
        }
        found
    }

    fn let_fall_due(&mut self, until: Timestamp) {
        while self.later.first().is_some_and(|(due, _)| *due <= until) {
            let first = self.later.pop_first();
            self.due.extend(first.map(|(_, fairness_key)| Some(fairness_key)));
        }
    }

    /// Lists the jobs of a fairness key in one range of the claim's order.
    pub(crate) fn range(
        &self,
        fairness_key: &FairnessKey,
        range: &ClaimRange,
    ) -> impl Iterator<Item = &Turn> + use<'_> {
        let line = self.lines.get(fairness_key).map(|line| line.range(span(range)));
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

    fn fairness_key(name: &str) -> FairnessKey {
        FairnessKey::parse(name).unwrap()
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn due(fairness_keys: &mut FairnessKeys, until: i64) -> Vec<String> {
        let lines = fairness_keys.due_keys(&Cursor::default(), at(until), 10);
        lines.into_iter().flatten().map(String::from).collect()
    }

    #[test]
    fn a_line_takes_turns_from_when_its_first_job_falls_due_and_as_long_as_one_is() {
        let mut fairness_keys = FairnessKeys::default();
        fairness_keys.insert(&fairness_key("b"), (at(10), JobId(1)));
        fairness_keys.insert(&fairness_key("a"), (at(30), JobId(2)));
        assert_eq!(due(&mut fairness_keys, 5), Vec::<String>::new());
        assert_eq!(due(&mut fairness_keys, 10), ["b"]);
        fairness_keys.insert(&fairness_key("b"), (at(50), JobId(3)));
        fairness_keys.remove(&fairness_key("b"), (at(10), JobId(1)));
        assert_eq!(due(&mut fairness_keys, 40), ["a"], "the next of b is not due");
        assert_eq!(due(&mut fairness_keys, 50), ["a", "b"]);
        assert_eq!(due(&mut fairness_keys, 20), Vec::<String>::new(), "a clock that went back");
        fairness_keys.insert(&fairness_key("a"), (at(1), JobId(4)));
        assert_eq!(due(&mut fairness_keys, 20), ["a"], "a job was enqueued before the first");
    }

    #[test]
    fn no_more_lines_are_told_of_than_asked_for() {
        let mut fairness_keys = FairnessKeys::default();
        for (n, name) in (1..).zip(["a", "b", "c"]) {
            fairness_keys.insert(&fairness_key(name), (at(10), JobId(n)));
        }
        let mut count = |most| fairness_keys.due_keys(&Cursor::default(), at(10), most).len();
        assert_eq!([count(0), count(1), count(2), count(9)], [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_is_left_of_a_line_that_is_empty() {
        let mut fairness_keys = FairnessKeys::default();
        for until in [0, 100] {
            fairness_keys.insert(&fairness_key("a"), (at(10), JobId(1)));
            due(&mut fairness_keys, until);
            fairness_keys.remove(&fairness_key("a"), (at(10), JobId(1)));
            assert!(
                fairness_keys.lines.is_empty()
                    && fairness_keys.due.is_empty()
                    && fairness_keys.later.is_empty()
            );
        }
    }
}
