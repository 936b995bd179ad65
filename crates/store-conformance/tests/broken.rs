//! For each rule a provider that breaks it, to show that the suite can fail (ST-40).

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test file")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spotlane_store::{
    Applied, BlobOutcome, BlobReference, Condition, Cursor, DeleteOutcome, Found, KeyPrefix,
    Mutation, PageBuilder, PutOutcome, ReadOutcome, RelocationProvider, RenewOutcome, Row,
    ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, StoreTime, StoreValue,
    StoreVersion, Ttl, WriteOutcome, WriteRequest,
};
use spotlane_store_conformance::{
    LossyNetwork, MemorySubject, Restarted, Subject, check_relocation, check_store,
};
use spotlane_store_memory::{
    Fault, FaultControl, FaultStore, ManualClock, MemoryRelocation, MemoryStore, StoreClock,
};
use tokio::task::yield_now;

/// What is wrong with a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    // ST-1
    FindsExpired,
    ReadsOtherVersion,
    // ST-2
    ChecksFirstConditionOnly,
    AppliesOnConflict,
    AppliesOneByOne,
    VersionsReversed,
    // ST-3
    ValueComparesLength,
    DeleteNeedsRecord,
    MissingIgnoresDeleted,
    // ST-4
    FoldsCase,
    CutsValues,
    RefusesLargeBatch,
    TrimsKeys,
    // ST-5
    ScansUnsorted,
    ScansThePresent,
    DropsExpiredRows,
    TakesAnyCursor,
    PrefixIncludesNeighbors,
    LimitOffByOne,
    CursorOnlyOnce,
    // ST-6
    ExpiresLate,
    KeepsOldExpiry,
    // ST-7
    StartsEagerly,
    // ST-9
    VersionsRestart,
    VersionIsHashOfValue,
    ForgetsVersionsAtRestart,
    // ST-40
    ChecksWithoutLock,
}

#[derive(Clone, Debug)]
struct Record {
    value: StoreValue,
    version: StoreVersion,
    expires_at: Option<StoreTime>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<StoreKey, Record>,
    sequence: u64,
    snapshots: BTreeMap<String, (KeyPrefix, Vec<Row>)>,
}

/// A provider written for this test, right but for its defect.
#[derive(Clone, Debug)]
struct Broken {
    defect: Defect,
    clock: ManualClock,
    state: Arc<Mutex<State>>,
}

impl Broken {
    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn stored_key(&self, key: &StoreKey) -> StoreKey {
        match self.defect {
            Defect::FoldsCase => StoreKey::new(&key.as_str().to_lowercase()).unwrap(),
            Defect::TrimsKeys => StoreKey::new(key.as_str().trim_end()).unwrap(),
            _ => key.clone(),
        }
    }

    fn is_live(&self, record: &Record, now: StoreTime) -> bool {
        let late = if self.has(Defect::ExpiresLate) {
            150
        } else {
            0
        };
        let limit = |at: StoreTime| StoreTime::from_unix_millis(at.as_unix_millis() + late);
        record.expires_at.is_none_or(|at| now < limit(at))
    }

    fn live(&self, state: &State, key: &StoreKey, now: StoreTime) -> Option<Record> {
        let record = state.records.get(&self.stored_key(key))?.clone();
        self.is_live(&record, now).then_some(record)
    }

    fn holds(&self, state: &State, condition: &Condition, now: StoreTime) -> bool {
        let found = self.live(state, condition.key(), now);
        match (condition, found) {
            (Condition::Missing(key), found) => {
                found.is_none()
                    && !(self.has(Defect::MissingIgnoresDeleted)
                        && state.sequence > 0
                        && key.as_str().contains("deletes"))
            }
            (Condition::Version(_, version), Some(found)) => found.version == *version,
            (Condition::Value(_, value), Some(found)) if self.has(Defect::ValueComparesLength) => {
                found.value.as_bytes().len() == value.as_bytes().len()
            }
            (Condition::Value(_, value), Some(found)) => found.value == *value,
            _ => false,
        }
    }

    fn version(&self, state: &mut State, key: &StoreKey, value: &StoreValue) -> StoreVersion {
        state.sequence += 1;
        let text = match self.defect {
            Defect::VersionIsHashOfValue => format!("v{:?}", value.as_bytes().len()),
            Defect::VersionsRestart => {
                let before = state.records.get(key).map(|record| record.version.clone());
                let before = before.and_then(|version| version.as_str().parse::<u64>().ok());
                (before.unwrap_or(0) + 1).to_string()
            }
            _ => state.sequence.to_string(),
        };
        StoreVersion::new(&text).unwrap()
    }

