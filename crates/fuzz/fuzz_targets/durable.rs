//! Any bytes as a stored format.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| spotlane_fuzz::entry::durable(data));
