//! Every time and size of a move by name (RL-290 to RL-295, RL-318).
//!
//! No setting limits how many units, records or bytes move (RL-317), and none may be added: the lane of
//! a relocation is paced by the budget alone.

use core::num::NonZeroU32;
use core::time::Duration;

use spotlane_types::bound::RELOCATION_CHUNK_BYTES;
use thiserror::Error;

/// The chunk size where no reply advertised a limit (RL-132).
pub const CONSERVATIVE_CHUNK_BYTES: u32 = 32 * 1024;
/// How long a prepared target waits for the command that uses it (RL-361).
pub const PREWARM_VALIDITY: Duration = Duration::from_secs(5);
/// From the admission seal to the end of the cutover submit: longer is a warning (RL-325).
pub const INTERRUPTION_TARGET: Duration = Duration::from_secs(1);
/// The age of a route cache entry and what must be left of a follow route beyond it (RL-166).
pub const FOLLOW_BEYOND_CACHE: Duration = Duration::from_secs(5);
/// The first wait between two reads of the Location Store, doubled up to the polling interval. Ours.
pub const READ_WAIT_MIN: Duration = Duration::from_millis(5);

/// What a host is configured with, checked.
///
/// ```
/// use core::time::Duration;
/// use spotlane_relocation::settings::RelocationSettings;
///
/// let settings = RelocationSettings::builder()
///     .cutover_wait(Duration::from_millis(200))
///     .in_flight_budget(0)
///     .build()?;
/// assert_eq!(settings.cutover_wait(), Duration::from_millis(200));
/// # Ok::<(), spotlane_relocation::settings::SettingsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelocationSettings {
    cutover_wait: Duration,
    seal_timeout: Duration,
    chunk_limit: NonZeroU32,
    in_flight_budget: u64,
    node_in_flight_budget: u64,
    follow_duration: Duration,
    restore_validity: Duration,
    polling_interval: Duration,
}

/// Collects settings; what is not given has the contract's default.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct SettingsBuilder {
    cutover_wait: Duration,
    seal_timeout: Duration,
    chunk_limit: u32,
    in_flight_budget: u64,
    node_in_flight_budget: u64,
    follow_duration: Duration,
    restore_validity: Duration,
    polling_interval: Duration,
}

/// A setting that no host starts with: a mistake of whoever configured it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A duration of zero where the contract wants one.
    #[error("{setting} is 0; set a duration above 0")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A size outside its bounds.
    #[error("{setting} is {value}; set 1 to {max} bytes")]
    Size {
        /// The setting.
        setting: &'static str,
        /// What was given.
        value: u32,
        /// The greatest size.
        max: u32,
    },
    /// The validity of a restore has to leave room for the cutover wait (RL-318).
    #[error(
        "RelocationRestoreValidity is {validity:?}; set more than \
         RelocationCutoverWaitTimeout, which is {cutover_wait:?}"
    )]
    Validity {
        /// The validity.
        validity: Duration,
        /// The cutover wait.
        cutover_wait: Duration,
    },
    /// A cached route would outlive the follow route that catches its mistakes (RL-166).
    #[error(
        "RouteCacheMaxAge is {max_age:?}; set at least 5 s less than MessageFollowDuration, which \
         is {follow:?}, or 0"
    )]
    RouteCache {
        /// The age.
        max_age: Duration,
        /// The follow duration.
        follow: Duration,
    },
}

impl Default for SettingsBuilder {
    fn default() -> Self {
        Self {
            cutover_wait: Duration::from_secs(1),
            seal_timeout: Duration::from_secs(3),
            chunk_limit: 256 * 1024,
            in_flight_budget: 16 * 1024 * 1024,
            node_in_flight_budget: 0,
            follow_duration: Duration::from_secs(30),
            restore_validity: Duration::from_secs(30),
            polling_interval: Duration::from_secs(1),
        }
    }
}

impl SettingsBuilder {
    /// `RelocationCutoverWaitTimeout` (RL-290): default 1,000 ms, above 0.
    pub const fn cutover_wait(mut self, wait: Duration) -> Self {
        self.cutover_wait = wait;
        self
    }

