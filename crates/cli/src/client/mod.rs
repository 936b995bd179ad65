//! The commands that talk to a running node.

mod http;
mod table;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::Serialize;

use crate::admin::{DrainBody, Drained, Location, ObjectKind, RelocateBody, Status};
use crate::args::{DrainArgs, FindArgs, KindArg, RelocateArgs, RemoteArgs};

pub(crate) use http::{CallError, Endpoint};
pub(crate) use table::{Table, grouped};

/// How long a look-up may take.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than the node we wait, so that its own answer arrives.
const GRACE: Duration = Duration::from_secs(70);

/// `spotlane status`.
///
/// # Errors
/// [`CallError`].
pub(crate) async fn status(args: &RemoteArgs) -> Result<String, CallError> {
    let status: Status = endpoint(args)?
        .get(&["v1", "status"], QUERY_TIMEOUT)
        .await?;
    Ok(if args.json {
        json(&status)
    } else {
        status_table(&status)
    })
}

/// `spotlane find`.
///
/// # Errors
/// [`CallError`].
pub(crate) async fn find(args: &FindArgs) -> Result<String, CallError> {
    let path = ["v1", "objects", args.kind.word(), &args.id];
    let found: Location = endpoint(&args.remote)?.get(&path, QUERY_TIMEOUT).await?;
    Ok(location(&found, &args.remote))
}

/// `spotlane relocate`.
///
/// # Errors
/// [`CallError`].
pub(crate) async fn relocate(args: &RelocateArgs) -> Result<String, CallError> {
    let body = RelocateBody {
        kind: match args.kind {
            KindArg::Actor => ObjectKind::Actor,
            KindArg::Spot => ObjectKind::Spot,
        },
        id: args.id.clone(),
        to: args.to.clone(),
    };
    let found: Location = endpoint(&args.remote)?
        .post(&["v1", "relocate"], &body, GRACE)
        .await?;
    Ok(location(&found, &args.remote))
}

/// `spotlane drain`.
///
/// # Errors
/// [`CallError`].
pub(crate) async fn drain(args: &DrainArgs) -> Result<Drain, CallError> {
    let body = DrainBody {
        seconds: args.seconds,
    };
    let limit = Duration::from_secs(args.seconds) + GRACE;
    let drained: Drained = endpoint(&args.remote)?
        .post(&["v1", "drain"], &body, limit)
        .await?;
    let text = if args.remote.json {
        json(&drained)
    } else {
        let mut table = Table::new();
        table
            .row(["moved", &grouped(drained.moved)])
            .row(["left", &grouped(drained.left)]);
        table.to_string()
    };
    Ok(Drain {
        text,
        left: drained.left,
        reason: drained
            .reason
            .unwrap_or_else(|| "no reason was given".to_owned()),
    })
}

/// How a drain ended.
#[derive(Debug)]
pub(crate) struct Drain {
    /// What to print.
    pub(crate) text: String,
    /// Objects that are still there.
    pub(crate) left: u64,
    /// Why.
    pub(crate) reason: String,
}

fn endpoint(args: &RemoteArgs) -> Result<Endpoint, CallError> {
    Endpoint::new(&args.admin, args.token.as_deref())
}

fn location(found: &Location, args: &RemoteArgs) -> String {
    if args.json {
        return json(found);
    }
    let mut table = Table::new();
    let kind = match found.object.kind {
        ObjectKind::Actor => "actor",
        ObjectKind::Spot => "spot",
    };
    table
        .row([kind, &found.object.id])
        .row(["node", &found.node])
        .row(["generation", &found.generation]);
    table.to_string()
}

fn status_table(status: &Status) -> String {
    let mut table = Table::new();
    table
        .row(["node", &status.node])
        .row(["version", &status.version])
        .row(["state", &status.state])
        .row(["uptime", &format!("{} s", grouped(status.uptime_seconds))])
        .row(["mesh", &status.mesh])
        .row(["stream", status.stream.as_deref().unwrap_or("-")])
        .row(["store", &status.store])
        .row(["actors", &grouped(status.actors)])
        .row(["spots", &grouped(status.spots)])
        .row(["sessions", &grouped(status.sessions)])
        .row(["moving", &grouped(status.moving)])
        .row([
            "safe to shut down",
            if status.safe_to_shutdown { "yes" } else { "no" },
        ]);
    let mut text = table.to_string();
    if !status.peers.is_empty() {
        let mut peers = Table::new();
        peers.row(["peer", "mesh", "state"]);
        for peer in &status.peers {
            peers.row([&peer.node, &peer.mesh, &peer.state]);
        }
        text = format!("{text}\n{peers}");
    }
    text
}

/// One line of JSON.
pub(crate) fn json(value: &impl Serialize) -> String {
    // The values are our own structs of texts and numbers, which JSON always has a form for.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}
