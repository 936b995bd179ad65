//! One operation's struggle with the store: classifies what went wrong, pauses, and knows when to give up.

use futures_util::future::join_all;
use spotlane_store::{
    Applied, ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider,
    WriteOutcome, WriteRequest,
};
use spotlane_types::time::Monotonic;

use crate::error::LocationError;
use crate::time::Timing;

/// Most reads under way at a time: as many as a provider that gathers them takes in one call.
const READS_MAX: usize = 128;

/// How a write ended, as far as it is known.
pub(crate) enum Answer {
    Applied(Applied),
    /// A condition did not hold; nothing changed.
    Conflict,
    /// ST-7: it may have happened.
    Unknown,
    /// It certainly did not happen.
    NotTaken,
}

pub(crate) struct Effort<'a, P, T> {
    store: &'a P,
    timing: &'a T,
    until: Monotonic,
    attempt: u32,
    /// Whether a write is out whose outcome no read has settled yet.
    unknown: bool,
    last: Option<StoreError>,
}

impl<'a, P: StoreProvider, T: Timing> Effort<'a, P, T> {
    pub(crate) fn new(store: &'a P, timing: &'a T, until: Monotonic) -> Self {
        Self {
            store,
            timing,
            until,
            attempt: 0,
            unknown: false,
            last: None,
        }
    }

    /// The error for when there is no more time: an unsettled write stays unknown, it is never folded into a failure.
    fn out_of_time(&mut self) -> LocationError {
        let source = self.last.take();
        if self.unknown {
            LocationError::Indeterminate { source }
        } else {
            LocationError::Unavailable { source }
        }
    }

    /// Fails when the deadline has passed.
    pub(crate) fn in_time(&mut self) -> Result<(), LocationError> {
        if self.timing.now() >= self.until {
            return Err(self.out_of_time());
        }
        Ok(())
    }

    /// Keeps a failure that may pass and waits; gives back one that will not.
    async fn failed(&mut self, error: StoreError) -> Result<(), LocationError> {
        match error {
            StoreError::Argument(_) | StoreError::Permanent(_) if self.unknown => {
                return Err(LocationError::Indeterminate {
                    source: Some(error),
                });
            }
            StoreError::Argument(_) | StoreError::Permanent(_) => {
                return Err(LocationError::Store(error));
            }
            StoreError::Transient(_) | StoreError::Indeterminate(_) => self.last = Some(error),
        }
        self.pause().await
    }

    /// Waits before the next attempt.
    pub(crate) async fn pause(&mut self) -> Result<(), LocationError> {
        self.in_time()?;
        self.timing.pause(self.attempt).await;
        self.attempt = self.attempt.saturating_add(1);
        self.in_time()
    }

    /// Reads until there is an answer. After an unknown write this is what settles it (ST-72).
    pub(crate) async fn read(&mut self, key: &StoreKey) -> Result<ReadOutcome, LocationError> {
        loop {
            self.in_time()?;
            match self.store.read(key).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => self.failed(error).await?,
            }
        }
    }

    /// Reads many records, [`READS_MAX`] at a time, until each has an answer. The answers are in the order of the keys.
    ///
    /// Each of them settles an unknown write as a read of its own does.
    pub(crate) async fn read_all(
        &mut self,
        keys: &[StoreKey],
    ) -> Result<Vec<ReadOutcome>, LocationError> {
        let mut outcomes = Vec::with_capacity(keys.len());
        for keys in keys.chunks(READS_MAX) {
            let mut some: Vec<Option<ReadOutcome>> = vec![None; keys.len()];
            while some.iter().any(Option::is_none) {
                self.in_time()?;
                let store = self.store;
                let open = keys.iter().zip(&mut some).filter(|(_, at)| at.is_none());
                let reads = open.map(|(key, at)| async move {
                    let outcome = store.read(key).await?;
                    *at = Some(outcome);
                    Ok::<(), StoreError>(())
                });
                let failed = join_all(reads).await.into_iter().find_map(Result::err);
                if let Some(error) = failed {
                    self.failed(error).await?;
                }
            }
            outcomes.extend(some.into_iter().flatten());
        }
        Ok(outcomes)
    }

    /// Reads one page until there is an answer.
    pub(crate) async fn scan(
        &mut self,
        request: ScanRequest,
    ) -> Result<ScanOutcome, LocationError> {
        loop {
            self.in_time()?;
            match self.store.scan(request.clone()).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => self.failed(error).await?,
            }
        }
    }

    /// Notes that a read has shown what became of the last write.
    pub(crate) fn settled(&mut self) {
        self.unknown = false;
    }

    /// Sends a write once.
    pub(crate) async fn write(&mut self, request: WriteRequest) -> Result<Answer, LocationError> {
        self.in_time()?;
        match self.store.write(request).await {
            Ok(WriteOutcome::Applied(applied)) => Ok(Answer::Applied(applied)),
            Ok(WriteOutcome::Conflict) => Ok(Answer::Conflict),
            Err(error @ StoreError::Indeterminate(_)) => {
                self.unknown = true;
                self.failed(error).await?;
                Ok(Answer::Unknown)
            }
            Err(error) => {
                self.failed(error).await?;
                Ok(Answer::NotTaken)
            }
        }
    }
}
