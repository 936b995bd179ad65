//! One seed is one trace, byte for byte.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use spotlane_sim::campaign::run_seed;
use spotlane_sim::faults::Climate;
use spotlane_sim::trace::Keep;
use spotlane_sim::world::{Options, Outcome};

fn run(seed: u64, keep: Keep) -> Outcome {
    let options = Options { mutant: None, keep };
    run_seed(seed, options).unwrap().0
}

#[test]
fn a_seed_gives_the_same_bytes_twice() {
    for seed in 0..60 {
        let (one, other) = (run(seed, Keep::Lines), run(seed, Keep::Lines));
        assert!(one.trace.lines() > 50, "seed {seed} shows nothing");
        assert_eq!(one.trace.text(), other.trace.text(), "seed {seed}");
    }
}

#[test]
fn the_fingerprint_does_not_depend_on_whether_lines_are_kept() {
    for seed in 0..20 {
        let (kept, hashed) = (run(seed, Keep::Lines), run(seed, Keep::Fingerprint));
        assert_eq!(kept.trace.fingerprint(), hashed.trace.fingerprint());
    }
}

#[test]
fn other_seeds_give_other_worlds_and_every_climate_occurs() {
    let prints: std::collections::BTreeSet<u64> = (0..40)
        .map(|seed| run(seed, Keep::Fingerprint).trace.fingerprint())
        .collect();
    assert_eq!(prints.len(), 40);
    for climate in Climate::ALL {
        assert!(
            (0..100).any(|seed| Climate::of(seed) == climate),
            "{climate:?}"
        );
    }
}
