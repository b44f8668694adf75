//! FairnessKeys: among the due jobs of one queue and one priority, those for whom the work is done take turns. So whoever puts in a
//! million jobs does not hold up one who puts in a single job.
//!
//! All that wait for one fairness key are a *line*; jobs without a fairness key are one line together. A claim goes round the ring of lines
//! that have something due, in the order of their names, beginning behind the one that was served last. What one cannot
//! use goes to the others, so no slot stays empty beside work. Within a line jobs leave by due time and number.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use crate::limits::SHARES_KNOWN_MAX;
use crate::names::FairnessKey;

/// Who waits in a line: the jobs of a fairness key, or all that have none.
pub type Line = Option<FairnessKey>;

/// How many of `room` each gets of whom so many wait: as equal as possible, and where it does not come out even, the earlier
/// ones get one more. What one cannot use goes to the others.
pub fn portions(room: u32, waiting: &[u32]) -> Vec<u32> {
    let mut portions = vec![0; waiting.len()];
    let mut left = room;
    loop {
        let hungry: Vec<_> = (0..waiting.len()).filter(|n| portions[*n] < waiting[*n]).collect();
        let Some(each) = u32::try_from(hungry.len()).ok().and_then(|count| left.checked_div(count)) else {
            return portions;
        };
        if each == 0 {
            hungry.into_iter().zip(0..left).for_each(|(n, _)| portions[n] += 1);
            return portions;
        }
        for n in hungry {
            let more = each.min(waiting[n] - portions[n]);
            portions[n] += more;
            left -= more;
        }
    }
}

/// Who was served last; whose turn is next follows from it.
#[derive(Debug, Clone, Default)]
pub struct Cursor(Option<Line>);

impl Cursor {
    /// Lines in the order of their turns.
    pub fn order<'l>(&self, lines: &'l BTreeSet<Line>) -> impl Iterator<Item = &'l Line> + use<'l> {
        let (behind, before) = match &self.0 {
            None => (lines.range(..), None),
            Some(last) => (lines.range((Excluded(last), Unbounded)), Some(lines.range(..=last))),
        };
        behind.chain(before.into_iter().flatten())
    }

    /// Gives each its portion, in the order of their turns, as if all had plenty, and notes who was served last. Who turns out to
    /// have less leaves room, which is dealt among the others: the turns go on where they were.
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

/// The lines of one queue and priority that have something due, as far as an engine knows: it looks for them page by page, and
/// goes by what it found before. A line that turns out to be empty is forgotten until it is found again.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    cursor: Cursor,
    lines: BTreeSet<Line>,
    /// Behind whom the next page begins; nothing means at the front.
    looked_up_to: Option<FairnessKey>,
}

impl Ring {
    /// Behind whom to look for lines; nothing means from the front.
    pub fn look_behind(&self) -> Option<&FairnessKey> {
        self.looked_up_to.as_ref()
    }

    /// A look went as far as this fairness key, and there may be more; or to the end.
    pub fn looked_up_to(&mut self, last: Option<FairnessKey>) {
        self.looked_up_to = last;
    }

    /// This line has something due. If there are more than can be remembered, the one is forgotten whose turn comes last.
    pub fn found(&mut self, line: Line) {
        self.lines.insert(line);
        if self.lines.len() > SHARES_KNOWN_MAX
            && let Some(last) = self.cursor.order(&self.lines).last().cloned()
        {
            self.lines.remove(&last);
        }
    }

    /// This line had less than its portion.
    pub fn is_used_up(&mut self, line: &Line) {
        self.lines.remove(line);
    }

    /// The lines that are known to have something due.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// Whether no line is known that has something due.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a line is known to have something due.
    pub fn knows(&self, line: &Line) -> bool {
        self.lines.contains(line)
    }

    /// Whose turn it is, at most so many; who is served of them is said afterwards.
    pub fn next(&self, most: usize) -> Vec<Line> {
        self.cursor.order(&self.lines).take(most).cloned().collect()
    }

    /// This line was served last.
    pub fn served(&mut self, line: Line) {
        self.cursor = Cursor(Some(line));
    }

    /// Whose turn it is, and how many each gets.
    pub fn deal(&mut self, room: u32) -> Vec<(Line, u32)> {
        self.cursor.deal(room, &self.lines)
    }
}

/// What several lines brought, as it is started: the first of each, then the second of each.
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
        assert_eq!(of(dealt(&mut cursor, 1, &["a"])), ["a1"], "one alone gets every slot");
    }

    #[test]
    fn turns_go_on_behind_the_one_that_is_said_to_have_been_served() {
        let mut ring = Ring::default();
        ["a", "b", "c"].iter().for_each(|name| ring.found(line(name)));
        assert_eq!(ring.next(2), [line("a"), line("b")]);
        assert_eq!(ring.next(2), [line("a"), line("b")], "asking serves nobody");
        ring.served(line("b"));
        assert_eq!(ring.next(9), [line("c"), line("a"), line("b")]);
    }

    #[test]
    fn one_that_is_gone_keeps_its_place_for_whoever_comes_behind_it() {
        let mut cursor = Cursor::default();
        dealt(&mut cursor, 2, &["a", "b", "c"]);
        assert_eq!(dealt(&mut cursor, 1, &["a", "c"])[0].0, "c");
    }

    #[test]
    fn of_more_lines_than_can_be_remembered_the_one_is_forgotten_whose_turn_comes_last() {
        let mut ring = Ring::default();
        (0..SHARES_KNOWN_MAX).for_each(|n| ring.found(line(&format!("{n:05}"))));
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
        fn portions_use_the_room_and_nobody_has_less_who_could_have_more(
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
