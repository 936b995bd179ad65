//! Every known defect is reported by the invariant that is there for it.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use spotlane_sim::campaign::run_seed;
use spotlane_sim::mutant::Mutant;
use spotlane_sim::trace::Keep;
use spotlane_sim::world::Options;

/// Every mutant has to be reported within so many seeds.
const SEEDS: u64 = 400;

/// The first seed whose world reports it with the right invariant.
fn caught_by(mutant: Mutant) -> Option<u64> {
    let options = Options {
        mutant: Some(mutant),
        keep: Keep::Fingerprint,
    };
    (0..SEEDS).find(|seed| {
        let failure = run_seed(*seed, options).unwrap().1;
        failure.is_some_and(|failure| failure.invariant == Some(mutant.invariant()))
    })
}

#[test]
fn every_mutant_is_caught() {
    assert!(Mutant::ALL.len() >= 10);
    let mut escaped = Vec::new();
    for mutant in Mutant::ALL {
        match caught_by(*mutant) {
            Some(seed) => println!("{mutant:<24} {:<26} seed {seed}", mutant.invariant()),
            None => escaped.push(mutant.name()),
        }
    }
    assert!(
        escaped.is_empty(),
        "not caught within {SEEDS} seeds: {escaped:?}"
    );
}