    fn apply(&self, state: &mut State, mutation: Mutation, now: StoreTime) -> Option<StoreVersion> {
        match mutation {
            Mutation::Delete { key } => {
                state.records.remove(&self.stored_key(&key));
                None
            }
            Mutation::Put { key, value, ttl } => {
                let key = self.stored_key(&key);
                let version = self.version(state, &key, &value);
                let mut expires_at = ttl.map(|ttl| now.after(ttl));
                if self.has(Defect::KeepsOldExpiry) {
                    let old = state.records.get(&key).and_then(|record| record.expires_at);
                    expires_at = old.filter(|at| now < *at).or(expires_at);
                }
                let value = if self.has(Defect::CutsValues) {
                    let bytes = value.into_bytes();
                    StoreValue::new(bytes.slice(..bytes.len().min(1 << 19))).unwrap()
                } else {
                    value
                };
                let record = Record {
                    value,
                    version: version.clone(),
                    expires_at,
                };
                state.records.insert(key, record);
                Some(version)
            }
        }
    }

    fn rows(&self, state: &State, prefix: &KeyPrefix, now: StoreTime) -> Vec<Row> {
        let begins = |key: &StoreKey| {
            let neighbor = prefix.as_str().strip_suffix("ab");
            prefix.matches(key)
                || self.has(Defect::PrefixIncludesNeighbors)
                    && neighbor.is_some_and(|head| key.as_str().starts_with(head))
        };
        let mut rows: Vec<_> = (state.records.iter())
            .filter(|(key, record)| begins(key) && self.is_live(record, now))
            .map(|(key, record)| Row {
                key: key.clone(),
                value: record.value.clone(),
                version: record.version.clone(),
                expires_at: record.expires_at,
            })
            .collect();
        if self.has(Defect::ScansUnsorted) {
            rows.sort_by_key(|row| row.key.as_str().to_lowercase());
        }
        rows
    }

    fn refuse_large(&self, request: &WriteRequest) -> Result<(), StoreError> {
        if self.has(Defect::RefusesLargeBatch) && request.mutations().len() > 2_000 {
            return Err(StoreError::permanent("too many keys"));
        }
        Ok(())
    }

    /// A write that lets others in between, for the defects of that kind.
    async fn write_in_steps(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        let now = self.clock.now();
        let (conditions, mutations) = request.into_parts();
        let holds = || {
            let state = self.state.lock().unwrap();
            conditions.iter().all(|one| self.holds(&state, one, now))
        };
        if !holds() {
            return Ok(WriteOutcome::Conflict);
        }
        if self.has(Defect::ChecksWithoutLock) {
            yield_now().await;
        }
        let versions = self.apply_all(mutations, now).await;
        Ok(WriteOutcome::Applied(Applied {
            versions,
            store_now: now,
        }))
    }

    async fn apply_all(&self, mutations: Vec<Mutation>, now: StoreTime) -> Vec<StoreVersion> {
        let mut versions = Vec::new();
        if self.has(Defect::AppliesOneByOne) {
            for mutation in mutations {
                versions.extend(self.apply(&mut self.state.lock().unwrap(), mutation, now));
                yield_now().await;
            }
        } else {
            let mut state = self.state.lock().unwrap();
            versions.extend(
                mutations
                    .into_iter()
                    .filter_map(|one| self.apply(&mut state, one, now)),
            );
        }
        versions
    }
}

/// The provider as the suite sees it.
#[derive(Clone, Debug)]
struct Seen(Broken);

impl StoreProvider for Seen {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        let broken = &self.0;
        let state = broken.state.lock().unwrap();
        let store_now = broken.clock.now();
        let mut found = broken.live(&state, key, store_now);
        if broken.has(Defect::FindsExpired) {
            found = state.records.get(key).cloned();
        }
        let Some(record) = found else {
            return Ok(ReadOutcome::Missing { store_now });
        };
        let version = if broken.has(Defect::ReadsOtherVersion) {
            StoreVersion::new(&format!("{}x", record.version.as_str())).unwrap()
        } else {
            record.version
        };
        let (value, expires_at) = (record.value, record.expires_at);
        Ok(ReadOutcome::Found(Found {
            value,
            version,
            expires_at,
            store_now,
        }))
    }

    fn write(
        &self,
        request: WriteRequest,
    ) -> impl Future<Output = Result<WriteOutcome, StoreError>> + Send {
        let broken = self.0.clone();
        let mut eager = None;
        if broken.has(Defect::StartsEagerly) {
            let now = broken.clock.now();
            let mut state = broken.state.lock().unwrap();
            let held = request
                .conditions()
                .iter()
                .all(|one| broken.holds(&state, one, now));
            let (_, mutations) = request.clone().into_parts();
            eager = Some(if held {
                let versions = mutations.into_iter();
                let versions = versions.filter_map(|one| broken.apply(&mut state, one, now));
                let versions = versions.collect();
                WriteOutcome::Applied(Applied {
                    versions,
                    store_now: now,
                })
            } else {
                WriteOutcome::Conflict
            });
        }
        async move {
            if let Some(outcome) = eager {
                return Ok(outcome);
            }
            if matches!(
                broken.defect,
                Defect::ChecksWithoutLock | Defect::AppliesOneByOne
            ) {
                return broken.write_in_steps(request).await;
            }
            broken.write_at_once(request)
        }
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        Ok(self.0.page(&request))
    }
}

