//! The Actor and its handlers.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use spotlane::{Actor, Arrival, Context, Error, Every, Handlers, Json, Tick};

use crate::message::{Add, Added, BLOB_BYTES_MAX, Blob, Log, Moved, Note, TAG_BYTES_MAX, Told};
use crate::name::node_name;

/// The most tags that are kept; a further one displaces the oldest.
pub const LOG_TAGS_MAX: usize = 1 << 20;
/// Stands behind the tag of a message that a former owner passed on: its order among those that came directly is not defined.
pub const FOLLOWED_MARK: char = '>';
/// How often a counter ticks.
pub const TICK_PERIOD: Duration = Duration::from_secs(1);

/// Counts, and remembers in which order it was told things.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    pub(crate) total: i64,
    /// The position of the first tag in `log`.
    pub(crate) first: u64,
    pub(crate) log: VecDeque<String>,
    pub(crate) ticks: u64,
    /// It was restored on this node and has not told its client yet. Not part of the state that moves.
    pub(crate) arrived: bool,
    /// Filler: makes the state as large as somebody wants to move.
    pub(crate) blob: Bytes,
}

impl Actor for Counter {
    const TYPE: &'static str = "counter";

    fn configure(handlers: &mut Handlers<Self>) {
        handlers
            .request("add", Self::on_add)
            .send("note", Self::on_note)
            .request("log", Self::on_log)
            .request("blob", Self::on_blob)
            .send("tell", Self::on_tell)
            .timer("tick", Every::new(TICK_PERIOD), Self::on_tick);
    }
}

/// The handlers: each has the Actor for itself until it ends, awaits included. None of these has to wait for anything.
#[expect(
    clippy::unused_async,
    reason = "a handler is an async method, whether it waits or not"
)]
impl Counter {
    async fn on_add(
        &mut self,
        context: &mut Context,
        Json(add): Json<Add>,
    ) -> Result<Json<Added>, Error> {
        self.greet(context);
        let total = self.add(add, context.arrival())?;
        Ok(Json(Added {
            total,
            node: node_name(context.node()),
        }))
    }

    async fn on_note(
        &mut self,
        context: &mut Context,
        Json(note): Json<Note>,
    ) -> Result<(), Error> {
        self.greet(context);
        self.remember(note.tag, context.arrival())
    }

    async fn on_log(&mut self, _: &mut Context, Json(log): Json<Log>) -> Json<Vec<String>> {
        Json(self.tags(log))
    }

    async fn on_blob(
        &mut self,
        _: &mut Context,
        Json(blob): Json<Blob>,
    ) -> Result<Json<Blob>, Error> {
        self.resize(blob)?;
        Ok(Json(blob))
    }

    async fn on_tick(&mut self, context: &mut Context, _: Tick) {
        self.greet(context);
        self.ticks += 1;
    }

    /// An error here is for the log of the node: `InvalidOperation` when no client is bound.
    async fn on_tell(
        &mut self,
        context: &mut Context,
        Json(told): Json<Told>,
    ) -> Result<(), Error> {
        self.greet(context);
        context.bound_session().send("told", Json(told))
    }
}

impl Counter {
    /// The sum of everything added.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// How often it ticked.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// The first turn on a new node tells the client, if there is one, that its Actor has moved.
    fn greet(&mut self, context: &Context) {
        if std::mem::take(&mut self.arrived) {
            let node = node_name(context.node());
            // Without a client nobody has to know.
            drop(context.bound_session().send("moved", Json(Moved { node })));
        }
    }

    fn add(&mut self, add: Add, arrival: Option<Arrival>) -> Result<i64, Error> {
        let total = self.total.checked_add(add.n).ok_or_else(|| {
            Error::rejected(format!(
                "{} plus {} does not fit into 64 bits",
                self.total, add.n
            ))
        })?;
        if !add.tag.is_empty() {
            self.remember(add.tag, arrival)?;
        }
        self.total = total;
        Ok(total)
    }

    fn remember(&mut self, mut tag: String, arrival: Option<Arrival>) -> Result<(), Error> {
        if tag.len() > TAG_BYTES_MAX {
            return Err(Error::rejected(format!(
                "the tag has {} bytes, at most {TAG_BYTES_MAX} are kept; put the rest into pad",
                tag.len()
            )));
        }
        if arrival == Some(Arrival::Followed) {
            tag.push(FOLLOWED_MARK);
        }
        if self.log.len() == LOG_TAGS_MAX {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(tag);
        Ok(())
    }

    fn tags(&mut self, log: Log) -> Vec<String> {
        while self.first < log.forget && self.log.pop_front().is_some() {
            self.first += 1;
        }
        let skip = usize::try_from(log.from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.log.iter().skip(skip).cloned().collect()
    }

    fn resize(&mut self, blob: Blob) -> Result<(), Error> {
        let size = usize::try_from(blob.bytes)
            .ok()
            .filter(|_| blob.bytes <= BLOB_BYTES_MAX);
        let size = size.ok_or_else(|| {
            Error::rejected(format!(
                "the state can have 0 to {BLOB_BYTES_MAX} bytes, not {}",
                blob.bytes
            ))
        })?;
        // Not zeros: what moves should look like data.
        let pattern: Vec<u8> = (0..=u8::MAX).collect();
        let mut filler = pattern.repeat(size.div_ceil(pattern.len()));
        filler.truncate(size);
        self.blob = filler.into();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(counter: &mut Counter, tag: &str) {
        counter.remember(tag.to_owned(), None).unwrap();
    }

    #[test]
    fn adding_raises_the_total_and_logs_the_tag() {
        let mut counter = Counter::default();
        let add = |n, tag: &str| Add {
            n,
            tag: tag.to_owned(),
            ..Add::default()
        };
        assert_eq!(counter.add(add(3, "a"), Some(Arrival::Direct)).unwrap(), 3);
        assert_eq!(counter.add(add(-1, ""), None).unwrap(), 2);
        let followed = Some(Arrival::Followed);
        assert_eq!(counter.add(add(1, "b"), followed).unwrap(), 3);
        assert_eq!(counter.tags(Log::default()), ["a", "b>"]);
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut counter = Counter {
            total: i64::MAX,
            ..Counter::default()
        };
        let before = counter.clone();
        for (n, tag) in [(1, "a".to_owned()), (0, "x".repeat(TAG_BYTES_MAX + 1))] {
            let pad = String::new();
            counter.add(Add { n, tag, pad }, None).unwrap_err();
        }
        counter
            .resize(Blob {
                bytes: BLOB_BYTES_MAX + 1,
            })
            .unwrap_err();
        assert_eq!(counter, before);
    }

    #[test]
    fn asking_twice_for_the_log_gives_the_same() {
        let mut counter = Counter::default();
        for tag in ["a", "b", "c"] {
            note(&mut counter, tag);
        }
        let ask = Log { from: 1, forget: 1 };
        assert_eq!(counter.tags(ask), ["b", "c"]);
        assert_eq!(counter.tags(ask), ["b", "c"]);
        note(&mut counter, "d");
        assert_eq!(counter.tags(Log { from: 3, forget: 3 }), ["d"]);
        assert_eq!(counter.tags(Log { from: 9, forget: 9 }), [] as [&str; 0]);
        note(&mut counter, "e");
        assert_eq!(counter.tags(Log::default()), ["e"]);
    }

    #[test]
    fn the_log_is_bounded() {
        let mut counter = Counter::default();
        for _ in 0..=LOG_TAGS_MAX {
            note(&mut counter, "x");
        }
        assert_eq!((counter.log.len(), counter.first), (LOG_TAGS_MAX, 1));
    }
}
