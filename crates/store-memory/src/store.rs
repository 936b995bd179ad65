//! The Location Store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use spotlane_store::{
    Applied, Condition, Cursor, Failure, Found, KeyPrefix, Mutation, PageBuilder, ReadOutcome, Row,
    ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, StoreTime, StoreValue,
    StoreVersion, WriteOutcome, WriteRequest,
};

use crate::clock::StoreClock;

/// Most snapshots that are kept for scans; the one used least recently gives way (its scan is then `Expired`).
pub const SNAPSHOTS_MAX: usize = 64;
/// How long a snapshot is kept after its last page, by the store's clock.
pub const SNAPSHOT_IDLE_MAX: Duration = Duration::from_secs(30);

/// A complete [`StoreProvider`] in memory (ST-20). A clone is the same store, so several nodes of one process share it.
///
/// Records and versions live and die with the last clone. Expired records are forgotten at the next write.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn StoreClock>,
    /// Protects all records. It is a leaf: nothing is locked and nothing awaited while it is held.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<StoreKey, Record>,
    /// Which records expire when, so that a write can forget the due ones without a search.
    expiries: BTreeSet<(StoreTime, StoreKey)>,
    snapshots: BTreeMap<u64, Snapshot>,
    /// Issued for versions and snapshots alike; only grows (ST-9).
    sequence: u64,
}

#[derive(Clone, Debug)]
struct Record {
    value: StoreValue,
    version: StoreVersion,
    expires_at: Option<StoreTime>,
}

#[derive(Debug)]
struct Snapshot {
    prefix: KeyPrefix,
    rows: Arc<[Row]>,
    last_used: StoreTime,
}