impl Broken {
    /// The same with one lock around all of it.
    fn write_at_once(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.refuse_large(&request)?;
        let now = self.clock.now();
        let (conditions, mutations) = request.into_parts();
        let looked_at = if self.has(Defect::ChecksFirstConditionOnly) {
            1
        } else {
            usize::MAX
        };
        let mut state = self.state.lock().unwrap();
        let held = conditions
            .iter()
            .take(looked_at)
            .all(|one| self.holds(&state, one, now));
        let needs = |one: &Mutation| matches!(one, Mutation::Delete { key } if !state.records.contains_key(key));
        if !held && !self.has(Defect::AppliesOnConflict)
            || self.has(Defect::DeleteNeedsRecord) && mutations.iter().any(needs)
        {
            return Ok(WriteOutcome::Conflict);
        }
        let versions = mutations
            .into_iter()
            .filter_map(|one| self.apply(&mut state, one, now));
        let mut versions: Vec<_> = versions.collect();
        if self.has(Defect::VersionsReversed) {
            versions.reverse();
        }
        if !held {
            return Ok(WriteOutcome::Conflict);
        }
        Ok(WriteOutcome::Applied(Applied {
            versions,
            store_now: now,
        }))
    }

    fn page(&self, request: &ScanRequest) -> ScanOutcome {
        let mut state = self.state.lock().unwrap();
        let now = self.clock.now();
        let (id, from) = match request.cursor() {
            None => {
                state.sequence += 1;
                let id = format!("s{}", state.sequence);
                let rows = self.rows(&state, request.prefix(), now);
                state
                    .snapshots
                    .insert(id.clone(), (request.prefix().clone(), rows));
                (id, 0)
            }
            Some(cursor) => {
                let text = String::from_utf8_lossy(cursor.as_bytes()).into_owned();
                let parts = text
                    .split_once(':')
                    .and_then(|(id, from)| Some((id.to_owned(), from.parse::<usize>().ok()?)));
                let known = parts.filter(|(id, _)| {
                    state.snapshots.get(id).is_some_and(|(prefix, _)| {
                        prefix == request.prefix() || self.has(Defect::TakesAnyCursor)
                    })
                });
                let Some((id, from)) = known else {
                    return ScanOutcome::Expired;
                };
                (id, from)
            }
        };
        let mut rows = state.snapshots.get(&id).unwrap().1.clone();
        if self.has(Defect::ScansThePresent) {
            rows = self.rows(&state, request.prefix(), now);
        }
        if self.has(Defect::DropsExpiredRows) {
            rows.retain(|row| row.expires_at.is_none_or(|at| now < at));
        }
        let mut page = PageBuilder::new(request);
        let taken = rows
            .iter()
            .skip(from)
            .map_while(|row| page.push(row.clone()).ok())
            .count();
        let skipped = usize::from(self.has(Defect::LimitOffByOne) && taken == request.limit());
        let next = from + taken + skipped;
        if self.has(Defect::CursorOnlyOnce) && from > 0 {
            let rows = state.snapshots.remove(&id).unwrap();
            let id = format!("{id}'");
            state.snapshots.insert(id.clone(), rows);
            let cursor = (next < rows_left(&state, &id)).then(|| cursor(&id, next));
            return ScanOutcome::Page(page.finish(cursor, now));
        }
        let cursor = (next < rows.len()).then(|| cursor(&id, next));
        ScanOutcome::Page(page.finish(cursor, now))
    }
}

fn rows_left(state: &State, id: &str) -> usize {
    state.snapshots.get(id).map_or(0, |(_, rows)| rows.len())
}

