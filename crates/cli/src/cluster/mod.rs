//! `spotlane cluster`: several nodes and their store on this machine, until Ctrl-C.

mod member;
mod redis;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join_all, select_all};

use crate::args::ClusterArgs;
use crate::client::{Table, json};
use crate::config::store_url;
use crate::signal::Interrupt;
use crate::term::say;

use member::{Endpoints, Member, MemberError, Plan};
use redis::{Redis, RedisError};

/// How long nodes may take to shut down: a little more than they give themselves.
const STOP_WAIT: Duration = Duration::from_secs(40);

/// Why a cluster is not there any more, or never was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ClusterError {
    /// The store.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// A node at its start.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The store of `--store`.
    #[error("--store {reason}")]
    Store {
        /// What is wrong.
        reason: String,
    },
    /// The folder, or the signals.
    #[error("the cluster could not be prepared: {0}")]
    Io(#[from] std::io::Error),
    /// A node while it ran.
    #[error("{name} ended ({status}), so the cluster was stopped\n{tail}")]
    Ended {
        /// Which.
        name: String,
        /// How.
        status: String,
        /// Its last words.
        tail: String,
    },
}

/// Runs a cluster until it is told to stop.
///
/// # Errors
/// [`ClusterError`]; everything that was started is stopped in every case.
pub(crate) async fn run(args: &ClusterArgs) -> Result<(), ClusterError> {
    if let Some(url) = &args.store {
        let url = store_url(url).map_err(|reason| ClusterError::Store { reason })?;
        if url == "memory" {
            let reason =
                "memory is seen by one process only; name a Redis or leave it out".to_owned();
            return Err(ClusterError::Store { reason });
        }
    }
    let mut interrupt = Interrupt::new()?;
    let folder = Folder::new()?;
    let redis = match &args.store {
        Some(_) => None,
        None => Some(Redis::start(folder.path()).await?),
    };
    let store = args
        .store
        .clone()
        .or_else(|| redis.as_ref().map(Redis::url))
        .unwrap_or_default();
    let mut members = Vec::new();
    let result = serve(args, &store, &folder, &mut members, &mut interrupt).await;
    stop(&mut members, &mut interrupt).await;
    if let Some(redis) = redis {
        redis.stop().await;
    }
    if result.is_err() {
        folder.keep();
    }
    result
}

async fn serve(
    args: &ClusterArgs,
    store: &str,
    folder: &Folder,
    members: &mut Vec<Member>,
    interrupt: &mut Interrupt,
) -> Result<(), ClusterError> {
    for index in 0..args.nodes {
        let plan = Plan {
            name: format!("node-{}", index + 1),
            store: store.to_owned(),
            key_prefix: format!("spotlane-cluster-{}", std::process::id()),
            admin_port: if args.admin_port == 0 {
                0
            } else {
                args.admin_port.saturating_add(index)
            },
        };
        members.push(Member::start(&plan, folder.path())?);
    }
    let ready = join_all(members.iter_mut().map(Member::ready));
    let endpoints: Vec<_> = tokio::select! {
        ready = ready => ready.into_iter().collect::<Result<_, _>>()?,
        () = interrupt.next() => return Ok(()),
    };
    say(&introduction(args, store, &endpoints));
    let ends = members
        .iter_mut()
        .map(|member| member.ended().boxed_local());
    let (index, status) = tokio::select! {
        (status, index, _) = select_all(ends) => (index, status),
        () = interrupt.next() => return Ok(()),
    };
    let member = &members[index];
    Err(ClusterError::Ended {
        name: member.name().to_owned(),
        status: status.map_or_else(|| "lost".to_owned(), |status| status.to_string()),
        tail: member.tail(),
    })
}

/// Lets all shut down together; a second interrupt or the end of patience kills them, each by its pid.
async fn stop(members: &mut [Member], interrupt: &mut Interrupt) {
    members.iter_mut().for_each(Member::release);
    let ended = join_all(members.iter_mut().map(Member::ended));
    let patient = tokio::select! {
        ended = tokio::time::timeout(STOP_WAIT, ended) => ended.is_ok(),
        () = interrupt.next() => false,
    };
    if !patient {
        join_all(members.iter_mut().map(Member::kill)).await;
    }
}

fn introduction(args: &ClusterArgs, store: &str, endpoints: &[Endpoints]) -> String {
    if args.json {
        return endpoints.iter().map(json).collect();
    }
    let mut table = Table::new();
    table.row(["node", "pid", "admin", "stream", "mesh"]);
    for node in endpoints {
        table.row([
            &node.node,
            &node.pid.to_string(),
            &node.admin,
            &node.stream,
            &node.mesh,
        ]);
    }
    let first = endpoints.first().map_or("", |node| &node.admin);
    let store = if args.store.is_some() { "yours" } else { store };
    format!(
        "{table}\nstore  {store}\n\nIn another terminal:\n  spotlane status --admin {first}\n  spotlane drain  --admin \
         {first}\n\nCtrl-C stops the nodes and everything else that was started here.\n"
    )
}

/// A folder for files and logs of this run, removed at the end unless something went wrong.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    kept: std::cell::Cell<bool>,
}

impl Folder {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("spotlane-cluster-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self {
            path,
            kept: false.into(),
        })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept.get() {
            // What cannot be removed stays; it is a temporary folder.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}
