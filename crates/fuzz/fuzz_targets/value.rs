//! Any bytes as a standalone value, and its JSON form.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| spotlane_fuzz::entry::value(data));
