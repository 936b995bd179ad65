//! The settings of a connector, with the defaults of section 15.

use core::time::Duration;

use thiserror::Error;

use crate::bound::SIZE_DEFAULT;

/// When pings go out, and how long silence may last (ST-173).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    interval: Duration,
    timeout: Duration,
}

impl Heartbeat {
    /// The default: every second, and five seconds of silence.
    pub const DEFAULT: Self = Self {
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(5),
    };

    /// A heartbeat of other times.
    ///
    /// # Errors
    /// The timeout is not larger than the interval, or the interval is zero.
    pub const fn new(interval: Duration, timeout: Duration) -> Result<Self, SettingError> {
        if interval.is_zero() || timeout.as_nanos() <= interval.as_nanos() {
            return Err(SettingError::Heartbeat { interval, timeout });
        }
        Ok(Self { interval, timeout })
    }

    pub(crate) const fn interval(self) -> Duration {
        self.interval
    }

    pub(crate) const fn timeout(self) -> Duration {
        self.timeout
    }
}

/// How a lost connection is made again (ST-163).
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "closed by section 15 of the stream contract"
)]
pub struct Reconnect {
    /// Before the first attempt.
    pub delay: Duration,
    /// The longest wait before one.
    pub delay_max: Duration,
    /// By how much each wait is longer than the one before.
    pub factor: f64,
    /// How many attempts, counted until a connection proved itself.
    pub attempts_max: u32,
}

impl Reconnect {
    /// 250 ms, doubling up to 5 s, three attempts.
    pub const DEFAULT: Self = Self {
        delay: Duration::from_millis(250),
        delay_max: Duration::from_secs(5),
        factor: 2.0,
        attempts_max: 3,
    };

    /// The wait before attempt `number`, counted from 0.
    pub(crate) fn delay_before(&self, number: u32) -> Duration {
        let mut delay = self.delay;
        for _ in 0..number {
            let longer = delay.as_secs_f64() * self.factor;
            if longer >= self.delay_max.as_secs_f64() {
                return self.delay_max;
            }
            // Below a finite bound, and not negative unless the factor is.
            delay = Duration::try_from_secs_f64(longer).unwrap_or(self.delay_max);
        }
        delay.min(self.delay_max)
    }
}

/// Whether calls may ask for compression (ST-121, ST-125).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-121")]
pub enum Compression {
    /// Not agreed on.
    None,
    /// LZ4 blocks.
    #[default]
    Lz4,
}

/// The settings of a connector.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "closed by section 15 of the stream contract"
)]
pub struct ConnectorSettings {
    /// For one attempt, from name resolution to the end of TLS and upgrade (ST-162).
    pub connect_timeout: Duration,
    /// For a request that names no other time.
    pub request_timeout: Duration,
    /// `None` turns it off.
    pub heartbeat: Option<Heartbeat>,
    /// `None` turns it off.
    pub reconnect: Option<Reconnect>,
    /// Of a payload that is sent, after compression (ST-126).
    pub send_payload_max: u32,
    /// Of a payload that is received, and again of its plain form.
    pub receive_payload_max: u32,
    /// What was agreed on.
    pub compression: Compression,
}

impl Default for ConnectorSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            heartbeat: Some(Heartbeat::DEFAULT),
            reconnect: Some(Reconnect::DEFAULT),
            send_payload_max: SIZE_DEFAULT,
            receive_payload_max: SIZE_DEFAULT,
            compression: Compression::Lz4,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingError {
    /// ST-173
    #[error(
        "a heartbeat timeout of {timeout:?} has to be larger than its interval of {interval:?}"
    )]
    Heartbeat {
        /// The interval.
        interval: Duration,
        /// The timeout.
        timeout: Duration,
    },
}
