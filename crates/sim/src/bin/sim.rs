//! `sim`: runs seeds, replays one, or shows that a mutant is caught.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command line"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use spotlane_sim::campaign::{Campaign, Failure, Tally, run_seed};
use spotlane_sim::faults::Climate;
use spotlane_sim::mutant::Mutant;
use spotlane_sim::trace::Keep;
use spotlane_sim::world::Options;

const USAGE: &str = "\
sim --seed N [--mutant NAME]      replays one world and prints its trace
sim --seeds A..B [--mutant NAME]  runs the worlds from A to B, without B
sim --mutants                     lists the known defects and what has to report them";

/// Failures of one invariant that are printed in full.
const FAILURES_SHOWN: u32 = 3;

#[derive(Debug, Default)]
struct Arguments {
    seed: Option<u64>,
    seeds: Option<(u64, u64)>,
    mutant: Option<Mutant>,
    list: bool,
}

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)).and_then(|arguments| start(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--seed" => arguments.seed = Some(value()?.parse().context("a seed is a number")?),
            "--seeds" => {
                let range = value()?;
                let (from, to) = range.split_once("..").context("seeds are given as A..B")?;
                let number = |text: &str| u64::from_str(text).context("a seed is a number");
                arguments.seeds = Some((number(from)?, number(to)?));
            }
            "--mutant" => arguments.mutant = Some(value()?.parse()?),
            "--mutants" => arguments.list = true,
            other => bail!("{other} is not understood"),
        }
    }
    Ok(arguments)
}

/// Says whether everything went as it should.
fn start(arguments: &Arguments) -> Result<bool> {
    if arguments.list {
        for mutant in Mutant::ALL {
            println!("{:<24} {}", mutant.name(), mutant.invariant());
        }
        return Ok(true);
    }
    match (arguments.seed, arguments.seeds) {
        (Some(seed), None) => replay(seed, arguments.mutant),
        (None, Some((from, to))) => many(from, to, arguments.mutant),
        _ => bail!("one of --seed and --seeds"),
    }
}

fn replay(seed: u64, mutant: Option<Mutant>) -> Result<bool> {
    let options = Options {
        mutant,
        keep: Keep::Lines,
    };
    let climate = Climate::of(seed);
    println!("seed {seed}, {climate:?}");
    match run_seed(seed, options)? {
        (outcome, None) => {
            print!("{}", outcome.trace.text());
            println!(
                "fingerprint {:016x}, no violation",
                outcome.trace.fingerprint()
            );
            Ok(true)
        }
        (outcome, Some(failure)) => {
            print!("{}", outcome.trace.text());
            print_failure(&failure);
            Ok(false)
        }
    }
}

fn many(from: u64, to: u64, mutant: Option<Mutant>) -> Result<bool> {
    let campaign = Campaign {
        from,
        to,
        mutant,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        failures_max: 200,
    };
    let tally = campaign.run(|done, all| eprint!("\r{done} of {all} worlds"))?;
    eprintln!();
    print_table(&tally);
    let mut shown: BTreeMap<&str, u32> = BTreeMap::new();
    for failure in &tally.failures {
        let times = shown
            .entry(failure.invariant.unwrap_or("defect"))
            .or_default();
        *times += 1;
        if *times <= FAILURES_SHOWN {
            print_failure(failure);
        }
    }
    for (invariant, times) in shown {
        println!("{times} times {invariant}");
    }
    Ok(tally.failures.is_empty())
}

fn print_table(tally: &Tally) {
    let titles = [
        "worlds", "events", "moves", "ended", "fallback", "unavail", "messages", "handled",
        "sessions", "held", "replaced", "pushes", "broken",
    ];
    print!("{:<8}", "climate");
    for title in titles {
        print!(" {title:>9}");
    }
    println!();
    for (climate, row) in &tally.rows {
        print!("{:<8}", format!("{climate:?}"));
        for number in [
            row.worlds,
            row.events,
            row.moves,
            row.moves_succeeded,
            row.fell_back,
            row.unavailable,
            row.messages,
            row.handled,
            row.sessions,
            row.held,
            row.replaced,
            row.pushes,
            row.broken,
        ] {
            print!(" {number:>9}");
        }
        println!();
    }
}

fn print_failure(failure: &Failure) {
    println!("seed {}: {}", failure.seed, failure.what);
    println!("  replay with: {}", failure.command());
}
