//! The exported suite of ST-40: one call proves a provider, ours or a third party's, against every rule of the SPI.
//!
//! Test layer. A provider is put under test as a [`Subject`] (or a [`RelocationSubject`]); [`check_store`] and
//! [`check_relocation`] run all checks and return every promise that was broken, with the id of its rule. The suite
//! never sleeps in place of an event, and what it writes stands under names of its own.
//!
//! ```
//! use spotlane_store_conformance::{MemorySubject, check_store};
//! use spotlane_store_memory::{ManualClock, MemoryStore};
//! # use spotlane_store::StoreTime;
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let clock = ManualClock::new(StoreTime::from_unix_millis(1_000));
//! let store = MemoryStore::new(clock.clone());
//! let subject = MemorySubject::new(store, move |by| clock.advance(by));
//! check_store(&subject).await?;
//! # Ok::<(), spotlane_store_conformance::Violations>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checks;
mod proxy;
mod report;
mod subject;

pub use checks::{check_relocation, check_store};
pub use proxy::{CUTS_QUEUED_MAX, Cut, CuttingProxy};
pub use report::{Violation, Violations};
pub use subject::{LossyNetwork, MemorySubject, RelocationSubject, Restarted, Subject};
