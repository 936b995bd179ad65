//! What fault models share: a log of what really reached the store, and dice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spotlane_location::key;
use spotlane_location::record::{AuthorityRow, Record};
use spotlane_store::{
    BoxedStore, Mutation, ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey,
    StoreProvider, StoreValue, StoreVersion, WriteOutcome, WriteRequest,
};
use spotlane_store_memory::{Fault, FaultControl, FaultStore};

use crate::host::Host;

/// One change of one record that was really applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) host: usize,
    pub(crate) key: StoreKey,
    /// `None` for a removal.
    pub(crate) value: Option<(StoreVersion, StoreValue)>,
}

impl Applied {
    fn row(&self) -> Row {
        let (version, value) = self.value.clone()?;
        let row = AuthorityRow::decode(&self.key, value.as_bytes()).unwrap();
        Some((version, row))
    }
}

/// An authority row that was written, or its removal.
pub(crate) type Row = Option<(StoreVersion, AuthorityRow)>;

/// All batches in the order in which they were applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Vec<Applied>>>>);

impl Log {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn batches(&self) -> Vec<Vec<Applied>> {
        self.0.lock().unwrap().clone()
    }

    /// What a host did from some batch on.
    pub(crate) fn since(&self, start: usize, host: usize) -> Vec<Applied> {
        let log = self.0.lock().unwrap();
        let entries = log[start..].iter().flatten();
        entries
            .filter(|entry| entry.host == host)
            .cloned()
            .collect()
    }

    /// What a host did to authority rows from some batch on.
    pub(crate) fn rows_since(&self, start: usize, host: usize) -> Vec<Row> {
        let done = self.since(start, host).into_iter();
        done.filter(|entry| key::object_of(&entry.key).is_some())
            .map(|entry| entry.row())
            .collect()
    }

    /// What was done to one authority row.
    pub(crate) fn rows_of(&self, key: &StoreKey) -> Vec<Row> {
        let log = self.0.lock().unwrap();
        let entries = log.iter().flatten();
        entries
            .filter(|entry| entry.key == *key)
            .map(Applied::row)
            .collect()
    }
}

/// Lies under the faults of one host and writes down what got through.
struct Recorder {
    store: BoxedStore,
    host: usize,
    log: Log,
}

impl StoreProvider for Recorder {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.store.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        let mutations = request.mutations().to_vec();
        let outcome = self.store.write(request).await?;
        if let WriteOutcome::Applied(applied) = &outcome {
            let mut versions = applied.versions.iter();
            let batch = mutations.into_iter().map(|mutation| {
                let (key, value) = match mutation {
                    Mutation::Put { key, value, .. } => {
                        (key, Some((versions.next().unwrap().clone(), value)))
                    }
                    Mutation::Delete { key } => (key, None),
                };
                let host = self.host;
                Applied { host, key, value }
            });
            self.log.0.lock().unwrap().push(batch.collect());
        }
        Ok(outcome)
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.store.scan(request).await
    }
}

/// Hosts on one store, each with faults of its own and a recorder under them.
pub(crate) async fn faulty_hosts<const N: usize>(
    store: &BoxedStore,
    log: &Log,
    names: [&str; N],
) -> Vec<(Host, FaultControl)> {
    let mut hosts = Vec::new();
    for (host, name) in names.into_iter().enumerate() {
        let control = FaultControl::new();
        let recorder = Recorder {
            store: store.clone(),
            host,
            log: log.clone(),
        };
        let faulty = FaultStore::new(BoxedStore::new(recorder), control.clone());
        let host = Host::start(name, store, BoxedStore::new(faulty)).await;
        hosts.push((host, control));
    }
    hosts
}

/// A generator that needs no state beyond a number, so that a seed is all there is to repeat a schedule.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }

    fn fault(&mut self) -> Fault {
        match self.roll(9) {
            0 => Fault::FailBefore,
            1 => Fault::LoseRequest,
            2 | 3 => Fault::LoseAnswer,
            4 | 5 => Fault::Delay(Duration::from_millis(u64::try_from(self.roll(4)).unwrap())),
            _ => Fault::None,
        }
    }

    /// Plans up to so many faults; a full queue of faults is as good as a new one.
    pub(crate) fn plan(&mut self, control: &FaultControl, most: usize) {
        for _ in 0..self.roll(most) {
            if control.next(self.fault()).is_err() {
                break;
            }
        }
    }
}
