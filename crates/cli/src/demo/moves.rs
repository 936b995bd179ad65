//! The mover: takes actors of its choice to hosts of its choice, many at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep_until;

use super::random::Random;
use super::traffic::Shared;
use super::verdict::Moves;
use super::world::{HOSTS, Place, World};

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
    pub(crate) fn now(&self, world: &World) -> Moves {
        Moves {
            fewest: world.fewest_moves(),
            asked: self.asked.load(Ordering::Relaxed),
            completed: self.completed.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// Moves until the end, and waits for what is under way.
pub(crate) async fn move_all(shared: &Arc<Shared>, counts: &MoveCounts) {
    let args = &shared.args;
    let rate = args.moves_each_second();
    if rate == 0 {
        return;
    }
    let mut random = Random::new(args.seed, PART);
    let mut choice = Choice::new(args.actors, args.rounds());
    let period = Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX);
    let mut due = shared.start;
    let mut moving = JoinSet::new();
    while !shared.is_over() {
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
        let drawn = choice.draw(&mut random, &shared.world);
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

/// Which actor moves next.
#[derive(Debug)]
enum Choice {
    /// Any of so many.
    Any(u32),
    /// All of so many, one after the other in an order that chance gives, and then once more.
    Rounds(u32, VecDeque<u32>),
}

impl Choice {
    const fn new(actors: u32, rounds: u32) -> Self {
        match rounds {
            0 => Self::Any(actors),
            _ => Self::Rounds(actors, VecDeque::new()),
        }
    }

    /// An actor that was taken for a move, and where it is; one that is on its way is passed over.
    fn draw(&mut self, random: &mut Random, world: &World) -> Option<(u32, u32)> {
        (0..DRAWS).find_map(|_| {
            let actor = self.next(random);
            let taken = world.take(actor).map(|from| (actor, from));
            if let (Self::Rounds(_, left), None) = (&mut *self, taken) {
                left.push_back(actor);
            }
            taken
        })
    }

    fn next(&mut self, random: &mut Random) -> u32 {
        match self {
            Self::Any(actors) => random.below(*actors),
            Self::Rounds(actors, left) => {
                if left.is_empty() {
                    left.extend(0..*actors);
                    for last in (1..left.len()).rev() {
                        let bound = u32::try_from(last).unwrap_or(u32::MAX).saturating_add(1);
                        let other = usize::try_from(random.below(bound)).unwrap_or(0);
                        left.swap(last, other);
                    }
                }
                left.pop_front().unwrap_or(0)
            }
        }
    }
}

/// Whether a move ended with the new owner.
enum Ended {
    Moved,
    Stayed,
}

async fn move_one(shared: &Shared, actor: u32, from: u32, to: u32) -> Ended {
    let Err(error) = shared.world.relocate(actor, from, to).await else {
        shared.world.arrive(actor, to);
        return Ended::Moved;
    };
    shared.trouble("move", &error);
    // An actor that nobody finds is not moved again, and its messages count as lost.
    let place = shared.world.find(actor).await.unwrap_or(Place::Moving);
    shared.world.put(actor, place);
    Ended::Stayed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_everybody_once() {
        let mut random = Random::new(1, PART);
        let mut choice = Choice::new(100, 2);
        for _ in 0..3 {
            let mut round: Vec<u32> = (0..100).map(|_| choice.next(&mut random)).collect();
            assert!(!round.is_sorted());
            round.sort_unstable();
            assert!(round.into_iter().eq(0..100));
        }
    }
}
