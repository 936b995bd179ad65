//! The processes of the hosts: this program again, told what to do line by line over its standard streams.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use spotlane::id::NodeRid;
use spotlane::prelude::*;
use spotlane::redis::{RedisOptions, RedisRelocation, RedisStore};
use spotlane_bench::now;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::blob::{self, Blob, Slices};
use crate::load::{self, Load};
use crate::{memory, plain};

/// Longer takes nothing that a host is told to do.
const LONGEST: Duration = Duration::from_secs(40);

/// A host in its process, which ends when its input does.
pub struct Child {
    pub name: String,
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub fn start(name: &str, url: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["serve", name, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Self {
            name: name.to_owned(),
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        child.line();
        child
    }

    /// Has it do something, and waits for its answer.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        self.line()
    }

    /// As [`Self::ask`], for a number.
    pub fn number(&mut self, line: &str) -> f64 {
        let answer = self.ask(line);
        answer
            .parse()
            .unwrap_or_else(|_| panic!("host {} answered `{line}` with `{answer}`", self.name))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "host {} has ended", self.name);
        line.trim().to_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.input.take());
        self.process.wait().unwrap();
    }
}

/// What a child does: reads a line, does it, answers with a line.
pub fn serve(name: &str, url: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut served = runtime.block_on(Served::start(name, url));
    answer("up");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let act = async { tokio::time::timeout(LONGEST, served.act(&words)).await };
        let Ok(said) = runtime.block_on(act) else {
            panic!(
                "host {name} did not come to an end with `{line}`, {}",
                served.looks()
            );
        };
        answer(&said);
    }
    ExitCode::SUCCESS
}

fn answer(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

struct Served {
    host: Host,
    load: Option<Load>,
    sink: Option<JoinHandle<()>>,
    /// What the bare socket sends.
    prepared: Bytes,
}

impl Served {
    async fn start(name: &str, url: &str) -> Self {
        let options = RedisOptions::new(url, "bench");
        let host = Host::builder()
            .mesh("bench")
            .node_id(name)
            .listen("tcp://127.0.0.1:0")
            .location_store(RedisStore::open(&options).unwrap())
            .relocation_store(RedisRelocation::open(&options).unwrap())
            .actor(Policy::preserve(Slices), Blob::default)
            .start()
            .await
            .unwrap();
        Self {
            host,
            load: None,
            sink: None,
            prepared: Bytes::new(),
        }
    }

    async fn act(&mut self, words: &[&str]) -> String {
        match *words {
            ["make", bytes] => {
                let large = self.host.actors().create::<Blob>(blob::ID);
                large.request(bytes.to_owned()).await.unwrap();
                for (_, id) in load::ids() {
                    self.host.actors().create::<Blob>(id).await.unwrap();
                }
            }
            ["meet"] => {
                self.host
                    .wait_for_peers(1, Duration::from_secs(10))
                    .await
                    .unwrap();
                while self.host.nodes().len() < 2 {
                    pause().await;
                }
            }
            ["owns"] => while self.owner(blob::ID).await != *self.host.node_id() {},
            ["below", bytes] => {
                let bytes: f64 = bytes.parse().unwrap();
                while f64::from(u32::try_from(memory::resident() >> 10).unwrap()) * 1024.0 > bytes {
                    pause().await;
                }
            }
            ["move", id, target] => {
                let target = NodeRid::new(target.as_bytes()).unwrap();
                let start = now();
                self.host.relocate(id, &target).await.unwrap();
                return start.elapsed().as_secs_f64().to_string();
            }
            ["warm", bytes] => {
                // Sleep: nothing tells when the system has given away what was free.
                tokio::time::sleep(memory::GIVEN_AWAY_WITHIN).await;
                memory::warm(bytes.parse().unwrap());
            }
            ["mark"] => return memory::mark().to_string(),
            ["peak"] => return memory::peak().to_string(),
            ["load"] => self.load = Some(Load::start(&self.host)),
            ["rest"] => return self.load.take().unwrap().stop().await,
            ["sink", kind, bytes] => return self.listen(kind, bytes.parse().unwrap()).await,
            ["sunk"] => self.sink.take().unwrap().await.unwrap(),
            ["send", port, bytes] => {
                let bytes: usize = bytes.parse().unwrap();
                if self.prepared.len() != bytes {
                    self.prepared = vec![0x5a; bytes].into();
                }
                let took = plain::send(port.parse().unwrap(), &self.prepared).await;
                self.prepared = Bytes::new();
                return took.to_string();
            }
            _ => panic!("no such word: {words:?}"),
        }
        "done".to_owned()
    }

    /// For the report of something that did not end.
    fn looks(&self) -> String {
        let resident = memory::resident() >> 20;
        format!("with {resident} MiB resident: {:?}", self.host)
    }

    async fn owner(&self, id: &str) -> NodeRid {
        loop {
            if let Ok(Some(found)) = self.host.actors().find(id).await {
                return found.node().clone();
            }
            pause().await;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the handle is awaited")]
    async fn listen(&mut self, kind: &str, bytes: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let keeps = match kind {
            "keep" => plain::Keeps::Small,
            "large" => plain::Keeps::Large,
            _ => plain::Keeps::Nothing,
        };
        self.sink = Some(tokio::spawn(plain::sink(listener, bytes, keeps)));
        port.to_string()
    }
}

async fn pause() {
    // Sleep: nothing tells when memory has been given back.
    tokio::time::sleep(Duration::from_millis(20)).await;
}
