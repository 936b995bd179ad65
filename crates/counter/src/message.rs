//! What a counter is told and asked, in JSON.

use serde::{Deserialize, Serialize};

/// The longest tag in bytes.
pub const TAG_BYTES_MAX: usize = 256;
/// The largest state that `blob` grows, 4 GiB.
pub const BLOB_BYTES_MAX: u64 = 4 << 30;

/// `add`: raises the total and logs the tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Add {
    /// What is added; may be negative.
    pub n: i64,
    /// Goes to the log when it is not empty.
    #[serde(default)]
    pub tag: String,
    /// Nobody reads it; it makes the message as large as its sender wants.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pad: String,
}

/// The answer to `add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Added {
    /// The total after the addition.
    pub total: i64,
    /// The node that the handler ran on.
    pub node: String,
}

/// `note`: logs the tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Note {
    /// Goes to the log.
    pub tag: String,
    /// Nobody reads it; it makes the message as large as its sender wants.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pad: String,
}

/// `log`: asks for the tags. `{}` asks for all that are kept.
///
/// Positions count the tags that were ever logged, from 0, so a repeated request does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Log {
    /// Answer with the tags from this position on.
    #[serde(default)]
    pub from: u64,
    /// Forget the tags before this position.
    #[serde(default)]
    pub forget: u64,
}

/// `blob`: grows or shrinks the state by filler until it has this size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Blob {
    /// The size in bytes.
    pub bytes: u64,
}

/// `tell`: the Actor passes the text on to its client, as the push `told`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Told {
    /// What is told.
    pub text: String,
}

/// The push `moved`: the Actor lives on another node now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a message of an application")]
pub struct Moved {
    /// Its node.
    pub node: String,
}
