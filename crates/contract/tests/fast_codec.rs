//! The fast codec and its judge give the same answers: the same value, or the same kind of refusal.
//!
//! `SPOTLANE_DIFFERENTIAL_CASES` asks more questions, `SPOTLANE_DIFFERENTIAL_SEED` others.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::path::Path;

use bytes::Bytes;
use serde_json::Value;
use spotlane_contract::{Codec, Contract, Kind, Refusal, run};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::by_name::{NamedError, named_type};
use spotlane_wire::json::Node;
use spotlane_wire::{DecodeError, ErrorKind, FrameBuffer, Record};

const CASES: usize = 40_000;

fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// The members of a record beside its body.
const ENVELOPE: [&str; 6] = ["command", "name", "flags", "body", "metadata", "payload"];

/// The codec of `spotlane-wire` in the terms of the judge.
struct Fast;

fn kind(kind: ErrorKind) -> Kind {
    match kind {
        ErrorKind::TruncatedField => Kind::TruncatedField,
        ErrorKind::TrailingByte => Kind::TrailingByte,
        ErrorKind::InvalidField => Kind::InvalidField,
        ErrorKind::UnknownCommand => Kind::UnknownCommand,
        ErrorKind::InvalidFlags => Kind::InvalidFlags,
        ErrorKind::FrameCount => Kind::FrameCount,
    }
}

fn refusal(error: &DecodeError) -> Refusal {
    Refusal::new(kind(error.kind()), error.record(), error.field())
        .at(error.frame(), error.offset())
}

fn unfit(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Kind::InvalidField, "json", error.to_string())
}

fn operation(pending: Option<&str>) -> Result<MeshOperationKind, Refusal> {
    let name = pending.unwrap_or("none");
    MeshOperationKind::from_name(name).ok_or_else(|| unfit(format!("no operation kind {name}")))
}

fn node(value: &Value) -> Result<Node, Refusal> {
    serde_json::from_value(value.clone()).map_err(unfit)
}

impl Codec for Fast {
    fn decode_record(&self, frames: &[Vec<u8>], pending: Option<&str>) -> Result<Value, Refusal> {
        let frames: Vec<Bytes> = frames.iter().cloned().map(Bytes::from).collect();
        let record = Record::decode(&frames, operation(pending)?).map_err(|e| refusal(&e))?;
        Ok(serde_json::to_value(record.to_json()).unwrap())
    }

    fn encode_record(
        &self,
        record: &Value,
        pending: Option<&str>,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        // The fast codec lets a caller leave out what it can work out; the judge does not.
        if let Some(name) = ENVELOPE.iter().find(|name| record.get(name).is_none()) {
            return Err(unfit(format!("{name} is missing")));
        }
        let record = Record::from_json(node(record)?, operation(pending)?).map_err(unfit)?;
        let mut out = FrameBuffer::default();
        record.encode(&mut out).map_err(unfit)?;
        Ok(out.to_frames().iter().map(|frame| frame.to_vec()).collect())
    }

    fn decode_type(&self, name: &str, bytes: &[u8]) -> Result<Value, Refusal> {
        let named = named_type(name).unwrap();
        let value = named
            .decode(&Bytes::copy_from_slice(bytes))
            .map_err(|e| refusal(&e))?;
        Ok(serde_json::to_value(value).unwrap())
    }

    fn encode_type(&self, name: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        let encoded: Result<Bytes, NamedError> = named_type(name).unwrap().encode(node(value)?);
        encoded.map(|bytes| bytes.to_vec()).map_err(unfit)
    }

    fn supports(&self, name: &str) -> bool {
        named_type(name).is_some()
    }
}

fn contract() -> Contract {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let text = std::fs::read_to_string(fixtures.join("contract/service-wire.contract")).unwrap();
    Contract::parse(&text).unwrap()
}

/// WR-1, WR-2, WR-3, WR-5, WR-6, WR-20, WR-21, WR-30, WR-33, WR-61, WR-62, WR-63
#[test]
fn the_fast_codec_agrees_with_the_contract() {
    let cases = from_environment("SPOTLANE_DIFFERENTIAL_CASES", CASES);
    let seed = from_environment("SPOTLANE_DIFFERENTIAL_SEED", 1);
    let report = run(&contract(), &Fast, seed, cases);
    println!("seed {seed}: {report}");
    assert!(report.is_clean(), "{report}");
}

/// Both know the same names, so that no type escapes the comparison.
#[test]
fn the_fast_codec_knows_every_type_that_stands_alone() {
    let names = contract().standalone_names();
    let missing: Vec<_> = names.iter().filter(|name| !Fast.supports(name)).collect();
    // The multipart profile is a payload, not a type of the contract; it has an API of its own.
    assert_eq!(missing, ["framework-multipart"]);
    let known: Vec<String> = spotlane_wire::by_name::all()
        .map(|named| named.name())
        .collect();
    let surplus: Vec<_> = known.iter().filter(|name| !names.contains(name)).collect();
    assert!(surplus.is_empty(), "{surplus:?}");
}
