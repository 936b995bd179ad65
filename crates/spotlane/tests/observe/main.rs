//! What a host reports: the metrics of the contract with their labels, its events with their levels, and no ids in either.
//!
//! A binary of its own, because recorder and subscriber are those of the whole process.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the setting"
)]
#![expect(
    clippy::unused_async,
    reason = "handlers are async whether or not they wait"
)]

mod seen;

use std::time::Duration;

use spotlane::RelocateMode;
use spotlane::memory::{MemoryRelocation, MemoryStore};
use spotlane::prelude::*;

use crate::seen::Seen;

/// An id that nothing may show.
const SECRET: &str = "actor-with-a-name";

#[derive(Default)]
struct Counter {
    total: u64,
}

impl Counter {
    async fn add(&mut self, _: &mut Context, (): ()) -> String {
        self.total += 1;
        self.total.to_string()
    }
}

impl Actor for Counter {
    const TYPE: &'static str = "counter";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers.request("add", Self::add);
    }
}

struct Total;

impl Adapter<Counter> for Total {
    async fn capture(&self, counter: &mut Counter) -> Result<Bytes, Error> {
        Ok(Bytes::from(counter.total.to_string()))
    }

    async fn restore(&self, counter: &mut Counter, state: Bytes) -> Result<(), Error> {
        let text = String::from_utf8_lossy(&state).into_owned();
        counter.total = text.parse().map_err(|_| Error::internal("no number"))?;
        Ok(())
    }
}

async fn host(node: &str, location: &MemoryStore, relocation: &MemoryRelocation) -> Host {
    let mut settings = Settings::default();
    settings.polling_interval = Duration::from_millis(50);
    settings.owner_lease_renew_interval = Duration::from_millis(50);
    settings.message_follow_duration = Duration::from_millis(300);
    settings.route_cache_max_age = Duration::ZERO;
    let host = Host::builder()
        .mesh("observed")
        .node_id(node)
        .location_store(location.clone())
        .relocation_store(relocation.clone())
        .actor(Policy::preserve(Total), Counter::default)
        .settings(settings);
    host.start().await.unwrap()
}

/// One of everything: a creation, a move, a message on an old route, a drain, a shutdown.
async fn life() {
    let location = MemoryStore::new(spotlane::store_time);
    let relocation = MemoryRelocation::new(spotlane::store_time);
    let a = host("node-a-of-two", &location, &relocation).await;
    a.actors().create::<Counter>(SECRET).await.unwrap();
    let b = host("node-b-of-two", &location, &relocation).await;
    for host in [&a, &b] {
        host.wait_for_peers(1, Duration::from_secs(30))
            .await
            .unwrap();
        while host.nodes().len() < 2 {
            tokio::task::yield_now().await;
        }
    }
    let add = |host: &Host| host.actor(SECRET).request("add", ());
    add(&b).reply::<String>().await.unwrap();
    a.relocate(SECRET, b.node_id()).await.unwrap();
    add(&a).reply::<String>().await.unwrap();
    let mode = RelocateMode::PlannedMaintenance;
    assert!(b.drain(mode, None).await.unwrap().is_relocated());
    add(&a).reply::<String>().await.unwrap();
    // With nowhere to go.
    let blocked = a
        .drain(mode, Some(Duration::from_millis(50)))
        .await
        .unwrap();
    assert!(!blocked.is_relocated());
    // The route of the first move has ended, and with it the move.
    // A move that was given up settles within its own deadline, which is 30 s.
    let over = tokio::time::timeout(Duration::from_secs(45), async {
        while b.status().moving + a.status().moving > 0 {
            tokio::task::yield_now().await;
        }
    });
    over.await.unwrap();
    b.shutdown(None).await;
    a.shutdown(None).await;
}

/// Kind, name and labels of every metric.
const METRICS: [(&str, &str, &str); 13] = [
    ("histogram", "zlink.relocation.interruption", "unit_kind"),
    ("histogram", "zlink.relocation.target_resume", "unit_kind"),
    (
        "histogram",
        "zlink.relocation.route_convergence",
        "unit_kind",
    ),
    (
        "counter",
        "zlink.relocation.started",
        "mesh_name,object_kind,policy",
    ),
    (
        "counter",
        "zlink.relocation.completed",
        "mesh_name,object_kind,outcome,policy",
    ),
    (
        "histogram",
        "zlink.relocation.duration",
        "mesh_name,object_kind,outcome,policy",
    ),
    (
        "histogram",
        "zlink.relocation.bytes",
        "mesh_name,object_kind,policy",
    ),
    (
        "histogram",
        "zlink.host.relocation.duration",
        "mode,outcome",
    ),
    ("counter", "zlink.host.relocation.blocked", "reason"),
    ("histogram", "zlink.host.shutdown.duration", "outcome"),
    ("gauge", "zlink.host.state", "state"),
    ("gauge", "zlink.actor.count", ""),
    (
        "histogram",
        "zlink.location.owner_lease.renew.lateness",
        "scope_kind,scope_name",
    ),
];

/// RL-325, RL-326, RL-327, RL-328, RL-331, RL-332, RL-333, RL-334, RL-336, RL-337, RL-338, RL-339, RL-340, RL-341, RL-342,
/// RL-343, RL-344, RL-345, RL-346, T-OBS-03: every metric and event of a life without faults, by name, with its labels and
/// level; and no id anywhere.
#[test]
fn a_life_reports_what_the_contract_lists_and_no_ids() {
    let seen = Seen::install();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(life());
    for (kind, name, labels) in METRICS {
        assert_eq!(
            seen.labels(kind, name).as_deref(),
            Some(labels),
            "{kind} {name}"
        );
    }
    // The drain to nowhere may have begun one more.
    assert!(seen.value("zlink.relocation.started") >= 2.0);
    assert_eq!(
        seen.value("zlink.relocation.started").to_bits(),
        seen.value("zlink.relocation.completed").to_bits()
    );
    assert_eq!(seen.value("zlink.actor.count").to_bits(), 0f64.to_bits());
    for (name, level) in [
        ("zlink.runtime.relocation.changed", "INFO"),
        ("zlink.runtime.host.relocation_changed", "INFO"),
        ("zlink.runtime.host.termination_changed", "INFO"),
        ("zlink.runtime.object.placement_changed", "INFO"),
        ("zlink.runtime.mesh_node.state_changed", "INFO"),
        ("zlink.runtime.mesh_node.peer_changed", "INFO"),
    ] {
        assert_eq!(seen.level(name).as_deref(), Some(level), "{name}");
    }
    let phases = seen.field("zlink.runtime.relocation.changed", "phase");
    for phase in [
        "Waiting",
        "SourcePaused",
        "TargetRestoring",
        "RelayReady",
        "CutoverSubmitted",
        "AwaitCommit",
        "FollowOnly",
        "Ended",
        "CutoverReceived",
        "OwnerCommitted",
        "TargetOpen",
    ] {
        assert!(
            phases.iter().any(|seen| seen == phase),
            "{phase} in {phases:?}"
        );
    }
    // RL-331: traces may name ids; everything louder, and every label, may not.
    for secret in [SECRET, "node-a-of-two", "node-b-of-two", "127.0.0.1"] {
        let shown = seen.showing(secret);
        assert!(shown.is_empty(), "{secret}: {shown:?}");
    }
}
