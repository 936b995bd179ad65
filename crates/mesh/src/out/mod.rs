//! What waits to be written on one lane, and the writing of it.
//!
//! Whoever finds the lane idle may write; who finds it busy leaves the bytes to the one that does. A
//! socket that takes no more hands the rest to the lane's task, which waits for it.
//!
//! Three queues: *control*, records of the link itself, which go first; *ordered*, in the order of
//! submits; and *bulk*, whole relocation chunks. A chunk goes out behind every ordered record that was
//! submitted before it, and one at a time, so that ordered records of other objects pass between two
//! chunks (TR-67, RL-131).

mod patience;
mod pause;
mod queue;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use spotlane_mesh_proto::link::{Gate, GateBuffer};
use spotlane_mesh_proto::zmp::{FlowState, Parts, Size};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

use crate::lock::{Mutex, MutexGuard};
use crate::stream::Stream;
use crate::tracked::Written;
use patience::Patience;
use queue::Batch;
pub(crate) use queue::Segment;

/// Ordered bytes that are written before a waiting chunk gets its turn.
const ROUND_BYTES: usize = 256 * 1024;
/// Messages that are written together while more of them are about to come, so that the peer works on one
/// burst while the next one is made.
pub(crate) const BURST_MESSAGES: usize = 64;
/// Full segments that wait before a submit writes them.
const SEGMENTS_MAX: usize = 2;
/// Rounds that a submit writes before it leaves the rest to the task of the lane.
const INLINE_ROUNDS: u32 = 4;
/// Turns that the task of the lane gives to those who are expected before it writes what is there.
const TURNS: u32 = 4;
/// What answers to probes and hellos may pile up, besides what the host has queued. Ours.
const CONTROL_CHARGE_MAX: u64 = 256 * 1024;

/// The outgoing side of one lane.
#[derive(Debug)]
pub(crate) struct LaneOut {
    /// Innermost lock: nothing else is locked while it is held.
    state: Mutex<State>,
    /// Wakes the task of the lane.
    wake: Notify,
    /// There is room again, or the lane is closed.
    room: Notify,
    /// Who waits for room, in the order in which they came.
    line: Semaphore,
    /// Everything is written, or the lane is closed.
    drained: Notify,
    max: u64,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<Arc<Stream>>,
    /// By which messages pass that need nothing else of their link.
    gate: Option<Gate>,
    /// Where these are encoded.
    encoded: GateBuffer,
    control: VecDeque<Segment>,
    /// The charge of `control`, which no queue of the host is to fill.
    control_charge: u64,
    /// Taken back when the peer paused; belongs in front of `ordered`.
    held: VecDeque<Segment>,
    /// Whether the peer takes new messages.
    flow: FlowState,
    /// Full segments.
    ordered: VecDeque<Segment>,
    /// The one that is being filled; belongs behind `ordered`.
    open: Segment,
    bulk: VecDeque<Chunk>,
    /// Segments that were ever put into `ordered`, and that were ever taken out of it.
    put: u64,
    taken: u64,
    /// What is being written, unless somebody has taken it to do so.
    batch: Batch,
    spare: Vec<Segment>,
    charge: u64,
    writer: Writer,
    /// The task of the lane was woken and has not looked yet.
    woken: bool,
    /// Somebody pushes one after the other and will uncork behind them.
    corked: bool,
    /// So many more messages are likely to come at once.
    expected: usize,
    patience: Patience,
    /// Messages that were ever queued.
    messages: u64,
    phase: Phase,
}

/// A message of the bulk queue.
#[derive(Debug)]
struct Chunk {
    message: Segment,
    /// It may go when this many ordered segments have been taken: all that were there before it.
    behind: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Writer {
    #[default]
    Idle,
    /// Somebody is writing and will look again.
    Busy,
    /// The socket takes no more; the task of the lane waits for it.
    Blocked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// Ends when everything is written.
    Finishing,
    /// Ends with what the socket takes at once.
    Closing,
    Closed,
}

/// Someone who wants to know what became of a message (TR-94).
#[derive(Debug)]
pub(crate) struct Done(pub(crate) oneshot::Sender<Written>);

impl Done {
    fn tell(self, written: Written) {
        // Whoever does not wait for it needs no answer.
        self.0.send(written).ok();
    }
}

/// How the bytes of a message are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// By the caller, at once.
    Now,
    /// By the task of the lane, after everybody had a chance to add something.
    Soon,
}

/// Whether the bound of the queue holds for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Bounded,
    /// An answer: what waits is bounded by the requests that were taken.
    Always,
}

/// What is to be done about a message that was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Act {
    /// Somebody is about to write it.
    Nothing,
    /// The task of the lane has to be woken.
    Wake,
    /// The caller has to write.
    Flush,
}