fn cursor(id: &str, from: usize) -> Cursor {
    Cursor::new(format!("{id}:{from}").into_bytes()).unwrap()
}

struct OnBroken(Broken);

impl Subject for OnBroken {
    type Provider = Seen;

    fn node(&self) -> Seen {
        Seen(self.0.clone())
    }

    async fn pass(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    async fn restart(&self) -> Restarted {
        if self.0.has(Defect::ForgetsVersionsAtRestart) {
            // The last numbers were not on disk yet.
            self.0.state.lock().unwrap().sequence -= 15;
        }
        Restarted::RecordsAreThere
    }
}

async fn run(defect: Defect) -> Result<(), spotlane_store_conformance::Violations> {
    let clock = ManualClock::new(StoreTime::from_unix_millis(1_000));
    check_store(&OnBroken(Broken {
        defect,
        clock,
        state: Arc::default(),
    }))
    .await
}

async fn assert_found(rule: &str, defects: &[Defect]) {
    for defect in defects {
        let violations = run(*defect)
            .await
            .expect_err(&format!("{defect:?} was not found"));
        assert!(
            violations.name(rule),
            "{defect:?} was not named {rule}: {violations}"
        );
    }
}

/// Without a defect the same provider passes, so it is the defect that is found below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_defect_it_passes() {
    run(Defect::None).await.unwrap();
}

/// ST-1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_observations_are_found() {
    assert_found("ST-1", &[Defect::FindsExpired, Defect::ReadsOtherVersion]).await;
}

/// ST-2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_batches_are_found() {
    let defects = [
        Defect::ChecksFirstConditionOnly,
        Defect::AppliesOnConflict,
        Defect::AppliesOneByOne,
        Defect::VersionsReversed,
    ];
    assert_found("ST-2", &defects).await;
}

/// ST-3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_conditions_are_found() {
    let defects = [
        Defect::ValueComparesLength,
        Defect::DeleteNeedsRecord,
        Defect::MissingIgnoresDeleted,
    ];
    assert_found("ST-3", &defects).await;
}

/// ST-4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn narrow_bounds_are_found() {
    let defects = [
        Defect::FoldsCase,
        Defect::CutsValues,
        Defect::RefusesLargeBatch,
        Defect::TrimsKeys,
    ];
    assert_found("ST-4", &defects).await;
}

/// ST-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_scans_are_found() {
    let defects = [
        Defect::ScansUnsorted,
        Defect::ScansThePresent,
        Defect::DropsExpiredRows,
        Defect::TakesAnyCursor,
        Defect::PrefixIncludesNeighbors,
        Defect::LimitOffByOne,
        Defect::CursorOnlyOnce,
    ];
    assert_found("ST-5", &defects).await;
}

/// ST-6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_lives_are_found() {
    assert_found("ST-6", &[Defect::ExpiresLate, Defect::KeepsOldExpiry]).await;
}

/// ST-7: work before the first poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eager_futures_are_found() {
    assert_found("ST-7", &[Defect::StartsEagerly]).await;
}

/// ST-9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_versions_are_found() {
    let defects = [
        Defect::VersionsRestart,
        Defect::VersionIsHashOfValue,
        Defect::ForgetsVersionsAtRestart,
    ];
    assert_found("ST-9", &defects).await;
}

/// ST-40.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_updates_are_found() {
    assert_found("ST-40", &[Defect::ChecksWithoutLock]).await;
}

/// A node behind faults that tells of them wrongly.
#[derive(Clone)]
struct Liar {
    store: FaultStore<MemoryStore>,
    lie: Lie,
}

#[derive(Clone, Copy, Debug)]
enum Lie {
    Conflict,
    Applied,
    Transient,
    Permanent,
    RepeatsTheWrite,
}

impl StoreProvider for Liar {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.store.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        let outcome = self.store.write(request.clone()).await;
        let Err(StoreError::Indeterminate(_)) = outcome else {
            return outcome;
        };
        match self.lie {
            Lie::Conflict => Ok(WriteOutcome::Conflict),
            Lie::Applied => Ok(WriteOutcome::Applied(Applied {
                versions: vec![],
                store_now: StoreTime::from_unix_millis(1),
            })),
            Lie::Transient => Err(StoreError::transient("a lie")),
            Lie::Permanent => Err(StoreError::permanent("a lie")),
            Lie::RepeatsTheWrite => self.store.write(request).await,
        }
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.store.scan(request).await
    }
}

struct OnLiar {
    store: MemoryStore,
    clock: ManualClock,
    network: Losses,
    lie: Lie,
}

