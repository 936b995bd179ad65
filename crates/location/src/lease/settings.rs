//! The four times of an owner lease.

use std::time::Duration;

/// The times of an owner lease, checked against each other (ST-60, RL-297 to RL-300).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    ttl: Duration,
    renew_interval: Duration,
    renew_timeout: Duration,
    fencing_margin: Duration,
}

/// Times with which a host could act although its lease has ended. The host does not start. Recovery: fix the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseSettingError {
    /// One of them is zero.
    #[error("{name} is 0, must be above 0")]
    Zero {
        /// Which.
        name: &'static str,
    },
    /// A renewal that fails once leaves no time for another.
    #[error(
        "max(renew interval, renew timeout) + renew timeout is {needed:?}, must be below ttl - fencing margin, {room:?}"
    )]
    TooTight {
        /// What two attempts take.
        needed: Duration,
        /// What there is.
        room: Duration,
    },
}

impl LeaseSettingError {
    /// Always `FixCall`.
    pub fn recovery(&self) -> spotlane_store::Recovery {
        spotlane_store::Recovery::FixCall
    }
}

impl Default for LeaseSettings {
    /// 15 s, renewed every 5 s, 3 s for each renewal, 5 s margin (ST-60).
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            renew_interval: Duration::from_secs(5),
            renew_timeout: Duration::from_secs(3),
            fencing_margin: Duration::from_secs(5),
        }
    }
}

impl LeaseSettings {
    /// Checks the start-up condition of ST-60 and RL-281.
    ///
    /// # Errors
    /// [`LeaseSettingError`], by recovery `FixCall`.
    pub fn new(
        ttl: Duration,
        renew_interval: Duration,
        renew_timeout: Duration,
        fencing_margin: Duration,
    ) -> Result<Self, LeaseSettingError> {
        for (name, value) in [
            ("owner lease ttl", ttl),
            ("owner lease renew interval", renew_interval),
            ("owner lease renew timeout", renew_timeout),
            ("owner lease fencing margin", fencing_margin),
        ] {
            if value.is_zero() {
                return Err(LeaseSettingError::Zero { name });
            }
        }
        let needed = renew_interval
            .max(renew_timeout)
            .saturating_add(renew_timeout);
        let room = ttl.saturating_sub(fencing_margin);
        if needed >= room {
            return Err(LeaseSettingError::TooTight { needed, room });
        }
        Ok(Self {
            ttl,
            renew_interval,
            renew_timeout,
            fencing_margin,
        })
    }

    /// How long a lease lives after its claim or renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// From the start of one renewal to the start of the next (RL-282).
    pub fn renew_interval(&self) -> Duration {
        self.renew_interval
    }

    /// How long one claim or renewal may take.
    pub fn renew_timeout(&self) -> Duration {
        self.renew_timeout
    }

    /// How much earlier than the store the host thinks that its lease has ended.
    pub fn fencing_margin(&self) -> Duration {
        self.fencing_margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(
        ttl: u64,
        interval: u64,
        timeout: u64,
        margin: u64,
    ) -> Result<LeaseSettings, LeaseSettingError> {
        let [ttl, interval, timeout, margin] =
            [ttl, interval, timeout, margin].map(Duration::from_secs);
        LeaseSettings::new(ttl, interval, timeout, margin)
    }

    /// ST-60, RL-281
    #[test]
    fn the_defaults_pass_their_own_check() {
        assert_eq!(seconds(15, 5, 3, 5), Ok(LeaseSettings::default()));
    }

    /// ST-60, RL-281
    #[test]
    fn equal_is_too_tight() {
        assert!(seconds(14, 5, 3, 5).is_ok());
        assert!(matches!(
            seconds(13, 5, 3, 5),
            Err(LeaseSettingError::TooTight { .. })
        ));
        assert!(matches!(
            seconds(13, 1, 4, 5),
            Err(LeaseSettingError::TooTight { .. })
        ));
        assert!(seconds(14, 1, 4, 5).is_ok());
    }

    /// RL-281
    #[test]
    fn no_time_is_zero() {
        for (ttl, interval, timeout, margin) in
            [(0, 5, 3, 5), (15, 0, 3, 5), (15, 5, 0, 5), (15, 5, 3, 0)]
        {
            assert!(matches!(
                seconds(ttl, interval, timeout, margin),
                Err(LeaseSettingError::Zero { .. })
            ));
        }
    }
}
