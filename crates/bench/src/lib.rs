//! The harness of all benches: rounds in which we and our peers take turns.
//!
//! * In a round every contender of every figure runs once, so a busy neighbour on a shared machine
//!   hits all of them alike; the order alternates from round to round.
//! * The first round warms up and is not counted.
//! * A ratio is taken inside a round, and the median of these ratios is printed. **Above 1 we are
//!   better**: it is ours ÷ peer where more is better (units that end in `/s`), else peer ÷ ours.
//! * When the time for all rounds is used up, no further round begins; three are always run.
//!
//! A bench is a program of this crate whose `main` calls [`main`](crate::main()) with a function that
//! adds its figures to a [`Bench`]. Results go to standard output: an aligned table, or with `--json` one object
//! per figure and peer: `{"figure","unit","ours","peer","peer_name","ratio","spread","rounds"}`. `ours`
//! and `peer` are medians over the rounds; a figure without a peer has `null` there. `spread` is the
//! range of the middle half of the ratios (of our values without a peer), as a share of the median.
//!
//! Layer: tools. It measures the product, also with the servers of the tests, and nothing depends on it.

mod output;
mod sample;
mod stats;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::output::Line;
pub use crate::sample::{bytes_per_second, nanoseconds, now};

/// Measures once and returns the value in the unit of the figure.
type Run = Box<dyn FnMut() -> f64>;

/// How much is measured.
#[derive(Clone, Debug)]
struct Plan {
    rounds: usize,
    /// For all rounds together.
    budget: Duration,
    /// For one contender in one round, as far as it measures by repeating a call.
    slice: Duration,
    json: bool,
    /// Only figures whose name contains one of these; all of them when there is none.
    only: Vec<String>,
    peers: Peers,
    /// Each value goes to standard error as it is measured.
    each: bool,
}

/// Whether peers are measured; a profiler wants nothing but us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peers {
    Measured,
    LeftOut,
}

/// Less than a minute for a whole program, what the machine needs to build it aside.
const QUICK: Plan = Plan {
    rounds: 7,
    budget: Duration::from_secs(35),
    slice: Duration::from_millis(20),
    json: false,
    only: Vec::new(),
    peers: Peers::Measured,
    each: false,
};

const FULL: Plan = Plan {
    rounds: 21,
    budget: Duration::from_mins(4),
    slice: Duration::from_millis(100),
    json: false,
    only: Vec::new(),
    peers: Peers::Measured,
    each: false,
};

/// Fewer rounds have no median worth the name.
const ROUNDS_MIN: usize = 3;

/// One program's figures.
#[derive(Debug)]
pub struct Bench {
    plan: Plan,
    figures: Vec<Figure>,
}

/// What is measured: our value and those of the peers, in one unit.
pub struct Figure {
    name: String,
    unit: &'static str,
    ours: Contender,
    peers: Vec<Contender>,
}

struct Contender {
    name: String,
    run: Run,
    values: Vec<f64>,
}

/// What the `main` of a bench calls: adds its figures, measures and prints.
pub fn main(add: impl FnOnce(&mut Bench)) -> ExitCode {
    main_with(std::env::args().skip(1), add)
}

