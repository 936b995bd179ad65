//! One node process of a cluster: its file, its start, what it says of itself, its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::node::READY_LINE;

/// How long a node may take until it is ready.
const READY_WAIT: Duration = Duration::from_mins(1);
/// How many of its last lines are shown when it fails.
const TAIL_LINES: usize = 8;

/// Why a node is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MemberError {
    /// Its process or its files could not be made.
    #[error("{name} could not be started: {cause}")]
    Io {
        /// Which.
        name: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It ended, or said nothing.
    #[error("{name} did not become ready: {reason}\n{tail}(its log is {})", .log.display())]
    NotReady {
        /// Which.
        name: String,
        /// What happened.
        reason: String,
        /// Its last words.
        tail: String,
        /// Where the others are.
        log: PathBuf,
    },
}

/// What a node of the cluster is given.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its name.
    pub(crate) name: String,
    /// The store of all.
    pub(crate) store: String,
    /// Keeps clusters on one store apart.
    pub(crate) key_prefix: String,
    /// 0: the system chooses.
    pub(crate) admin_port: u16,
}

impl Plan {
    /// Its file.
    fn config(&self) -> String {
        let Self {
            name,
            store,
            key_prefix,
            admin_port,
        } = self;
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let (name, store, key_prefix) = (quoted(name), quoted(store), quoted(key_prefix));
        format!(
            "[node]\nname = {name}\n\n[mesh]\nlisten = \"tcp://127.0.0.1:0\"\n\n[stream]\nlisten = \
             \"tcp://127.0.0.1:0\"\n\n[admin]\nlisten = \"http://127.0.0.1:{admin_port}\"\n\n[store]\nurl = \
             {store}\nkey_prefix = {key_prefix}\n"
        )
    }
}

/// What a node said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Endpoints {
    /// Its name.
    pub(crate) node: String,
    /// Its process.
    pub(crate) pid: u32,
    /// Where operators connect.
    pub(crate) admin: String,
    /// Where clients connect.
    pub(crate) stream: String,
    /// Where nodes connect.
    pub(crate) mesh: String,
}

impl Endpoints {
    /// Takes one line of a node's standard output.
    fn learn(&mut self, line: &str) {
        let field = match line.split_once(' ') {
            Some(("node", name)) => (&mut self.node, name),
            Some(("admin", url)) => (&mut self.admin, url),
            Some(("stream", url)) => (&mut self.stream, url),
            Some(("mesh", url)) => (&mut self.mesh, url),
            _ => return,
        };
        field.1.clone_into(field.0);
    }
}

/// A running node. Dropping it kills it by its pid.
#[derive(Debug)]
pub(crate) struct Member {
    name: String,
    log: PathBuf,
    process: Child,
    /// The node shuts down when this is dropped, also when we die.
    leash: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Member {
    /// Starts the process.
    ///
    /// # Errors
    /// [`MemberError::Io`].
    pub(crate) fn start(plan: &Plan, folder: &Path) -> Result<Self, MemberError> {
        let failed = |cause| MemberError::Io {
            name: plan.name.clone(),
            cause,
        };
        let file = folder.join(format!("{}.toml", plan.name));
        fs::write(&file, plan.config()).map_err(failed)?;
        let log = folder.join(format!("{}.log", plan.name));
        let mut process = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["node", "--leash", "--config"])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).map_err(failed)?)
            // Ctrl-C reaches us alone: we tell the nodes, and the store last.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let leash = process.stdin.take();
        let output = process
            .stdout
            .take()
            .ok_or_else(|| failed(std::io::Error::other("no pipe from it")))?;
        Ok(Self {
            name: plan.name.clone(),
            log,
            process,
            leash,
            output: BufReader::new(output).lines(),
        })
    }

    /// Waits until it takes work.
    ///
    /// # Errors
    /// [`MemberError::NotReady`].
    pub(crate) async fn ready(&mut self) -> Result<Endpoints, MemberError> {
        let mut endpoints = Endpoints {
            pid: self.process.id().unwrap_or(0),
            ..Endpoints::default()
        };
        let told = async {
            while let Ok(Some(line)) = self.output.next_line().await {
                if line == READY_LINE {
                    return true;
                }
                endpoints.learn(&line);
            }
            false
        };
        let reason = match tokio::time::timeout(READY_WAIT, told).await {
            Ok(true) => return Ok(endpoints),
            Ok(false) => "it ended".to_owned(),
            Err(_) => format!("it said nothing for {} s", READY_WAIT.as_secs()),
        };
        Err(MemberError::NotReady {
            name: self.name.clone(),
            reason,
            tail: self.tail(),
            log: self.log.clone(),
        })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The last lines that it logged.
    pub(crate) fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let shown = lines
            .get(lines.len().saturating_sub(TAIL_LINES)..)
            .unwrap_or_default();
        shown.iter().flat_map(|line| ["  ", line, "\n"]).collect()
    }

    /// Completes when the process ends; whatever it still says is read meanwhile.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        while let Ok(Some(_)) = self.output.next_line().await {}
        self.process.wait().await.ok()
    }

    /// Tells it to shut down.
    pub(crate) fn release(&mut self) {
        drop(self.leash.take());
    }

    /// Ends it now.
    pub(crate) async fn kill(&mut self) {
        // It may have ended by itself, which is as good.
        drop(self.process.kill().await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeConfig;

    #[test]
    fn the_file_of_a_member_is_valid_whatever_the_url_holds() {
        let plan = Plan {
            name: "node-1".to_owned(),
            store: "redis://user:pa\"ss\\@127.0.0.1:1".to_owned(),
            key_prefix: "spotlane-1".to_owned(),
            admin_port: 0,
        };
        let config = NodeConfig::parse(&plan.config(), Path::new("x.toml")).unwrap();
        assert_eq!(config.store.url, plan.store);
        assert_eq!(config.name.as_deref(), Some("node-1"));
        assert!(config.stream.is_some());
    }

    #[test]
    fn the_lines_of_a_node_are_understood() {
        let mut endpoints = Endpoints::default();
        for line in [
            "node a",
            "mesh tcp://1",
            "admin http://2",
            "stream tcp://3",
            "something else",
            "word",
        ] {
            endpoints.learn(line);
        }
        let Endpoints {
            node,
            mesh,
            admin,
            stream,
            ..
        } = endpoints;
        assert_eq!(
            [node, mesh, admin, stream],
            ["a", "tcp://1", "http://2", "tcp://3"]
        );
    }
}
