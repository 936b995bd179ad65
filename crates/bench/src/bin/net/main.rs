//! Messages between two processes over loopback: the mesh beside zeromq, tonic and framed tokio.
//!
//! Each contender has a server process of its own, which is this program again; both sides run tokio
//! with two workers. *Pipelined* is one task that keeps so many requests open, *callers* are so many tasks with one request
//! each. All contenders of a figure have its shape, unless the name of a peer says another one.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::large_futures,
    missing_docs,
    reason = "a bench may fail, and speaks to its parent"
)]

mod child;
mod framed;
mod grpc;
mod node;
mod ours;
mod zmq;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use child::Server;
use spotlane_bench::{Bench, Figure};
use tokio::runtime::Runtime;

/// The first byte of the last message of a one-way run.
pub const END: u8 = 0xFF;

/// What a client has measured.
pub struct Out {
    pub seconds: f64,
    /// Nanoseconds from send to reply, of each request.
    pub latencies: Vec<u32>,
}

/// How requests are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Pipelined,
    Callers,
}

/// One side of a contender, connected to its server.
pub trait Client {
    fn requests(&mut self, payload: usize, depth: usize, shape: Shape, time: Duration) -> Out;
    /// Messages that the other side has handled, per second.
    fn one_way(&mut self, payload: usize, time: Duration) -> f64;
}

/// What a server does with messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Echo,
    Sink,
}

/// Starts the server of a peer and connects to it.
fn connect(peer: &str, mode: Mode) -> Box<dyn Client> {
    let name = match mode {
        Mode::Echo => "echo",
        Mode::Sink => "sink",
    };
    let mut server = Server::start(peer, name);
    let port: u16 = server.line().parse().expect("the port of the server");
    match peer {
        "ours" => Box::new(ours::Ours::new(server, port)),
        "framed" => Box::new(framed::FramedClient::new(server, port)),
        "framed, 2 connections" => Box::new(framed::PairClient::new(server, port)),
        "zeromq" => Box::new(zmq::Zeromq::new(server, port, mode)),
        _ => Box::new(grpc::Tonic::new(server, port)),
    }
}

fn serve(peer: String, mode: String, runtime: &Runtime) {
    let mode = if mode == "sink" {
        Mode::Sink
    } else {
        Mode::Echo
    };
    match &peer[..] {
        "ours" => runtime.spawn(ours::serve()),
        "framed" => runtime.spawn(framed::serve(mode)),
        "framed, 2 connections" => runtime.spawn(framed::serve_pair()),
        "zeromq" => runtime.spawn(zmq::serve(mode)),
        _ => runtime.spawn(grpc::serve()),
    };
}

/// How many messages of a one-way run a server has handled.
pub fn handled(server: &mut Server) -> f64 {
    server.line().parse().expect("a number of messages")
}

/// A client that is connected when it is first used, one for requests and one for one-way messages.
#[derive(Clone)]
struct Lazy {
    peer: &'static str,
    /// Its name in a table.
    name: &'static str,
    /// Another shape than that of the figure.
    shape: Option<Shape>,
    client: Rc<RefCell<[Option<Box<dyn Client>>; 2]>>,
}

impl Lazy {
    fn new(peer: &'static str) -> Self {
        Self {
            peer,
            name: peer,
            shape: None,
            client: Rc::default(),
        }
    }

    /// The same client, which makes its requests in this shape whatever the figure asks for.
    fn in_shape(&self, name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            shape: Some(shape),
            ..self.clone()
        }
    }

    fn with<T>(&self, mode: Mode, call: impl FnOnce(&mut dyn Client) -> T) -> T {
        let mut clients = self.client.borrow_mut();
        let place = &mut clients[usize::from(mode == Mode::Sink)];
        let client = place.get_or_insert_with(|| connect(self.peer, mode));
        call(client.as_mut())
    }
}

