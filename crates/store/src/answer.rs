//! What a provider answers: observations and outcomes.

use crate::bound::{ENTRY_OVERHEAD_BYTES, PAGE_BYTES_MAX, PAGE_ROWS_MAX};
use crate::request::{Cursor, ScanRequest};
use crate::text::{StoreKey, StoreVersion};
use crate::value::{StoreTime, StoreValue};

/// A record as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-1")]
pub struct Found {
    /// Its bytes.
    pub value: StoreValue,
    /// Its version.
    pub version: StoreVersion,
    /// When it expires; `None` for never.
    pub expires_at: Option<StoreTime>,
    /// The provider's time of the observation.
    pub store_now: StoreTime,
}

/// One observation of one key (ST-1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-1")]
pub enum ReadOutcome {
    /// No record, or one that had expired.
    Missing {
        /// The provider's time of the observation.
        store_now: StoreTime,
    },
    /// A record.
    Found(Found),
}

impl ReadOutcome {
    /// The provider's time of the observation.
    pub fn store_now(&self) -> StoreTime {
        match self {
            Self::Missing { store_now } => *store_now,
            Self::Found(found) => found.store_now,
        }
    }

    /// The record, if there is one.
    pub fn found(self) -> Option<Found> {
        match self {
            Self::Missing { .. } => None,
            Self::Found(found) => Some(found),
        }
    }
}

/// What a write that happened returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-2")]
pub struct Applied {
    /// One for each put of the request, in its order.
    pub versions: Vec<StoreVersion>,
    /// The provider's time of the commit; every time to live of the batch counts from it.
    pub store_now: StoreTime,
}

/// How a write ended (ST-2). Anything that is neither of these is a [`StoreError`](crate::StoreError).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-2")]
pub enum WriteOutcome {
    /// All conditions held; all mutations happened as one commit.
    Applied(Applied),
    /// A condition did not hold; nothing changed. It says neither which nor what is there instead.
    Conflict,
}

impl WriteOutcome {
    /// What an applied write returned; `None` for a conflict.
    pub fn applied(self) -> Option<Applied> {
        match self {
            Self::Applied(applied) => Some(applied),
            Self::Conflict => None,
        }
    }
}

/// One row of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-5")]
pub struct Row {
    /// Its key.
    pub key: StoreKey,
    /// Its bytes.
    pub value: StoreValue,
    /// Its version.
    pub version: StoreVersion,
    /// When it expires; `None` for never.
    pub expires_at: Option<StoreTime>,
}

impl Row {
    /// What it counts of [`PAGE_BYTES_MAX`]: key, value, version, and 16 bytes.
    pub fn encoded_bytes(&self) -> usize {
        ENTRY_OVERHEAD_BYTES
            + self.key.as_str().len()
            + self.value.as_bytes().len()
            + self.version.as_str().len()
    }
}

/// One page of a scan (ST-5), ascending by key bytes.
///
/// It may hold fewer rows than asked for, even none, while [`ScanPage::next`] is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage {
    rows: Vec<Row>,
    next: Option<Cursor>,
    store_now: StoreTime,
}

impl ScanPage {
    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows, moved out.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// Where the next page begins; `None` ends the scan.
    pub fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }

    /// The provider's time of this page.
    pub fn store_now(&self) -> StoreTime {
        self.store_now
    }
}

/// Fills a page and refuses the row that would break one of its bounds.
#[derive(Debug)]
pub struct PageBuilder {
    rows: Vec<Row>,
    bytes: usize,
    limit: usize,
}

impl PageBuilder {
    /// An empty page for this request.
    pub fn new(request: &ScanRequest) -> Self {
        Self {
            rows: Vec::new(),
            bytes: 0,
            limit: request.limit().min(PAGE_ROWS_MAX),
        }
    }

    /// Adds a row, which must come after the last one.
    ///
    /// # Errors
    /// Gives the row back when the page is full, by rows or by bytes: it belongs to the next page.
    pub fn push(&mut self, row: Row) -> Result<(), Row> {
        let bytes = self.bytes + row.encoded_bytes();
        if self.rows.len() >= self.limit || bytes > PAGE_BYTES_MAX {
            return Err(row);
        }
        self.bytes = bytes;
        self.rows.push(row);
        Ok(())
    }

    /// Whether no further row fits by count.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.limit
    }

    /// How many rows still fit by count.
    pub fn room_rows(&self) -> usize {
        self.limit.saturating_sub(self.rows.len())
    }

    /// How many bytes are left of [`PAGE_BYTES_MAX`].
    pub fn room_bytes(&self) -> usize {
        PAGE_BYTES_MAX.saturating_sub(self.bytes)
    }

    /// The key of the last row, if there is one.
    pub fn last_key(&self) -> Option<&StoreKey> {
        self.rows.last().map(|row| &row.key)
    }

    /// The finished page; `next` is `None` when nothing is left.
    pub fn finish(self, next: Option<Cursor>, store_now: StoreTime) -> ScanPage {
        ScanPage {
            rows: self.rows,
            next,
            store_now,
        }
    }
}

/// How a scan step ended (ST-5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-5")]
pub enum ScanOutcome {
    /// A page.
    Page(ScanPage),
    /// The snapshot is lost, or the cursor is unknown or of another scan: begin again without a cursor.
    Expired,
}

impl ScanOutcome {
    /// The page; `None` when the snapshot is lost.
    pub fn page(self) -> Option<ScanPage> {
        match self {
            Self::Page(page) => Some(page),
            Self::Expired => None,
        }
    }
}
