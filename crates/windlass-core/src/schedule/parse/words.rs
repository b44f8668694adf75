//! The words of a text, one after the other.

use std::collections::VecDeque;

/// The number of words at the front of a cron expression that are its fields.
pub(super) const CRON_FIELDS: usize = 5;

/// The remaining words.
pub(super) struct Words<'a> {
    pub(super) left: VecDeque<&'a str>,
}

impl<'a> Words<'a> {
    /// Splits a text. Commas separate words too, but in the fields of a cron expression they form lists.
    pub(super) fn of(text: &'a str) -> Self {
        let fields: Vec<_> = text.split_whitespace().collect();
        let is_cron = looks_like_cron(text);
        let kept = if is_cron { fields.len().min(CRON_FIELDS) } else { 0 };
        let rest = fields[kept..].iter().flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
        let mut kept = fields[..kept].to_vec();
        // After the last field a comma separates it from the next word; after another field a number is
        // missing.
        if let [_, _, _, _, last] = &mut kept[..] {
            *last = last.strip_suffix(',').unwrap_or(last);
        }
        Self { left: kept.into_iter().chain(rest).collect() }
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.left.pop_front()
    }

    /// Returns the next word, or an empty text at the end.
    pub(super) fn peek(&self) -> &'a str {
        self.left.front().copied().unwrap_or("")
    }

    pub(super) fn starts_with(&self, wanted: &[&str]) -> bool {
        self.left.len() >= wanted.len()
            && self.left.iter().zip(wanted).all(|(word, wanted)| word.eq_ignore_ascii_case(wanted))
    }

    /// Takes a word if it is the next one, and returns whether it was.
    pub(super) fn skip(&mut self, word: &str) -> bool {
        let is_there = self.peek().eq_ignore_ascii_case(word);
        if is_there {
            self.next();
        }
        is_there
    }

    /// Takes words as long as they can be parsed.
    pub(super) fn take_while<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        while let Some(value) = self.left.front().and_then(|word| read(word)) {
            self.next();
            taken.push(value);
        }
        taken
    }
}

/// Whether a text begins as only a field of a cron expression does.
pub(super) fn looks_like_cron(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '*')
}
