//! What came of one vector file.

/// A check that holds, or one sentence about why it does not.
pub(super) type Check<T = ()> = Result<T, String>;

/// A vector that did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The name of the vector.
    pub(super) name: String,
    /// What was expected and what came.
    pub(super) what: String,
}

/// The results of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sheet {
    /// Vectors that did what they promise.
    pub(super) passed: usize,
    /// Vectors that did not, and members that are not understood.
    pub(super) failures: Vec<Failure>,
    /// Cases that only a later part can run; counted neither as passed nor as failed.
    pub(super) later: usize,
    /// What a reader of the table should know.
    pub(super) notes: Vec<String>,
}

impl Sheet {
    /// Runs one vector.
    pub(super) fn case(&mut self, name: &str, check: impl FnOnce() -> Check) {
        match check() {
            Ok(()) => self.passed = self.passed.saturating_add(1),
            Err(what) => self.fail(name, what),
        }
    }

    /// Something that is wrong with no vector in particular.
    pub(super) fn fail(&mut self, name: &str, what: impl Into<String>) {
        self.failures.push(Failure {
            name: name.to_owned(),
            what: what.into(),
        });
    }

    /// Cases that a later part of the project runs.
    pub(super) fn later(&mut self, cases: usize) {
        self.later = self.later.saturating_add(cases);
    }

    /// One sentence beside the row of the file; the same sentence counts once.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Vectors that were run.
    pub(super) fn vectors(&self) -> usize {
        self.passed.saturating_add(self.failures.len())
    }
}

/// A text cut to a length that fits a terminal.
pub(super) fn short(text: impl ToString) -> String {
    const MAX: usize = 160;
    cut(&text.to_string(), MAX)
}

/// A text of at most so many letters; a longer one says how long it was.
pub(super) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

/// `Ok` when both are equal, else what was expected and what came.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Check {
    if expected == got {
        return Ok(());
    }
    let (expected, got) = (short(format!("{expected:?}")), short(format!("{got:?}")));
    Err(format!("{what}: expected {expected}, got {got}"))
}
