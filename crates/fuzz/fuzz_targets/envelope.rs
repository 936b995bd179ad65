//! Any bytes as a relocation stream, split at any size.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| spotlane_fuzz::entry::envelope(data));
