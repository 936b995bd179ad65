//! Callbacks of the application that run outside of a lane: a panic of theirs ends them and nothing else.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use crate::handlers::BoxFuture;

/// Runs a callback; `None` when it panicked.
pub(crate) async fn caught<T>(mut callback: BoxFuture<'_, T>) -> Option<T> {
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| callback.as_mut().poll(cx))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}
