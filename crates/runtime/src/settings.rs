//! All settings of a host, with their defaults, checked together before the first socket is bound (RL section 13).

use std::time::Duration;

use spotlane_lane::{JobQueueProfile, JobQueueSettings, LaneLimits};
use spotlane_location::cache::RouteCacheSettings;
use spotlane_location::lease::LeaseSettings;
use spotlane_location::record::WeightSetting;
use spotlane_relocation::settings::RelocationSettings;
use spotlane_types::count::ApplicationVersion;
use spotlane_types::id::MaintenanceWave;

/// How many jobs may wait for a handler on one host (EX-133).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-133")]
pub enum JobLimit {
    /// So many per processor.
    PerProcessor(JobQueueProfile),
    /// So many.
    Manual(u64),
}

/// The settings of one host. [`Settings::default`] is the contract's; change what must be different.
///
/// ```
/// use std::time::Duration;
/// use spotlane_runtime::Settings;
///
/// let mut settings = Settings::default();
/// settings.default_request_timeout = Duration::from_secs(5);
/// assert!(settings.check().is_ok());
/// settings.relocation_cutover_wait_timeout = Duration::ZERO;
/// let error = settings.check().unwrap_err();
/// assert_eq!(error.to_string(), "relocation_cutover_wait_timeout is 0ns, must be above 0");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long a target waits for the cutover after its ready reply (RL-290). 1 s.
    pub relocation_cutover_wait_timeout: Duration,
    /// How long a sealed session waits for its new route (RL-291). 3 s.
    pub session_relocation_seal_timeout: Duration,
    /// How long the replaced callback of a session may take (RL-316). 30 s.
    pub session_replacement_callback_timeout: Duration,
    /// The encoded size of one chunk of a moving state (RL-292). 256 KiB.
    pub relocation_payload_chunk_limit: usize,
    /// Bytes of moving state in flight on one connection; 0 is off (RL-293). 16 MiB.
    pub relocation_in_flight_payload_budget: u64,
    /// Bytes of moving state in flight on this node; 0 is off (RL-294). 0.
    pub relocation_node_in_flight_payload_budget: u64,
    /// How long a former owner forwards; 0 is off (RL-295). 30 s.
    pub message_follow_duration: Duration,
    /// How long a found route is believed; 0 is off (RL-296). 15 s.
    pub route_cache_max_age: Duration,
    /// How many routes are kept; the oldest makes room. 65,536.
    pub route_cache_capacity: usize,
    /// From one renewal of the owner lease to the next (RL-297). 5 s.
    pub owner_lease_renew_interval: Duration,
    /// How long the owner lease lives without renewal (RL-298). 15 s.
    pub owner_lease_ttl: Duration,
    /// How long one renewal may take (RL-299). 3 s.
    pub owner_lease_renew_timeout: Duration,
    /// How much earlier than the store this host thinks that its lease has ended (RL-300). 5 s.
    pub owner_lease_fencing_margin: Duration,
    /// How often descriptors of other nodes are read (RL-301). 1 s.
    pub polling_interval: Duration,
    /// How long the last node list is kept while the store does not answer (RL-302). 30 s.
    pub store_failure_grace: Duration,
    /// How long a move may take when the call does not say (RL-303). 30 s.
    pub relocate_deadline: Duration,
    /// How long a shutdown may take when the call does not say (RL-304). 30 s.
    pub shutdown_deadline: Duration,
    /// How long a join may take when the call does not say (RL-305). 5 s.
    pub join_timeout: Duration,
    /// How long creations and requests may take when the call does not say (RL-306). 30 s.
    pub default_request_timeout: Duration,
    /// How long a one-way message may wait for room (EX-266). 1 s.
    pub send_timeout: Duration,
    /// The version of the application on this host (RL-307). 0.
    pub application_version: ApplicationVersion,
    /// Nodes of one wave are no targets of each other (RL-308). None.
    pub maintenance_wave: Option<MaintenanceWave>,
    /// The share of new objects that this node takes, 0 to 10,000 (RL-312). 100.
    pub placement_weight: u32,
    /// How many Actors this node takes; 0 is no limit (RL-313). 0.
    pub actor_limit: u32,
    /// How many activations run at a time (RL-314). 128.
    pub activation_concurrency: u32,
    /// How long a move may take at its target (RL-318). 30 s.
    pub relocation_restore_validity: Duration,
    /// How many jobs may wait for a handler (EX-133). 128 per processor.
    pub job_limit: JobLimit,
    /// What each lane may hold (EX-90 to EX-92).
    pub lane_limits: LaneLimits,
    /// How many workers run handlers; `None` is one per processor.
    pub workers: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            relocation_cutover_wait_timeout: seconds(1),
            session_relocation_seal_timeout: seconds(3),
            session_replacement_callback_timeout: seconds(30),
            relocation_payload_chunk_limit: 256 * 1024,
            relocation_in_flight_payload_budget: 16 * 1024 * 1024,
            relocation_node_in_flight_payload_budget: 0,
            message_follow_duration: seconds(30),
            route_cache_max_age: seconds(15),
            route_cache_capacity: 65_536,
            owner_lease_renew_interval: seconds(5),
            owner_lease_ttl: seconds(15),
            owner_lease_renew_timeout: seconds(3),
            owner_lease_fencing_margin: seconds(5),
            polling_interval: seconds(1),
            store_failure_grace: seconds(30),
            relocate_deadline: seconds(30),
            shutdown_deadline: seconds(30),
            join_timeout: seconds(5),
            default_request_timeout: seconds(30),
            send_timeout: seconds(1),
            application_version: ApplicationVersion::MIN,
            maintenance_wave: None,
            placement_weight: 100,
            actor_limit: 0,
            activation_concurrency: 128,
            relocation_restore_validity: seconds(30),
            job_limit: JobLimit::PerProcessor(JobQueueProfile::Balanced),
            lane_limits: LaneLimits::DEFAULT,
            workers: None,
        }
    }
}

