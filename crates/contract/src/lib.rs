//! Interprets the machine-readable wire contract (`fixtures/contract/service-wire.contract`).
//!
//! This is the slow, generic codec that judges the fast one of `spotlane-wire`: it reads the
//! contract file at run time, knows no command by name except in [rules](crate::Contract), and
//! shares no code with what it judges. Values are [`serde_json::Value`]s in the form that
//! `docs/decoding.md` fixes. A test crate: it is never published and nothing ships with it.

mod authority_key;
mod checksum;
mod cursor;
mod decode;
mod encode;
mod fields;
mod least;
mod lexer;
mod lists;
mod model;
mod multipart;
mod parser;
mod record;
mod refusal;
mod resolve;
mod rules;
mod shapes;
mod standalone;
mod syntax;
mod value;

pub use authority_key::{AuthorityKind, authority_key};
pub use checksum::crc32c;
pub use model::Contract;
pub use parser::ParseError;
pub use refusal::{Kind, Refusal};
pub use value::{from_hex, to_hex};
