//! What waits to be written on one lane, and the writing of it.
//!
//! Whoever finds the lane idle may write; who finds it busy leaves the bytes to the one that does. A
//! socket that takes no more hands the rest to the lane's task, which waits for it.
//!
//! Three queues: *control*, records of the link itself, which go first; *ordered*, in the order of
//! submits; and *bulk*, whole relocation chunks. A chunk goes out behind every ordered record that was
//! submitted before it, and one at a time, so that ordered records of other objects pass between two
//! chunks (TR-67, RL-131).

mod pause;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use spotlane_mesh_proto::zmp::{FlowState, Parts, Sink, Size};
use tokio::sync::{Notify, oneshot};

use crate::budget::BulkCharge;
use crate::stream::Stream;
use crate::tracked::Written;

/// A buffer of copied parts is closed when it has this size.
const BUFFER_BYTES: usize = 64 * 1024;
/// Buffers above this size are not kept for the next records.
const SPARE_BYTES_MAX: usize = 2 * BUFFER_BYTES;
/// Ordered bytes that are written before a waiting chunk gets its turn.
const ROUND_BYTES: usize = 256 * 1024;
/// Parts of one system call.
const SLICES: usize = 64;
/// Rounds that a submit writes before it leaves the rest to the task of the lane.
const INLINE_ROUNDS: u32 = 4;
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
    /// Everything is written, or the lane is closed.
    drained: Notify,
    max: u64,
}

#[derive(Debug, Default)]
struct State {
    stream: Option<Arc<Stream>>,
    control: VecDeque<Piece>,
    /// The charge of `control`, which no queue of the host is to fill.
    control_charge: u64,
    /// Taken back when the peer paused; belongs in front of `ordered`.
    held: VecDeque<Piece>,
    /// Whether the peer takes new messages.
    flow: FlowState,
    ordered: VecDeque<Piece>,
    /// Small parts, copied one behind the other; belongs behind `ordered`.
    open: Open,
    bulk: VecDeque<Chunk>,
    /// Pieces that were ever put into `ordered`, and that were ever taken out of it.
    put: u64,
    taken: u64,
    /// What is being written, unless somebody has taken it to do so.
    batch: Batch,
    spare: Vec<u8>,
    charge: u64,
    writer: Writer,
    woken: bool,
    /// Somebody pushes one after the other and will uncork behind them.
    corked: bool,
    phase: Phase,
}

/// A message of the bulk queue.
#[derive(Debug)]
struct Chunk {
    pieces: Vec<Piece>,
    /// It may go when this many ordered pieces have been taken: all that were there before it.
    behind: u64,
}

/// The buffer that small parts are copied into.
#[derive(Debug, Default)]
struct Open {
    bytes: Vec<u8>,
    charge: u64,
    done: Vec<Done>,
}

/// Consecutive bytes that are written as they are.
#[derive(Debug)]
struct Piece {
    bytes: PieceBytes,
    /// The charge of the messages that end with it.
    charge: u64,
    /// Whom to tell when it is written.
    done: Vec<Done>,
    ends: Ends,
}

#[derive(Debug)]
enum PieceBytes {
    Copied(Vec<u8>),
    Shared(Bytes),
}

/// Whether a message ends with a piece: only there may a chunk follow (TR-38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    InMessage,
    BetweenMessages,
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

/// Someone who wants to know what became of a message, with the budget that it is charged to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tell: Option<oneshot::Sender<Written>>,
    pub(crate) charge: Option<BulkCharge>,
}

impl Done {
    fn tell(self, written: Written) {
        // TR-94: first the charge is returned, then its owner hears of it.
        drop(self.charge);
        if let Some(tell) = self.tell {
            tell.send(written).ok();
        }
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
    Flush,
}

/// Why nothing was queued.
#[derive(Debug)]
pub(crate) enum NotQueued<E> {
    Full(Full),
    Closed,
    Refused(E),
}

/// Where the bytes of one message go.
pub(crate) struct Queue<'a> {
    state: &'a mut State,
    /// Whether the last part was not copied.
    shared_last: bool,
}

impl Sink for Queue<'_> {
    fn copy(&mut self, bytes: &[u8]) {
        let open = &mut self.state.open.bytes;
        if open.capacity() == 0 {
            *open = std::mem::take(&mut self.state.spare);
        }
        open.extend_from_slice(bytes);
        self.shared_last = false;
    }

    fn share(&mut self, bytes: &Bytes) {
        self.state.close_buffer(Ends::InMessage);
        self.state.put(Piece::inside(bytes));
        self.shared_last = true;
    }
}

