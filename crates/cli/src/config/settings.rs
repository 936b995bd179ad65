//! The host-wide settings of a file and how they depend on each other.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::section::Section;

/// No duration of the file is longer.
const LONGEST: Duration = Duration::from_hours(24);
const POSITIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=LONGEST;
const ANY: RangeInclusive<Duration> = Duration::ZERO..=LONGEST;
/// How much longer a Follow route lives than a cached route (RL-166).
const FOLLOW_MARGIN: Duration = Duration::from_secs(5);

/// Every host-wide setting, with the default of the contract where the file says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSettings {
    /// How long a target waits for the cutover (RL-290).
    pub(crate) relocation_cutover_wait_timeout: Duration,
    /// How long a target keeps what it prepared; longer than the cutover wait (RL-318).
    pub(crate) relocation_restore_validity: Duration,
    /// How long a session keeps its seal (RL-291).
    pub(crate) session_relocation_seal_timeout: Duration,
    /// Bytes of one relocation chunk (RL-292).
    pub(crate) relocation_payload_chunk_limit: u64,
    /// Relocation bytes under way to one peer; 0 is off (RL-293).
    pub(crate) relocation_in_flight_payload_budget: u64,
    /// Relocation bytes under way to all peers; 0 is off (RL-294).
    pub(crate) relocation_node_in_flight_payload_budget: u64,
    /// How long messages follow a moved object; 0 is off (RL-295).
    pub(crate) message_follow_duration: Duration,
    /// How long a looked-up route is used; 0 is off (RL-296).
    pub(crate) route_cache_max_age: Duration,
    /// How often the owner lease is renewed (RL-297).
    pub(crate) owner_lease_renew_interval: Duration,
    /// How long an owner lease lives (RL-298).
    pub(crate) owner_lease_ttl: Duration,
    /// How long one renewal may take (RL-299).
    pub(crate) owner_lease_renew_timeout: Duration,
    /// How long before its end a lease is no longer relied on (RL-300).
    pub(crate) owner_lease_fencing_margin: Duration,
    /// How often the directory is read (RL-301).
    pub(crate) polling_interval: Duration,
    /// How long a store may be away (RL-302).
    pub(crate) store_failure_grace: Duration,
    /// How long a creation or request may take (RL-306).
    pub(crate) default_request_timeout: Duration,
    /// The version that rolling updates compare (RL-307).
    pub(crate) application_version: u64,
    /// Nodes of one wave are no targets for each other (RL-308).
    pub(crate) maintenance_wave: Option<String>,
    /// Actors that may live here; 0 is no limit (RL-313).
    pub(crate) actor_limit: u64,
    /// Activations at once (RL-314).
    pub(crate) activation_concurrency: u64,
    /// How long a replacement callback may take (RL-316).
    pub(crate) session_replacement_callback_timeout: Duration,
}

impl HostSettings {
    /// Takes every key of the section.
    pub(crate) fn read(section: &mut Section<'_, '_>) -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let number_max = u64::from(i32::MAX.unsigned_abs());
        let settings = Self {
            relocation_cutover_wait_timeout: section.duration(
                "relocation_cutover_wait_timeout",
                ms(1_000),
                POSITIVE,
            ),
            relocation_restore_validity: section.duration(
                "relocation_restore_validity",
                s(30),
                POSITIVE,
            ),
            session_relocation_seal_timeout: section.duration(
                "session_relocation_seal_timeout",
                ms(3_000),
                POSITIVE,
            ),
            relocation_payload_chunk_limit: section.bytes(
                "relocation_payload_chunk_limit",
                256 << 10,
                1..=64 << 20,
            ),
            relocation_in_flight_payload_budget: section.bytes(
                "relocation_in_flight_payload_budget",
                16 << 20,
                0..=1 << 40,
            ),
            relocation_node_in_flight_payload_budget: section.bytes(
                "relocation_node_in_flight_payload_budget",
                0,
                0..=1 << 40,
            ),
            message_follow_duration: section.duration("message_follow_duration", s(30), ANY),
            route_cache_max_age: section.duration("route_cache_max_age", s(15), ANY),
            owner_lease_renew_interval: section.duration(
                "owner_lease_renew_interval",
                s(5),
                POSITIVE,
            ),
            owner_lease_ttl: section.duration("owner_lease_ttl", s(15), POSITIVE),
            owner_lease_renew_timeout: section.duration(
                "owner_lease_renew_timeout",
                s(3),
                POSITIVE,
            ),
            owner_lease_fencing_margin: section.duration(
                "owner_lease_fencing_margin",
                s(5),
                POSITIVE,
            ),
            polling_interval: section.duration("polling_interval", s(1), POSITIVE),
            store_failure_grace: section.duration("store_failure_grace", s(30), ANY),
            default_request_timeout: section.duration("default_request_timeout", s(30), POSITIVE),
            application_version: section.number("application_version", 0, 0..=u64::MAX >> 1),
            maintenance_wave: section.parsed("maintenance_wave", wave),
            actor_limit: section.number("actor_limit", 0, 0..=number_max),
            activation_concurrency: section.number("activation_concurrency", 128, 1..=number_max),
            session_replacement_callback_timeout: section.duration(
                "session_replacement_callback_timeout",
                s(30),
                POSITIVE,
            ),
        };
        settings.check(section);
        settings
    }

    /// The rules over several settings.
    fn check(&self, section: &mut Section<'_, '_>) {
        // RL-281: a renewal that fails once can be repeated before the lease is no longer relied on.
        let needed = self
            .owner_lease_renew_interval
            .max(self.owner_lease_renew_timeout)
            + self.owner_lease_renew_timeout;
        let usable = self
            .owner_lease_ttl
            .saturating_sub(self.owner_lease_fencing_margin);
        if needed >= usable {
            let (needed, usable) = (super::show_duration(needed), super::show_duration(usable));
            section.complain(
                "owner_lease_ttl",
                format!(
                    "less owner_lease_fencing_margin is {usable}, must be more than {needed}, the larger of \
                     owner_lease_renew_interval and owner_lease_renew_timeout plus owner_lease_renew_timeout"
                ),
            );
        }
        // RL-318: what was prepared outlives the wait for its cutover.
        if self.relocation_restore_validity <= self.relocation_cutover_wait_timeout {
            section.complain(
                "relocation_restore_validity",
                format!(
                    "is {}, must be more than relocation_cutover_wait_timeout, which is {}",
                    super::show_duration(self.relocation_restore_validity),
                    super::show_duration(self.relocation_cutover_wait_timeout)
                ),
            );
        }
        // RL-166: nobody may use a route after its Follow route has ended.
        let (cached, follow) = (self.route_cache_max_age, self.message_follow_duration);
        if !cached.is_zero() && !follow.is_zero() && cached + FOLLOW_MARGIN > follow {
            section.complain(
                "route_cache_max_age",
                format!(
                    "plus 5s is {}, must not be more than message_follow_duration, which is {}",
                    super::show_duration(cached + FOLLOW_MARGIN),
                    super::show_duration(follow)
                ),
            );
        }
    }
}

fn wave(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 255 || text.contains('\0') {
        return Err(format!(
            "has {} bytes, must have 1 to 255 and no NUL",
            text.len()
        ));
    }
    Ok(text.to_owned())
}
