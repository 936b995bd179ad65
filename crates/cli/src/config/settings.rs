//! The `[settings]` of a file: the host-wide settings of the runtime, each with the line that is wrong.

use std::ops::RangeInclusive;
use std::time::Duration;

use spotlane::Settings;
use spotlane::id::{ApplicationVersion, MaintenanceWave};

use super::section::Section;
use super::show_duration;

/// No duration of a file is longer; each fits into the milliseconds that calls take (EX-266).
const LONGEST: Duration = Duration::from_hours(24);
const POSITIVE: RangeInclusive<Duration> = Duration::from_millis(1)..=LONGEST;
const ANY: RangeInclusive<Duration> = Duration::ZERO..=LONGEST;
/// The largest number of objects or workers.
const COUNT_MAX: u64 = 0x7FFF_FFFF;

/// Takes every key of the section; what is missing has the default of the runtime.
pub(crate) fn read(section: &mut Section<'_, '_>) -> Settings {
    let mut settings = Settings::default();
    read_durations(section, &mut settings);
    read_numbers(section, &mut settings);
    check(section, &settings);
    settings
}

fn read_durations(section: &mut Section<'_, '_>, settings: &mut Settings) {
    macro_rules! durations {
        ($($key:ident: $bounds:expr;)+) => {
            $(settings.$key = section.duration(stringify!($key), settings.$key, $bounds);)+
        };
    }
    durations! {
        relocation_cutover_wait_timeout: POSITIVE;
        relocation_restore_validity: POSITIVE;
        session_relocation_seal_timeout: POSITIVE;
        session_replacement_callback_timeout: POSITIVE;
        message_follow_duration: ANY;
        route_cache_max_age: ANY;
        polling_interval: POSITIVE;
        store_failure_grace: ANY;
        owner_lease_ttl: POSITIVE;
        owner_lease_renew_interval: POSITIVE;
        owner_lease_renew_timeout: POSITIVE;
        owner_lease_fencing_margin: POSITIVE;
        default_request_timeout: POSITIVE;
        send_timeout: POSITIVE;
        relocate_deadline: POSITIVE;
        shutdown_deadline: POSITIVE;
        join_timeout: POSITIVE;
    }
}

fn read_numbers(section: &mut Section<'_, '_>, settings: &mut Settings) {
    macro_rules! numbers {
        ($($read:ident $key:ident: $bounds:expr;)+) => {$(
            let default = u64::try_from(settings.$key).unwrap_or(u64::MAX);
            let value = section.$read(stringify!($key), default, $bounds);
            // The bounds fit, so the default is never taken.
            settings.$key = value.try_into().unwrap_or(settings.$key);
        )+};
    }
    numbers! {
        bytes relocation_payload_chunk_limit: 1..=64 << 20;
        bytes relocation_in_flight_payload_budget: 0..=1 << 40;
        bytes relocation_node_in_flight_payload_budget: 0..=1 << 40;
        number route_cache_capacity: 1..=COUNT_MAX;
        number placement_weight: 0..=10_000;
        number actor_limit: 0..=COUNT_MAX;
        number activation_concurrency: 1..=COUNT_MAX;
    }
    let workers = section.number("workers", 0, 0..=1_024);
    settings.workers = usize::try_from(workers).ok().filter(|workers| *workers > 0);
    let version = section.number("application_version", 0, 0..=u64::MAX >> 1);
    let version = i64::try_from(version)
        .ok()
        .and_then(|version| ApplicationVersion::new(version).ok());
    settings.application_version = version.unwrap_or(settings.application_version);
    settings.maintenance_wave = section.parsed("maintenance_wave", |text| {
        MaintenanceWave::new(text).map_err(|error| error.to_string())
    });
}

/// The rules over several settings. The runtime has them too; here they name a line.
fn check(section: &mut Section<'_, '_>, settings: &Settings) {
    // RL-281: a renewal that fails once can be repeated before the lease is no longer relied on.
    let renewal = settings.owner_lease_renew_timeout;
    let needed = settings.owner_lease_renew_interval.max(renewal) + renewal;
    let usable = settings
        .owner_lease_ttl
        .saturating_sub(settings.owner_lease_fencing_margin);
    if needed >= usable {
        section.complain(
            "owner_lease_ttl",
            format!(
                "less owner_lease_fencing_margin is {}, must be more than {}, the larger of \
                 owner_lease_renew_interval and owner_lease_renew_timeout plus owner_lease_renew_timeout",
                show_duration(usable),
                show_duration(needed)
            ),
        );
        return;
    }
    // RL-318: what was prepared outlives the wait for its cutover.
    let (validity, wait) = (
        settings.relocation_restore_validity,
        settings.relocation_cutover_wait_timeout,
    );
    if validity <= wait {
        section.complain(
            "relocation_restore_validity",
            format!(
                "is {}, must be more than relocation_cutover_wait_timeout, which is {}",
                show_duration(validity),
                show_duration(wait)
            ),
        );
        return;
    }
    // RL-166, and whatever else the runtime asks for.
    if let Err(error) = settings.check() {
        section.complain(error.setting(), error.to_string());
    }
}
