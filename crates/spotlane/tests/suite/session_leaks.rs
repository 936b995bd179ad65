//! What is left when all clients have gone: nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::session::{SessionCounts, SessionStream};
use tokio::task::JoinSet;

use crate::players::{Client, gate_on, trio, until};

const WORKERS: usize = 8;
const ROUNDS: usize = 200;
/// Few, so that sessions take them from each other.
const ACTORS: usize = 12;

/// How long all of it may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(4);

/// A sequence that looks like chance.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// One client after the other: each logs in, does something, and leaves in one way or the other.
async fn worker(number: usize, streams: Arc<Vec<SessionStream>>) -> usize {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ u64::try_from(number + 1).unwrap());
    let mut logins = 0;
    for _ in 0..ROUNDS {
        let stream = &streams[dice.roll(streams.len())];
        let mut client = Client::connect(stream).await;
        // Somebody else may take the Actor, and end the connection, at any moment from here on.
        for _ in 0..=dice.roll(2) {
            let id = format!("p-{}", dice.roll(ACTORS));
            client.try_send("login", &id).await;
        }
        match dice.roll(4) {
            // Cut, with the bind under way.
            0 => {}
            1 => logins += usize::from(client.any_answer().await),
            2 => {
                logins += usize::from(client.any_answer().await);
                client.try_send("note", "x").await;
                client.any_answer().await;
            }
            _ => {
                logins += usize::from(client.any_answer().await);
                client.try_send("logout", "").await;
                if dice.roll(2) == 0 {
                    client.any_answer().await;
                }
            }
        }
    }
    logins
}

async fn mover(hosts: [Host; 2], done: Arc<AtomicBool>) -> usize {
    let (mut dice, mut moves) = (Dice(77), 0);
    while !done.load(Ordering::SeqCst) {
        let from = dice.roll(2);
        let id = format!("p-{}", dice.roll(ACTORS));
        let moved = hosts[from].relocate(&id, hosts[1 - from].node_id()).await;
        moves += usize::from(moved.is_ok());
        tokio::task::yield_now().await;
    }
    moves
}

/// SB-60, SB-88, RL-358: thousands of logins, moves, cuts and replacements, and no map keeps anything of them
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_clients_that_have_gone() {
    let ids: Vec<_> = (0..ACTORS).map(|number| format!("p-{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let ([a, b, g], _game) = trio(&ids).await;
    let streams = vec![
        gate_on(&g, "tcp").await,
        gate_on(&g, "ws").await,
        gate_on(&a, "tcp").await,
    ];
    let streams = Arc::new(streams);
    let done = Arc::new(AtomicBool::new(false));
    let mover = tokio::spawn(mover([a.clone(), b.clone()], Arc::clone(&done)));
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        workers.spawn(worker(number, Arc::clone(&streams)));
    }
    let logins = tokio::time::timeout(PATIENCE, workers.join_all()).await;
    let logins: usize = logins.expect("in time").iter().sum();
    done.store(true, Ordering::SeqCst);
    let moves = tokio::time::timeout(PATIENCE, mover).await;
    let moves = moves.expect("in time").unwrap();
    assert!(logins > WORKERS * ROUNDS / 8, "{logins} logins");
    assert!(moves > 20, "{moves} moves");
    let hosts = [&a, &b, &g];
    let left = || hosts.map(Host::session_counts);
    let nothing = [SessionCounts::default(); 3];
    let gone = async {
        while left() != nothing {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    assert!(gone.is_ok(), "{:?}", left());
    until(|| streams.iter().all(|stream| stream.stats().active() == 0)).await;
    until(|| hosts.iter().all(|host| host.status().pending_requests == 0)).await;
}
