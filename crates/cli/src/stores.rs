//! Opens the stores that a URL names and gives them to a host.

use std::time::Duration;

use spotlane::memory::{MemoryRelocation, MemoryStore};
use spotlane::redis::{OpenError, RedisOptions, RedisRelocation, RedisStore};
use spotlane::{HostBuilder, store_time};

/// The stores of the hosts of one mesh. Clones are the same stores.
#[derive(Clone, Debug)]
pub(crate) enum Stores {
    /// In the memory of this process.
    Memory(MemoryStore, MemoryRelocation),
    /// On Redis or Valkey.
    Redis(RedisStore, RedisRelocation),
}

impl Stores {
    /// Opens what the URL names; `memory` is a name too.
    ///
    /// # Errors
    /// The URL, the prefix or the timeout is not legal. Whether a server answers shows later.
    pub(crate) fn open(url: &str, key_prefix: &str, timeout: Duration) -> Result<Self, OpenError> {
        if url == "memory" {
            return Ok(Self::Memory(
                MemoryStore::new(store_time),
                MemoryRelocation::new(store_time),
            ));
        }
        let options = RedisOptions::new(url, key_prefix).operation_timeout(timeout);
        Ok(Self::Redis(
            RedisStore::open(&options)?,
            RedisRelocation::open(&options)?,
        ))
    }

    /// Gives them to a host.
    pub(crate) fn give(&self, host: HostBuilder) -> HostBuilder {
        match self.clone() {
            Self::Memory(location, relocation) => {
                host.location_store(location).relocation_store(relocation)
            }
            Self::Redis(location, relocation) => {
                host.location_store(location).relocation_store(relocation)
            }
        }
    }

    /// What they are; never the URL, which may hold a password.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory(..) => "memory",
            Self::Redis(..) => "redis",
        }
    }
}
