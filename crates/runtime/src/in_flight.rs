//! A count of what is going on, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many of something are going on.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    settled: Notify,
}

/// One of them; dropped at its end.
#[derive(Debug)]
pub(crate) struct One(Arc<InFlight>);

impl InFlight {
    pub(crate) fn begin(self: &Arc<Self>) -> One {
        self.count.fetch_add(1, Ordering::SeqCst);
        One(Arc::clone(self))
    }

    /// Waits until none is going on.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            settled.await;
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.settled.notify_waiters();
        }
    }
}
