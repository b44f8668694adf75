//! Fairness keys: among the due jobs of one queue and one priority, fairness keys take turns. So a caller
//! that enqueues a million jobs does not hold up a caller that enqueues a single job.
//!
//! All jobs that wait under one fairness key form one *line* in the code below; all jobs without a
//! fairness key form one line together. A claim goes round the ring of the lines that have a due job, in
//! the order of their names, beginning after the line that was served last. The part that one line cannot
//! use goes to the others, so no slot stays empty while a job is due. Within a line, jobs are claimed by
//! due time and id.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use crate::limits::FAIRNESS_KEYS_KNOWN_MAX;
use crate::names::FairnessKey;

/// The jobs that share turns: those of a fairness key, or all jobs without one.
pub type Line = Option<FairnessKey>;

/// Divides `room` among lines with these numbers of waiting jobs. The portions are as equal as possible,
/// and if the division leaves a remainder, the earlier lines get one more. The part that one line cannot
/// use goes to the others.
pub fn portions(room: u32, waiting: &[u32]) -> Vec<u32> {
    let mut portions = vec![0; waiting.len()];
    let mut left = room;
    loop {
        let unfilled: Vec<_> = (0..waiting.len()).filter(|n| portions[*n] < waiting[*n]).collect();
        let Some(each) = u32::try_from(unfilled.len()).ok().and_then(|count| left.checked_div(count)) else {
            return portions;
        };
        if each == 0 {
            unfilled.into_iter().zip(0..left).for_each(|(n, _)| portions[n] += 1);
            return portions;
        }
        for n in unfilled {
            let more = each.min(waiting[n] - portions[n]);
            portions[n] += more;
            left -= more;
        }
    }
}

/// Remembers which line was served last; the next turn follows from it.
#[derive(Debug, Clone, Default)]
pub struct Cursor(Option<Line>);

impl Cursor {
    /// Returns the lines in the order of their turns.
    pub fn order<'l>(&self, lines: &'l BTreeSet<Line>) -> impl Iterator<Item = &'l Line> + use<'l> {
        let (behind, before) = match &self.0 {
            None => (lines.range(..), None),
            Some(last) => (lines.range((Excluded(last), Unbounded)), Some(lines.range(..=last))),
        };
        behind.chain(before.into_iter().flatten())
    }

    /// Gives each line its portion, in the order of their turns, as if every line had enough jobs, and
    /// notes which line was served last. A line that turns out to have fewer jobs leaves room, which is
    /// dealt among the others: the turns continue from the same point.
    pub fn deal(&mut self, room: u32, lines: &BTreeSet<Line>) -> Vec<(Line, u32)> {
        let next: Vec<_> = self.order(lines).take(room as usize).cloned().collect();
        let portions = portions(room, &vec![u32::MAX; next.len()]);
        let most = portions.first().copied();
        let last = portions.iter().rposition(|portion| Some(*portion) == most);
        if let Some(last) = last {
            self.0 = Some(next[last].clone());
        }
        next.into_iter().zip(portions).collect()
    }
}

/// The lines of one queue and priority that have a due job, as far as an engine knows: it scans for them
/// page by page, and uses what it found before. A line that turns out to be empty is dropped until it is
/// found again.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    cursor: Cursor,
    lines: BTreeSet<Line>,
    /// The fairness key after which the next page begins; `None` means at the front.
    looked_up_to: Option<FairnessKey>,
}

impl Ring {
    /// Returns the fairness key after which to scan for lines; `None` means from the front.
    pub fn look_behind(&self) -> Option<&FairnessKey> {
        self.looked_up_to.as_ref()
    }

    /// Notes that a scan went as far as this fairness key, and there may be more; or to the end.
    pub fn looked_up_to(&mut self, last: Option<FairnessKey>) {
        self.looked_up_to = last;
    }