/// Settings that contradict the contract or each other. The host does not start; the text names setting, value and bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value}, must be {bound}")]
pub struct SettingsError {
    setting: &'static str,
    value: String,
    bound: String,
}

impl SettingsError {
    fn new(setting: &'static str, value: impl ToString, bound: impl Into<String>) -> Self {
        Self {
            setting,
            value: value.to_string(),
            bound: bound.into(),
        }
    }

    /// The name of the setting.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

/// The largest chunk that a receiver may advertise (WR-57).
const CHUNK_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest finite wait of a send (EX-266).
const MILLIS_MAX: u128 = 0x7FFF_FFFF;

/// Settings that have passed, in the forms that their users take.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) lease: LeaseSettings,
    pub(crate) routes: RouteCacheSettings,
    pub(crate) jobs: JobQueueSettings,
    pub(crate) weight: WeightSetting,
    pub(crate) workers: std::num::NonZeroUsize,
    pub(crate) relocation: RelocationSettings,
    pub(crate) all: Settings,
}

impl Settings {
    /// Checks everything that a start checks.
    ///
    /// # Errors
    /// The first setting that is outside its range.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.checked().map(drop)
    }

    pub(crate) fn checked(&self) -> Result<Checked, SettingsError> {
        self.check_durations()?;
        let chunk = self.relocation_payload_chunk_limit;
        if chunk == 0 || chunk > CHUNK_BYTES_MAX {
            let bound = format!("1 to {CHUNK_BYTES_MAX}");
            return Err(SettingsError::new(
                "relocation_payload_chunk_limit",
                chunk,
                bound,
            ));
        }
        if self.relocation_restore_validity <= self.relocation_cutover_wait_timeout {
            return Err(SettingsError::new(
                "relocation_restore_validity",
                format!("{:?}", self.relocation_restore_validity),
                "above relocation_cutover_wait_timeout",
            ));
        }
        if self.activation_concurrency == 0 {
            return Err(SettingsError::new("activation_concurrency", 0, "1 or more"));
        }
        if self.actor_limit > 0x7FFF_FFFF {
            let bound = "0 to 2147483647";
            return Err(SettingsError::new("actor_limit", self.actor_limit, bound));
        }
        let lease = LeaseSettings::new(
            self.owner_lease_ttl,
            self.owner_lease_renew_interval,
            self.owner_lease_renew_timeout,
            self.owner_lease_fencing_margin,
        )
        .map_err(|error| {
            SettingsError::new("owner_lease_*", "not consistent", error.to_string())
        })?;
        let routes =
            RouteCacheSettings::new(self.route_cache_max_age, self.message_follow_duration)
                .map_err(|error| {
                    SettingsError::new("route_cache_max_age", "too long", error.to_string())
                })?;
        let weight = WeightSetting::new(self.placement_weight).ok_or_else(|| {
            SettingsError::new("placement_weight", self.placement_weight, "0 to 10000")
        })?;
        let processors =
            std::thread::available_parallelism().unwrap_or(std::num::NonZero::<usize>::MIN);
        let workers = match self.workers {
            None => processors,
            Some(workers) => std::num::NonZeroUsize::new(workers)
                .ok_or_else(|| SettingsError::new("workers", 0, "1 or more"))?,
        };
        let jobs = self.job_settings(processors)?;
        let relocation = crate::relocation::settings_of(self)
            .map_err(|error| SettingsError::new("relocation_*", "not consistent", error))?;
        let all = self.clone();
        Ok(Checked {
            lease,
            routes,
            jobs,
            weight,
            workers,
            relocation,
            all,
        })
    }

    fn job_settings(
        &self,
        processors: std::num::NonZeroUsize,
    ) -> Result<JobQueueSettings, SettingsError> {
        let made = match self.job_limit {
            JobLimit::Manual(jobs) => JobQueueSettings::manual(jobs),
            JobLimit::PerProcessor(profile) => {
                let processors = std::num::NonZeroU32::try_from(processors);
                let processors = processors.unwrap_or(std::num::NonZeroU32::MAX);
                JobQueueSettings::profile(profile, processors)
            }
        };
        made.map_err(|error| SettingsError::new("job_limit", "out of range", error.to_string()))
    }

    fn check_durations(&self) -> Result<(), SettingsError> {
        for (setting, value) in [
            (
                "relocation_cutover_wait_timeout",
                self.relocation_cutover_wait_timeout,
            ),
            (
                "session_relocation_seal_timeout",
                self.session_relocation_seal_timeout,
            ),
            (
                "session_replacement_callback_timeout",
                self.session_replacement_callback_timeout,
            ),
            ("polling_interval", self.polling_interval),
            ("relocate_deadline", self.relocate_deadline),
            ("shutdown_deadline", self.shutdown_deadline),
            ("join_timeout", self.join_timeout),
            ("default_request_timeout", self.default_request_timeout),
            ("send_timeout", self.send_timeout),
        ] {
            if value.is_zero() {
                return Err(SettingsError::new(setting, format!("{value:?}"), "above 0"));
            }
        }
        for (setting, value) in [
            ("join_timeout", self.join_timeout),
            ("send_timeout", self.send_timeout),
        ] {
            if value.as_millis() > MILLIS_MAX {
                let bound = "at most 2147483647ms";
                return Err(SettingsError::new(setting, format!("{value:?}"), bound));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Settings)) -> &'static str {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.check().unwrap_err().setting()
    }

    /// RL-290, RL-291, RL-292, RL-293, RL-294, RL-295, RL-296, RL-297, RL-298, RL-299, RL-300, RL-301, RL-302, RL-303,
    /// RL-304, RL-305, RL-306, RL-307, RL-308, RL-312, RL-313, RL-314, RL-318
    #[test]
    fn the_defaults_are_those_of_the_contract_and_pass() {
        let settings = Settings::default();
        settings.check().unwrap();
        assert_eq!(settings.relocation_cutover_wait_timeout.as_millis(), 1_000);
        assert_eq!(settings.session_relocation_seal_timeout.as_millis(), 3_000);
        assert_eq!(settings.relocation_payload_chunk_limit, 262_144);
        assert_eq!(settings.relocation_in_flight_payload_budget, 16_777_216);
        assert_eq!(settings.relocation_node_in_flight_payload_budget, 0);
        assert_eq!(settings.message_follow_duration.as_secs(), 30);
        assert_eq!(settings.route_cache_max_age.as_secs(), 15);
        assert_eq!(settings.polling_interval.as_secs(), 1);
        assert_eq!(settings.store_failure_grace.as_secs(), 30);
        assert_eq!(settings.join_timeout.as_secs(), 5);
        assert_eq!(settings.default_request_timeout.as_secs(), 30);
        assert_eq!(settings.placement_weight, 100);
        assert_eq!(settings.activation_concurrency, 128);
        assert_eq!(settings.relocation_restore_validity.as_secs(), 30);
    }

    /// RL-290, RL-292, RL-301, RL-312, RL-313, RL-314, RL-318, RL-281, RL-166, EX-133, EX-266
    #[test]
    fn what_is_out_of_range_is_named() {
        let zero = Duration::ZERO;
        let long = Duration::from_hours(1000);
        assert_eq!(
            refused(|s| s.relocation_cutover_wait_timeout = zero),
            "relocation_cutover_wait_timeout"
        );
        assert_eq!(
            refused(|s| s.relocation_payload_chunk_limit = 0),
            "relocation_payload_chunk_limit"
        );
        assert_eq!(refused(|s| s.polling_interval = zero), "polling_interval");
        assert_eq!(refused(|s| s.placement_weight = 10_001), "placement_weight");
        assert_eq!(refused(|s| s.actor_limit = u32::MAX), "actor_limit");
        assert_eq!(
            refused(|s| s.activation_concurrency = 0),
            "activation_concurrency"
        );
        assert_eq!(refused(|s| s.send_timeout = long), "send_timeout");
        assert_eq!(refused(|s| s.job_limit = JobLimit::Manual(0)), "job_limit");
        assert_eq!(
            refused(|s| s.relocation_restore_validity = Duration::from_secs(1)),
            "relocation_restore_validity"
        );
        assert_eq!(
            refused(|s| s.owner_lease_ttl = Duration::from_secs(13)),
            "owner_lease_*"
        );
        assert_eq!(
            refused(|s| s.message_follow_duration = Duration::from_secs(16)),
            "route_cache_max_age"
        );
    }

    /// RL-293, RL-295, RL-296
    #[test]
    fn zero_switches_off_what_may_be_off() {
        let mut settings = Settings {
            relocation_in_flight_payload_budget: 0,
            message_follow_duration: Duration::ZERO,
            route_cache_max_age: Duration::from_mins(10),
            ..Settings::default()
        };
        settings.check().unwrap();
        settings.route_cache_max_age = Duration::ZERO;
        settings.check().unwrap();
    }
}
