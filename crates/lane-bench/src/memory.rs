//! Creation, memory and idle cost of 100,000 actors, each peer in a process of its own.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::peers::Peer;
use crate::work::Countdown;
use crate::{Better, PEERS, Runner, Show, by_name, print, seconds};

const ACTORS: usize = 100_000;
const CHILD: &str = "--child";

/// Runs as a child when asked to; true when that is what the process was for.
pub(crate) fn child(arguments: &[String]) -> bool {
    let [flag, name] = arguments else {
        return false;
    };
    if flag != CHILD {
        return false;
    }
    if let Some([create, fresh, used]) = by_name(name) {
        println!("{create} {fresh} {used} {}", idle_cpu());
    }
    // Some runtimes would not let the process end.
    std::process::exit(0);
}

/// Nanoseconds to create one actor, bytes of a fresh one, bytes of one that handled a message.
pub(crate) fn measure<P: Peer>() -> [f64; 3] {
    let (done, up) = (Countdown::forever(), Countdown::forever());
    let peer = P::start();
    up.arm(16);
    let _first = peer.actors(16, u64::MAX, done, up);
    up.sleep_until_zero();
    settle();
    let before = resident();
    let mut all = Vec::new();
    up.arm(ACTORS as u64);
    let took = seconds(|| {
        all = peer.actors(ACTORS, 1, done, up);
        up.sleep_until_zero();
    });
    settle();
    let fresh = resident() - before;
    let all = Arc::new(all);
    done.arm(ACTORS as u64);
    let told = Arc::clone(&all);
    peer.client(0, async move {
        for (at, actor) in told.iter().enumerate() {
            P::tell(actor, 1).await;
            if at % 64 == 63 {
                tokio::task::yield_now().await;
            }
        }
    });
    done.sleep_until_zero();
    settle();
    let used = resident() - before;
    let each = |value: f64| value / ACTORS as f64;
    // The actors stay alive for the idle figure that follows.
    std::mem::forget((all, peer));
    [each(took * 1e9), each(fresh), each(used)]
}

fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0.0);
    pages * 4096.0
}

/// Processor time of this process in one second without work, in milliseconds.
fn idle_cpu() -> f64 {
    let before = run_time();
    std::thread::sleep(Duration::from_secs(1));
    (run_time() - before) / 1e6
}

/// Nanoseconds this process has run, all threads together.
fn run_time() -> f64 {
    let mut total = 0.0;
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let ran = text
            .split_whitespace()
            .next()
            .and_then(|n| n.parse::<f64>().ok());
        total += ran.unwrap_or(0.0);
    }
    total
}

pub(crate) fn figures(show: Show, rounds: usize, wanted: &dyn Fn(&str) -> bool) {
    let names = [
        ("create 100,000 owners", "ns/owner"),
        ("memory per idle owner, fresh", "bytes/owner"),
        ("memory per idle owner, used", "bytes/owner"),
        ("idle second with 100,000 owners", "ms cpu"),
    ];
    if !names.iter().any(|(name, _)| wanted(name)) {
        return;
    }
    let mut values = vec![vec![Vec::new(); PEERS.len()]; names.len()];
    for _ in 0..rounds {
        for (at, peer) in PEERS.iter().enumerate() {
            let line = again(peer);
            for (figure, value) in values.iter_mut().zip(line) {
                figure[at].push(value);
            }
        }
    }
    let runners: Vec<Runner> = PEERS
        .iter()
        .map(|peer| Runner {
            peer,
            run: Box::new(|| f64::NAN),
        })
        .collect();
    for ((name, unit), values) in names.iter().zip(&values) {
        if wanted(name) {
            print(show, (name, unit), Better::Lower, &runners, values);
        }
    }
}

fn again(peer: &str) -> Vec<f64> {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args([CHILD, peer])
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace()
        .filter_map(|value| value.parse().ok())
        .collect()
}
