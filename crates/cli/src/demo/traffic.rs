//! Senders: each on its host, at its pace, to actors of its choice.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use spotlane::Json;
use spotlane_counter::{Add, Added, Note};
use tokio::time::{Instant, sleep_until};

use super::args::DemoArgs;
use super::oracle::{Number, Oracle, Outcome, Stream};
use super::random::Random;
use super::spread::Spread;
use super::tag::{self, Kind};
use super::troubles::Troubles;
use super::world::{Epoch, World};

/// One of so many messages is a request.
const REQUEST_SHARE: u32 = 4;
/// How long a request may take; much longer than any move.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What all tasks of a demo share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The hosts.
    pub(crate) world: World,
    /// The options.
    pub(crate) args: DemoArgs,
    /// When traffic begins.
    pub(crate) start: Instant,
    /// When it ends, unless moves are left to be made.
    pub(crate) end: Instant,
    /// When it ends in any case.
    pub(crate) latest_end: Instant,
    /// The judge. Held only to record one thing. A leaf lock.
    pub(crate) oracle: Mutex<Oracle>,
    /// How long requests took. A leaf lock.
    pub(crate) latency: Mutex<Spread>,
    /// How long those took whose actor was on its way meanwhile. A leaf lock.
    pub(crate) crossing: Mutex<Spread>,
    /// What went wrong, by kind. A leaf lock.
    pub(crate) troubles: Mutex<Troubles>,
    /// Payload bytes that were sent.
    pub(crate) payload_bytes: AtomicU64,
}

impl Shared {
    /// The judge.
    pub(crate) fn judge<T>(&self, record: impl FnOnce(&mut Oracle) -> T) -> T {
        record(&mut self.oracle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether traffic and moves end.
    pub(crate) fn is_over(&self) -> bool {
        let now = Instant::now();
        now >= self.latest_end || (now >= self.end && self.world.all_have_moved())
    }

    /// Remembers an error.
    pub(crate) fn trouble(&self, during: &'static str, error: &dyn Display) {
        self.troubles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(during, error);
    }

    /// A request to an actor begins.
    pub(crate) fn ask(&self, actor: u32) -> Asked {
        Asked {
            at: Instant::now(),
            epoch: self.world.epoch(actor),
        }
    }

    /// It was answered.
    pub(crate) fn answered(&self, actor: u32, asked: Asked) {
        let took = asked.at.elapsed();
        self.latency
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(took);
        if asked.epoch.is_moving() || self.world.epoch(actor) != asked.epoch {
            self.crossing
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(took);
        }
    }
}

/// When a request began, and how often its actor had moved by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at: Instant,
    epoch: Epoch,
}

/// Sends until the end. A sender that is late sends at once until it has caught up.
pub(crate) async fn send_all(shared: &Shared, sender: u32) {
    let args = &shared.args;
    let mut random = Random::new(args.seed, u64::from(sender) + 1);
    let pad = "x".repeat(usize::try_from(args.payload).unwrap_or(0));
    let senders = f64::from(args.senders);
    #[expect(
        clippy::cast_precision_loss,
        clippy::as_conversions,
        reason = "a pace, at most 200,000 a second"
    )]
    let period = Duration::from_secs_f64(senders / args.rate as f64);
    let mut due = shared.start + period.mul_f64(f64::from(sender) / senders);
    while !shared.is_over() {
        // Sleep: the pace.
        sleep_until(due).await;
        due += period;
        let stream = Stream {
            sender,
            actor: random.below(args.actors),
        };
        let number = shared.judge(|oracle| oracle.send(stream));
        let outcome = if random.below(REQUEST_SHARE) == 0 {
            add(shared, stream, number, &pad).await
        } else {
            note(shared, stream, number, &pad).await
        };
        shared.judge(|oracle| oracle.end(stream, number, outcome));
        shared
            .payload_bytes
            .fetch_add(args.payload, Ordering::Relaxed);
    }
}

async fn add(shared: &Shared, stream: Stream, number: Number, pad: &str) -> Outcome {
    let tag = tag::write(Kind::Add, stream.sender, number);
    let add = Add {
        n: tag::amount(number),
        tag,
        pad: pad.to_owned(),
    };
    let asked = shared.ask(stream.actor);
    let actor = shared
        .world
        .host(stream.sender)
        .actor(shared.world.id(stream.actor));
    match actor
        .request("add", Json(add))
        .timeout(REQUEST_TIMEOUT)
        .reply::<Json<Added>>()
        .await
    {
        Ok(_) => {
            shared.answered(stream.actor, asked);
            Outcome::Answered
        }
        // EX-354: it may have been handled or not.
        Err(error) => {
            shared.trouble("request", &error);
            Outcome::Unknown
        }
    }
}

async fn note(shared: &Shared, stream: Stream, number: Number, pad: &str) -> Outcome {
    let note = Note {
        tag: tag::write(Kind::Note, stream.sender, number),
        pad: pad.to_owned(),
    };
    let actor = shared
        .world
        .host(stream.sender)
        .actor(shared.world.id(stream.actor));
    match actor.send("note", Json(note)).await {
        Ok(()) => Outcome::Accepted,
        // EX-356: a one-way fails only before it was accepted.
        Err(error) => {
            shared.trouble("send", &error);
            Outcome::Refused
        }
    }
}