/// Why nothing was queued.
#[derive(Debug)]
pub(crate) enum NotQueued<E> {
    Full(Full),
    Closed,
    /// The link lets nothing of this kind pass.
    Shut,
    Refused(E),
}

/// What is left for the task of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    More,
    Blocked,
    Closed,
}

/// A queue that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) charge: u64,
    pub(crate) max: u64,
}

impl LaneOut {
    pub(crate) fn new(max: u64) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            room: Notify::new(),
            line: Semaphore::new(1),
            drained: Notify::new(),
            max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The connection is there: what was queued can go.
    pub(crate) fn open(&self, stream: Arc<Stream>) {
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            drop(state);
            stream.close();
            return;
        }
        state.stream = Some(stream);
        self.wake(&mut state);
    }

    /// Queues a message behind all others; `write` judges it and writes its bytes.
    ///
    /// What is to be done about it is left to [`Self::act`], outside of the caller's locks.
    ///
    /// # Errors
    /// Nothing was queued.
    pub(crate) fn write<E>(
        &self,
        room: Room,
        flush: Flush,
        done: impl FnOnce(Size) -> Option<Done>,
        write: impl FnOnce(&mut Segment) -> Result<Size, E>,
    ) -> Result<Act, NotQueued<E>> {
        let mut state = self.lock();
        self.check(&state, room)?;
        let size = write(&mut state.open).map_err(NotQueued::Refused)?;
        state.end_message(size.charge, done(size));
        Ok(state.next_act(flush))
    }

    /// As [`Self::write`], for a message that needs nothing of its link but a gate: the lock of the
    /// machine is not taken.
    ///
    /// # Errors
    /// Nothing was queued.
    pub(crate) fn pass<E>(
        &self,
        room: Room,
        flush: Flush,
        done: impl FnOnce(Size) -> Option<Done>,
        write: impl FnOnce(Gate, &mut GateBuffer, &mut Segment) -> Result<Size, E>,
    ) -> Result<Act, NotQueued<E>> {
        let mut state = self.lock();
        let Some(gate) = state.gate else {
            return Err(NotQueued::Shut);
        };
        self.check(&state, room)?;
        let State { open, encoded, .. } = &mut *state;
        let size = write(gate, encoded, open).map_err(NotQueued::Refused)?;
        state.end_message(size.charge, done(size));
        Ok(state.next_act(flush))
    }

    pub(crate) fn set_gate(&self, gate: Option<Gate>) {
        self.lock().gate = gate;
    }

    fn check<E>(&self, state: &State, room: Room) -> Result<(), NotQueued<E>> {
        if state.phase != Phase::Open {
            return Err(NotQueued::Closed);
        }
        // TR-51: an empty queue takes a message of any size (TR-50).
        if room == Room::Bounded && state.charge >= self.max {
            let (charge, max) = (state.charge, self.max);
            return Err(NotQueued::Full(Full { charge, max }));
        }
        Ok(())
    }

    /// Does what [`Self::write`] has left to be done.
    pub(crate) fn act(&self, act: Act) {
        match act {
            Act::Nothing => {}
            Act::Wake => self.wake.notify_one(),
            Act::Flush => self.flush_now(),
        }
    }

    /// Queues a chunk behind all chunks and all ordered messages that are there.
    pub(crate) fn push_bulk(&self, parts: &Parts, done: Done) {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            drop(state);
            return done.tell(Written::Lost);
        }
        state.close();
        let message = Segment::of_shared(parts.as_slice(), Some(done));
        let behind = state.put;
        state.bulk.push_back(Chunk { message, behind });
        self.wake(&mut state);
    }

    /// Lets pushes pile up until [`Self::uncork`].
    pub(crate) fn cork(&self) {
        self.lock().corked = true;
    }

    /// Writes what has piled up.
    pub(crate) fn uncork(&self) {
        let waits = {
            let mut state = self.lock();
            state.corked = false;
            !state.is_empty()
        };
        if waits {
            self.flush_now();
        }
    }

    /// So many replies were given out, each of which is likely to be followed by a message at once.
    pub(crate) fn expect(&self, messages: usize) {
        let mut state = self.lock();
        state.expected = state.expected.saturating_add(messages);
    }

    /// Lets the task of the lane look behind all tasks that are ready, instead of behind the first message that comes.
    pub(crate) fn look_later(&self) {
        let mut state = self.lock();
        if !state.woken && state.writer == Writer::Idle {
            state.woken = true;
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Writes what is there, or leaves it to the task of the lane.
    pub(crate) fn flush_now(&self) {
        if self.flush() == Left::More {
            self.wake(&mut self.lock());
        }
    }

    fn wake(&self, state: &mut State) {
        if !state.woken && state.writer == Writer::Idle {
            state.woken = true;
            self.wake.notify_one();
        }
    }

    /// Writes for a few rounds, unless somebody else does.
    pub(crate) fn flush(&self) -> Left {
        let mut state = self.lock();
        for round in 0..INLINE_ROUNDS {
            let more = state.expected > 0 && state.woken && state.phase == Phase::Open;
            if round > 0 && more {
                // The last one that is expected writes the rest, or the task of the lane.
                return Left::Nothing;
            }
            let stream = match (state.writer, &state.stream) {
                (Writer::Blocked, _) => return Left::Blocked,
                (Writer::Busy, _) | (Writer::Idle, None) => return Left::Nothing,
                (Writer::Idle, Some(stream)) => Arc::clone(stream),
            };
            if !state.gather() {
                return self.at_end(state, &stream);
            }
            state.writer = Writer::Busy;
            let mut batch = std::mem::take(&mut state.batch);
            drop(state);
            let written = batch.write(&stream);
            state = self.lock();
            state.writer = Writer::Idle;
            match written {
                Ok(()) => self.written(&mut state, batch),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.batch = batch;
                    if state.phase == Phase::Closing {
                        return self.end(state);
                    }
                    if state.flow == FlowState::Paused {
                        state.hold_back();
                    }
                    state.writer = Writer::Blocked;
                    state.woken = true;
                    drop(state);
                    self.wake.notify_one();
                    return Left::Blocked;
                }
                Err(_) => {
                    state.batch = batch;
                    return self.end(state);
                }
            }
        }
        Left::More
    }

    /// Returns the charge and the memory of what is written.
    fn written(&self, state: &mut State, mut batch: Batch) {
        let half = self.max / 2;
        let before = state.charge;
        state.charge = before.saturating_sub(std::mem::take(&mut batch.charge));
        // TR-50: credit returns when half is free.
        if before > half && state.charge <= half {
            self.room.notify_waiters();
        }
        for done in batch.done.drain(..) {
            done.tell(Written::Taken);
        }
        batch.return_memory(&mut state.spare);
        state.batch = batch;
    }

    fn at_end(&self, mut state: MutexGuard<'_, State>, stream: &Stream) -> Left {
        match stream.try_flush() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if state.phase == Phase::Closing {
                    return self.end(state);
                }
                state.writer = Writer::Blocked;
                state.woken = true;
                drop(state);
                self.wake.notify_one();
                return Left::Blocked;
            }
            Err(_) => return self.end(state),
        }
        match state.phase {
            Phase::Open => {}
            Phase::Finishing => stream.finish(),
            Phase::Closing => return self.end(state),
            Phase::Closed => return Left::Closed,
        }
        self.drained.notify_waiters();
        Left::Nothing
    }

    /// The lane is over: the socket is closed, what is queued is lost (TR-61).
    fn end(&self, mut state: MutexGuard<'_, State>) -> Left {
        state.phase = Phase::Closed;
        state.charge = 0;
        let stream = state.stream.take();
        let lost = (
            std::mem::take(&mut state.held),
            std::mem::take(&mut state.ordered),
            std::mem::take(&mut state.open),
            std::mem::take(&mut state.bulk),
            std::mem::take(&mut state.batch),
        );
        drop(state);
        if let Some(stream) = stream {
            stream.close();
        }
        let (held, ordered, open, bulk, batch) = lost;
        let bulk = bulk.into_iter().map(|chunk| chunk.message);
        let segments = held.into_iter().chain(ordered).chain([open]).chain(bulk);
        let done = segments.flat_map(Segment::into_done);
        for done in batch.into_done().chain(done) {
            done.tell(Written::Lost);
        }
        self.room.notify_waiters();
        self.drained.notify_waiters();
        self.wake.notify_one();
        Left::Closed
    }

    /// TR-18: writes what the socket takes at once, then closes it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            return;
        }
        state.phase = Phase::Closing;
        match (state.writer, &state.stream) {
            // The one that writes finds the phase.
            (Writer::Busy, _) => {}
            (Writer::Blocked, _) | (Writer::Idle, None) => {
                self.end(state);
            }
            (Writer::Idle, Some(_)) => {
                drop(state);
                if self.flush() == Left::More {
                    self.end(self.lock());
                }
            }
        }
    }

    /// Takes nothing more, and tells the peer so when everything is written (TR-28).
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Finishing;
            self.wake(&mut state);
        }
    }

    /// Waits until everything is written or lost.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn drained(&self) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            let (empty, stream) = {
                let state = self.lock();
                (state.is_empty(), state.stream.clone())
            };
            // A session may hold bytes that the queue has given away.
            if empty && stream.is_none_or(|stream| stream.try_flush().is_ok()) {
                return;
            }
            drained.await;
        }
    }

    /// Waits until there may be room, after [`Full`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn room(&self) {
        // Nearly always there is some, and nobody to be put into a line.
        while !self.has_room() {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    /// Waits until everybody has gone who came before. Whoever has the turn waits for room alone, and those behind it for
    /// the turn to be dropped.
    ///
    /// # Cancel safety
    /// The place in the line is lost.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.line.acquire().await.ok()
    }

    /// Whether somebody waits for room, whom nobody may pass.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.line.available_permits() == 0
    }

    fn has_room(&self) -> bool {
        let state = self.lock();
        state.charge < self.max || state.phase == Phase::Closed
    }

    /// Gives everybody a turn who is about to add something, if that pays: it goes out in the same call. Of those that are
    /// expected, the last one writes.
    async fn let_others_add(&self) {
        let mut before = {
            let mut state = self.lock();
            let expected = state.expected;
            if !state.is_anything_left() || !state.patience.is_due(expected) {
                return;
            }
            state.messages
        };
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            let mut state = self.lock();
            let gained = state.messages != before;
            if !gained || state.expected == 0 {
                state.patience.learn(gained);
                // Whoever has not come by now is not expected any more.
                state.expected = 0;
                return;
            }
            before = state.messages;
        }
    }

    /// The task of the lane: writes what nobody else wrote, until the lane is closed.
    pub(crate) async fn run(&self, stream: Arc<Stream>) {
        loop {
            self.wake.notified().await;
            self.let_others_add().await;
            self.lock().woken = false;
            loop {
                match self.flush() {
                    Left::Nothing => break,
                    Left::More => tokio::task::yield_now().await,
                    Left::Blocked => {
                        if stream.writable().await.is_err() {
                            self.end(self.lock());
                            return;
                        }
                        let mut state = self.lock();
                        if state.writer == Writer::Blocked {
                            state.writer = Writer::Idle;
                        }
                    }
                    Left::Closed => return,
                }
            }
            if self.lock().phase == Phase::Closed {
                return;
            }
        }
    }
}

