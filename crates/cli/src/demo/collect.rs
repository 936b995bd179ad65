//! The collector: reads what the actors handled and tells the judge.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use spotlane::{Error, Json};
use spotlane_counter::{Add, Added, Log};
use tokio::time::{Instant, sleep};

use super::tag::{self, Kind};
use super::traffic::Shared;

/// Every log is read about once in this time.
const ROUND: Duration = Duration::from_secs(1);
/// Logs are not read faster than one in this time.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// How many logs are read at a time at the end.
const READ_AT_ONCE: usize = 32;
/// How long the last messages may take to be handled when nothing else happens.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(15);
/// From one look to the next meanwhile.
const SETTLE_PAUSE: Duration = Duration::from_millis(50);
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What was read from one actor. Only one reader at a time has it.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// Tags that were read.
    position: u64,
    /// The sum of the amounts of the `add`s among them.
    sum: i64,
}

/// Where each log was read to.
#[derive(Debug)]
pub(crate) struct Collector {
    shared: Arc<Shared>,
    /// A leaf lock, held for one look or change.
    cursors: Mutex<Vec<Cursor>>,
}

impl Collector {
    /// Nothing was read yet.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let count = usize::try_from(shared.args.actors).unwrap_or(0);
        Self {
            shared,
            cursors: Mutex::new(vec![Cursor::default(); count]),
        }
    }

    /// Reads logs until the end of traffic, so that neither they nor the judge's books grow.
    pub(crate) async fn collect(&self) {
        let actors = self.shared.args.actors;
        let pause = (ROUND / actors).max(PAUSE_MIN);
        for actor in (0..actors).cycle() {
            if self.shared.is_over() {
                return;
            }
            // What could not be read now is read in the next round.
            drop(self.read(actor).await);
            // Sleep: the pace.
            sleep(pause).await;
        }
    }

    /// Reads until everything that was accepted was handled, or until nothing happens any more.
    pub(crate) async fn settle(&self) {
        let mut progress = Instant::now();
        let mut seen = self.shared.judge(|oracle| oracle.tally().handled);
        loop {
            self.for_all(|actor| async move { drop(self.read(actor).await) })
                .await;
            let (handled, due) = self
                .shared
                .judge(|oracle| (oracle.tally().handled, oracle.is_due()));
            if !due || progress.elapsed() > SETTLE_TIMEOUT {
                return;
            }
            if handled != seen {
                (seen, progress) = (handled, Instant::now());
            }
            // Sleep: the actors need time to handle what they have.
            sleep(SETTLE_PAUSE).await;
        }
    }

    /// Compares every total with the sum of what was handled.
    pub(crate) async fn check_totals(&self) {
        self.for_all(|actor| async move {
            let expected = self.cursor(actor).sum;
            let reported = self
                .total(actor)
                .await
                .map_err(|error| self.shared.trouble("total", &error));
            // An actor that does not answer has no right total.
            let reported = reported.unwrap_or_else(|()| expected.wrapping_add(1));
            self.shared.judge(|oracle| oracle.total(reported, expected));
        })
        .await;
    }

    async fn for_all<F: Future<Output = ()>>(&self, work: impl Fn(u32) -> F) {
        stream::iter(0..self.shared.args.actors)
            .for_each_concurrent(READ_AT_ONCE, work)
            .await;
    }

    async fn total(&self, actor: u32) -> Result<i64, Error> {
        let world = &self.shared.world;
        let call = world
            .host(actor)
            .actor(world.id(actor))
            .request("add", Json(Add::default()));
        let Json(Added { total, .. }) = call.timeout(READ_TIMEOUT).reply().await?;
        Ok(total)
    }

    async fn read(&self, actor: u32) -> Result<(), Error> {
        let world = &self.shared.world;
        let mut cursor = self.cursor(actor);
        let log = Log {
            from: cursor.position,
            forget: cursor.position,
        };
        let call = world
            .host(actor)
            .actor(world.id(actor))
            .request("log", Json(log));
        let Json(tags): Json<Vec<String>> = call.timeout(READ_TIMEOUT).reply().await?;
        self.shared.judge(|oracle| {
            for tag in &tags {
                match tag::read(tag, actor) {
                    Some(tag) => {
                        oracle.handle(tag.stream, tag.number, tag.way);
                        if tag.kind == Kind::Add {
                            cursor.sum += tag::amount(tag.number);
                        }
                    }
                    None => oracle.handle_foreign(),
                }
            }
        });
        cursor.position += u64::try_from(tags.len()).unwrap_or(u64::MAX);
        let mut cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = usize::try_from(actor)
            .ok()
            .and_then(|actor| cursors.get_mut(actor))
        {
            *slot = cursor;
        }
        Ok(())
    }

    fn cursor(&self, actor: u32) -> Cursor {
        let cursors = self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        usize::try_from(actor)
            .ok()
            .and_then(|actor| cursors.get(actor))
            .copied()
            .unwrap_or_default()
    }
}
