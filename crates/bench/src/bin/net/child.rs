//! Server processes: the program of the bench again, talking to its parent over its standard streams.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tokio::runtime::Runtime;

/// A server process; it ends when its input does.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(peer: &str, mode: &str) -> Self {
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
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

/// Whether this process is a server, which is started by peer and mode; it returns when the parent has
/// gone.
pub fn serve_if_asked(serve: impl FnOnce(String, String, &Runtime)) -> bool {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some("serve") {
        return false;
    }
    let mut next = || arguments.next().unwrap_or_default();
    let (peer, mode) = (next(), next());
    let runtime = crate::node::runtime();
    serve(peer, mode, &runtime);
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).ok();
    runtime.shutdown_background();
    true
}

/// Says something to the parent.
pub fn say(what: impl std::fmt::Display) {
    #[expect(clippy::print_stdout, reason = "it is what the parent reads")]
    {
        println!("{what}");
    }
    std::io::stdout().flush().unwrap();
}