struct Losses(FaultControl);

impl LossyNetwork for Losses {
    fn lose_next_answer(&self) {
        self.0.next(Fault::LoseAnswer).unwrap();
    }

    fn lose_next_request(&self) {
        self.0.next(Fault::LoseRequest).unwrap();
    }
}

impl Subject for OnLiar {
    type Provider = Liar;

    fn node(&self) -> Liar {
        Liar {
            store: FaultStore::new(self.store.clone(), FaultControl::new()),
            lie: self.lie,
        }
    }

    async fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn lossy(&self) -> Option<(Liar, &dyn LossyNetwork)> {
        let store = FaultStore::new(self.store.clone(), self.network.0.clone());
        Some((
            Liar {
                store,
                lie: self.lie,
            },
            &self.network,
        ))
    }
}

/// ST-7, ST-8: every wrong report of an unknown outcome, and the write that is silently repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_reports_are_found() {
    for lie in [
        Lie::Conflict,
        Lie::Applied,
        Lie::Transient,
        Lie::Permanent,
        Lie::RepeatsTheWrite,
    ] {
        let clock = ManualClock::new(StoreTime::from_unix_millis(1_000));
        let (store, network) = (MemoryStore::new(clock.clone()), Losses(FaultControl::new()));
        let violations = check_store(&OnLiar {
            store,
            clock,
            network,
            lie,
        })
        .await
        .unwrap_err();
        assert!(violations.name("ST-7"), "{lie:?}: {violations}");
    }
}

/// A Relocation Store that is wrong in one way.
#[derive(Clone)]
struct BrokenBlobs {
    store: MemoryRelocation,
    defect: BlobDefect,
}

#[derive(Clone, Copy, Debug)]
enum BlobDefect {
    Replaces,
    ConflictsWithItself,
    RenewsNothing,
    RenewalShortens,
    DeletesTwice,
    RenewsTheMissing,
}

impl RelocationProvider for BrokenBlobs {
    async fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<PutOutcome, StoreError> {
        match self.defect {
            BlobDefect::Replaces => drop(self.store.delete(reference).await?),
            BlobDefect::ConflictsWithItself
                if self.store.get(reference).await?.value().is_some() =>
            {
                return Ok(PutOutcome::Conflict);
            }
            _ => {}
        }
        self.store.put(reference, value, ttl).await
    }

    async fn get(&self, reference: &BlobReference) -> Result<BlobOutcome, StoreError> {
        self.store.get(reference).await
    }

    async fn renew(&self, reference: &BlobReference, ttl: Ttl) -> Result<RenewOutcome, StoreError> {
        let found = self.store.get(reference).await?;
        match (self.defect, found) {
            (BlobDefect::RenewsNothing, BlobOutcome::Found { store_now, .. })
            | (BlobDefect::RenewsTheMissing, BlobOutcome::Missing { store_now }) => {
                Ok(RenewOutcome::Renewed {
                    expires_at: store_now.after(ttl),
                    store_now,
                })
            }
            (
                BlobDefect::RenewalShortens,
                BlobOutcome::Found {
                    value, store_now, ..
                },
            ) => {
                self.store.delete(reference).await?;
                assert_ne!(
                    self.store.put(reference, value, ttl).await?,
                    PutOutcome::Conflict
                );
                Ok(RenewOutcome::Renewed {
                    expires_at: store_now.after(ttl),
                    store_now,
                })
            }
            _ => self.store.renew(reference, ttl).await,
        }
    }

    async fn delete(&self, reference: &BlobReference) -> Result<DeleteOutcome, StoreError> {
        let outcome = self.store.delete(reference).await?;
        Ok(if matches!(self.defect, BlobDefect::DeletesTwice) {
            DeleteOutcome::Deleted
        } else {
            outcome
        })
    }
}

/// ST-92.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_blobs_are_found() {
    for defect in [
        BlobDefect::Replaces,
        BlobDefect::ConflictsWithItself,
        BlobDefect::RenewsNothing,
        BlobDefect::RenewalShortens,
        BlobDefect::DeletesTwice,
        BlobDefect::RenewsTheMissing,
    ] {
        let clock = ManualClock::new(StoreTime::from_unix_millis(1_000));
        let store = BrokenBlobs {
            store: MemoryRelocation::new(clock.clone()),
            defect,
        };
        let subject = MemorySubject::new(store, move |by| clock.advance(by));
        let violations = check_relocation(&subject)
            .await
            .expect_err(&format!("{defect:?}"));
        assert!(violations.name("ST-92"), "{violations}");
    }
}
