//! SIGKILL of the source or the target of a move, at random moments, among three nodes on a real Redis.
//!
//! Three rounds here; `SPOTLANE_KILL_ROUNDS=100` for more, `SPOTLANE_KILL_SEED` for others.

use std::time::Duration;

use spotlane::{ErrorKind, Host, Json, Settings};
use spotlane_counter::{Add, Added, Counter, Log, node_name};
use spotlane_redis_testkit::Server;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{PATIENCE, caller, config, eventually};
use crate::common::{Folder, Node};
use crate::judge::{Ended, Seen, judge};

/// Moves whose other end is gone are given up within seconds.
const GIVES_UP_SOON: &str = "relocate_deadline = \"2s\"\nrelocation_restore_validity = \"3s\"\n";
/// Actors that move in each round.
const ACTORS: usize = 4;
/// Callers of each.
const CALLERS: usize = 2;
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// How much later than its timeout a call may end, on a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(20);
/// From one call of a caller to its next.
const PACE: Duration = Duration::from_millis(2);
/// So often an actor is unavailable before it is so for good.
const REFUSALS: u32 = 5;
/// Moves of a killed node have been given up by then, and its lease has ended.
const SETTLED_WITHIN: Duration = Duration::from_secs(40);
/// How long callers go on after the kill: longer than a lease lives.
const AFTERMATH: Duration = Duration::from_secs(4);

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
            let config = format!("{}{GIVES_UP_SOON}", config(&name, &self.redis));
            self.nodes.push(Node::start(&self.folder, &name, &config));
        }
        self.caller.wait_for_peers(3, PATIENCE).await.unwrap();
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
        let add = Add {
            n: 1,
            tag: format!("{caller}.{}", seen.len()),
            ..Add::default()
        };
        let call = host
            .actor(&id)
            .request("add", Json(add))
            .timeout(CALL_TIMEOUT);
        // Every call ends once, and in time.
        seen.push(
            match timeout(CALL_TIMEOUT + SLACK, call.reply::<Json<Added>>()).await {
                Ok(Ok(Json(Added { total, node }))) => Ended::Answered(total, node),
                Ok(Err(error)) => Ended::Failed(error.kind()),
                Err(_) => Ended::Never,
            },
        );
        // Sleep: the pace.
        sleep(PACE).await;
    }
    seen
}

/// How an actor ended up.
enum Fate {
    /// It answers, with the tags that it handled.
    Serves(Vec<String>),
    /// Everybody is told that it is unavailable.
    Unavailable,
}

/// Asks until an actor answers or is unavailable for good; nothing else is right (RL-94, RL-235, RL-241).
async fn fate(cluster: &Cluster, id: &str) -> Fate {
    let mut refused = 0;
    let until = Instant::now() + SETTLED_WITHIN;
    while Instant::now() < until {
        let log = cluster
            .caller
            .actor(id)
            .request("log", Json(Log::default()));
        match log.timeout(CALL_TIMEOUT).reply::<Json<Vec<String>>>().await {
            Ok(Json(log)) => return Fate::Serves(log),
            Err(error) if error.kind() == ErrorKind::Unavailable => refused += 1,
            // A move that has not given up yet holds what comes.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{id}: {error}");
                refused = 0;
            }
        }
        if refused == REFUSALS {
            return Fate::Unavailable;
        }
        // Sleep: the pace.
        sleep(Duration::from_millis(100)).await;
    }
    panic!("{id} neither answers nor is unavailable");
}

/// Ends an actor that serves; while its move is being settled it is asked again.
async fn destroy(cluster: &Cluster, id: &str) {
    let actors = cluster.caller.actors();
    let until = Instant::now() + SETTLED_WITHIN;
    while let Some(found) = actors.find(id).await.unwrap() {
        match actors.destroy(&found).await {
            Ok(_) => return,
            Err(error) => assert!(
                error.kind() == ErrorKind::Unavailable && Instant::now() < until,
                "{id} was not destroyed: {error}"
            ),
        }
    }
}

/// Judges one actor; says whether it survived.
async fn judge_actor(cluster: &Cluster, id: &str, seen: &[Seen]) -> bool {
    let fate = fate(cluster, id).await;
    let log = match &fate {
        Fate::Serves(log) => Some(&log[..]),
        Fate::Unavailable => None,
    };
    if let Err(wrong) = judge(seen, log) {
        panic!("{id}: {wrong}");
    }
    if log.is_some() {
        destroy(cluster, id).await;
        return true;
    }
    // Nobody takes the place of an owner that died.
    let again = cluster.caller.actors().create::<Counter>(id).await;
    let kind = again.unwrap_err().kind();
    assert!(
        matches!(kind, ErrorKind::AlreadyExists | ErrorKind::Unavailable),
        "{id}: created again: {kind}"
    );
    false
}

async fn survivors_are_healthy(cluster: &Cluster, round: u64) {
    for node in &cluster.nodes {
        assert_eq!(node.get("/healthz").0, 200, "{}", node.log());
        // With what it says of itself, should it not become ready again.
        let ready = || (node.get("/readyz").0, node.log());
        eventually(ready, |(code, _)| *code == 200);
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
        destroy(cluster, &id).await;
    }
    for node in &cluster.nodes {
        // Whatever answered is destroyed by now: an actor that lives on is a second owner.
        eventually(
            || node.status()["actors"].as_u64(),
            |actors| *actors == Some(0),
        );
        assert!(!node.log().contains("panicked"), "{}", node.log());
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
        orders.spawn_blocking(move || {
            let (code, _) = crate::common::post(&admin, "/v1/relocate", &body);
            (owner, code)
        });
    }
    // Sleep: a random moment is the subject.
    sleep(Duration::from_micros(random.below(40_000))).await;
    let victim = if random.below(2) == 0 { source } else { target };
    let mut killed = cluster.nodes.remove(victim);
    killed.kill();
    // An order to the killed node may have no answer; one to a survivor has one.
    for (owner, code) in orders.join_all().await {
        assert!(owner == victim || matches!(code, 200..600), "no answer");
    }
    let mut seen = vec![vec![Seen::new(); CALLERS]; ACTORS];
    for (actor, caller, calls) in callers.join_all().await {
        seen[actor][caller] = calls;
    }
    let mut survived = 0;
    for (id, seen) in ids.iter().zip(&seen) {
        survived += usize::from(judge_actor(cluster, id, seen).await);
    }
    survivors_are_healthy(cluster, number).await;
    survived
}

pub(crate) fn from_environment(name: &str, default: u64) -> u64 {
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