    /// `SessionRelocationSealTimeout` (RL-291): default 3,000 ms, above 0.
    pub const fn seal_timeout(mut self, timeout: Duration) -> Self {
        self.seal_timeout = timeout;
        self
    }

    /// `RelocationPayloadChunkLimit` (RL-292) in bytes: default 256 KiB, 1 byte to 64 MiB.
    pub const fn chunk_limit(mut self, bytes: u32) -> Self {
        self.chunk_limit = bytes;
        self
    }

    /// `RelocationInFlightPayloadBudget` (RL-293) in bytes: default 16 MiB, 0 is off.
    pub const fn in_flight_budget(mut self, bytes: u64) -> Self {
        self.in_flight_budget = bytes;
        self
    }

    /// `RelocationNodeInFlightPayloadBudget` (RL-294) in bytes: default 0, which is off.
    pub const fn node_in_flight_budget(mut self, bytes: u64) -> Self {
        self.node_in_flight_budget = bytes;
        self
    }

    /// `MessageFollowDuration` (RL-295): default 30 s, 0 is off.
    pub const fn follow_duration(mut self, duration: Duration) -> Self {
        self.follow_duration = duration;
        self
    }

    /// `RelocationRestoreValidity` (RL-318): default 30 s, above the cutover wait.
    pub const fn restore_validity(mut self, validity: Duration) -> Self {
        self.restore_validity = validity;
        self
    }

    /// `PollingInterval` (RL-301): default 1 s, above 0. One sweep of reconciliation (RL-241).
    pub const fn polling_interval(mut self, interval: Duration) -> Self {
        self.polling_interval = interval;
        self
    }

    /// Checks all settings together.
    ///
    /// # Errors
    /// A setting is outside its range; the error says which and what to set.
    pub fn build(self) -> Result<RelocationSettings, SettingsError> {
        for (setting, duration) in [
            ("RelocationCutoverWaitTimeout", self.cutover_wait),
            ("SessionRelocationSealTimeout", self.seal_timeout),
            ("PollingInterval", self.polling_interval),
        ] {
            if duration.is_zero() {
                return Err(SettingsError::Zero { setting });
            }
        }
        let chunk_limit = NonZeroU32::new(self.chunk_limit)
            .filter(|bytes| bytes.get() <= RELOCATION_CHUNK_BYTES)
            .ok_or(SettingsError::Size {
                setting: "RelocationPayloadChunkLimit",
                value: self.chunk_limit,
                max: RELOCATION_CHUNK_BYTES,
            })?;
        if self.restore_validity <= self.cutover_wait {
            return Err(SettingsError::Validity {
                validity: self.restore_validity,
                cutover_wait: self.cutover_wait,
            });
        }
        Ok(RelocationSettings {
            cutover_wait: self.cutover_wait,
            seal_timeout: self.seal_timeout,
            chunk_limit,
            in_flight_budget: self.in_flight_budget,
            node_in_flight_budget: self.node_in_flight_budget,
            follow_duration: self.follow_duration,
            restore_validity: self.restore_validity,
            polling_interval: self.polling_interval,
        })
    }
}

impl Default for RelocationSettings {
    fn default() -> Self {
        let given = SettingsBuilder::default();
        Self {
            cutover_wait: given.cutover_wait,
            seal_timeout: given.seal_timeout,
            chunk_limit: NonZeroU32::new(given.chunk_limit).unwrap_or(NonZeroU32::MIN),
            in_flight_budget: given.in_flight_budget,
            node_in_flight_budget: given.node_in_flight_budget,
            follow_duration: given.follow_duration,
            restore_validity: given.restore_validity,
            polling_interval: given.polling_interval,
        }
    }
}

impl RelocationSettings {
    /// Begins with the defaults of the contract.
    pub fn builder() -> SettingsBuilder {
        SettingsBuilder::default()
    }

    /// The wait for the cutover, and the retransmission window of the source (RL-134).
    pub const fn cutover_wait(&self) -> Duration {
        self.cutover_wait
    }

    /// How long a source waits for seals, and a session owner for the route update.
    pub const fn seal_timeout(&self) -> Duration {
        self.seal_timeout
    }

