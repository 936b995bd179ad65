//! One `[section]` of the file: takes its keys one by one and notices what nobody took.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problems;
use super::quantity;

/// A section that is being read.
pub(crate) struct Section<'p, 'a> {
    name: &'static str,
    table: Option<&'p DeTable<'a>>,
    /// Where the section stands; the whole file when it is missing.
    place: Range<usize>,
    known: Vec<&'static str>,
    problems: &'p mut Problems<'a>,
}

impl<'p, 'a> Section<'p, 'a> {
    /// The section of that name; a missing one has only defaults.
    pub(crate) fn of(
        name: &'static str,
        file: &'p DeTable<'a>,
        problems: &'p mut Problems<'a>,
    ) -> Self {
        let entry = file.get(name);
        let place = entry.map_or(0..0, Spanned::span);
        let table = entry.and_then(|entry| entry.get_ref().as_table());
        if entry.is_some() && table.is_none() {
            problems.add(
                place.clone(),
                name,
                format!("must be a section: write [{name}] on a line of its own"),
            );
        }
        Self {
            name,
            table,
            place,
            known: Vec::new(),
            problems,
        }
    }

    /// Whether the file has it.
    pub(crate) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the section has the key, right or wrong.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Records a problem of one key, or of the section when the key is missing.
    pub(crate) fn complain(&mut self, key: &str, message: impl Into<String>) {
        let place = self
            .table
            .and_then(|table| table.get(key))
            .map_or_else(|| self.place.clone(), Spanned::span);
        self.problems
            .add(place, format!("[{}] {key}", self.name), message);
    }

    fn value(&mut self, key: &'static str) -> Option<&'p DeValue<'a>> {
        self.known.push(key);
        self.table?.get(key).map(Spanned::get_ref)
    }

    /// A text, when the key is there.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let value = self.value(key)?;
        let text = value.as_str().map(ToOwned::to_owned);
        if text.is_none() {
            self.complain(
                key,
                format!("is {}, must be a text in quotes", value.type_str()),
            );
        }
        text
    }

    /// A text that `read` understands, or nothing with a problem recorded.
    pub(crate) fn parsed<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(key)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.complain(key, message);
                None
            }
        }
    }

    /// A path, when the key is there.
    pub(crate) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// A duration within bounds.
    pub(crate) fn duration(
        &mut self,
        key: &'static str,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(value) = self.parsed(key, quantity::duration) else {
            return default;
        };
        if !bounds.contains(&value) {
            let (least, most) = (
                quantity::show_duration(*bounds.start()),
                quantity::show_duration(*bounds.end()),
            );
            self.complain(
                key,
                format!(
                    "is {}, must be {least} to {most}",
                    quantity::show_duration(value)
                ),
            );
            return default;
        }
        value
    }

    /// A number of bytes within bounds: a number, or a text with a unit.
    pub(crate) fn bytes(
        &mut self,
        key: &'static str,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> u64 {
        let value = match self.value(key) {
            None => return default,
            Some(value) if value.as_integer().is_some() => match integer(value) {
                Some(number) => number,
                None => return self.refuse_number(key, default, &bounds),
            },
            Some(_) => match self.parsed(key, quantity::bytes) {
                Some(number) => number,
                None => return default,
            },
        };
        if !bounds.contains(&value) {
            let (least, most) = (
                quantity::show_bytes(*bounds.start()),
                quantity::show_bytes(*bounds.end()),
            );
            self.complain(
                key,
                format!(
                    "is {}, must be {least} to {most}",
                    quantity::show_bytes(value)
                ),
            );
            return default;
        }
        value
    }

    /// A whole number within bounds.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> u64 {
        let Some(value) = self.value(key) else {
            return default;
        };
        match integer(value) {
            Some(number) if bounds.contains(&number) => number,
            _ => self.refuse_number(key, default, &bounds),
        }
    }

    fn refuse_number(
        &mut self,
        key: &'static str,
        default: u64,
        bounds: &RangeInclusive<u64>,
    ) -> u64 {
        self.complain(
            key,
            format!(
                "must be a whole number from {} to {}",
                bounds.start(),
                bounds.end()
            ),
        );
        default
    }

    /// Complains about keys that nobody took.
    pub(crate) fn finish(self) {
        let Some(table) = self.table else { return };
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !self.known.contains(&name) {
                let message = match nearest(name, &self.known) {
                    Some(near) => format!("unknown key; did you mean {near}?"),
                    None => format!("unknown key; this section has {}", self.known.join(", ")),
                };
                self.problems
                    .add(key.span(), format!("[{}] {name}", self.name), message);
            }
        }
    }
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}

/// The known word that differs in the fewest letters, if it is close enough to be meant.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let best = known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .min()?;
    (best.0 <= 1 + word.len() / 4).then_some(best.1)
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}
