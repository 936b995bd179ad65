//! One Actor with a large state moves between two processes, beside plain TCP with the same checksum.
//!
//! Two hosts in two processes on one throw-away Redis. The Actor goes to and fro, one move a round, while other Actors of
//! the same two hosts are asked from both sides. The peers send as many bytes from one of the processes to the other over
//! a bare tokio socket, with CRC-32C on both sides, and nobody asks anything meanwhile. `raw` reads into a buffer that is
//! used again, which is the raw speed of loopback with CRC; `raw, kept` keeps the bytes in one piece of fresh memory, as
//! a move has to, and `in large pages` in pages of the size that a move takes. The receiving process has touched as much memory right before, for each of them alike, and takes some
//! seconds for that (`memory::warm` says why); `--cold` leaves that out. Seven rounds take two minutes: `--seconds 150`.
//!
//! The figures of memory are the peak of resident memory during a move beyond what there was before it, as a share of the
//! state: 1 is one copy. At the target the first copy is the state itself.

#![expect(clippy::unwrap_used, reason = "a bench")]

mod blob;
mod child;
mod load;
mod memory;
mod plain;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use spotlane_bench::Bench;
use spotlane_redis_testkit::Server;

use crate::child::Child;

/// What issue and contract promise for this many bytes.
const STATE_BYTES: usize = 1 << 30;
const STATE_BYTES_QUICK: usize = 128 << 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name, url] = &words[..]
        && word == "serve"
    {
        return child::serve(name, url);
    }
    let quick = words.iter().any(|word| word == "--quick");
    let cold = words.iter().any(|word| word == "--cold");
    let bytes = if quick {
        STATE_BYTES_QUICK
    } else {
        STATE_BYTES
    };
    let words = words.into_iter().filter(|word| word != "--cold");
    spotlane_bench::main_with(words, |bench| {
        let pair = Pair::start(bytes, if cold { Memory::Cold } else { Memory::Warm });
        add(bench, &Rc::new(RefCell::new(pair)));
    })
}

fn add(bench: &mut Bench, pair: &Rc<RefCell<Pair>>) {
    let of = |run: fn(&mut Pair) -> f64| {
        let pair = Rc::clone(pair);
        move || run(&mut pair.borrow_mut())
    };
    bench
        .figure("a state moves", "MB/s", of(Pair::run))
        .peer("raw", of(|pair| pair.plain("reuse")))
        .peer("raw, kept", of(|pair| pair.plain("keep")))
        .peer("raw, kept in large pages", of(|pair| pair.plain("large")));
    bench.figure(
        "memory beyond the state, source",
        "copies",
        of(|pair| pair.last.source),
    );
    bench.figure(
        "memory for the state, target",
        "copies",
        of(|pair| pair.last.target),
    );
    bench.figure(
        "other actors meanwhile, p50",
        "ms",
        of(|pair| pair.last.p50),
    );
    bench.figure(
        "other actors meanwhile, p99",
        "ms",
        of(|pair| pair.last.p99),
    );
    bench.figure(
        "other actors meanwhile, max",
        "ms",
        of(|pair| pair.last.max),
    );
}

/// What the last move showed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    source: f64,
    target: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

/// Whether the receiving process touches memory before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Warm,
    Cold,
}

/// The two processes; the state is at the first of them.
struct Pair {
    here: Child,
    there: Child,
    bytes: usize,
    memory: Memory,
    last: Seen,
    _redis: Server,
}

impl Pair {
    fn start(bytes: usize, memory: Memory) -> Self {
        let redis = Server::start().unwrap();
        let mut here = Child::start("a", &redis.url());
        // Everything is made while there is one node, and half of the small ones move on.
        here.ask(&format!("make {bytes}"));
        let mut there = Child::start("b", &redis.url());
        here.ask("meet");
        there.ask("meet");
        for id in load::ids().filter(|(n, _)| n % 2 == 0).map(|(_, id)| id) {
            here.ask(&format!("move {id} b"));
        }
        let mut pair = Self {
            here,
            there,
            bytes,
            memory,
            last: Seen::default(),
            _redis: redis,
        };
        pair.here.ask("owns");
        pair
    }

    fn warm(&mut self) {
        if self.memory == Memory::Warm {
            let bytes = self.bytes;
            self.there.ask(&format!("warm {bytes}"));
        }
    }

    /// Moves the state once, in megabytes a second from the call to its return.
    fn run(&mut self) -> f64 {
        self.warm();
        let before = (self.here.number("mark"), self.there.number("mark"));
        self.here.ask("load");
        self.there.ask("load");
        let target = self.there.name.clone();
        let seconds = self.here.number(&format!("move {} {target}", blob::ID));
        let (near, far) = (self.here.ask("rest"), self.there.ask("rest"));
        let peaks = (self.here.number("peak"), self.there.number("peak"));
        let size = as_f64(self.bytes);
        let [p50, p99, max] = load::worse(&near, &far);
        self.last = Seen {
            source: (peaks.0 - before.0) / size,
            target: (peaks.1 - before.1) / size,
            p50,
            p99,
            max,
        };
        std::mem::swap(&mut self.here, &mut self.there);
        self.here.ask("owns");
        // The former owner keeps the state until the window for repetitions is over.
        self.there.ask(&format!("below {}", before.0 - size / 2.0));
        size / seconds / 1e6
    }

    fn plain(&mut self, kind: &str) -> f64 {
        self.warm();
        let bytes = self.bytes;
        let port = self.there.ask(&format!("sink {kind} {bytes}"));
        let seconds = self.here.number(&format!("send {port} {bytes}"));
        self.there.ask("sunk");
        as_f64(bytes) / seconds / 1e6
    }
}

fn as_f64(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap())
}