    /// Notes that this line has a due job. If there are more lines than the ring can hold, it drops the
    /// line whose turn comes last.
    pub fn found(&mut self, line: Line) {
        self.lines.insert(line);
        if self.lines.len() > FAIRNESS_KEYS_KNOWN_MAX
            && let Some(last) = self.cursor.order(&self.lines).last().cloned()
        {
            self.lines.remove(&last);
        }
    }

    /// Notes that this line had less than its portion.
    pub fn is_used_up(&mut self, line: &Line) {
        self.lines.remove(line);
    }

    /// Returns the lines that are known to have a due job.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// Whether no line is known to have a due job.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a line is known to have a due job.
    pub fn knows(&self, line: &Line) -> bool {
        self.lines.contains(line)
    }

    /// Returns the lines whose turn comes next, at most `most`; [`served`](Self::served) notes afterwards
    /// which line was served.
    pub fn next(&self, most: usize) -> Vec<Line> {
        self.cursor.order(&self.lines).take(most).cloned().collect()
    }

    /// Notes that this line was served last.
    pub fn served(&mut self, line: Line) {
        self.cursor = Cursor(Some(line));
    }

    /// Returns the lines whose turn it is, with the portion of each.
    pub fn deal(&mut self, room: u32) -> Vec<(Line, u32)> {
        self.cursor.deal(room, &self.lines)
    }
}

