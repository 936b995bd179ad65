//! Many seeds without a broken promise.
//!
//! `SPOTLANE_SIM_SEEDS=A..B` runs others; the command line of the crate does the same with progress and a table.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use spotlane_sim::campaign::{Campaign, Failure, run_seed};
use spotlane_sim::trace::Keep;
use spotlane_sim::world::Options;

/// Worlds beyond the first 2,000 that once broke a promise, and what they showed.
const REGRESSIONS: [(u64, &str); 1] = [(
    99_961,
    "a process dies over the packet that brings a relayed message, and the Actor lives on elsewhere",
)];

fn range() -> (u64, u64) {
    let Ok(text) = std::env::var("SPOTLANE_SIM_SEEDS") else {
        return (0, 2_000);
    };
    let (from, to) = text.split_once("..").unwrap();
    (from.parse().unwrap(), to.parse().unwrap())
}

#[test]
fn two_thousand_worlds_keep_every_promise() {
    let (from, to) = range();
    let campaign = Campaign {
        from,
        to,
        mutant: None,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        failures_max: 5,
    };
    let tally = campaign.run(|_, _| {}).unwrap();
    let failures: Vec<String> = tally
        .failures
        .iter()
        .map(|failure: &Failure| format!("{}\n  {}", failure.what, failure.command()))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let moves: u64 = tally.rows.values().map(|row| row.moves_succeeded).sum();
    let fallbacks: u64 = tally.rows.values().map(|row| row.fell_back).sum();
    println!("{moves} moves, {fallbacks} of them without a cutover");
    assert!(moves > (to - from), "the worlds are too quiet");
    assert!(fallbacks > 0, "no world is rough enough for a fallback");
}

#[test]
fn worlds_that_once_broke_a_promise_keep_it() {
    for (seed, what) in REGRESSIONS {
        let options = Options {
            mutant: None,
            keep: Keep::Fingerprint,
        };
        let failure = run_seed(seed, options).unwrap().1;
        assert!(failure.is_none(), "{seed}, {what}: {failure:?}");
    }
}
