//! What happened in a world, line by line.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// Whether the lines themselves are kept, or only their fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "kept or not")]
pub enum Keep {
    /// Only the fingerprint: for runs over many seeds.
    Fingerprint,
    /// Every line: to replay one seed.
    Lines,
}

/// The record of one run. Two runs of one seed have the same bytes.
#[derive(Debug)]
pub struct Trace {
    keep: Keep,
    text: String,
    scratch: String,
    fingerprint: u64,
    lines: u64,
}

impl Trace {
    /// An empty trace.
    pub const fn new(keep: Keep) -> Self {
        Self {
            keep,
            text: String::new(),
            scratch: String::new(),
            // The offset of FNV-1a.
            fingerprint: 0xCBF2_9CE4_8422_2325,
            lines: 0,
        }
    }

    /// Writes one line.
    pub fn line(&mut self, now: Duration, what: fmt::Arguments<'_>) {
        self.scratch.clear();
        let micros = now.as_micros();
        let written = writeln!(
            self.scratch,
            "{:>6}.{:03} {what}",
            micros / 1000,
            micros % 1000
        );
        debug_assert!(written.is_ok(), "a string takes every line");
        for byte in self.scratch.bytes() {
            self.fingerprint ^= u64::from(byte);
            self.fingerprint = self.fingerprint.wrapping_mul(0x0100_0000_01B3);
        }
        self.lines = self.lines.saturating_add(1);
        if self.keep == Keep::Lines {
            self.text.push_str(&self.scratch);
        }
    }

    /// All lines, if they are kept.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A hash of all bytes of all lines.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// How many lines there are.
    pub const fn lines(&self) -> u64 {
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_does_not_depend_on_what_is_kept() {
        let mut kept = Trace::new(Keep::Lines);
        let mut hashed = Trace::new(Keep::Fingerprint);
        for trace in [&mut kept, &mut hashed] {
            trace.line(Duration::from_micros(1_234), format_args!("a {}", 1));
        }
        assert_eq!(kept.text(), "     1.234 a 1\n");
        assert_eq!(hashed.text(), "");
        assert_eq!(kept.fingerprint(), hashed.fingerprint());
        assert_eq!(hashed.lines(), 1);
    }
}
