//! Errors by kind and text, so that a verdict can say what happened.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;

/// As many different ones are told apart.
const DIFFERENT_MAX: usize = 16;

/// A bounded collection of different errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Troubles(BTreeMap<String, u64>);

impl Troubles {
    /// Counts one.
    pub(crate) fn add(&mut self, during: &str, error: &dyn Display) {
        self.count(format!("{during}: {error}"));
    }

    fn count(&mut self, text: String) {
        let known = self.0.contains_key(&text) || self.0.len() < DIFFERENT_MAX;
        let text = if known { text } else { "others".to_owned() };
        *self.0.entry(text).or_default() += 1;
    }

    /// A line for each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(text, count)| format!("  {count} x {text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_different_errors_take_bounded_memory() {
        let mut troubles = Troubles::default();
        for number in 0..1_000 {
            troubles.count(format!("error {number}"));
        }
        assert_eq!(troubles.0.len(), DIFFERENT_MAX + 1);
        assert_eq!(troubles.0.values().sum::<u64>(), 1_000);
    }
}
