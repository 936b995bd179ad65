//! The scripts, each with the name under which Redis remembers it (ST-33).
//!
//! They take the time from the server (ST-37), and each put prunes the history of its record (ST-34).

use bytes::Bytes;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::key::hex_digits;

/// One script.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// What it is called in messages.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) source: Bytes,
    /// The SHA-1 of its text: how EVALSHA names it.
    pub(crate) sha: Bytes,
}

impl Script {
    fn new(name: &'static str, body: &str) -> Self {
        let source = format!("{}{body}", include_str!("scripts/common.lua"));
        let sha = digest(&SHA1_FOR_LEGACY_USE_ONLY, source.as_bytes());
        Self {
            name,
            source: source.into(),
            sha: hex_digits(sha.as_ref()).collect(),
        }
    }
}

/// All scripts of both stores.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    pub(crate) attach: Script,
    pub(crate) write: Script,
    pub(crate) read: Script,
    pub(crate) open: Script,
    pub(crate) list: Script,
    pub(crate) page: Script,
    pub(crate) blob_put: Script,
    pub(crate) blob_get: Script,
    pub(crate) blob_renew: Script,
    pub(crate) blob_delete: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            attach: Script::new("attach", include_str!("scripts/attach.lua")),
            write: Script::new("write", include_str!("scripts/write.lua")),
            read: Script::new("read", include_str!("scripts/read.lua")),
            open: Script::new("open", include_str!("scripts/open.lua")),
            list: Script::new("list", include_str!("scripts/list.lua")),
            page: Script::new("page", include_str!("scripts/page.lua")),
            blob_put: Script::new("blob_put", include_str!("scripts/blob_put.lua")),
            blob_get: Script::new("blob_get", include_str!("scripts/blob_get.lua")),
            blob_renew: Script::new("blob_renew", include_str!("scripts/blob_renew.lua")),
            blob_delete: Script::new("blob_delete", include_str!("scripts/blob_delete.lua")),
        }
    }
}
