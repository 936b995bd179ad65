//! Futures that never wait, such as those of a store in memory without anything in between.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Result, bail};

/// The result of a future that is ready at once.
///
/// # Errors
/// It is not.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Result<T> {
    let future = pin!(future);
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => bail!("a future that should be ready at once waits"),
    }
}
