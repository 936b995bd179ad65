//! Any bytes as the frames of a record.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| spotlane_fuzz::entry::record(data));