    /// The largest chunk that this node sends and takes, in bytes.
    pub const fn chunk_limit(&self) -> NonZeroU32 {
        self.chunk_limit
    }

    /// Bytes of chunks in flight to one peer; `None` when the budget is off.
    pub const fn in_flight_budget(&self) -> Option<u64> {
        match self.in_flight_budget {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// Bytes of chunks in flight to all peers; `None` when the budget is off.
    pub const fn node_in_flight_budget(&self) -> Option<u64> {
        match self.node_in_flight_budget {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// How long the previous owner forwards what comes to it.
    pub const fn follow_duration(&self) -> Duration {
        self.follow_duration
    }

    /// How long a target may take from the first command to the commit.
    pub const fn restore_validity(&self) -> Duration {
        self.restore_validity
    }

    /// One sweep.
    pub const fn polling_interval(&self) -> Duration {
        self.polling_interval
    }

    /// Whether routes may be cached for `max_age` beside these settings (RL-166).
    ///
    /// # Errors
    /// Both durations are positive and the follow duration is not 5 s longer.
    pub fn check_route_cache(&self, max_age: Duration) -> Result<(), SettingsError> {
        let follow = self.follow_duration;
        if max_age.is_zero() || follow.is_zero() {
            return Ok(());
        }
        if max_age.saturating_add(FOLLOW_BEYOND_CACHE) > follow {
            return Err(SettingsError::RouteCache { max_age, follow });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-290, RL-291, RL-292, RL-293, RL-294, RL-295, RL-318
    #[test]
    fn the_defaults_are_the_contracts() {
        let built = RelocationSettings::builder().build().unwrap();
        assert_eq!(built, RelocationSettings::default());
        assert_eq!(built.cutover_wait(), Duration::from_secs(1));
        assert_eq!(built.seal_timeout(), Duration::from_secs(3));
        assert_eq!(built.chunk_limit().get(), 262_144);
        assert_eq!(built.in_flight_budget(), Some(16_777_216));
        assert_eq!(built.node_in_flight_budget(), None);
        assert_eq!(built.follow_duration(), Duration::from_secs(30));
        assert_eq!(built.restore_validity(), Duration::from_secs(30));
        assert_eq!(built.polling_interval(), Duration::from_secs(1));
    }

    /// RL-290, RL-291, RL-292, RL-318
    #[test]
    fn a_setting_outside_its_range_is_refused_and_says_what_to_set() {
        let base = RelocationSettings::builder;
        let errors = [
            base().cutover_wait(Duration::ZERO).build(),
            base().seal_timeout(Duration::ZERO).build(),
            base().polling_interval(Duration::ZERO).build(),
            base().chunk_limit(0).build(),
            base().chunk_limit(RELOCATION_CHUNK_BYTES + 1).build(),
            base().restore_validity(Duration::from_secs(1)).build(),
        ];
        let texts: Vec<String> = errors
            .into_iter()
            .map(|result| result.unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(texts.join("\n"), @r"
        RelocationCutoverWaitTimeout is 0; set a duration above 0
        SessionRelocationSealTimeout is 0; set a duration above 0
        PollingInterval is 0; set a duration above 0
        RelocationPayloadChunkLimit is 0; set 1 to 67108864 bytes
        RelocationPayloadChunkLimit is 67108865; set 1 to 67108864 bytes
        RelocationRestoreValidity is 1s; set more than RelocationCutoverWaitTimeout, which is 1s
        ");
    }

    /// RL-166
    #[test]
    fn a_cached_route_ends_five_seconds_before_the_follow_route() {
        let settings = RelocationSettings::default();
        assert!(settings.check_route_cache(Duration::from_secs(25)).is_ok());
        assert!(settings.check_route_cache(Duration::from_secs(26)).is_err());
        assert!(settings.check_route_cache(Duration::ZERO).is_ok());
        let off = RelocationSettings::builder().follow_duration(Duration::ZERO);
        let off = off.build().unwrap();
        assert!(off.check_route_cache(Duration::from_mins(1)).is_ok());
    }
}