/// Merges the claimed jobs of several lines in the order in which they start: the first of each line,
/// then the second of each.
pub fn interleave<T>(lines: Vec<Vec<T>>) -> Vec<T> {
    let mut lines: Vec<_> = lines.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lines.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn line(name: &str) -> Line {
        (!name.is_empty()).then(|| FairnessKey::parse(name).unwrap())
    }

    fn lines(names: &[&str]) -> BTreeSet<Line> {
        names.iter().map(|name| line(name)).collect()
    }

    fn dealt(cursor: &mut Cursor, room: u32, names: &[&str]) -> Vec<(String, u32)> {
        let turns = cursor.deal(room, &lines(names));
        turns.into_iter().map(|(line, n)| (line.map_or(String::new(), String::from), n)).collect()
    }

    #[test]
    fn portions_are_equal_and_what_one_cannot_use_goes_to_the_others() {
        assert_eq!(portions(9, &[100, 100, 100]), [3, 3, 3]);
        assert_eq!(portions(10, &[100, 100, 100]), [4, 3, 3]);
        assert_eq!(portions(10, &[100, 1, 100]), [5, 1, 4]);
        assert_eq!(portions(10, &[2, 1, 3]), [2, 1, 3]);
        assert_eq!(portions(2, &[5, 5, 5]), [1, 1, 0]);
        assert_eq!(portions(0, &[5]), [0]);
        assert_eq!(portions(5, &[]), Vec::<u32>::new());
    }

    #[test]
    fn slots_that_free_one_by_one_go_round_the_ring() {
        let mut cursor = Cursor::default();
        let served: Vec<_> = (0..5).map(|_| dealt(&mut cursor, 1, &["b", "", "a"]).remove(0).0).collect();
        assert_eq!(served, ["", "a", "b", "", "a"]);
    }

    #[test]
    fn a_claim_goes_on_where_the_last_one_ended() {
        let mut cursor = Cursor::default();
        let three = ["a", "b", "c"];
        let of =
            |turns: Vec<(String, u32)>| turns.into_iter().map(|(n, k)| format!("{n}{k}")).collect::<Vec<_>>();
        assert_eq!(of(dealt(&mut cursor, 2, &three)), ["a1", "b1"]);
        assert_eq!(of(dealt(&mut cursor, 4, &three)), ["c2", "a1", "b1"], "c has the one more");
        assert_eq!(of(dealt(&mut cursor, 3, &three)), ["a1", "b1", "c1"]);
        assert_eq!(of(dealt(&mut cursor, 1, &["a"])), ["a1"], "a single line gets every slot");
    }

    #[test]
    fn turns_go_on_behind_the_one_that_is_said_to_have_been_served() {
        let mut ring = Ring::default();
        ["a", "b", "c"].iter().for_each(|name| ring.found(line(name)));
        assert_eq!(ring.next(2), [line("a"), line("b")]);
        assert_eq!(ring.next(2), [line("a"), line("b")], "a query serves no line");
        ring.served(line("b"));
        assert_eq!(ring.next(9), [line("c"), line("a"), line("b")]);
    }

    #[test]
    fn one_that_is_gone_keeps_its_place_for_the_one_behind_it() {
        let mut cursor = Cursor::default();
        dealt(&mut cursor, 2, &["a", "b", "c"]);
        assert_eq!(dealt(&mut cursor, 1, &["a", "c"])[0].0, "c");
    }

    #[test]
    fn of_more_lines_than_can_be_remembered_the_one_is_forgotten_whose_turn_comes_last() {
        let mut ring = Ring::default();
        (0..FAIRNESS_KEYS_KNOWN_MAX).for_each(|n| ring.found(line(&format!("{n:05}"))));
        ring.deal(10);
        ring.found(line("99999"));
        assert!(ring.knows(&line("99999")) && ring.knows(&line("00010")));
        assert!(!ring.knows(&line("00009")), "it was served a moment ago");
    }

    #[test]
    fn what_lines_brought_is_started_by_turns() {
        assert_eq!(interleave(vec![vec![1, 4, 6], vec![2], vec![3, 5]]), [1, 2, 3, 4, 5, 6]);
    }

    proptest! {
        #[test]
        fn portions_use_the_room_and_no_key_has_less_that_could_have_more(
            room in 0_u32..200,
            waiting in prop::collection::vec(0_u32..60, 0..12),
        ) {
            let portions = portions(room, &waiting);
            let all: u32 = waiting.iter().sum();
            prop_assert_eq!(portions.iter().sum::<u32>(), room.min(all));
            let most = portions.iter().copied().max().unwrap_or(0);
            for (portion, waiting) in portions.iter().zip(&waiting) {
                prop_assert!(portion <= waiting);
                prop_assert!(portion == waiting || portion + 1 >= most, "{:?}", portions);
            }
        }

        #[test]
        fn dealing_in_rounds_gives_the_same_portions_as_knowing_what_waits(
            room in 0_u32..200,
            waiting in prop::collection::vec(1_u32..60, 0..12),
        ) {
            let mut left: BTreeMap<Line, u32> =
                waiting.iter().zip('a'..).map(|(n, name)| (line(&name.to_string()), *n)).collect();
            let (mut ring, mut room_left) = (Ring::default(), room);
            left.keys().for_each(|line| ring.found(line.clone()));
            while room_left > 0 && !ring.is_empty() {
                for (line, portion) in ring.deal(room_left) {
                    let waits = left.get_mut(&line).expect("it is in the ring");
                    let taken = portion.min(*waits);
                    (*waits, room_left) = (*waits - taken, room_left - taken);
                    if taken < portion {
                        ring.is_used_up(&line);
                    }
                }
            }
            let taken: Vec<_> = waiting.iter().zip(left.values()).map(|(n, left)| n - left).collect();
            let fair = portions(room, &waiting);
            prop_assert_eq!(taken.iter().sum::<u32>(), fair.iter().sum::<u32>());
            for (taken, fair) in taken.iter().zip(&fair) {
                prop_assert!(taken.abs_diff(*fair) <= 1, "{:?}", fair);
            }
        }

        #[test]
        fn over_many_claims_lines_with_plenty_get_the_same_but_for_one(
            rooms in prop::collection::vec(1_u32..9, 1..60),
            count in 1_usize..7,
        ) {
            let names: BTreeSet<Line> = ('a'..).take(count).map(|name| line(&name.to_string())).collect();
            let (mut cursor, mut served) = (Cursor::default(), BTreeMap::<Line, u32>::new());
            for room in rooms {
                for (line, portion) in cursor.deal(room, &names) {
                    *served.entry(line).or_default() += portion;
                }
            }
            let counts: Vec<_> = names.iter().map(|line| served.get(line).copied().unwrap_or(0)).collect();
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
        }
    }
}
