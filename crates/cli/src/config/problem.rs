//! What is wrong in a file: where, which key, and what to write instead.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// As many are shown at once; more would not fit on a screen.
const SHOWN_MAX: usize = 10;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    line: usize,
    key: String,
    message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return write!(f, "line {}: {}", self.line, self.message);
        }
        write!(f, "line {}: {}: {}", self.line, self.key, self.message)
    }
}

/// All that is wrong in one file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// It could not be read at all.
    #[error("cannot read {}: {cause}; docs/cli.md has a file to start from", .file.display())]
    Unreadable {
        /// Its name.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}", render(.file, .problems))]
    Invalid {
        /// Its name.
        file: PathBuf,
        /// At least one, in the order of the file.
        problems: Vec<Problem>,
    },
}

fn render(file: &Path, problems: &[Problem]) -> String {
    let shown = problems.iter().take(SHOWN_MAX);
    let mut lines: Vec<String> = shown
        .map(|problem| format!("{}: {problem}", file.display()))
        .collect();
    if let Some(more) = problems
        .len()
        .checked_sub(SHOWN_MAX)
        .filter(|more| *more > 0)
    {
        lines.push(format!("and {more} more"));
    }
    lines.push("docs/cli.md lists every key with its default".to_owned());
    lines.join("\n")
}

/// Collects problems while a file is read, so that one run shows them all.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    text: &'a str,
    list: Vec<Problem>,
}

impl<'a> Problems<'a> {
    /// None yet.
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            list: Vec::new(),
        }
    }

    /// Adds one at a place of the text.
    pub(crate) fn add(
        &mut self,
        place: Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        self.list.push(Problem {
            line: before.matches('\n').count() + 1,
            key: key.into(),
            message: message.into(),
        });
    }

    /// The problems in the order of the file, or nothing.
    pub(crate) fn finish(mut self) -> Option<Vec<Problem>> {
        self.list.sort_by_key(|problem| problem.line);
        (!self.list.is_empty()).then_some(self.list)
    }
}