impl State {
    fn is_empty(&self) -> bool {
        !self.is_anything_left() && self.writer == Writer::Idle
    }

    /// Whether there are bytes that nobody is writing.
    fn is_anything_left(&self) -> bool {
        !(self.control.is_empty()
            && self.held.is_empty()
            && self.ordered.is_empty()
            && self.open.bytes() == 0
            && self.bulk.is_empty()
            && self.batch.is_empty())
    }

    fn end_message(&mut self, charge: u64, done: Option<Done>) {
        self.open.end_message(charge, done);
        self.charge = self.charge.saturating_add(charge);
        self.messages = self.messages.saturating_add(1);
        if self.open.is_full() {
            self.close();
        }
    }

    /// Who writes the message that was just queued.
    fn next_act(&mut self, flush: Flush) -> Act {
        let expected = self.expected;
        self.expected = expected.saturating_sub(1);
        // The last that is expected writes; of many, some do before it, so that the peer works meanwhile.
        let writes = expected > 0 && self.expected.is_multiple_of(BURST_MESSAGES);
        if self.writer != Writer::Idle || self.flow == FlowState::Paused {
            return Act::Nothing;
        }
        // Full segments go while they are in the caches, and the peer can begin with them.
        if self.ordered.len() >= SEGMENTS_MAX {
            return Act::Flush;
        }
        if writes {
            return Act::Flush;
        }
        match self.corked {
            true => Act::Nothing,
            // The first of several that are about to come does not go alone.
            false if flush == Flush::Now && expected <= 1 => Act::Flush,
            false if self.woken => Act::Nothing,
            false => {
                self.woken = true;
                Act::Wake
            }
        }
    }

