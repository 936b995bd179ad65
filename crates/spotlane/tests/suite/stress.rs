//! Many Actors that move all the time under traffic from every host: nothing lost, doubled or out of order.
//!
//! `SPOTLANE_STRESS_MOVES=100000 cargo test -p spotlane --test suite stress` for a longer run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spotlane::prelude::*;
use tokio::task::JoinSet;

use crate::app::{Counter, Stores, host, text};
use crate::two_hosts::acquainted;

const ACTORS: u64 = 12;
const MOVES: u64 = 10_000;

/// One sender: requests to one Actor after the other, each with its own number.
async fn requests(from: Host, name: String, stop: Arc<AtomicBool>) -> BTreeMap<u64, Vec<String>> {
    let mut sent: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut n = 0_u64;
    while !stop.load(Ordering::SeqCst) {
        let actor = n % ACTORS;
        let tag = format!("{name}.{n}");
        let done = from
            .actor(format!("c-{actor}"))
            .request("note2", tag.clone())
            .await;
        done.unwrap_or_else(|error| panic!("{tag} to c-{actor}: {error:?}"));
        sent.entry(actor).or_default().push(tag);
        n += 1;
    }
    sent
}

/// Moves Actors at random from wherever they are, until all movers together have made `most` moves.
async fn mover(hosts: Vec<Host>, seed: u64, most: u64, moves: Arc<AtomicU64>) {
    let mut chance = seed;
    while moves.load(Ordering::SeqCst) < most {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let pick =
            |salt: u32, of: usize| usize::try_from(chance.rotate_left(salt) >> 33).unwrap() % of;
        let id = format!("c-{}", (chance.rotate_left(7) >> 33) % ACTORS);
        let (from, to) = (&hosts[pick(11, hosts.len())], &hosts[pick(23, hosts.len())]);
        match from.relocate(&id, to.node_id()).await {
            Ok(()) => {
                moves.fetch_add(1, Ordering::SeqCst);
            }
            // It lives elsewhere, or is on its way.
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unavailable),
                "{error:?}"
            ),
        }
        tokio::task::yield_now().await;
    }
}

/// RL-137, RL-151, RL-261, EX-10, EX-269
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_reordered() {
    let most = std::env::var("SPOTLANE_STRESS_MOVES").map_or(MOVES, |most| most.parse().unwrap());
    let stores = Stores::new();
    let mut hosts = Vec::new();
    for name in ["a", "b", "c"] {
        hosts.push(host(name, &stores).await.0);
    }
    acquainted(&hosts.iter().collect::<Vec<_>>()).await;
    for n in 0..ACTORS {
        hosts[0]
            .actors()
            .get_or_create::<Counter>(format!("c-{n}"))
            .await
            .unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let moves = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    for (n, from) in hosts.iter().cycle().take(9).cloned().enumerate() {
        senders.spawn(requests(from, format!("s{n}"), Arc::clone(&stop)));
    }
    let mut movers = JoinSet::new();
    for seed in 1..=3 {
        movers.spawn(mover(hosts.clone(), seed, most, Arc::clone(&moves)));
    }
    while let Some(moved) = movers.join_next().await {
        moved.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let mut sent = Vec::new();
    while let Some(one) = senders.join_next().await {
        sent.push(one.unwrap());
    }
    let mut total = 0;
    for actor in 0..ACTORS {
        let log = text(&hosts[0], &format!("c-{actor}"), "log").await.unwrap();
        let log: Vec<&str> = log.split(',').filter(|tag| !tag.is_empty()).collect();
        let mut expected = 0;
        for sender in &sent {
            let Some(of) = sender.get(&actor) else {
                continue;
            };
            let prefix = format!("{}.", of[0].split('.').next().unwrap());
            let found: Vec<&str> = log
                .iter()
                .filter(|t| t.starts_with(&prefix))
                .copied()
                .collect();
            assert_eq!(found, *of, "c-{actor}");
            expected += of.len();
        }
        assert_eq!(log.len(), expected, "c-{actor}");
        total += expected;
    }
    let moves = moves.load(Ordering::SeqCst);
    println!("{total} messages, {moves} moves");
    assert!(moves >= most && total > 100);
}