/// As [`main`], for a bench with arguments of its own: without those.
pub fn main_with(args: impl Iterator<Item = String>, add: impl FnOnce(&mut Bench)) -> ExitCode {
    match plan(args) {
        Ok(plan) => {
            let json = plan.json;
            let mut bench = Bench {
                plan,
                figures: Vec::new(),
            };
            add(&mut bench);
            output::print(&bench.measure(), json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn plan(mut args: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = FULL;
    let (mut json, mut only, mut peers) = (false, Vec::new(), Peers::Measured);
    let mut each = false;
    let mut seconds = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => plan = QUICK,
            "--json" => json = true,
            "--ours" => peers = Peers::LeftOut,
            "--each" => each = true,
            "--only" => only.extend(args.next()),
            "--seconds" => seconds = args.next().and_then(|seconds| seconds.parse().ok()),
            _ => {
                return Err(format!(
                    "unexpected argument `{arg}`: known are --quick, --json, --ours, --each, --only TEXT, \
                     --seconds N"
                ));
            }
        }
    }
    Ok(Plan {
        json,
        only,
        peers,
        each,
        budget: seconds.map_or(plan.budget, Duration::from_secs),
        ..plan
    })
}

impl Bench {
    /// How long one contender should repeat its call in one round.
    pub fn slice(&self) -> Duration {
        self.plan.slice
    }

    /// Adds a figure with our side; peers are added to what is returned.
    pub fn figure(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        ours: impl FnMut() -> f64 + 'static,
    ) -> &mut Figure {
        self.figures.push(Figure {
            name: name.into(),
            unit,
            ours: Contender::new("ours", ours),
            peers: Vec::new(),
        });
        let last = self.figures.len().saturating_sub(1);
        &mut self.figures[last]
    }

    /// Runs the rounds and returns a line per figure and peer.
    fn measure(mut self) -> Vec<Line> {
        let begin = now();
        let mut longest = Duration::ZERO;
        let only = &self.plan.only;
        self.figures.retain(|figure| {
            only.is_empty() || only.iter().any(|part| figure.name.contains(&part[..]))
        });
        if self.plan.peers == Peers::LeftOut {
            self.figures
                .iter_mut()
                .for_each(|figure| figure.peers.clear());
        }
        for round in 0..=self.plan.rounds {
            let enough = round > ROUNDS_MIN;
            if enough && begin.elapsed().saturating_add(longest) > self.plan.budget {
                break;
            }
            let start: Instant = now();
            for figure in &mut self.figures {
                figure.round(round, self.plan.each);
            }
            longest = longest.max(start.elapsed());
        }
        self.figures.iter().flat_map(Figure::lines).collect()
    }
}

impl std::fmt::Debug for Figure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Figure")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Contender {
    fn new(name: impl Into<String>, run: impl FnMut() -> f64 + 'static) -> Self {
        Self {
            name: name.into(),
            run: Box::new(run),
            values: Vec::new(),
        }
    }

    /// Round 0 is the warm-up.
    fn take(&mut self, round: usize, figure: Option<&str>) {
        let value = (self.run)();
        if let Some(figure) = figure {
            output::complain(&format!("{round} {figure}, {}: {value:.2}", self.name));
        }
        if round > 0 {
            self.values.push(value);
        }
    }
}

impl Figure {
    /// Adds a peer that is measured in the same rounds.
    pub fn peer(
        &mut self,
        name: impl Into<String>,
        run: impl FnMut() -> f64 + 'static,
    ) -> &mut Self {
        self.peers.push(Contender::new(name, run));
        self
    }

    fn round(&mut self, round: usize, each: bool) {
        let name = each.then_some(&self.name[..]);
        let all = std::iter::once(&mut self.ours).chain(&mut self.peers);
        if round.is_multiple_of(2) {
            all.for_each(|contender| contender.take(round, name));
        } else {
            all.rev().for_each(|contender| contender.take(round, name));
        }
    }

    fn ratios(&self, peer: &Contender) -> Vec<f64> {
        stats::ratios(self.unit, &self.ours.values, &peer.values)
    }

    fn lines(&self) -> Vec<Line> {
        let line = |peer: Option<&Contender>| Line {
            figure: self.name.clone(),
            unit: self.unit,
            ours: stats::median(&self.ours.values),
            peer: peer.map(|peer| stats::median(&peer.values)),
            peer_name: peer.map(|peer| peer.name.clone()),
            ratio: peer.map(|peer| stats::median(&self.ratios(peer))),
            spread: peer.map_or_else(
                || stats::spread(&self.ours.values),
                |peer| stats::spread(&self.ratios(peer)),
            ),
            rounds: self.ours.values.len(),
        };
        if self.peers.is_empty() {
            return vec![line(None)];
        }
        self.peers.iter().map(|peer| line(Some(peer))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn plan() -> Plan {
        Plan { rounds: 4, ..QUICK }
    }

    #[test]
    fn peers_take_turns_and_the_warm_up_is_not_counted() {
        let log = Rc::new(RefCell::new(String::new()));
        let mut bench = Bench {
            plan: plan(),
            figures: Vec::new(),
        };
        let side = |letter: char, value: f64| {
            let log = Rc::clone(&log);
            move || {
                log.borrow_mut().push(letter);
                value
            }
        };
        bench
            .figure("speed", "MB/s", side('a', 6.0))
            .peer("b", side('b', 3.0));
        let lines = bench.measure();
        assert_eq!(*log.borrow(), "abbaabbaab");
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].rounds, lines[0].ratio), (4, Some(2.0)));
    }

    #[test]
    fn flags_come_in_any_order_and_others_are_refused() {
        let parse = |line: &str| super::plan(line.split_whitespace().map(str::to_owned));
        let quick = parse("--json --only a --quick --only b").unwrap();
        assert!(quick.json && quick.rounds == QUICK.rounds);
        assert_eq!(quick.only, ["a", "b"]);
        assert!(parse("--fast").unwrap_err().contains("--fast"));
    }

    #[test]
    fn a_used_up_budget_ends_the_rounds_but_not_before_the_third() {
        let plan = Plan {
            budget: Duration::ZERO,
            ..plan()
        };
        let mut bench = Bench {
            plan,
            figures: Vec::new(),
        };
        bench.figure("size", "bytes", || 1.0);
        let lines = bench.measure();
        assert_eq!((lines[0].rounds, lines[0].ratio), (3, None));
    }
}