    /// Closes the open segment, if there is something in it.
    fn close(&mut self) {
        if self.open.bytes() == 0 {
            return;
        }
        let next = self.spare.pop().unwrap_or_default();
        let mut segment = std::mem::replace(&mut self.open, next);
        segment.close();
        self.put = self.put.saturating_add(1);
        self.ordered.push_back(segment);
    }

    /// Fills the batch: ordered messages up to a bound, then one chunk. False when there is nothing.
    fn gather(&mut self) -> bool {
        if !self.batch.is_empty() {
            return true;
        }
        if !self.gather_first() {
            return !self.batch.is_empty();
        }
        self.close();
        let mut bytes = 0_usize;
        while bytes < ROUND_BYTES
            && let Some(segment) = self.ordered.pop_front()
        {
            bytes = bytes.saturating_add(segment.bytes());
            self.taken = self.taken.saturating_add(1);
            self.batch.push(segment);
        }
        // A chunk must not pass what was submitted before it; what came later may not hold it up for
        // longer than a round.
        let taken = self.taken;
        if let Some(chunk) = self.bulk.pop_front_if(|chunk| chunk.behind <= taken) {
            self.batch.push(chunk.message);
        }
        !self.batch.is_empty()
    }
}

#[cfg(test)]
mod tests;
