//! Real node processes on a real Redis, for tests.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A lease that ends soon after its process, so that rounds are short.
pub(crate) const FAST_SETTINGS: &str = "[settings]\nowner_lease_ttl = \"2s\"\nowner_lease_renew_interval = \
                                 \"300ms\"\nowner_lease_renew_timeout = \"300ms\"\nowner_lease_fencing_margin = \
                                 \"500ms\"\npolling_interval = \"200ms\"\n";

/// The program under test.
pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_spotlane"))
}

/// Runs the program to its end.
pub(crate) fn spotlane(arguments: &[&str]) -> Output {
    let mut program = program();
    program
        .args(arguments)
        .env_remove("SPOTLANE_ADMIN")
        .env_remove("SPOTLANE_TOKEN")
        .env_remove("SPOTLANE_LOG");
    program.stdin(Stdio::null()).output().unwrap()
}

/// Standard output as text.
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder of this test, removed at its end.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("spotlane-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A node process that said `ready`. Dropping it kills it by its pid.
#[derive(Debug)]
pub(crate) struct Node {
    process: Child,
    leash: Option<ChildStdin>,
    log: PathBuf,
    /// Its name.
    pub(crate) name: String,
    /// Its admin endpoint.
    pub(crate) admin: String,
    /// Its stream endpoint, when it has one.
    pub(crate) stream: String,
}

impl Node {
    /// Starts one with this file and waits for `ready`.
    pub(crate) fn start(folder: &Folder, name: &str, config: &str) -> Self {
        let file = folder.write(&format!("{name}.toml"), config);
        let log = folder.path().join(format!("{name}.log"));
        let mut process = program()
            .args(["node", "--leash", "--log", "info", "--config"])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(&log)
                    .unwrap(),
            )
            .spawn()
            .unwrap();
        let leash = process.stdin.take();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut node = Self {
            process,
            leash,
            log,
            name: name.to_owned(),
            admin: String::new(),
            stream: String::new(),
        };
        for line in lines {
            match line.unwrap().split_once(' ') {
                Some(("admin", url)) => url.clone_into(&mut node.admin),
                Some(("stream", url)) => url.clone_into(&mut node.stream),
                Some(_) => {}
                // A node says nothing after `ready`, so nobody has to read on.
                None => return node,
            }
        }
        panic!("{name} did not become ready:\n{}", node.log());
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets go of the leash and waits for its end.
    pub(crate) fn release(&mut self) -> ExitStatus {
        drop(self.leash.take());
        self.process.wait().unwrap()
    }

    /// SIGTERM, and waits for its end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let pid = self.pid().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.process.wait().unwrap()
    }

    /// The answer of its admin endpoint to a GET: code and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        http(&self.admin, &request)
    }

    /// The answer of its admin endpoint to a POST: code and body.
    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, String) {
        post(&self.admin, path, body)
    }

    /// Its status.
    pub(crate) fn status(&self) -> serde_json::Value {
        let (code, body) = self.get("/v1/status");
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The answer of an admin endpoint to a POST: code and body; code 0 when nobody answers.
pub(crate) fn post(admin: &str, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
    http(
        admin,
        &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
}

/// One request; code 0 when nobody answers.
fn http(admin: &str, request: &str) -> (u16, String) {
    let ask = || -> std::io::Result<String> {
        let mut socket = TcpStream::connect(admin.trim_start_matches("http://"))?;
        socket.set_read_timeout(Some(Duration::from_secs(90)))?;
        socket.write_all(request.as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().unwrap_or_default();
    let code = answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let body = answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned());
    (code, body.unwrap_or_default())
}
