//! Two repositories on one real Redis (issue 3): exactly one winner, and the loser knows.

use std::sync::Arc;
use std::time::Duration;

use spotlane_location::lease::LeaseSettings;
use spotlane_location::{Conflict, LocationError};
use spotlane_redis_testkit::Server;
use spotlane_store::BoxedStore;
use spotlane_store_redis::{RedisOptions, RedisStore};
use tokio::task::JoinSet;

use crate::host::{HandTime, Host};

/// How often a client has sent a script.
fn scripts_sent(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap().text();
    let calls = stats.lines().filter_map(|line| {
        let rest = line.strip_prefix("cmdstat_eval")?;
        let calls = rest.split_once(":calls=")?.1;
        calls.split(',').next()?.parse::<u64>().ok()
    });
    calls.sum()
}

/// RL-13, ST-33: one owner change is one command to the server, once the counter is known; seen from the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_change_is_one_command() {
    let server = Server::start().unwrap();
    let source = host("source", &server.url()).await;
    let target = host("target", &server.url()).await;
    let mut rows = Vec::new();
    for id in ["one", "two", "three"] {
        rows.push((id, source.create(id).await));
    }
    for (n, (id, first)) in rows.iter().enumerate() {
        let before = scripts_sent(&server);
        let (prepared, until) = (target.prepared(id), target.until());
        let taken = target.repository.new_owner(&prepared, first, until).await;
        assert!(taken.unwrap().is_owned_by(target.held.lease()));
        // The first one has to read the counter.
        let sent = if n == 0 { 2 } else { 1 };
        assert_eq!(scripts_sent(&server) - before, sent, "{id}");
    }
}

const OBJECTS: usize = 1_000;
const LANES: usize = 8;

async fn host(name: &str, url: &str) -> Host {
    let options = RedisOptions::new(url, "app1").operation_timeout(Duration::from_secs(30));
    let store = BoxedStore::new(RedisStore::open(&options).unwrap());
    // Longer than any test machine needs: this test is about versions, not about time.
    let [ttl, interval, timeout, margin] = [3_600, 5, 3, 5].map(Duration::from_secs);
    let settings = LeaseSettings::new(ttl, interval, timeout, margin).unwrap();
    Host::start_with(name, &store, store.clone(), HandTime::new(0), settings).await
}

async fn finish(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// RL-13, ST-71, ST-90: from one first-read version one target wins, the other sees a conflict and not the counter's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_targets_exactly_one_wins_each_object() {
    let server = Server::start().unwrap();
    let source = Arc::new(host("source", &server.url()).await);
    let rivals = [
        Arc::new(host("one", &server.url()).await),
        Arc::new(host("two", &server.url()).await),
    ];
    let mut tasks = JoinSet::new();
    for lane in 0..LANES {
        let (source, rivals) = (Arc::clone(&source), rivals.clone());
        tasks.spawn(async move {
            for object in (lane..OBJECTS).step_by(LANES) {
                let id = format!("room-{object}");
                let first = source.create(&id).await;
                let [one, two] = rivals.each_ref().map(|rival| {
                    let (id, first) = (id.clone(), first.clone());
                    async move {
                        let (target, until) = (rival.prepared(&id), rival.until());
                        rival.repository.new_owner(&target, &first, until).await
                    }
                });
                let (winner, loser, owner) = match tokio::join!(one, two) {
                    (Ok(won), Err(lost)) => (won, lost, &rivals[0]),
                    (Err(lost), Ok(won)) => (won, lost, &rivals[1]),
                    other => panic!("{id}: {other:?}"),
                };
                let reason = Conflict::Changed;
                assert!(
                    matches!(loser, LocationError::Conflict { reason: r } if r == reason),
                    "{loser:?}"
                );
                assert_eq!(winner.row().owner_id, *owner.held.lease().owner());
                let now = source.active(&id).await;
                assert_eq!((now.version(), now.row()), (winner.version(), winner.row()));
            }
        });
    }
    finish(tasks).await;
}
