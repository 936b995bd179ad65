//! The corpus of the fuzz target, replayed: what a fuzzer once found stays found.

#![expect(clippy::expect_used, reason = "test helpers outside of tests")]

use std::path::Path;

/// The entry point of the fuzz target.
#[expect(
    unreachable_pub,
    reason = "shared with the fuzz crate, where it is public"
)]
#[path = "../../fuzz/src/stream.rs"]
mod stream;

/// ST-102, ST-104, ST-112, ST-132
#[test]
fn connections_of_the_corpus_keep_their_promises() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus/stream");
    let mut inputs = 0;
    for file in std::fs::read_dir(&corpus).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        stream::stream(&input);
        // And with every byte changed once, so that a replay is more than the inputs themselves.
        for at in 0..input.len().min(200) {
            for flip in [0x01, 0x80, 0xff] {
                let mut other = input.clone();
                other[at] ^= flip;
                stream::stream(&other);
            }
            stream::stream(&input[..at]);
        }
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", corpus.display());
}
