//! The mover: takes actors of its choice to hosts of its choice, many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::random::Random;
use super::traffic::Shared;
use super::verdict::Moves;
use super::world::{HOSTS, Place};

/// As many moves are under way at once; more wait.
const MOVES_AT_ONCE: usize = 256;
/// How often another actor is drawn when one is moving already.
const DRAWS: usize = 16;
/// The part of the choices that is the mover's.
const PART: u64 = 0;

/// Moves so far.
#[derive(Debug, Default)]
pub(crate) struct MoveCounts {
    asked: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl MoveCounts {
    /// Counts the end of a move; one that panicked stayed.
    fn end(&self, ended: Result<Ended, JoinError>) {
        let counter = match ended {
            Ok(Ended::Moved) => &self.completed,
            Ok(Ended::Stayed) | Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What they are now.
    pub(crate) fn now(&self) -> Moves {
        Moves {
            asked: self.asked.load(Ordering::Relaxed),
            completed: self.completed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// Moves until the end, and waits for what is under way.
pub(crate) async fn move_all(shared: &Arc<Shared>, counts: &MoveCounts) {
    let args = &shared.args;
    if args.moves == 0 {
        return;
    }
    let mut random = Random::new(args.seed, PART);
    let period = Duration::from_secs(1) / u32::try_from(args.moves).unwrap_or(u32::MAX);
    let mut due = shared.start;
    let mut moving = JoinSet::new();
    while due < shared.end && Instant::now() < shared.end {
        // Sleep: the pace.
        sleep_until(due).await;
        due += period;
        while let Some(ended) = moving.try_join_next() {
            counts.end(ended);
        }
        if moving.len() == MOVES_AT_ONCE
            && let Some(ended) = moving.join_next().await
        {
            counts.end(ended);
        }
        let drawn = (0..DRAWS).find_map(|_| {
            let actor = random.below(args.actors);
            shared.world.take(actor).map(|from| (actor, from))
        });
        // All are on their way: this move does not happen, and the figures show it.
        let Some((actor, from)) = drawn else { continue };
        let to = (from + 1 + random.below(HOSTS - 1)) % HOSTS;
        counts.asked.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        moving.spawn(async move { move_one(&shared, actor, from, to).await });
    }
    while let Some(ended) = moving.join_next().await {
        counts.end(ended);
    }
}

/// Whether a move ended with the new owner.
enum Ended {
    Moved,
    Stayed,
}

async fn move_one(shared: &Shared, actor: u32, from: u32, to: u32) -> Ended {
    let Err(error) = shared.world.relocate(actor, from, to).await else {
        shared.world.put(actor, Place::At(to));
        return Ended::Moved;
    };
    shared.trouble("move", &error);
    // An actor that nobody finds is not moved again, and its messages count as lost.
    let place = shared.world.find(actor).await.unwrap_or(Place::Moving);
    shared.world.put(actor, place);
    Ended::Stayed
}
