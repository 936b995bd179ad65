//! What stays in memory of clients that attack: nothing, however often they do it.
//!
//! Alone in its program, since it counts allocations. The short form repeats one attack three times; the long form says how
//! often, and how large each is: `SPOTLANE_ATTACK_ROUNDS=12 SPOTLANE_ATTACK_SCALE=5`. Allocated bytes tell a leak from memory
//! that the allocator keeps for itself, which the resident bytes that are printed beside them show.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests are not covered by the setting"
)]
#![expect(
    clippy::unused_async,
    reason = "handlers are async whether or not they wait"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test is its own owner: it awaits what it spawns"
)]

#[path = "../suite/app.rs"]
#[expect(dead_code, reason = "what the other tests need of it")]
mod app;
mod attack;
#[path = "../suite/players.rs"]
#[expect(dead_code, reason = "what the other tests need of it")]
mod players;
#[path = "../suite/proxy.rs"]
#[expect(dead_code, reason = "what the other tests need of it")]
mod proxy;
#[path = "../suite/tap.rs"]
#[expect(dead_code, reason = "what the other tests need of it")]
mod tap;

use std::alloc::System;
use std::time::Duration;

use spotlane::prelude::*;
use spotlane::session::SessionCounts;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::app::settings;
use crate::attack::Field;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What players need of the tests of hosts, which are not run here.
mod two_hosts {
    pub(crate) use crate::attack::{acquainted, connect};
}

/// How long what a round leaves behind may take to go.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a target works at a move; it remembers one for twice as long.
const VALIDITY: Duration = Duration::from_secs(4);
/// What may differ between two rounds: how many read buffers of links are in use, where maps happened to grow, and what the store, which is in the same
/// process, keeps for five minutes of each creation. A round of the short form has 2,000 moves, 2,000 connections and 4,800
/// requests.
const SLACK: usize = 1 << 20;

fn allocated() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Resident memory of the process in KiB; zero where the system does not tell.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.map_or(0, |number| number.parse().unwrap())
}

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Waits until no more than `wanted` is allocated; gives the lowest that was seen.
async fn falls_to(wanted: usize) -> usize {
    let mut lowest = allocated();
    let falls = async {
        while lowest > wanted {
            tokio::task::yield_now().await;
            lowest = lowest.min(allocated());
        }
    };
    drop(tokio::time::timeout(PATIENCE, falls).await);
    lowest
}

/// SB-60, SB-88, ST-139, RL-150, RL-362: what bounds memory here is what is open now and not what has been
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attack_leaves_no_memory_behind_however_often_it_comes() {
    let rounds = from_environment("SPOTLANE_ATTACK_ROUNDS", 3);
    let scale = from_environment("SPOTLANE_ATTACK_SCALE", 1);
    let mut settings = settings();
    // What is kept for a time is kept for a short one.
    settings.message_follow_duration = Duration::from_secs(6);
    settings.route_cache_max_age = Duration::from_secs(1);
    settings.relocation_restore_validity = VALIDITY;
    let field = Field::set(settings).await;
    let mut first = None;
    for round in 1..=rounds {
        let done = field.attacked(scale).await;
        let hosts = field.hosts();
        assert_eq!(
            hosts.map(Host::session_counts),
            [SessionCounts::default(); 3]
        );
        assert_eq!(hosts.map(|host| host.status().actors), [0; 3]);
        let behind = allocated();
        // What is kept for a time has gone; the first round shows what is left then.
        let calm = field.calm().await;
        let left = match first {
            None => calm,
            Some(first) => falls_to(first + SLACK).await,
        };
        println!(
            "round {round}: {done}; {} KiB allocated, {} KiB later, {} KiB resident",
            behind >> 10,
            left >> 10,
            resident(),
        );
        let first = *first.get_or_insert(left);
        assert!(
            left <= first + SLACK,
            "{left} bytes are left, {first} of the first round"
        );
    }
}
