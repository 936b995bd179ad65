//! The text form of an authority key (WR-60).

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Which of the two key spaces an id belongs to; all kinds of spots share one.
#[expect(clippy::exhaustive_enums, reason = "closed by WR-60")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityKind {
    /// `zla1:a:…`
    Actor,
    /// `zla1:s:…`
    Spot,
}

/// The authority key of a raw id: unreserved bytes of RFC 3986 stand for themselves.
pub fn authority_key(kind: AuthorityKind, id: &[u8]) -> String {
    let letter = match kind {
        AuthorityKind::Actor => 'a',
        AuthorityKind::Spot => 's',
    };
    let mut key = format!("zla1:{letter}:{}:", id.len());
    for byte in id {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            key.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            write!(key, "%{byte:02X}").unwrap_or_default();
        }
    }
    key
}

/// The key of a `relocation-object-identity` in its JSON form.
pub(crate) fn key_of_object(object: &Map<String, Value>) -> String {
    let id = |part: Option<&Value>, name: &str| -> String {
        part.and_then(|part| part.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match object.get("objectKind").and_then(Value::as_str) {
        Some("actor") => authority_key(
            AuthorityKind::Actor,
            id(object.get("actor"), "actorId").as_bytes(),
        ),
        Some("userSpot") => authority_key(
            AuthorityKind::Spot,
            id(object.get("spot"), "spotId").as_bytes(),
        ),
        _ => {
            let spot_id = object
                .get("spotId")
                .and_then(Value::as_str)
                .unwrap_or_default();
            authority_key(AuthorityKind::Spot, spot_id.as_bytes())
        }
    }
}
