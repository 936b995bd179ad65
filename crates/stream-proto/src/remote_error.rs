//! The payload of an error: a JSON object with a code and a message (ST-113).

use bytes::Bytes;
use serde_json::{Value, json};
use thiserror::Error;

/// The failure that the other side reported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{code}: {message}")]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-113")]
pub struct RemoteError {
    /// The name of the kind, in Pascal case from servers of this project (ST-148).
    pub code: String,
    /// For people.
    pub message: String,
}

impl RemoteError {
    /// The payload.
    #[must_use]
    pub fn to_payload(&self) -> Bytes {
        let object = json!({ "code": self.code, "message": self.message });
        Bytes::from(object.to_string())
    }

    /// Reads a payload; other members of the object are ignored.
    pub fn of_payload(payload: &[u8]) -> Option<Self> {
        let object: Value = serde_json::from_slice(payload).ok()?;
        let text = |name| object.get(name)?.as_str().map(str::to_owned);
        Some(Self {
            code: text("code")?,
            message: text("message")?,
        })
    }

    /// Whether this is the named kind, whatever case and underscores the server writes it with (ST-148).
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        let plain = |text: &str| -> Vec<u8> {
            let bytes = text.bytes().filter(|byte| *byte != b'_');
            bytes.map(|byte| byte.to_ascii_lowercase()).collect()
        };
        plain(&self.code) == plain(kind)
    }
}
