//! Other Actors of the two hosts, asked from each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spotlane::prelude::*;
use spotlane_bench::now;
use tokio::task::JoinSet;

/// How many there are; half of them at each host.
const ACTORS: usize = 8;
/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(1);

/// The small Actors by number.
pub fn ids() -> impl Iterator<Item = (usize, String)> {
    (0..ACTORS).map(|n| (n, format!("small-{n}")))
}

/// Questions that go on until they are stopped.
pub struct Load {
    stop: Arc<AtomicBool>,
    askers: JoinSet<Vec<f64>>,
}

impl Load {
    pub fn start(host: &Host) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut askers = JoinSet::new();
        for (_, id) in ids() {
            askers.spawn(ask(host.actor(id), Arc::clone(&stop)));
        }
        Self { stop, askers }
    }

    /// Median, 99th percentile and most, in milliseconds.
    pub async fn stop(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        let mut times: Vec<f64> = self.askers.join_all().await.concat();
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        format!("{} {} {}", at(50), at(99), at(100))
    }
}

async fn ask(actor: ActorHandle, stop: Arc<AtomicBool>) -> Vec<f64> {
    let mut times = Vec::new();
    while times.is_empty() || !stop.load(Ordering::Relaxed) {
        let start = now();
        let size: String = actor.request("size", ()).reply().await.unwrap();
        times.push(start.elapsed().as_secs_f64() * 1e3);
        assert_eq!(size, "0");
        // Sleep: the pace of the load.
        tokio::time::sleep(PAUSE).await;
    }
    times
}

/// The worse of two results.
pub fn worse(near: &str, far: &str) -> [f64; 3] {
    let numbers = |text: &str| -> Vec<f64> {
        let words = text.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    let (near, far) = (numbers(near), numbers(far));
    [0, 1, 2].map(|n| near[n].max(far[n]))
}
