//! Runs the lane engine and its peers in one process, round by round, and prints one line for every
//! figure and peer; with `--json` it is `{"figure","unit","ours","peer","peer_name","ratio","rounds"}`.
//!
//! All peers of a figure run once in every round, so whatever else happens on the machine hits all of
//! them; the ratio is taken inside a round and its median is printed. A ratio above one means that we are
//! better, also where less is better. `--quick` takes fewer rounds and messages and is over in a minute,
//! `--only TEXT` takes the figures whose name contains the text, `--rounds N` sets the number of rounds,
//! `--ours` leaves the peers out.

#![expect(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::mem_forget,
    clippy::print_stdout,
    reason = "a program that measures and prints; a peer that does not start has no figure"
)]

mod figures;
mod memory;
mod peers;
mod work;

use std::time::Instant;

use crate::figures::{Figure, Scale};
use crate::peers::{Actix, Kameo, Mpsc, Ours, Peer, Ractor};

/// One peer set up for one figure; a run gives the figure's value.
pub(crate) struct Runner {
    pub(crate) peer: &'static str,
    pub(crate) run: Box<dyn FnMut() -> f64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if memory::child(&arguments) {
        return;
    }
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let quick = flag("--quick");
    let rounds = value("--rounds")
        .and_then(|n| n.parse().ok())
        .unwrap_or(if quick { 3 } else { 11 });
    let only = value("--only").unwrap_or_default();
    let show = if flag("--json") {
        Show::Json
    } else {
        Show::Text
    };
    let scale = if quick {
        Scale { messages: 200_000 }
    } else {
        Scale { messages: 400_000 }
    };
    let wanted = |figure: &str| only.is_empty() || figure.contains(&only);

    for figure in Figure::ALL {
        if !wanted(figure.name()) {
            continue;
        }
        if flag("--ours") {
            // For a profiler: nothing but the engine.
            let mut runners = vec![figures::runner::<Ours>(figure, scale)];
            let values = rounds_of(&mut runners, rounds);
            let values: Vec<f64> = values.into_iter().flatten().collect();
            let best = values.iter().copied().fold(0.0, f64::max);
            println!(
                "{:<36} {:>12} {:<12} best {best:>12.0}",
                figure.name(),
                round(median(values)),
                figure.unit()
            );
            continue;
        }
        let mut runners = vec![
            figures::runner::<Ours>(figure, scale),
            figures::runner::<Ractor>(figure, scale),
            figures::runner::<Kameo<false>>(figure, scale),
            figures::runner::<Kameo<true>>(figure, scale),
            figures::runner::<Actix>(figure, scale),
            figures::runner::<Mpsc>(figure, scale),
        ];
        let values = rounds_of(&mut runners, rounds);
        let better = Better::Higher;
        print(
            show,
            (figure.name(), figure.unit()),
            better,
            &runners,
            &values,
        );
    }
    if !flag("--ours") {
        // A child takes two seconds.
        memory::figures(show, if quick { 1 } else { rounds.min(5) }, &wanted);
    }
}

/// Whether a figure is good when it is high.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

fn rounds_of(runners: &mut [Runner], rounds: usize) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = runners.iter().map(|_| Vec::new()).collect();
    // Round 0 warms up and is not recorded.
    for round in 0..=rounds {
        for (runner, values) in runners.iter_mut().zip(&mut values) {
            let value = (runner.run)();
            if round > 0 {
                values.push(value);
            }
        }
    }
    values
}

/// How a figure is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Text,
    Json,
}

pub(crate) fn print(
    show: Show,
    (figure, unit): (&str, &str),
    better: Better,
    runners: &[Runner],
    values: &[Vec<f64>],
) {
    let Some(ours) = values.first() else { return };
    for (runner, peer) in runners.iter().zip(values).skip(1) {
        let ratios = ours.iter().zip(peer).map(|(ours, peer)| match better {
            Better::Higher => ours / peer,
            Better::Lower => peer / ours,
        });
        let ratio = (median(ratios.collect()) * 100.0).round() / 100.0;
        let rounds = ours.len();
        let (ours, peer) = (round(median(ours.clone())), round(median(peer.clone())));
        let name = runner.peer;
        match show {
            Show::Text => println!(
                "{figure:<36} {ours:>12} {unit:<12} {name:<14} {peer:>12} ratio {ratio:.2}"
            ),
            Show::Json => println!(
                "{}",
                serde_json::json!({
                    "figure": figure, "unit": unit, "ours": ours, "peer": peer,
                    "peer_name": name, "ratio": ratio, "rounds": rounds,
                })
            ),
        }
    }
}

fn round(value: f64) -> f64 {
    if value >= 100.0 {
        value.round()
    } else {
        (value * 100.0).round() / 100.0
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Seconds that `body` took.
pub(crate) fn seconds(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_secs_f64()
}

/// What a child process measures by name.
pub(crate) fn by_name(name: &str) -> Option<[f64; 3]> {
    Some(match name {
        n if n == Ours::NAME => memory::measure::<Ours>(),
        n if n == Ractor::NAME => memory::measure::<Ractor>(),
        n if n == Kameo::<false>::NAME => memory::measure::<Kameo<false>>(),
        n if n == Kameo::<true>::NAME => memory::measure::<Kameo<true>>(),
        n if n == Actix::NAME => memory::measure::<Actix>(),
        n if n == Mpsc::NAME => memory::measure::<Mpsc>(),
        _ => return None,
    })
}

pub(crate) const PEERS: [&str; 6] = [
    Ours::NAME,
    Ractor::NAME,
    Kameo::<false>::NAME,
    Kameo::<true>::NAME,
    Actix::NAME,
    Mpsc::NAME,
];
