//! A throw-away Redis: on loopback, on a free port, without a file that outlives it.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// The programs that will do, the preferred one first.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// How often another port is tried when somebody took the free one in between.
const PORT_TRIES: usize = 8;
/// How long a server may take to start.
const READY_WAIT: Duration = Duration::from_secs(20);
/// How long its supervisor may take to end it.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// The shell that holds the server's pid. Its input is a pipe from us: when that ends, because we say so or because we
/// died, it ends the server. The shell has not reaped the server before, so the pid cannot be another's.
const SUPERVISOR: &str = r#""$@" </dev/null 2>&1 &
pid=$!
read -r _
kill "$pid" 2>/dev/null
wait "$pid" 2>/dev/null"#;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RedisError {
    /// It is not installed.
    #[error(
        "neither redis-server nor valkey-server is on the path; install one (Debian: `apt install redis-server`), or \
         give a running one with --store redis://HOST:PORT"
    )]
    NotInstalled,
    /// It ended at once, or said nothing.
    #[error("{} did not start: {reason}", .program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// The last thing it said.
        reason: String,
    },
}

/// A running server. Dropping it ends the server too, through its supervisor.
#[derive(Debug)]
pub(crate) struct Redis {
    supervisor: Child,
    leash: ChildStdin,
    address: SocketAddr,
}

impl Redis {
    /// Starts one that works in this folder.
    ///
    /// # Errors
    /// [`RedisError`].
    pub(crate) async fn start(folder: &Path) -> Result<Self, RedisError> {
        let program = find(env::var_os("PATH").unwrap_or_default().as_os_str())
            .ok_or(RedisError::NotInstalled)?;
        let mut reason = String::new();
        for _ in 0..PORT_TRIES {
            match Self::try_start(&program, folder).await {
                Ok(server) => return Ok(server),
                Err(said) => reason = said,
            }
        }
        Err(RedisError::NotStarted { program, reason })
    }

    async fn try_start(program: &Path, folder: &Path) -> Result<Self, String> {
        let address = free_address().map_err(|error| error.to_string())?;
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(program)
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args([
                "--save",
                "",
                "--appendonly",
                "no",
                "--daemonize",
                "no",
                "--dir",
            ])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C reaches us alone, so that the nodes can say goodbye to their store.
            .process_group(0)
            .spawn()
            .map_err(|error| error.to_string())?;
        let (Some(leash), Some(output)) = (supervisor.stdin.take(), supervisor.stdout.take())
        else {
            return Err("no pipes to its supervisor".to_owned());
        };
        let mut lines = BufReader::new(output).lines();
        let ready = async {
            let mut last = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("Ready to accept connections") {
                    return Ok(());
                }
                let ended = line.contains("Failed listening")
                    || line.contains("FATAL")
                    || line.contains("exit");
                last = line;
                if ended {
                    break;
                }
            }
            Err(last)
        };
        tokio::time::timeout(READY_WAIT, ready)
            .await
            .unwrap_or_else(|_| Err("it said nothing".to_owned()))?;
        // It says little from here on, and a server whose output is closed goes on.
        drop(lines);
        Ok(Self {
            supervisor,
            leash,
            address,
        })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Ends the server and waits until it is gone.
    pub(crate) async fn stop(self) {
        let Self {
            mut supervisor,
            leash,
            ..
        } = self;
        drop(leash);
        if tokio::time::timeout(STOP_WAIT, supervisor.wait())
            .await
            .is_err()
        {
            // Its pid, which we have not waited for, so it is its own.
            drop(supervisor.start_kill());
        }
    }
}

fn find(path: &std::ffi::OsStr) -> Option<PathBuf> {
    let folders: Vec<_> = env::split_paths(path).collect();
    let candidates = PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|program| program.is_file())
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn without_a_program_the_error_says_what_to_install() {
        assert_eq!(find(std::ffi::OsStr::new("/nowhere")), None);
        let message = RedisError::NotInstalled.to_string();
        assert!(
            message.contains("apt install redis-server") && message.contains("--store"),
            "{message}"
        );
    }

    #[tokio::test]
    async fn a_started_server_answers_and_is_gone_after_its_stop() {
        spotlane_redis_testkit::ensure_installed().unwrap();
        let server = Redis::start(&env::temp_dir()).await.unwrap();
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(b"PING\r\n").await.unwrap();
        let mut answer = [0; 7];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
        let address = server.address;
        server.stop().await;
        assert!(TcpStream::connect(address).await.is_err());
    }
}
