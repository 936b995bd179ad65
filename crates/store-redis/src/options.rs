//! What a deployment chooses: the connection, the key prefix and the operation timeout, no more (ST-30).

use std::fmt;
use std::time::Duration;

/// Longest key prefix in bytes.
pub const KEY_PREFIX_BYTES_MAX: usize = 128;
/// The timeout of one operation unless it is set: the renew timeout of an owner lease (ST-60).
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(3);
/// The shortest operation timeout.
pub const OPERATION_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// The longest operation timeout.
pub const OPERATION_TIMEOUT_MAX: Duration = Duration::from_mins(5);

/// The options of a store on Redis or Valkey (ST-30).
///
/// The URL says everything about the connection:
///
/// | form | server |
/// |---|---|
/// | `redis://user:password@host:6379/0` | standalone; user, password and database may be absent |
/// | `redis-cluster://host:7000?node=host:7001` | Cluster |
/// | `redis-sentinel://host:26379?node=host:26380&sentinelServiceName=main` | Sentinel |
/// | `rediss://…`, `rediss-cluster://…`, `rediss-sentinel://…` | the same with TLS |
/// | `valkey://…`, `valkeys://…` and so on | the same words for Valkey |
///
/// With TLS, `tls-ca=/path/to/ca.pem` in the query trusts that certificate authority instead of the system's.
/// Characters of user and password that mean something in a URL are percent-encoded.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    url: String,
    key_prefix: String,
    operation_timeout: Duration,
}

impl RedisOptions {
    /// Options with the default timeout; checked when the store is opened.
    pub fn new(url: impl Into<String>, key_prefix: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key_prefix: key_prefix.into(),
            operation_timeout: OPERATION_TIMEOUT,
        }
    }

    /// How long one read, write or page may take in all, waiting for a connection included. Default
    /// [`OPERATION_TIMEOUT`].
    #[must_use]
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.key_prefix
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.operation_timeout
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bytes = self.key_prefix.len();
        if bytes == 0 || bytes > KEY_PREFIX_BYTES_MAX {
            return Err(OpenError::PrefixLength { bytes });
        }
        // ST-31: a brace of the prefix would be the hash tag instead of ours and spread the domain over many slots.
        if self.key_prefix.contains(['{', '}']) {
            return Err(OpenError::PrefixBrace);
        }
        let timeout = self.operation_timeout;
        if !(OPERATION_TIMEOUT_MIN..=OPERATION_TIMEOUT_MAX).contains(&timeout) {
            return Err(OpenError::Timeout {
                millis: timeout.as_millis(),
            });
        }
        Ok(())
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("key_prefix", &self.key_prefix)
            .field("operation_timeout", &self.operation_timeout)
            .finish_non_exhaustive()
    }
}

/// Why a store could not be opened. All of it is for the operator to mend; nothing was sent yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL is not one of the forms of [`RedisOptions`]. The cause never shows the URL.
    #[error("the url of the store is not valid: {reason}")]
    Url {
        /// What is wrong.
        reason: String,
    },
    /// The certificate authorities could not be loaded.
    #[error("the certificate authorities for tls could not be loaded: {reason}")]
    Certificates {
        /// What is wrong.
        reason: String,
    },
    /// The key prefix is empty or too long.
    #[error("the key prefix has {bytes} bytes, must be 1 to {KEY_PREFIX_BYTES_MAX}")]
    PrefixLength {
        /// Its length.
        bytes: usize,
    },
    /// The key prefix holds a brace.
    #[error("the key prefix holds a brace, which would move the cluster hash tag")]
    PrefixBrace,
    /// The operation timeout is out of range.
    #[error("the operation timeout is {millis} ms, must be 1 to 300000")]
    Timeout {
        /// What was given, in milliseconds.
        millis: u128,
    },
}

impl OpenError {
    /// Always [`Recovery::FixCall`](spotlane_store::Recovery::FixCall).
    pub fn recovery(&self) -> spotlane_store::Recovery {
        spotlane_store::Recovery::FixCall
    }
}
