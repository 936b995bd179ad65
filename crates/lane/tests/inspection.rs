//! What is not there, by looking at the sources: an absence has no line that a test could call.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lints' test settings"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that measure, test or are programs of their own, which may block their own threads.
const NOT_THE_PRODUCT: [&str; 9] = [
    "bench",
    "lane-bench",
    "cli",
    "fuzz",
    "sim",
    "counter",
    "contract",
    "redis-testkit",
    "store-conformance",
];

/// Ways of keeping a thread until something happens.
const BLOCKING: [&str; 8] = [
    "block_on(",
    "block_in_place(",
    "blocking_send(",
    "blocking_recv(",
    "blocking_lock(",
    "Condvar",
    "thread::park",
    ".recv_timeout(",
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The lines of a source that block; comments, examples and what stands behind the mark of a test are left out.
fn blocking_lines(text: &str) -> Vec<&str> {
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.filter(|line| BLOCKING.iter().any(|word| line.contains(word)))
        .collect()
}

#[test]
fn a_line_that_blocks_is_found() {
    let planted = "fn wait() {\n    runtime.block_on(call);\n}\n/// x.block_on(y)\n#[cfg(test)]\nblock_on(z)\n";
    assert_eq!(blocking_lines(planted), ["    runtime.block_on(call);"]);
}

/// EX-283: no crate of the product keeps a thread, so none of them can offer a terminator that does.
#[test]
fn no_call_of_the_product_blocks() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut looked_at = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let source = folder.join("src");
        if NOT_THE_PRODUCT.contains(&name.as_str()) || !source.is_dir() {
            continue;
        }
        let mut files = Vec::new();
        rust_files(&source, &mut files);
        for file in files {
            // The model checkers bring an executor of their own.
            if file.ends_with("lane/src/models.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let blocking = blocking_lines(&text);
            assert!(blocking.is_empty(), "{}: {blocking:?}", file.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "{looked_at} files");
}
