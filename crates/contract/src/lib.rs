//! Interprets the machine-readable wire contract (`fixtures/contract/service-wire.contract`).
//!
//! This is the slow, generic codec that judges the fast one of `spotlane-wire`: it reads the
//! contract file at run time, knows commands and types by name only where a rule needs it, and
//! shares no code with what it judges. Values are [`serde_json::Value`]s in the form that
//! `docs/decoding.md` fixes. A test crate: it is never published and nothing ships with it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use spotlane_contract::{Contract, Kind};
//!
//! let judge = Contract::parse(
//!     "enum color u8 red=1 green=2
//!      text name len:u8 1..20
//!      struct paint { color: color ; name: name }",
//! )?;
//! let value = judge.decode_type("paint", b"\x02\x04moss")?;
//! assert_eq!(value["color"], "green");
//! assert_eq!(judge.encode_type("paint", &value)?, b"\x02\x04moss");
//! let refusal = judge.decode_type("paint", b"\x03\x04moss").map_err(|refusal| refusal.kind);
//! assert_eq!(refusal, Err(Kind::InvalidField));
//! # Ok(())
//! # }
//! ```

mod authority_key;
mod checksum;
mod codec;
mod cursor;
mod decode;
mod driver;
mod encode;
mod fields;
mod generate;
mod least;
mod lexer;
mod lists;
mod model;
mod multipart;
mod mutate;
mod mutate_value;
mod parser;
mod plan;
mod record;
mod refusal;
mod resolve;
mod rng;
mod rules;
mod shapes;
mod standalone;
mod syntax;
mod tokens;
mod value;

pub use authority_key::{AuthorityKind, authority_key};
pub use checksum::crc32c;
pub use codec::{Agreement, Case, Codec, Difference, compare};
pub use driver::{Report, run};
pub use generate::{GeneratedRecord, Generator};
pub use model::Contract;
pub use mutate::{mutate_bytes, mutate_frames};
pub use mutate_value::mutate_value;
pub use parser::ParseError;
pub use refusal::{Kind, Refusal};
pub use rng::Rng;
pub use value::{from_hex, to_hex};
