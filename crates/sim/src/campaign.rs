//! Many worlds: runs a range of seeds on several threads, and says how to replay what failed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::faults::Climate;
use crate::mutant::Mutant;
use crate::plan::Plan;
use crate::trace::Keep;
use crate::world::{Options, Outcome, World};

/// A range of seeds to run.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "callers fill it in")]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// The seed after the last.
    pub to: u64,
    /// The defect that is switched on.
    pub mutant: Option<Mutant>,
    /// How many worlds run beside each other.
    pub threads: usize,
    /// It ends after so many failures.
    pub failures_max: usize,
}

/// A world that broke a promise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The invariant, if one reported it; a defect that stopped the world has none.
    pub invariant: Option<&'static str>,
    /// What is broken.
    pub what: String,
    mutant: Option<Mutant>,
}

impl Failure {
    /// The command that replays it.
    pub fn command(&self) -> String {
        let mutant = self.mutant.map(|mutant| format!(" --mutant {mutant}"));
        let mutant = mutant.unwrap_or_default();
        format!("cargo run -p spotlane-sim -- --seed {}{mutant}", self.seed)
    }
}

/// What the worlds of one climate came to.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Row {
    /// How many ran.
    pub worlds: u64,
    /// Their events.
    pub events: u64,
    /// Their moves.
    pub moves: u64,
    /// Those whose operation succeeded.
    pub moves_succeeded: u64,
    /// Those whose target went on without a cutover.
    pub fell_back: u64,
    /// Those that the source gave up without having seen a commit.
    pub unavailable: u64,
    /// Their messages.
    pub messages: u64,
    /// Those that were handled.
    pub handled: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Messages that a session held for a move.
    pub held: u64,
    /// Sessions that another one has replaced.
    pub replaced: u64,
    /// Pushes that reached a client.
    pub pushes: u64,
    /// Worlds that broke a promise.
    pub broken: u64,
}

/// What all worlds came to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// By climate.
    pub rows: BTreeMap<Climate, Row>,
    /// What broke, by seed.
    pub failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, climate: Climate, outcome: &Outcome) {
        let row = self.rows.entry(climate).or_default();
        row.worlds += 1;
        row.events += outcome.events;
        for (_, facts) in outcome.oracle.moves() {
            row.moves += 1;
            row.moves_succeeded += u64::from(facts.succeeded);
            row.fell_back += u64::from(facts.fell_back);
            row.unavailable += u64::from(facts.was_given_up());
        }
        for (_, facts) in outcome.oracle.messages() {
            row.messages += 1;
            row.handled += u64::from(facts.ended > 0);
        }
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let book = outcome.oracle.book();
        row.sessions += count(book.sessions().count());
        row.held += book.held();
        row.replaced += book.replaced();
        row.pushes += count(book.pushes().1);
        row.broken += u64::from(!outcome.violations.is_empty());
    }

    fn fail(&mut self, failure: Failure) {
        let climate = Climate::of(failure.seed);
        self.rows.entry(climate).or_default().broken += u64::from(failure.invariant.is_none());
        self.failures.push(failure);
    }
}

/// Runs the world of one seed.
///
/// # Errors
/// Something that cannot be, in a machine or in the simulator.
pub fn run_seed(seed: u64, options: Options) -> Result<(Outcome, Option<Failure>)> {
    let outcome = World::new(Plan::of(seed)?, options)?.run()?;
    let failure = outcome.violations.first().map(|violation| Failure {
        seed,
        invariant: Some(violation.invariant),
        what: violation.to_string(),
        mutant: options.mutant,
    });
    Ok((outcome, failure))
}

impl Campaign {
    /// Runs all seeds; `progress` is called now and then with how many are done, and of how many.
    ///
    /// # Errors
    /// None of its own; a world that cannot be run is a failure in the tally.
    pub fn run(&self, progress: impl Fn(u64, u64) + Sync) -> Result<Tally> {
        let next = AtomicU64::new(self.from);
        // Protects the tally; a leaf.
        let tally = Mutex::new(Tally::default());
        let all = self.to.saturating_sub(self.from);
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while let Some(seed) = self.next_seed(&next, &tally) {
                        self.run_one(seed, &tally);
                        let done = seed.saturating_sub(self.from).saturating_add(1);
                        if done.is_multiple_of(100) {
                            progress(done, all);
                        }
                    }
                });
            }
        });
        let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        tally.failures.sort_by_key(|failure| failure.seed);
        Ok(tally)
    }

    fn next_seed(&self, next: &AtomicU64, tally: &Mutex<Tally>) -> Option<u64> {
        let failures = {
            let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.failures.len()
        };
        let seed = next.fetch_add(1, Ordering::Relaxed);
        (seed < self.to && failures < self.failures_max).then_some(seed)
    }

    fn run_one(&self, seed: u64, tally: &Mutex<Tally>) {
        let options = Options {
            mutant: self.mutant,
            keep: Keep::Fingerprint,
        };
        let ran = catch_unwind(AssertUnwindSafe(|| run_seed(seed, options)));
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = |what: String| Failure {
            seed,
            invariant: None,
            what,
            mutant: self.mutant,
        };
        match ran {
            Ok(Ok((outcome, failure))) => {
                tally.add(Climate::of(seed), &outcome);
                tally.failures.extend(failure);
            }
            Ok(Err(error)) => tally.fail(broken(format!("{error:#}"))),
            Err(_) => tally.fail(broken("it panicked".to_owned())),
        }
    }
}