impl Queue<'_> {
    /// The message is complete.
    fn end(self, charge: u64, done: Option<Done>) {
        let state = self.state;
        state.charge = state.charge.saturating_add(charge);
        if let Some(last) = state.ordered.back_mut().filter(|_| self.shared_last) {
            last.ends = Ends::BetweenMessages;
            last.charge = charge;
            last.done.extend(done);
        } else {
            state.open.charge = state.open.charge.saturating_add(charge);
            state.open.done.extend(done);
            if state.open.bytes.len() >= BUFFER_BYTES {
                state.close_buffer(Ends::BetweenMessages);
            }
        }
    }
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
            drained: Notify::new(),
            max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under this lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        done: impl FnOnce(Size) -> Option<Done>,
        write: impl FnOnce(&mut Queue<'_>) -> Result<Size, E>,
    ) -> Result<Act, NotQueued<E>> {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Err(NotQueued::Closed);
        }
        // TR-51: an empty queue takes a message of any size (TR-50).
        if room == Room::Bounded && state.charge >= self.max {
            let (charge, max) = (state.charge, self.max);
            return Err(NotQueued::Full(Full { charge, max }));
        }
        let mut queue = Queue {
            state: &mut state,
            shared_last: false,
        };
        let size = write(&mut queue).map_err(NotQueued::Refused)?;
        queue.end(size.charge, done(size));
        let idle = !state.woken && state.writer == Writer::Idle;
        Ok(match (state.corked, idle) {
            (true, _) | (false, false) => Act::Nothing,
            (false, true) => Act::Flush,
        })
    }

    /// Writes at once, or lets the task of the lane do it.
    pub(crate) fn act(&self, act: Act, flush: Flush) {
        match (act, flush) {
            (Act::Nothing, _) => {}
            (Act::Flush, Flush::Now) => self.flush_now(),
            (Act::Flush, Flush::Soon) => self.wake(&mut self.lock()),
        }
    }

    /// Queues a chunk behind all chunks and all ordered messages that are there.
    pub(crate) fn push_bulk(&self, parts: &Parts, done: Done) {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            drop(state);
            return done.tell(Written::Lost);
        }
        let pieces = Piece::of_message(parts, Some(done));
        state.close_buffer(Ends::BetweenMessages);
        let behind = state.put;
        state.bulk.push_back(Chunk { pieces, behind });
        self.wake(&mut state);
    }

    /// Lets pushes pile up until [`Self::uncork`].
    pub(crate) fn cork(&self) {
        self.lock().corked = true;
    }

    /// Writes what has piled up.
    pub(crate) fn uncork(&self) {
        self.lock().corked = false;
        self.flush_now();
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
        for _ in 0..INLINE_ROUNDS {
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
    fn written(&self, state: &mut State, batch: Batch) {
        let half = self.max / 2;
        let before = state.charge;
        state.charge = before.saturating_sub(batch.charge);
        // TR-50: credit returns when half is free.
        if before > half && state.charge <= half {
            self.room.notify_waiters();
        }
        for done in batch.done {
            done.tell(Written::Taken);
        }
        if let Some(mut spare) = batch.spare
            && spare.capacity() > state.spare.capacity()
        {
            spare.clear();
            state.spare = spare;
        }
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
        let pieces = batch.pieces.into_iter().chain(held).chain(ordered);
        let pieces = pieces.chain(bulk.into_iter().flat_map(|chunk| chunk.pieces));
        let done = pieces.flat_map(|piece| piece.done).chain(open.done);
        for done in batch.done.into_iter().chain(done) {
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
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let state = self.lock();
                if state.charge < self.max || state.phase == Phase::Closed {
                    return;
                }
            }
            room.await;
        }
    }

    /// The task of the lane: writes what nobody else wrote, until the lane is closed.
    pub(crate) async fn run(&self, stream: Arc<Stream>) {
        loop {
            self.wake.notified().await;
            // One turn for everybody who is about to add something: it goes out in the same call.
            tokio::task::yield_now().await;
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
        self.control.is_empty()
            && self.held.is_empty()
            && self.ordered.is_empty()
            && self.open.bytes.is_empty()
            && self.bulk.is_empty()
            && self.batch.pieces.is_empty()
            && self.writer == Writer::Idle
    }

    fn close_buffer(&mut self, ends: Ends) {
        if self.open.bytes.is_empty() {
            return;
        }
        let Open {
            bytes,
            charge,
            done,
        } = std::mem::take(&mut self.open);
        self.put(Piece {
            bytes: PieceBytes::Copied(bytes),
            charge,
            done,
            ends,
        });
    }

    fn put(&mut self, piece: Piece) {
        self.put = self.put.saturating_add(1);
        self.ordered.push_back(piece);
    }

    /// Fills the batch: ordered messages up to a bound, then one chunk. False when there is nothing.
    fn gather(&mut self) -> bool {
        if !self.batch.pieces.is_empty() {
            return true;
        }
        if !self.gather_first() {
            return !self.batch.pieces.is_empty();
        }
        self.close_buffer(Ends::BetweenMessages);
        let mut bytes = 0_usize;
        while let Some(piece) = self.ordered.pop_front() {
            bytes = bytes.saturating_add(piece.as_slice().len());
            self.taken = self.taken.saturating_add(1);
            let ends = piece.ends;
            self.batch.pieces.push_back(piece);
            if bytes >= ROUND_BYTES && ends == Ends::BetweenMessages {
                break;
            }
        }
        // A chunk must not pass what was submitted before it; what came later may not hold it up for
        // longer than a round.
        let taken = self.taken;
        if let Some(chunk) = self.bulk.pop_front_if(|chunk| chunk.behind <= taken) {
            self.batch.pieces.extend(chunk.pieces);
        }
        !self.batch.pieces.is_empty()
    }
}

impl Piece {
    /// The pieces of a message that is charged elsewhere: a chunk or a control record.
    fn of_message(parts: &Parts, done: Option<Done>) -> Vec<Self> {
        let mut pieces: Vec<_> = parts.as_slice().iter().map(Self::inside).collect();
        if let Some(last) = pieces.last_mut() {
            last.ends = Ends::BetweenMessages;
            last.done.extend(done);
        }
        pieces
    }

    fn inside(bytes: &Bytes) -> Self {
        Self {
            bytes: PieceBytes::Shared(bytes.clone()),
            charge: 0,
            done: Vec::new(),
            ends: Ends::InMessage,
        }
    }

    fn as_slice(&self) -> &[u8] {
        match &self.bytes {
            PieceBytes::Copied(bytes) => bytes,
            PieceBytes::Shared(bytes) => bytes,
        }
    }
}

/// What is being written.
#[derive(Debug, Default)]
struct Batch {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written already.
    offset: usize,
    /// The piece before the first one was not the end of its message.
    inside: bool,
    /// How many of the first pieces are control records.
    control: usize,
    /// Of the pieces that are written.
    charge: u64,
    done: Vec<Done>,
    spare: Option<Vec<u8>>,
}

impl Batch {
    /// Writes everything, or as much as the socket takes.
    fn write(&mut self, stream: &Stream) -> io::Result<()> {
        while let Some(first) = self.pieces.front() {
            let head = first.as_slice().get(self.offset..).unwrap_or_default();
            let rest = self.pieces.iter().skip(1).map(Piece::as_slice);
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0_usize;
            for (slice, bytes) in slices.iter_mut().zip(std::iter::once(head).chain(rest)) {
                *slice = IoSlice::new(bytes);
                count = count.saturating_add(1);
            }
            let written = stream.try_write(slices.get(..count).unwrap_or_default())?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        Ok(())
    }

    fn advance(&mut self, written: usize) {
        let mut left = written;
        while let Some(first) = self.pieces.front() {
            let rest = first.as_slice().len().saturating_sub(self.offset);
            if left < rest {
                self.offset = self.offset.saturating_add(left);
                return;
            }
            left = left.saturating_sub(rest);
            self.offset = 0;
            if let Some(piece) = self.pieces.pop_front() {
                self.inside = piece.ends == Ends::InMessage;
                self.control = self.control.saturating_sub(1);
                self.charge = self.charge.saturating_add(piece.charge);
                self.done.extend(piece.done);
                if let PieceBytes::Copied(bytes) = piece.bytes
                    && bytes.capacity() <= SPARE_BYTES_MAX
                {
                    self.spare = Some(bytes);
                }
            }
        }
    }
}
