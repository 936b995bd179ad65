//! The stores of `spotlane-store` in memory, for tests and for hosts that share one process, and the faults that tests
//! put around any provider.
//!
//! Layer 2. Time is injected, nothing is written anywhere, and nothing survives the process.
//!
//! ```
//! use spotlane_store::{Mutation, StoreKey, StoreProvider, StoreTime, WriteRequest};
//! use spotlane_store_memory::{ManualClock, MemoryStore};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = MemoryStore::new(ManualClock::new(StoreTime::from_unix_millis(1)));
//! let key = StoreKey::new("room")?;
//! let put = Mutation::put(key.clone(), &b"here"[..], None)?;
//! let applied = store.write(WriteRequest::new(vec![], vec![put])?).await?;
//! assert!(applied.applied().is_some());
//! assert!(store.read(&key).await?.found().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod fault;
mod relocation;
mod store;

pub use clock::{ManualClock, StoreClock};
pub use fault::{FAULTS_QUEUED_MAX, Fault, FaultControl, FaultStore};
pub use relocation::MemoryRelocation;
pub use store::{MemoryStore, SNAPSHOT_IDLE_MAX, SNAPSHOTS_MAX};
