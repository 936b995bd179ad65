//! CRC-32C: the crate that the codec uses beside `crc-fast`, for short and for long inputs.

use std::hint::black_box;
use std::process::ExitCode;
use std::rc::Rc;

use spotlane_bench::{Bench, bytes_per_second};

const SIZES: [(&str, u32); 4] = [
    ("64 B", 64),
    ("1 KiB", 1 << 10),
    ("256 KiB", 256 << 10),
    ("64 MiB", 64 << 20),
];

fn main() -> ExitCode {
    spotlane_bench::main(|bench| {
        for (name, bytes) in SIZES {
            add(bench, name, bytes);
        }
    })
}

fn add(bench: &mut Bench, name: &str, bytes: u32) {
    let slice = bench.slice();
    let data: Rc<[u8]> = (0..bytes)
        .map(|at| at.wrapping_mul(0x9E37_79B1).to_be_bytes()[0])
        .collect();
    let same = Rc::clone(&data);
    // WR-44: both compute the same polynomial, or the comparison means nothing.
    assert_eq!(
        u64::from(crc32c::crc32c(&data)),
        crc_fast_32c(&data),
        "{name}"
    );
    bench
        .figure(
            format!("CRC-32C of {name}"),
            "MB/s",
            bytes_per_second(slice, bytes, move || crc32c::crc32c(black_box(&data))),
        )
        .peer(
            "crc-fast",
            bytes_per_second(slice, bytes, move || crc_fast_32c(black_box(&same))),
        );
}

fn crc_fast_32c(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)
}
