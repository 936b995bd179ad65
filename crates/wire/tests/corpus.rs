//! The corpus of the fuzz targets, replayed: what a fuzzer once found stays found.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test helpers outside of tests"
)]
#![cfg(feature = "serde")]

use std::path::Path;

/// The entry points of the fuzz targets.
#[expect(
    unreachable_pub,
    reason = "shared with the fuzz crate, where they are public"
)]
#[path = "../../fuzz/src/entry.rs"]
mod entry;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/corpus")
        .join(target);
    let mut inputs = 0;
    for file in std::fs::read_dir(&corpus).unwrap() {
        run(&std::fs::read(file.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}

/// WR-5, WR-6
#[test]
fn records_of_the_corpus_keep_their_promises() {
    replay("record", entry::record);
}

/// WR-43
#[test]
fn streams_of_the_corpus_keep_their_promises() {
    replay("envelope", entry::envelope);
}

/// WR-61
#[test]
fn stored_values_of_the_corpus_keep_their_promises() {
    replay("durable", entry::durable);
}

/// WR-6
#[test]
fn values_of_the_corpus_keep_their_promises() {
    replay("value", entry::value);
}
