//! Ways to measure one value.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The only reader of the clock in this crate.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Repeats the call for about `slice` and gives nanoseconds per call.
///
/// The number of repetitions is found in the first run (the warm-up) and kept, so that reading the
/// clock does not count. What the call returns is hidden from the optimizer.
pub fn nanoseconds<T>(slice: Duration, mut call: impl FnMut() -> T) -> impl FnMut() -> f64 {
    let mut repetitions: u32 = 0;
    move || {
        if repetitions == 0 {
            repetitions = calibrate(slice, &mut call);
        }
        let start = now();
        for _ in 0..repetitions {
            black_box(call());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(repetitions)
    }
}

/// Like [`nanoseconds`], as megabytes (10^6) per second for a call that works through `bytes`.
pub fn bytes_per_second<T>(
    slice: Duration,
    bytes: u32,
    call: impl FnMut() -> T,
) -> impl FnMut() -> f64 {
    let mut time = nanoseconds(slice, call);
    move || f64::from(bytes) * 1e3 / time()
}

/// Doubles the repetitions until they take as long as the slice, twice in a row: a stall of the machine
/// in one of the first calls would otherwise leave a handful of cold calls to stand for all.
fn calibrate<T>(slice: Duration, call: &mut impl FnMut() -> T) -> u32 {
    let mut repetitions: u32 = 1;
    let mut takes_long_enough = |repetitions: u32| {
        let start = now();
        for _ in 0..repetitions {
            black_box(call());
        }
        start.elapsed() >= slice / 2
    };
    loop {
        let long_enough = takes_long_enough(repetitions) && takes_long_enough(repetitions);
        if long_enough || repetitions > u32::MAX / 2 {
            return repetitions;
        }
        repetitions = repetitions.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_found_once() {
        let mut calls: u64 = 0;
        let mut rounds = Vec::new();
        let mut time = nanoseconds(Duration::ZERO, || calls = calls.wrapping_add(1));
        for _ in 0..3 {
            rounds.push(time());
        }
        drop(time);
        assert_eq!(calls, 5, "two to calibrate, one per round");
        assert!(rounds.iter().all(|value| *value >= 0.0));
    }
}
