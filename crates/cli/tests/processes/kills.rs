//! SIGKILL of the source or the target of a move, at random moments, among three nodes on a real Redis.
//!
//! Three rounds here; `SPOTLANE_KILL_ROUNDS=100` for more, `SPOTLANE_KILL_SEED` for others.

use std::collections::BTreeMap;
use std::time::Duration;

use spotlane::{ErrorKind, Host, Json, Settings};
use spotlane_counter::{Add, Added, Counter, Log, node_name};
use spotlane_redis_testkit::Server;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{caller, config, eventually};
use crate::common::{Folder, Node};

/// Actors that move in each round.
const ACTORS: usize = 4;
/// Callers of each.
const CALLERS: usize = 2;
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// How much later than its timeout a call may end.
const SLACK: Duration = Duration::from_secs(2);
/// From one call of a caller to its next.
const PACE: Duration = Duration::from_millis(2);
/// How long callers go on after the kill: longer than a lease lives.
const AFTERMATH: Duration = Duration::from_secs(4);

/// How a call ended.
#[derive(Clone, Debug)]
enum Ended {
    /// With the total, and the node that handled it.
    Answered(i64, String),
    /// With an error.
    Failed(ErrorKind),
}

/// What one caller of one actor saw, in the order of its calls; the tag of a call is `CALLER.INDEX`.
type Seen = Vec<Ended>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) % bound
    }
}

/// Three node processes, and a host in this process that calls their actors and takes none itself.
struct Cluster {
    redis: Server,
    folder: Folder,
    nodes: Vec<Node>,
    started: u32,
    caller: Host,
}

impl Cluster {
    async fn start() -> Self {
        let redis = Server::start().unwrap();
        let mut settings = Settings::default();
        settings.polling_interval = Duration::from_millis(200);
        let caller = caller(&redis, settings).await;
        let mut cluster = Self {
            redis,
            folder: Folder::new(),
            nodes: Vec::new(),
            started: 0,
            caller,
        };
        cluster.complete().await;
        cluster
    }

    /// Starts nodes until there are three, and waits until all know each other.
    async fn complete(&mut self) {
        while self.nodes.len() < 3 {
            self.started += 1;
            let name = format!("node-{}", self.started);
            self.nodes.push(Node::start(
                &self.folder,
                &name,
                &config(&name, &self.redis),
            ));
        }
        self.caller
            .wait_for_peers(3, Duration::from_secs(20))
            .await
            .unwrap();
        for node in &self.nodes {
            eventually(
                || node.status()["peers"].as_array().map_or(0, Vec::len),
                |peers| *peers == 3,
            );
        }
    }

    fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The node that owns an actor, by the store.
    async fn owner(&self, id: &str) -> Option<String> {
        let found = self.caller.actors().find(id).await.unwrap();
        found.map(|found| node_name(found.node()))
    }
}

/// Calls one actor again and again until the deadline.
async fn call(host: Host, id: String, caller: usize, until: Instant) -> Seen {
    let mut seen = Seen::new();
    while Instant::now() < until {
        let tag = format!("{caller}.{}", seen.len());
        let add = Add {
            n: 1,
            tag: tag.clone(),
            ..Add::default()
        };
        let call = host
            .actor(&id)
            .request("add", Json(add))
            .timeout(CALL_TIMEOUT);
        // Every call ends once, and in time.
        let ended = timeout(CALL_TIMEOUT + SLACK, call.reply::<Json<Added>>()).await;
        seen.push(
            match ended.unwrap_or_else(|_| panic!("call {tag} of {id} did not end")) {
                Ok(Json(Added { total, node })) => Ended::Answered(total, node),
                Err(error) => Ended::Failed(error.kind()),
            },
        );
        // Sleep: the pace.
        sleep(PACE).await;
    }
    seen
}

/// Never two owners: what one handled continues what the other handled.
fn judge(id: &str, seen: &[Seen]) {
    let mut by_total: Vec<(i64, &str)> = Vec::new();
    for caller in seen {
        let mut last = 0;
        for ended in caller {
            match ended {
                Ended::Answered(total, node) => {
                    assert!(*total > last, "{id}: the total fell from {last} to {total}");
                    last = *total;
                    by_total.push((*total, node));
                }
                Ended::Failed(kind) => assert!(
                    matches!(
                        kind,
                        ErrorKind::Unavailable | ErrorKind::DeadlineExceeded | ErrorKind::NotFound
                    ),
                    "{id}: a call failed with {kind}"
                ),
            }
        }
    }
    by_total.sort_unstable();
    for pair in by_total.windows(2) {
        assert_ne!(
            pair[0].0, pair[1].0,
            "{id}: two calls were answered with one total: {pair:?}"
        );
    }
    let mut owners: Vec<&str> = by_total.iter().map(|(_, node)| *node).collect();
    owners.dedup();
    assert!(owners.len() <= 2, "{id}: owners took turns: {owners:?}");
}

