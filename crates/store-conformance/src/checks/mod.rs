//! The checks, one function for each promise, and the two that run them all.

mod batches;
mod bounds;
mod concurrency;
mod expiry;
mod outcomes;
mod relocation;
mod scans;
mod values;

use std::marker::PhantomData;

use spotlane_store::{
    Applied, BoxedStore, Condition, Mutation, ReadOutcome, StoreKey, StoreProvider, StoreVersion,
    Ttl, WriteOutcome, WriteRequest,
};

use crate::report::{Checked, Stop, Violation, Violations};
use crate::subject::{RelocationSubject, Subject};

/// Collects what the checks find.
#[derive(Default)]
struct Run(Vec<Violation>);

impl Run {
    fn note(&mut self, rule: &'static str, promise: &'static str, checked: Checked) {
        if let Err(Stop(seen)) = checked {
            self.0.push(Violation {
                rule,
                promise,
                seen,
            });
        }
    }

    fn end(self) -> Result<(), Violations> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Violations(self.0))
        }
    }
}

/// Runs every check of the Location Store's SPI (ST-1 to ST-9, ST-40).
///
/// The records of the subject need not be empty before; what the suite writes begins with `conformance/`. It takes
/// some seconds on a provider in memory and some more on one over a network.
///
/// # Errors
/// [`Violations`] with every promise that was broken.
///
/// # Cancel safety
/// Dropping it leaves records of the suite behind, nothing else.
pub async fn check_store<S: Subject>(subject: &S) -> Result<(), Violations> {
    let mut run = Run::default();
    Box::pin(outcomes::check(&mut run, subject)).await;
    Box::pin(values::check(&mut run, subject)).await;
    Box::pin(batches::check(&mut run, subject)).await;
    Box::pin(bounds::check(&mut run, subject)).await;
    Box::pin(expiry::check(&mut run, subject)).await;
    Box::pin(scans::check(&mut run, subject)).await;
    Box::pin(concurrency::check(&mut run, subject)).await;
    Box::pin(outcomes::check_unknown(&mut run, subject)).await;
    Box::pin(values::check_restart(&mut run, subject)).await;
    run.end()
}

/// Runs every check of the Relocation Store's SPI (ST-92).
///
/// # Errors
/// [`Violations`] with every promise that was broken.
///
/// # Cancel safety
/// Dropping it leaves blobs of the suite behind until they expire, nothing else.
pub async fn check_relocation<S: RelocationSubject>(subject: &S) -> Result<(), Violations> {
    let mut run = Run::default();
    relocation::check(&mut run, subject).await;
    run.end()
}

/// A provider with the words that checks use.
///
/// It holds the object-safe form, which keeps the types of the futures small, whatever the provider's are.
#[derive(Clone)]
struct Node<P>(BoxedStore, PhantomData<P>);

impl<P: StoreProvider> Node<P> {
    fn new(provider: P) -> Self {
        Self(BoxedStore::new(provider), PhantomData)
    }

    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, Stop> {
        Ok(self.0.read(key).await?)
    }

    async fn value(&self, key: &StoreKey) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self
            .read(key)
            .await?
            .found()
            .map(|found| found.value.as_bytes().to_vec()))
    }

    async fn write(
        &self,
        conditions: Vec<Condition>,
        mutations: Vec<Mutation>,
    ) -> Result<WriteOutcome, Stop> {
        Ok(self
            .0
            .write(WriteRequest::new(conditions, mutations)?)
            .await?)
    }

    /// A write that must be applied.
    async fn apply(
        &self,
        conditions: Vec<Condition>,
        mutations: Vec<Mutation>,
    ) -> Result<Applied, Stop> {
        let outcome = self.write(conditions, mutations).await?;
        outcome
            .applied()
            .ok_or_else(|| Stop("a write whose conditions hold conflicted".into()))
    }

    async fn put(
        &self,
        key: &StoreKey,
        value: &[u8],
        ttl: Option<Ttl>,
    ) -> Result<StoreVersion, Stop> {
        let applied = self.apply(vec![], vec![put(key, value, ttl)?]).await?;
        let version = applied.versions.into_iter().next();
        version.ok_or_else(|| Stop("an applied put returned no version".into()))
    }

    async fn delete(&self, key: &StoreKey) -> Result<(), Stop> {
        self.apply(vec![], vec![Mutation::Delete { key: key.clone() }])
            .await
            .map(drop)
    }
}

fn key(check: &str, name: &str) -> Result<StoreKey, Stop> {
    Ok(StoreKey::new(&format!("conformance/{check}/{name}"))?)
}

fn put(key: &StoreKey, value: &[u8], ttl: Option<Ttl>) -> Result<Mutation, Stop> {
    Ok(Mutation::put(key.clone(), value.to_vec(), ttl)?)
}
