//! The tasks of a host: owned in one place, ended in one place.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Tasks that end with their host.
#[derive(Debug)]
pub(crate) struct Tasks {
    runtime: Handle,
    /// A leaf lock; nothing is awaited under it. What bounds the set: loops of the host, creations in progress (RL-314),
    /// and calls that wait for something with a deadline.
    set: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            set: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Runs a task until it ends or the host does. After the end of the host it is dropped at once.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = set.as_mut() {
            while set.try_join_next().is_some() {}
            set.spawn_on(task, &self.runtime);
        }
    }

    /// Gives back the memory of tasks that have ended, which a host that starts no more would keep.
    pub(crate) fn reap(&self) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = set.as_mut() {
            while set.try_join_next().is_some() {}
        }
    }

    /// Runs a task that outlives the others: the one that ends them.
    pub(crate) fn spawn_apart(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    /// Ends all tasks and waits for them.
    pub(crate) async fn end(&self) {
        let set = self
            .set
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut set) = set {
            set.shutdown().await;
        }
    }
}
