//! One server process and its folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::client::{Client, Reply};
use crate::{KitError, ensure_installed};

/// How often another port is tried when somebody took the free one in between.
const PORT_TRIES: usize = 8;
/// How long a server may take to become ready.
const READY_WAIT: Duration = Duration::from_mins(1);

/// The shell that watches over a server. Its input is a pipe from us: when it ends, because we say so or because we
/// died, the server is killed by its pid. The shell has not reaped the server before, so the pid cannot be another's.
/// `keep` leaves the folder for a restart. What the server says of arguments that it does not know comes on its error output,
/// and must be heard, or its start would be waited for.
const SUPERVISOR: &str = r#"dir=$1; shift
"$@" </dev/null 2>&1 &
pid=$!
echo "pid $pid"
word=
read -r word
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
[ "$word" = keep ] || rm -rf "$dir""#;

/// How a server is started; every server listens on loopback only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Arguments after port and folder.
    pub(crate) arguments: Vec<String>,
    /// The port is one for TLS, with these files.
    pub(crate) tls: Option<TlsFiles>,
    /// Runs as Sentinel with this configuration.
    pub(crate) sentinel: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A throw-away server. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    setup: Setup,
    port: u16,
    folder: PathBuf,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    supervisor: Child,
    leash: ChildStdin,
    output: JoinHandle<()>,
}

impl Server {
    /// Starts a standalone server that keeps nothing on disk.
    ///
    /// # Errors
    /// [`KitError`] when no server is installed or it does not start.
    pub fn start() -> Result<Self, KitError> {
        Self::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a standalone server that has each write on disk before it answers.
    ///
    /// # Errors
    /// [`KitError`] when no server is installed or it does not start.
    pub fn start_durable() -> Result<Self, KitError> {
        Self::start_with(&[
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ])
    }

    /// Starts a standalone server with more arguments.
    ///
    /// # Errors
    /// [`KitError`] when no server is installed or it does not start.
    pub fn start_with(arguments: &[&str]) -> Result<Self, KitError> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self::start_setup(Setup {
            arguments,
            ..Setup::default()
        })
    }

    pub(crate) fn start_setup(setup: Setup) -> Result<Self, KitError> {
        let program = ensure_installed()?;
        let mut last = KitError::NotStarted {
            reason: "no port was tried".to_owned(),
        };
        for _ in 0..PORT_TRIES {
            let port = free_port()?;
            let name = format!("spotlane-redis-{}-{port}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let mut server = Self {
                program: program.clone(),
                setup: setup.clone(),
                port,
                folder,
                running: None,
            };
            match server.restart() {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills it with SIGKILL and waits until it is gone. Its folder and port stay for [`Server::restart`].
    ///
    /// # Errors
    /// [`KitError::Io`] when the supervisor cannot be waited for.
    pub fn kill(&mut self) -> Result<(), KitError> {
        self.stop("keep\n")
    }

    /// Starts it again on the same port and folder; kills it first when it runs.
    ///
    /// # Errors
    /// [`KitError`] when it does not start.
    pub fn restart(&mut self) -> Result<(), KitError> {
        self.kill()?;
        fs::create_dir_all(&self.folder)?;
        let arguments = self.arguments()?;
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(&self.folder)
            .arg(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (leash, output) = (supervisor.stdin.take(), supervisor.stdout.take());
        let (Some(leash), Some(output)) = (leash, output) else {
            return Err(KitError::NotStarted {
                reason: "no pipes to the supervisor".to_owned(),
            });
        };
        let (ready, readiness) = sync_channel(1);
        let output = std::thread::spawn(move || {
            let mut last = String::new();
            // Reads to the end, so that the server never waits for a full pipe.
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if line.contains("Ready to accept connections") || line.contains("+monitor ") {
                    drop(ready.try_send(Ok(())));
                }
                // A server that ends says why in its last line; the supervisor would wait for us.
                if line.contains("Failed listening")
                    || line.contains("FATAL")
                    || line.contains("exit")
                {
                    drop(ready.try_send(Err(line.clone())));
                }
                last = line;
            }
            drop(ready.try_send(Err(last)));
        });
        self.running = Some(Running {
            supervisor,
            leash,
            output,
        });
        wait_ready(&readiness)
    }

    fn arguments(&self) -> Result<Vec<String>, KitError> {
        let port = self.port.to_string();
        let folder = self.folder.display().to_string();
        let mut arguments = Vec::new();
        if let Some(configuration) = &self.setup.sentinel {
            let file = self.folder.join("sentinel.conf");
            fs::write(&file, configuration)?;
            arguments.extend([file.display().to_string(), "--sentinel".to_owned()]);
        }
        let bind = ["--bind", "127.0.0.1", "--dir", &folder, "--daemonize", "no"];
        arguments.extend(bind.map(ToOwned::to_owned));
        if let Some(tls) = &self.setup.tls {
            let (certificate, key) = (self.folder.join("tls.crt"), self.folder.join("tls.key"));
            fs::write(&certificate, &tls.certificate)?;
            fs::write(&key, &tls.key)?;
            let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
            let tls = [
                "--port",
                "0",
                "--tls-port",
                &port,
                "--tls-cert-file",
                &certificate,
                "--tls-key-file",
                &key,
                "--tls-ca-cert-file",
                &certificate,
                "--tls-auth-clients",
                "no",
            ];
            arguments.extend(tls.map(ToOwned::to_owned));
        } else {
            arguments.extend(["--port".to_owned(), port]);
        }
        arguments.extend(self.setup.arguments.iter().cloned());
        Ok(arguments)
    }

    /// A plain connection for the commands that a test itself sends.
    ///
    /// # Errors
    /// [`KitError::Io`].
    pub fn client(&self) -> Result<Client, KitError> {
        Client::connect(self.address())
    }

    /// Sends one command over a connection of its own.
    ///
    /// # Errors
    /// [`KitError::Io`], and [`KitError::Refused`] when the server answers with an error.
    pub fn command(&self, parts: &[&str]) -> Result<Reply, KitError> {
        self.client()?.command(parts)
    }

    fn stop(&mut self, word: &str) -> Result<(), KitError> {
        let Some(mut running) = self.running.take() else {
            return Ok(());
        };
        // A supervisor that has gone already has killed its server.
        drop(running.leash.write_all(word.as_bytes()));
        drop(running.leash);
        running.supervisor.wait()?;
        // The reader ends with the last holder of the pipe, which was the server.
        drop(running.output.join());
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop("remove\n"));
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn wait_ready(readiness: &Receiver<Result<(), String>>) -> Result<(), KitError> {
    let reason = match readiness.recv_timeout(READY_WAIT) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(line)) => line,
        Err(_) => "it was not ready in time".to_owned(),
    };
    Err(KitError::NotStarted { reason })
}

/// A port that was free a moment ago. Cluster servers also need the one 10,000 above it.
fn free_port() -> Result<u16, KitError> {
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let bus = port.checked_add(10_000);
        if bus.is_some_and(|bus| TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok()) {
            return Ok(port);
        }
    }
}