fn main() -> ExitCode {
    if child::serve_if_asked(serve) {
        return ExitCode::SUCCESS;
    }
    spotlane_bench::main(|bench| {
        let [ours, framed, pair, zeromq, tonic] =
            ["ours", "framed", "framed, 2 connections", "zeromq", "tonic"].map(Lazy::new);
        // So many requests open at once, by what serves each of them best.
        let callers = tonic.in_shape("tonic, callers", Shape::Callers);
        for (size, payload) in [("64 B", 64), ("4 KiB", 4096)] {
            for (depth, shape, peers) in [
                (1, Shape::Pipelined, &[&framed, &pair, &zeromq][..]),
                (
                    128,
                    Shape::Pipelined,
                    &[&zeromq, &framed, &tonic, &callers][..],
                ),
                (128, Shape::Callers, &[&tonic, &framed][..]),
            ] {
                let how = match shape {
                    Shape::Pipelined => "pipelined",
                    Shape::Callers => "callers",
                };
                let what = Requests {
                    payload,
                    depth,
                    shape,
                };
                let name = format!("requests, {size}, {depth} {how}");
                add(bench, &ours, peers, &name, what);
            }
        }
        for (size, payload) in [("64 B", 64), ("4 KiB", 4096)] {
            one_way(bench, &ours, &[&tonic, &zeromq, &framed], size, payload);
        }
    })
}

#[derive(Clone, Copy)]
struct Requests {
    payload: usize,
    depth: usize,
    shape: Shape,
}

/// Requests per second, and how long the median and the slowest percent take.
fn add(bench: &mut Bench, ours: &Lazy, peers: &[&Lazy], name: &str, what: Requests) {
    let time = bench.slice() * 5;
    let throughput = move |lazy: &Lazy| {
        let lazy = lazy.clone();
        move || {
            let out = run(&lazy, what, time);
            out.latencies.len() as f64 / out.seconds
        }
    };
    let figure = bench.figure(name, "requests/s", throughput(ours));
    with_peers(figure, peers, throughput);
    let percentile = move |share: f64| {
        move |lazy: &Lazy| {
            let lazy = lazy.clone();
            move || {
                let mut out = run(&lazy, what, time);
                let last = out.latencies.len().saturating_sub(1) as f64;
                #[expect(clippy::cast_sign_loss, reason = "a share of a length")]
                let at = (last * share) as usize;
                let (_, value, _) = out.latencies.select_nth_unstable(at);
                f64::from(*value) / 1e3
            }
        }
    };
    for (part, share) in [("p50", 0.5), ("p99", 0.99)] {
        let measure = percentile(share);
        let figure = bench.figure(format!("{name}, {part}"), "us", measure(ours));
        with_peers(figure, peers, measure);
    }
}

fn run(lazy: &Lazy, what: Requests, time: Duration) -> Out {
    let shape = lazy.shape.unwrap_or(what.shape);
    lazy.with(Mode::Echo, |client| {
        client.requests(what.payload, what.depth, shape, time)
    })
}

fn one_way(bench: &mut Bench, ours: &Lazy, peers: &[&Lazy], size: &str, payload: usize) {
    let time = bench.slice() * 5;
    let measure = move |lazy: &Lazy| {
        let lazy = lazy.clone();
        move || lazy.with(Mode::Sink, |client| client.one_way(payload, time))
    };
    let figure = bench.figure(format!("one-way, {size}"), "messages/s", measure(ours));
    with_peers(figure, peers, measure);
}

fn with_peers<F: FnMut() -> f64 + 'static>(
    figure: &mut Figure,
    peers: &[&Lazy],
    measure: impl Fn(&Lazy) -> F,
) {
    for peer in peers {
        figure.peer(peer.name, measure(peer));
    }
}

pub fn now() -> Instant {
    spotlane_bench::now()
}

pub fn nanos(since: Instant, now: Instant) -> u32 {
    (now - since).as_nanos() as u32
}
