//! Any bytes as what a client, a server or a WebSocket peer sends.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| spotlane_fuzz::stream::stream(data));
