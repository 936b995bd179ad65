//! Relayed records before and after the boundary, over one connection or several (RL-109, RL-135).

use spotlane_types::time::Monotonic;
use spotlane_wire::command::relocation::RelocationCutover;
use spotlane_wire::frozen::FrozenRecord;

use crate::boundary::Boundary;
use crate::identity::ConnectionId;

/// The records of one batch that came over one connection.
#[derive(Debug)]
struct Span {
    connection: ConnectionId,
    records: Vec<FrozenRecord>,
    boundary: Boundary,
}

impl Span {
    fn new(connection: ConnectionId) -> Self {
        Self {
            connection,
            records: Vec::new(),
            boundary: Boundary::default(),
        }
    }
}

/// The pre-boundary span, and the one that is to replace it (TGT-17, TGT-20).
///
/// Both are prefixes of one batch. They are never merged record by record.
#[derive(Debug)]
pub(super) struct Spans {
    main: Option<Span>,
    replacement: Option<Span>,
}

/// What a cutover did.
#[derive(Debug)]
pub(super) enum Closing {
    /// It fits: these are the records, and what is known about later ones.
    Closed(Vec<FrozenRecord>, Late),
    /// It fits nothing (RL-324).
    Mismatch,
}

impl Spans {
    pub(super) const fn new() -> Self {
        Self {
            main: None,
            replacement: None,
        }
    }

    /// The span of a connection; one on a third connection takes the place of the shorter.
    fn of(&mut self, connection: ConnectionId) -> &mut Span {
        let is_main = match &self.main {
            None => true,
            Some(main) => main.connection == connection,
        };
        if is_main {
            return self.main.get_or_insert_with(|| Span::new(connection));
        }
        let is_replacement = self
            .replacement
            .as_ref()
            .is_some_and(|span| span.connection == connection);
        if !is_replacement {
            let (longer, _) = self.take_longer();
            self.main = longer;
            self.replacement = Some(Span::new(connection));
        }
        self.replacement.get_or_insert_with(|| Span::new(connection))
    }

    /// Appends a record; `false` when it cannot be encoded, which no decoded record shows.
    pub(super) fn push(&mut self, connection: ConnectionId, record: FrozenRecord) -> bool {
        let span = self.of(connection);
        if span.boundary.push(&record).is_err() {
            return false;
        }
        span.records.push(record);
        true
    }

    /// Compares a cutover with the span of its connection; on a fit that span is the batch.
    pub(super) fn close(&mut self, connection: ConnectionId, cutover: &RelocationCutover) -> Closing {
        let span = self.of(connection);
        if !span.boundary.fits(cutover) {
            return Closing::Mismatch;
        }
        let records = core::mem::take(&mut span.records);
        Closing::Closed(records, Late::behind(connection, Known::All))
    }

    /// The wait is over: the longer span is used, the other one may still be completed (RL-135).
    pub(super) fn give_up(mut self, until: Monotonic) -> (Vec<FrozenRecord>, Late) {
        let (longer, shorter) = self.take_longer();
        let Some(longer) = longer else {
            return (Vec::new(), Late::unseen());
        };
        let known = Known::First(longer.records.len());
        let mut late = Late::behind(longer.connection, known);
        late.staged.extend(shorter.map(|span| Staged {
            connection: span.connection,
            records: span.records,
            until,
        }));
        (longer.records, late)
    }

    /// Both spans, the longer one first; the older one when they are equal.
    fn take_longer(&mut self) -> (Option<Span>, Option<Span>) {
        let (main, replacement) = (self.main.take(), self.replacement.take());
        let length = |span: &Option<Span>| span.as_ref().map_or(0, |span| span.records.len());
        if length(&replacement) > length(&main) {
            (replacement, main)
        } else {
            (main, replacement)
        }
    }
}

/// How much of the batch is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// All of it.
    All,
    /// Its first so many records.
    First(usize),
}

/// Records that come after cutover or fallback (TGT-31, RL-109).
///
/// Nobody acknowledges a cutover, so a source may send a batch again that is here already. What comes on
/// a new connection is therefore staged until the cutover of the repetition, or the wait, says what it
/// is. Nothing is lost and nothing doubled.
#[derive(Debug)]
pub(super) struct Late {
    known: Known,
    /// The connection whose records are behind what is here.
    current: Option<ConnectionId>,
    /// In the order in which their connections were first seen.
    staged: Vec<Staged>,
}

#[derive(Debug)]
struct Staged {
    connection: ConnectionId,
    records: Vec<FrozenRecord>,
    until: Monotonic,
}

/// Records to append now, and how many were here already.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub(super) records: Vec<FrozenRecord>,
    pub(super) repeated: usize,
}

impl Late {
    const fn behind(connection: ConnectionId, known: Known) -> Self {
        Self {
            known,
            current: Some(connection),
            staged: Vec::new(),
        }
    }

    /// Nothing of the batch has come.
    const fn unseen() -> Self {
        Self {
            known: Known::First(0),
            current: None,
            staged: Vec::new(),
        }
    }

    /// Takes a record; what may be appended comes back. `until` ends the wait of a new batch.
    pub(super) fn push(
        &mut self,
        connection: ConnectionId,
        record: FrozenRecord,
        until: Monotonic,
    ) -> Released {
        if self.current == Some(connection) {
            // After a fallback these are still records of the batch, in their places.
            self.know_more(1);
            return Released {
                records: vec![record],
                repeated: 0,
            };
        }
        let staged = self.staged.iter_mut();
        let mut same = staged.filter(|staged| staged.connection == connection);
        match same.next() {
            Some(staged) => staged.records.push(record),
            None => self.staged.push(Staged {
                connection,
                records: vec![record],
                until,
            }),
        }
        Released::default()
    }

    fn know_more(&mut self, records: usize) {
        if let Known::First(count) = &mut self.known {
            *count = count.saturating_add(records);
        }
    }

    /// A cutover after the decision: it says where the batch of its connection ends.
    pub(super) fn close(&mut self, connection: ConnectionId) -> Released {
        if self.current == Some(connection) {
            self.known = Known::All;
            return Released::default();
        }
        // A source that repeats its batch here repeated it on the connections before, so far as it
        // got: what those staged are prefixes of the same batch.
        let mut staged = core::mem::take(&mut self.staged);
        let mut records = staged
            .iter_mut()
            .find(|staged| staged.connection == connection)
            .map(|staged| core::mem::take(&mut staged.records))
            .unwrap_or_default();
        let repeated = match self.known {
            Known::All => records.len(),
            Known::First(count) => count.min(records.len()),
        };
        let released = Released {
            records: records.split_off(repeated),
            repeated,
        };
        self.known = Known::All;
        self.current = Some(connection);
        released
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.staged.iter().map(|staged| staged.until).min()
    }

    /// No cutover came: everything that was staged is new.
    pub(super) fn on_deadline(&mut self, now: Monotonic) -> Released {
        let mut released = Released::default();
        let (due, later) = core::mem::take(&mut self.staged)
            .into_iter()
            .partition(|staged| staged.until <= now);
        self.staged = later;
        let due: Vec<Staged> = due;
        for staged in due {
            self.current = Some(staged.connection);
            self.know_more(staged.records.len());
            released.records.extend(staged.records);
        }
        released
    }
}
