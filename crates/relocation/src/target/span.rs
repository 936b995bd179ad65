//! Relayed records before and after the boundary, over one connection or several (RL-109, RL-135).

use spotlane_types::id::OperationId;
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
        self.replacement
            .get_or_insert_with(|| Span::new(connection))
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
    /// `until` is when its ids may be forgotten.
    pub(super) fn close(
        &mut self,
        connection: ConnectionId,
        cutover: &RelocationCutover,
        until: Monotonic,
    ) -> Closing {
        let span = self.of(connection);
        if !span.boundary.fits(cutover) {
            return Closing::Mismatch;
        }
        let records = core::mem::take(&mut span.records);
        let mut late = Late::behind(connection, &records, until);
        late.known = Known::All;
        Closing::Closed(records, late)
    }

    /// The wait is over: the longer span is used (RL-135); without any, the batch is still expected on
    /// `connection`. One on a newer connection may still be
    /// completed there; one on an older connection is a prefix of what is used.
    pub(super) fn give_up(
        mut self,
        connection: ConnectionId,
        until: Monotonic,
        forget: Monotonic,
    ) -> (Vec<FrozenRecord>, Late) {
        let newer = self.replacement.as_ref().map(|span| span.connection);
        let (longer, shorter) = self.take_longer();
        let Some(longer) = longer else {
            return (Vec::new(), Late::behind(connection, &[], forget));
        };
        let mut late = Late::behind(longer.connection, &longer.records, forget);
        let shorter = shorter.filter(|span| newer == Some(span.connection));
        late.staged.extend(shorter.map(|span| Staged {
            connection: span.connection,
            records: span.records,
            until,
            origin: Origin::Batch,
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
    /// Its first records, as many as were counted.
    First,
}

/// Records that come after cutover or fallback (TGT-31, RL-109).
///
/// Nobody acknowledges a cutover, so a source may send a batch again that is here already. What comes on
/// a new connection is therefore staged until the cutover of the repetition, or the wait, says what it
/// is. Nothing is lost and nothing doubled.
#[derive(Debug)]
pub(super) struct Late {
    known: Known,
    /// How many records of the batch are here.
    count: usize,
    /// Their operation ids; emptied when they may be forgotten.
    ids: Vec<Option<OperationId>>,
    forget: Option<Monotonic>,
    /// The connection whose records are behind what is here.
    current: ConnectionId,
    /// While the batch is being repeated on that connection: the place of its next record.
    repeating: Option<usize>,
    /// In the order in which their connections were first seen.
    staged: Vec<Staged>,
}

#[derive(Debug)]
struct Staged {
    connection: ConnectionId,
    records: Vec<FrozenRecord>,
    until: Monotonic,
    origin: Origin,
}

/// What staged records are, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// They began before the boundary was decided, so they are the batch from its start.
    Batch,
    /// The batch, or records behind it: a cutover tells.
    Unknown,
}

/// Records to append now, and how many were here already.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub(super) records: Vec<FrozenRecord>,
    pub(super) repeated: usize,
}

impl Late {
    fn behind(connection: ConnectionId, records: &[FrozenRecord], forget: Monotonic) -> Self {
        let mut late = Self {
            known: Known::First,
            count: 0,
            ids: Vec::new(),
            forget: Some(forget),
            current: connection,
            repeating: None,
            staged: Vec::new(),
        };
        late.learn(records);
        late
    }

    /// After a fallback what comes in its place is still of the batch.
    fn learn(&mut self, records: &[FrozenRecord]) {
        if self.known == Known::First {
            self.count = self.count.saturating_add(records.len());
            if self.forget.is_some() {
                self.ids
                    .extend(records.iter().map(|record| record.operation_id));
            }
        }
    }

    /// Takes a record; what may be appended comes back. `until` ends the wait of a new batch.
    pub(super) fn push(
        &mut self,
        connection: ConnectionId,
        record: FrozenRecord,
        until: Monotonic,
    ) -> Released {
        if self.current == connection {
            return self.take_current(record);
        }
        let staged = self.staged.iter_mut();
        let mut same = staged.filter(|staged| staged.connection == connection);
        match same.next() {
            Some(staged) => staged.records.push(record),
            None => self.staged.push(Staged {
                connection,
                records: vec![record],
                until,
                origin: Origin::Unknown,
            }),
        }
        Released::default()
    }

    /// A record on the connection that is followed: new, unless it goes on repeating the batch.
    fn take_current(&mut self, record: FrozenRecord) -> Released {
        if let Some(place) = self.repeating {
            let known = self.ids.get(place).copied().flatten();
            if known.is_some() && known == record.operation_id {
                self.repeating = place.checked_add(1);
                return Released {
                    records: Vec::new(),
                    repeated: 1,
                };
            }
            self.repeating = None;
        }
        self.learn(core::slice::from_ref(&record));
        Released {
            records: vec![record],
            repeated: 0,
        }
    }

    /// How many of the first records of a batch are here.
    fn repeated(&self, records: usize) -> usize {
        match self.known {
            Known::All => records,
            Known::First => self.count.min(records),
        }
    }

    /// How many of these records are, in their places, operations that are here: a batch that came again
    /// and broke off. An operation id names one message (R§3), so this doubts nothing that is new.
    fn same_operations(&self, records: &[FrozenRecord]) -> usize {
        let pairs = records.iter().zip(&self.ids);
        let same = pairs.take_while(|(record, id)| id.is_some() && record.operation_id == **id);
        same.count()
    }

    /// A cutover after the decision: it says where the batch of its connection ends.
    pub(super) fn close(&mut self, connection: ConnectionId) -> Released {
        self.repeating = None;
        if self.current == connection {
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
        let repeated = self.repeated(records.len());
        let records = records.split_off(repeated);
        self.learn(&records);
        let released = Released { records, repeated };
        self.known = Known::All;
        self.current = connection;
        released
    }

    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let staged = self.staged.iter().map(|staged| staged.until);
        staged.chain(self.forget).min()
    }

    /// No cutover came: what was staged is new, unless it is known to be the batch.
    pub(super) fn on_deadline(&mut self, now: Monotonic) -> Released {
        let mut released = Released::default();
        if self.forget.is_some_and(|forget| forget <= now) {
            self.forget = None;
            self.ids = Vec::new();
        }
        let (due, later): (Vec<Staged>, Vec<Staged>) = core::mem::take(&mut self.staged)
            .into_iter()
            .partition(|staged| staged.until <= now);
        self.staged = later;
        self.take_due(due, &mut released);
        released
    }

    /// The tenure is over, and nobody here waits for a cutover any more: as if every wait were over.
    pub(super) fn end(&mut self) -> Released {
        let mut released = Released::default();
        let staged = core::mem::take(&mut self.staged);
        self.take_due(staged, &mut released);
        released
    }

    fn take_due(&mut self, due: Vec<Staged>, released: &mut Released) {
        for mut staged in due {
            let repeated = match staged.origin {
                Origin::Batch => self.repeated(staged.records.len()),
                Origin::Unknown => self.same_operations(&staged.records),
            };
            let records = staged.records.split_off(repeated);
            self.current = staged.connection;
            self.repeating = records.is_empty().then_some(repeated);
            self.learn(&records);
            released.repeated = released.repeated.saturating_add(repeated);
            released.records.extend(records);
        }
    }
}