impl MemoryStore {
    /// An empty store that lives by this clock.
    pub fn new(clock: impl StoreClock) -> Self {
        Self {
            clock: Arc::new(clock),
            state: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock panics half-way through a change, so the state is sound even when poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// A record is there until its expiry, and at its expiry it is not (ST-1).
fn is_live(expires_at: Option<StoreTime>, now: StoreTime) -> bool {
    expires_at.is_none_or(|at| now < at)
}

impl State {
    fn live(&self, key: &StoreKey, now: StoreTime) -> Option<&Record> {
        self.records
            .get(key)
            .filter(|record| is_live(record.expires_at, now))
    }

    fn holds(&self, condition: &Condition, now: StoreTime) -> bool {
        match (condition, self.live(condition.key(), now)) {
            (Condition::Missing(_), found) => found.is_none(),
            (Condition::Version(_, version), Some(record)) => record.version == *version,
            (Condition::Value(_, value), Some(record)) => record.value == *value,
            (Condition::Version(..) | Condition::Value(..), None) => false,
        }
    }

    fn next(&mut self) -> Result<u64, StoreError> {
        let next = self.sequence.checked_add(1);
        self.sequence = next.ok_or_else(|| StoreError::permanent("all versions are used up"))?;
        Ok(self.sequence)
    }

    fn forget(&mut self, key: &StoreKey) {
        if let Some(at) = self
            .records
            .remove(key)
            .and_then(|record| record.expires_at)
        {
            self.expiries.remove(&(at, key.clone()));
        }
    }

    fn forget_expired(&mut self, now: StoreTime) {
        while let Some((at, key)) = self.expiries.first().cloned() {
            if is_live(Some(at), now) {
                break;
            }
            self.forget(&key);
        }
    }

    fn put(&mut self, key: StoreKey, record: Record) {
        self.forget(&key);
        if let Some(at) = record.expires_at {
            self.expiries.insert((at, key.clone()));
        }
        self.records.insert(key, record);
    }

    /// ST-2: everything is checked, then everything is applied, under one lock.
    fn write(&mut self, request: WriteRequest, now: StoreTime) -> Result<WriteOutcome, StoreError> {
        self.forget_expired(now);
        let puts = request.put_count();
        let (conditions, mutations) = request.into_parts();
        if !conditions
            .iter()
            .all(|condition| self.holds(condition, now))
        {
            return Ok(WriteOutcome::Conflict);
        }
        let mut versions = Vec::with_capacity(puts);
        for _ in 0..puts {
            let text = self.next()?.to_string();
            versions.push(StoreVersion::new(&text)?);
        }
        let mut unused = versions.iter();
        for mutation in mutations {
            match mutation {
                Mutation::Delete { key } => self.forget(&key),
                Mutation::Put { key, value, ttl } => {
                    let Some(version) = unused.next().cloned() else {
                        return Err(StoreError::permanent("defect: a put without a version"));
                    };
                    let expires_at = ttl.map(|ttl| now.after(ttl));
                    self.put(
                        key,
                        Record {
                            value,
                            version,
                            expires_at,
                        },
                    );
                }
            }
        }
        Ok(WriteOutcome::Applied(Applied {
            versions,
            store_now: now,
        }))
    }

    fn rows(&self, prefix: &KeyPrefix, now: StoreTime) -> Vec<Row> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        self.records
            .range::<str, _>(from)
            .take_while(|(key, _)| prefix.matches(key))
            .filter(|(_, record)| is_live(record.expires_at, now))
            .map(|(key, record)| Row {
                key: key.clone(),
                value: record.value.clone(),
                version: record.version.clone(),
                expires_at: record.expires_at,
            })
            .collect()
    }

    /// ST-5: the first page copies the rows (their bytes are shared), later pages walk through the copy.
    fn scan(&mut self, request: &ScanRequest, now: StoreTime) -> Result<ScanOutcome, StoreError> {
        self.snapshots
            .retain(|_, snapshot| snapshot.last_used.until(now) <= SNAPSHOT_IDLE_MAX);
        let (id, rows, from) = match request.cursor() {
            None => (None, self.rows(request.prefix(), now).into(), 0),
            Some(cursor) => {
                let Some((id, from)) = read_cursor(cursor) else {
                    return Ok(ScanOutcome::Expired);
                };
                match self.snapshots.get_mut(&id) {
                    Some(found) if found.prefix == *request.prefix() => {
                        found.last_used = now;
                        (Some(id), Arc::clone(&found.rows), from)
                    }
                    _ => return Ok(ScanOutcome::Expired),
                }
            }
        };
        let mut page = PageBuilder::new(request);
        let taken = rows
            .iter()
            .skip(from)
            .map_while(|row| page.push(row.clone()).ok())
            .count();
        let next = from.saturating_add(taken);
        if next >= rows.len() {
            return Ok(ScanOutcome::Page(page.finish(None, now)));
        }
        let id = match id {
            Some(id) => id,
            None => self.keep(request.prefix().clone(), rows, now)?,
        };
        Ok(ScanOutcome::Page(
            page.finish(Some(write_cursor(id, next)?), now),
        ))
    }

    fn keep(
        &mut self,
        prefix: KeyPrefix,
        rows: Arc<[Row]>,
        now: StoreTime,
    ) -> Result<u64, StoreError> {
        while self.snapshots.len() >= SNAPSHOTS_MAX {
            let oldest = self
                .snapshots
                .iter()
                .min_by_key(|(id, one)| (one.last_used, **id));
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                break;
            };
            self.snapshots.remove(&oldest);
        }
        let id = self.next()?;
        self.snapshots.insert(
            id,
            Snapshot {
                prefix,
                rows,
                last_used: now,
            },
        );
        Ok(id)
    }
}

fn write_cursor(id: u64, from: usize) -> Result<Cursor, StoreError> {
    Ok(Cursor::new(Bytes::from(format!("{id}:{from}")))?)
}

fn read_cursor(cursor: &Cursor) -> Option<(u64, usize)> {
    let (id, from) = std::str::from_utf8(cursor.as_bytes())
        .ok()?
        .split_once(':')?;
    Some((id.parse().ok()?, from.parse().ok()?))
}

impl StoreProvider for MemoryStore {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        let state = self.lock();
        let store_now = self.clock.now();
        Ok(match state.live(key, store_now) {
            None => ReadOutcome::Missing { store_now },
            Some(record) => ReadOutcome::Found(Found {
                value: record.value.clone(),
                version: record.version.clone(),
                expires_at: record.expires_at,
                store_now,
            }),
        })
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        // The clock is read under the lock, so that commits and their times have one order.
        let mut state = self.lock();
        state.write(request, self.clock.now())
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        let mut state = self.lock();
        let now = self.clock.now();
        state.scan(&request, now).map_err(|error| match error {
            StoreError::Argument(cause) => {
                StoreError::Permanent(Failure::new("defect: own cursor refused").with_source(cause))
            }
            other => other,
        })
    }
}
