//! A provider under test.

use std::time::Duration;

use spotlane_store::{RelocationProvider, StoreProvider};

/// A [`StoreProvider`] under test, with what the suite needs beside it.
pub trait Subject: Send + Sync {
    /// The provider.
    type Provider: StoreProvider + Clone;

    /// The provider of one node. Each call may return another connection; all share the same records.
    fn node(&self) -> Self::Provider;

    /// Lets at least this much time pass on the provider's clock: moves it, or waits.
    fn pass(&self, by: Duration) -> impl Future<Output = ()> + Send;

    /// Starts the provider anew, as a process does that was killed; `false` when records do not outlive it.
    ///
    /// The node of the next [`Subject::node`] sees the records of before.
    fn restart(&self) -> impl Future<Output = Restarted> + Send {
        std::future::ready(Restarted::NothingOutlivesIt)
    }

    /// A node whose answers can be lost; `None` when there is nothing between caller and store that could lose one.
    fn lossy(&self) -> Option<(Self::Provider, &dyn LossyNetwork)> {
        None
    }
}

/// How [`Subject::restart`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restarted {
    /// The records are still there.
    RecordsAreThere,
    /// Nothing was done, because records do not outlive the provider.
    NothingOutlivesIt,
}

/// A [`RelocationProvider`] under test.
pub trait RelocationSubject: Send + Sync {
    /// The provider.
    type Provider: RelocationProvider + Clone;

    /// The provider of one node.
    fn node(&self) -> Self::Provider;

    /// Lets at least this much time pass on the provider's clock: moves it, or waits.
    fn pass(&self, by: Duration) -> impl Future<Output = ()> + Send;
}

/// What stands between a caller and a store, and can fail.
pub trait LossyNetwork: Send + Sync {
    /// Loses the answer of the next operation that reaches the store: it happens, and nobody hears of it.
    fn lose_next_answer(&self);

    /// Loses the next operation on its way to the store.
    fn lose_next_request(&self);
}

/// Any provider in memory whose clock is moved by hand, as a subject of both kinds.
#[derive(Clone, Debug)]
pub struct MemorySubject<P, F> {
    provider: P,
    advance: F,
}

impl<P, F: Fn(Duration) + Send + Sync> MemorySubject<P, F> {
    /// A subject from a provider and what moves its clock.
    pub fn new(provider: P, advance: F) -> Self {
        Self { provider, advance }
    }
}

impl<P: StoreProvider + Clone, F: Fn(Duration) + Send + Sync> Subject for MemorySubject<P, F> {
    type Provider = P;

    fn node(&self) -> P {
        self.provider.clone()
    }

    async fn pass(&self, by: Duration) {
        (self.advance)(by);
    }
}

impl<P, F> RelocationSubject for MemorySubject<P, F>
where
    P: RelocationProvider + Clone,
    F: Fn(Duration) + Send + Sync,
{
    type Provider = P;

    fn node(&self) -> P {
        self.provider.clone()
    }

    async fn pass(&self, by: Duration) {
        (self.advance)(by);
    }
}