/// What was answered was handled once, as far as the actor survived.
async fn judge_log(cluster: &Cluster, id: &str, seen: &[Seen]) -> bool {
    let call = cluster
        .caller
        .actor(id)
        .request("log", Json(Log::default()));
    let Ok(Json(log)) = call
        .timeout(CALL_TIMEOUT)
        .reply::<Json<Vec<String>>>()
        .await
    else {
        return false;
    };
    let mut counts = BTreeMap::new();
    for tag in &log {
        *counts.entry(tag.as_str()).or_insert(0) += 1;
    }
    assert!(
        counts.values().all(|count| *count == 1),
        "{id}: handled twice: {counts:?}"
    );
    for (caller, calls) in seen.iter().enumerate() {
        for (index, ended) in calls.iter().enumerate() {
            let tag = format!("{caller}.{index}");
            let handled = counts.contains_key(tag.as_str());
            assert!(
                handled || matches!(ended, Ended::Failed(_)),
                "{id}: {tag} ended with {ended:?} and is gone"
            );
        }
    }
    true
}

async fn survivors_are_healthy(cluster: &Cluster, round: u64) {
    for node in &cluster.nodes {
        assert_eq!(node.get("/healthz").0, 200, "{}", node.log());
        eventually(|| node.get("/readyz").0, |code| *code == 200);
    }
    for index in 0..4 {
        let id = format!("fresh-{round}-{index}");
        cluster
            .caller
            .actors()
            .create::<Counter>(&id)
            .await
            .unwrap();
        let add = cluster.caller.actor(&id).request(
            "add",
            Json(Add {
                n: 1,
                ..Add::default()
            }),
        );
        let Json(Added { total, .. }) = add.timeout(CALL_TIMEOUT).reply().await.unwrap();
        assert_eq!(total, 1);
    }
}

/// One round; says how many actors survived it.
async fn round(cluster: &mut Cluster, number: u64, random: &mut Random) -> usize {
    let ids: Vec<String> = (0..ACTORS)
        .map(|index| format!("actor-{number}-{index}"))
        .collect();
    for id in &ids {
        cluster.caller.actors().create::<Counter>(id).await.unwrap();
    }
    let source = cluster.owner(&ids[0]).await.unwrap();
    let source = cluster.node(&source).unwrap();
    let target = (source + 1 + usize::try_from(random.below(2)).unwrap()) % 3;
    let until = Instant::now() + Duration::from_millis(200) + AFTERMATH;
    let mut callers = JoinSet::new();
    for (actor, id) in ids.iter().enumerate() {
        for caller in 0..CALLERS {
            let (host, id) = (cluster.caller.clone(), id.clone());
            callers.spawn(async move { (actor, caller, call(host, id, caller, until).await) });
        }
    }
    let mut orders = JoinSet::new();
    for id in &ids {
        let owner = cluster.owner(id).await.unwrap();
        let owner = cluster.node(&owner).unwrap();
        let to = if owner == target { source } else { target };
        let (admin, to) = (
            cluster.nodes[owner].admin.clone(),
            cluster.nodes[to].name.clone(),
        );
        let body = format!(r#"{{"kind":"actor","id":"{id}","to":"{to}"}}"#);
        // Sleep: a random moment is the subject.
        sleep(Duration::from_millis(random.below(20))).await;
        orders.spawn_blocking(move || crate::common::post(&admin, "/v1/relocate", &body).0);
    }
    // Sleep: a random moment is the subject.
    sleep(Duration::from_micros(random.below(40_000))).await;
    let victim = if random.below(2) == 0 { source } else { target };
    let mut killed = cluster.nodes.remove(victim);
    killed.kill();
    // An order to the killed node has no answer; one to a survivor has one.
    let answers = orders.join_all().await;
    assert_eq!(answers.len(), ACTORS);
    let mut seen = vec![vec![Seen::new(); CALLERS]; ACTORS];
    for (actor, caller, calls) in callers.join_all().await {
        seen[actor][caller] = calls;
    }
    let mut survived = 0;
    for (id, seen) in ids.iter().zip(&seen) {
        judge(id, seen);
        survived += usize::from(judge_log(cluster, id, seen).await);
    }
    survivors_are_healthy(cluster, number).await;
    survived
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_leaves_one_owner_or_none() {
    let rounds = from_environment("SPOTLANE_KILL_ROUNDS", 3);
    let seed = from_environment("SPOTLANE_KILL_SEED", 1);
    let mut cluster = Cluster::start().await;
    let mut survived = 0;
    for number in 0..rounds {
        let mut random = Random(seed.wrapping_add(number));
        survived += round(&mut cluster, number, &mut random).await;
        cluster.complete().await;
        println!(
            "round {number}: {survived} of {} actors survived so far",
            (number + 1) * ACTORS as u64
        );
    }
    cluster.caller.shutdown(None).await;
}
