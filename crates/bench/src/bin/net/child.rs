//! Server processes: this program again, talking to its parent over its standard streams.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Client, framed, grpc, ours, zmq};

/// What a server does with messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Echo,
    Sink,
}

/// A server process; it ends when its input does.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(peer: &str, mode: Mode) -> Self {
        let mode = match mode {
            Mode::Echo => "echo",
            Mode::Sink => "sink",
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", peer, mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// How many messages of a one-way run it has handled.
    pub fn handled(&mut self) -> f64 {
        self.line().parse().expect("a number of messages")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

/// Starts the server of a peer and connects to it.
pub fn connect(peer: &str, mode: Mode) -> Box<dyn Client> {
    let mut server = Server::start(peer, mode);
    let port: u16 = server.line().parse().expect("the port of the server");
    match peer {
        "ours" => Box::new(ours::Ours::new(server, port)),
        "framed" => Box::new(framed::FramedClient::new(server, port)),
        "zeromq" => Box::new(zmq::Zeromq::new(server, port, mode)),
        _ => Box::new(grpc::Tonic::new(server, port)),
    }
}

/// Whether this process is a server; it returns when the parent has gone.
pub fn serve_if_asked() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [serve, peer, mode] = &arguments[..] else {
        return false;
    };
    if serve != "serve" {
        return false;
    }
    let mode = if mode == "sink" {
        Mode::Sink
    } else {
        Mode::Echo
    };
    let runtime = crate::runtime();
    match &peer[..] {
        "ours" => runtime.spawn(ours::serve(mode)),
        "framed" => runtime.spawn(framed::serve(mode)),
        "zeromq" => runtime.spawn(zmq::serve(mode)),
        _ => runtime.spawn(grpc::serve()),
    };
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).ok();
    runtime.shutdown_background();
    true
}

/// Says something to the parent.
pub fn say(what: impl std::fmt::Display) {
    println!("{what}");
    std::io::stdout().flush().unwrap();
}
