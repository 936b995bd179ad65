//! The runtimes that run side by side.

use std::future::Future;

use crate::work::Countdown;

mod actix;
mod kameo;
mod lane;
mod mpsc;
mod ractor;

pub(crate) use self::actix::Actix;
pub(crate) use self::kameo::Kameo;
pub(crate) use self::lane::Ours;
pub(crate) use self::mpsc::Mpsc;
pub(crate) use self::ractor::Ractor;

/// One runtime: starts actors, tells and asks them, and runs the clients.
pub(crate) trait Peer: Sized + Send + Sync + 'static {
    type Actor: Clone + Send + Sync + 'static;
    const NAME: &'static str;

    fn start() -> Self;
    /// Starts `n` actors; each counts `up` down when it could take its first message.
    fn actors(
        &self,
        n: usize,
        per_report: u64,
        done: &'static Countdown,
        up: &'static Countdown,
    ) -> Vec<Self::Actor>;
    fn tell(actor: &Self::Actor, value: u64) -> impl Future<Output = ()> + Send;
    fn ask(actor: &Self::Actor, value: u64) -> impl Future<Output = u64> + Send;
    /// Runs client number `n` where this runtime runs tasks.
    fn client<F: Future<Output = ()> + Send + 'static>(&self, n: usize, body: F);
}

pub(crate) fn two_threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime with two threads")
}
