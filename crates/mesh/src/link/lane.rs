//! The tasks of one lane: opening, reading, and the writing that nobody else did.

use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use spotlane_mesh_proto::Machine as _;
use spotlane_mesh_proto::bound::HANDSHAKE_TIMEOUT;
use spotlane_mesh_proto::link::{
    ActorMessage, LinkEvent, Outcome, is_message, message_whole, ordinary, ordinary_whole,
    reply_outcome, reply_whole,
};
use spotlane_mesh_proto::pending::{Request, Unmatched};
use spotlane_mesh_proto::zmp::{
    Connection, ConnectionEffect, ConnectionEvent, Lane, Message, Sequence, Whole,
};
use spotlane_types::id::Endpoint;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use tokio::net::TcpStream;

use super::LinkCore;
use super::inbox::{Item, Offered};
use super::turn::Turn;
use super::waiting::End;
use crate::config::Scheme;
use crate::inbound::{Burst, Diagnostic, Flow, PeerLink, Received};
use crate::out::BURST_MESSAGES;
use crate::stream::{Incoming, Stream};

/// The least room to read into.
const READ_BYTES_MIN: usize = 32 * 1024;
/// The usual room to read into. Two segments that a peer writes together fit in with a last message of some
/// KiB each, so that none of their messages is cut.
const READ_BYTES: usize = 124 * 1024;
/// From this size on the rest of a body is read to where it belongs.
const DIRECT_BYTES_MIN: usize = 16 * 1024;
/// Enough for the frames in front of a large body.
const HEAD_BYTES: usize = 1024;
/// A host that has begun no burst is asked again behind so many records: one that wants none is asked for few of them.
const BURST_ASKED_EVERY: usize = 4;
/// How often the system is told that acknowledgements may wait; it forgets it when one has waited for
/// its whole time, which is 40 ms at least.
const QUIET_EVERY: Duration = Duration::from_millis(20);

impl LinkCore {
    /// Dials one lane; the outcome is an event of the machine.
    pub(super) fn open(self: &Arc<Self>, lane: Lane) {
        let core = Arc::clone(self);
        self.node.spawn(async move {
            let dialled = tokio::select! {
                biased;
                _ = core.ended() => return,
                dialled = core.dial() => dialled,
            };
            match dialled {
                Ok((stream, incoming, since)) => {
                    core.run_dialled(lane, stream, incoming, since).await;
                }
                Err(error) => {
                    core.not_dialled(&error);
                    core.apply(LinkEvent::OpenFailed(lane));
                }
            }
        });
    }

    fn not_dialled(&self, error: &io::Error) {
        let endpoint = self.address.as_ref().map(ToString::to_string);
        if let Some(Ok(endpoint)) = endpoint.map(|text| Endpoint::new(&text)) {
            let error = error.kind();
            let diagnostic = Diagnostic::NotDialled { endpoint, error };
            self.node.inbound.on_diagnostic(diagnostic);
        }
    }

    /// A connection, and when it began.
    async fn dial(&self) -> io::Result<(Arc<Stream>, Incoming, Monotonic)> {
        let Some(address) = &self.address else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let tcp = TcpStream::connect((&address.host[..], address.port)).await?;
        let clock = self.node.clock();
        let since = clock.now();
        let (stream, incoming) = match (address.scheme, &self.node.config.tls) {
            (Scheme::Tcp, _) => Stream::plain(tcp)?,
            (Scheme::Tls, Some(tls)) => {
                // TR-26: the timer runs from here on, and the machine of the connection comes behind the handshake of TLS.
                let limit = clock.until(since.after(HANDSHAKE_TIMEOUT));
                let secured = Stream::secure(tcp, tls.dial(&address.host)?);
                let secured = tokio::time::timeout(limit, secured).await;
                secured.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
            }
            (Scheme::Tls, None) => return Err(io::Error::other("no TLS settings")),
        };
        Ok((stream, incoming, since))
    }

    async fn run_dialled(
        self: &Arc<Self>,
        lane: Lane,
        stream: Arc<Stream>,
        incoming: Incoming,
        since: Monotonic,
    ) {
        self.lane(lane).open(Arc::clone(&stream));
        self.apply(LinkEvent::Opened(lane, since));
        self.run_lane(lane, stream, incoming).await;
    }

    /// Reads and writes one lane until it is over. The machine has its connection already.
    pub(crate) async fn run_lane(
        self: &Arc<Self>,
        lane: Lane,
        stream: Arc<Stream>,
        incoming: Incoming,
    ) {
        let connection = self.lock().link.detach(lane);
        let Some(connection) = connection else {
            // The link has ended meanwhile.
            stream.close();
            return;
        };
        let reader = Reader {
            core: Arc::clone(self),
            lane,
            connection,
            begun: 0,
            incoming,
            after_body: false,
            spare: BytesMut::new(),
            quiet_until: Monotonic::ORIGIN,
            turn: Turn::default(),
            effects: Vec::new(),
            ended: Vec::new(),
            ends: Vec::new(),
            woken: Vec::new(),
        };
        // Both end with the socket: its close wakes either of them.
        tokio::join!(self.lane(lane).run(stream), reader.run());
    }
}

/// Reads one lane, and hands up what comes in its own turn: a record goes through no other queue and task
/// on its way to the host (EX-389).
struct Reader {
    core: Arc<LinkCore>,
    lane: Lane,
    connection: Connection,
    /// What the machine was told of a message that is not whole.
    begun: u64,
    incoming: Incoming,
    /// The last read was of a large body.
    after_body: bool,
    /// What was read into before the present one.
    spare: BytesMut,
    quiet_until: Monotonic,
    turn: Turn,
    effects: Vec<ConnectionEffect>,
    /// Memory of what happens to the replies of one read.
    ended: Vec<Ended>,
    ends: Vec<(Sequence, End)>,
    woken: Vec<Waker>,
}

/// A request whose reply came, its sequence, and the reply.
type Ended = (Request, Sequence, Whole);

impl Reader {
    async fn run(mut self) {
        let mut buffer = BytesMut::new();
        loop {
            self.wait_for_room().await;
            let (read, waited) = waited(self.read(&mut buffer)).await;
            if waited {
                self.turn = Turn::default();
                if matches!(&read, Some(Ok(count)) if *count < HEAD_BYTES) {
                    // With little to read, one piece of memory is enough.
                    self.spare = BytesMut::new();
                }
            } else if self.turn.is_over() {
                self.turn.end().await;
            }
            let now = self.core.node.clock().now();
            if let Some(Ok(count)) = &read {
                self.turn.read(now, *count);
            }
            if now >= self.quiet_until {
                // Each lane carries bytes in one direction, so nothing takes its acknowledgements along.
                self.incoming.acknowledge_late();
                self.quiet_until = now.after(QUIET_EVERY);
            }
            let input = match read {
                Some(Ok(0) | Err(_)) => {
                    let closed = ConnectionEvent::Closed;
                    self.connection.on_event(now, closed, &mut self.effects);
                    None
                }
                Some(Ok(_)) => Some(buffer.split().freeze()),
                None => {
                    self.connection.on_deadline(now, &mut self.effects);
                    None
                }
            };
            match input {
                Some(input) => self.take_in(input).await,
                None => self.hand_to_machine().await,
            }
            if self.connection.is_over() {
                break;
            }
        }
        self.core.drain().await;
    }

    /// Does not read what nobody would take: the host has paused, or the peer does not read the
    /// answers that its requests would cause.
    async fn wait_for_room(&self) {
        if self.lane != Lane::Application {
            return;
        }
        while self.core.inbox.is_paused() && !self.core.reads_on() {
            self.core.inbox.go.notified().await;
            self.core.drain().await;
        }
        self.core.completion.room().await;
    }

    /// `None` when the handshake took too long.
    async fn read(&mut self, buffer: &mut BytesMut) -> Option<io::Result<usize>> {
        let most = self.core.node.config.bounds.receive_bytes;
        // The rest of a large body is read to where it belongs.
        if let Some(room) = self.connection.body_room(DIRECT_BYTES_MIN, most) {
            self.after_body = true;
            return Some(self.incoming.read_limited(room).await);
        }
        let room = most.clamp(READ_BYTES_MIN, READ_BYTES);
        if buffer.capacity() < room / 2 {
            self.renew(buffer, room);
        }
        // Behind a large body there is mostly another one, and the less of it is read here the better.
        let room = if mem::take(&mut self.after_body) {
            HEAD_BYTES
        } else {
            room
        };
        let read = self.incoming.read_limited(buffer.limit(room));
        match self.connection.next_deadline() {
            None => Some(read.await),
            Some(deadline) => {
                let wait = self.core.node.clock().until(deadline);
                tokio::time::timeout(wait, read).await.ok()
            }
        }
    }

    /// Gives an empty buffer so much room. What was read lives on in the payloads of its records, which
    /// are mostly gone by the read after the next one: two pieces of memory that take turns do not go
    /// through the allocator, which would give them back to the system and get empty pages instead.
    fn renew(&mut self, buffer: &mut BytesMut, room: usize) {
        if buffer.try_reclaim(room) {
            return;
        }
        mem::swap(buffer, &mut self.spare);
        if !buffer.try_reclaim(room) {
            *buffer = BytesMut::with_capacity(room);
        }
    }

    /// Takes what came; without bytes, the rest of a large body did. Records of an admitted peer go
    /// straight to the host; everything else is for the machine.
    async fn take_in(&mut self, input: Bytes) {
        let direct = match self.lane {
            Lane::Application => self.core.peer_link(),
            Lane::Completion => None,
        };
        match direct {
            Some(from) if self.core.inbox.begin() => self.deliver(&from, input).await,
            None if self.lane == Lane::Completion && self.core.run().is_some() => {
                self.complete(&input);
                self.core.drain().await;
            }
            Some(_) | None => {
                let now = self.core.node.clock().now();
                let received = ConnectionEvent::Received(input);
                self.connection.on_event(now, received, &mut self.effects);
                self.hand_to_machine().await;
                self.tell_begun().await;
            }
        }
    }

    /// TR-80: half a message of a peer that is not admitted counts with what is held.
    async fn tell_begun(&mut self) {
        let begun = match self.core.run() {
            None => self.connection.begun_bytes(),
            Some(_) => 0,
        };
        if begun > 0 || self.begun > 0 {
            self.begun = begun;
            self.core.apply(LinkEvent::Begun(self.lane, begun));
            self.core.drain().await;
        }
    }

    async fn hand_to_machine(&mut self) {
        if !self.effects.is_empty() {
            let effects = mem::take(&mut self.effects);
            self.core.apply(LinkEvent::Decoded(self.lane, effects));
            self.core.drain().await;
        }
    }

    /// Ends the requests that replies came for.
    fn complete(&mut self, input: &Bytes) {
        let mut at = 0_usize;
        loop {
            at = self.complete_whole(input, at);
            // What is left is cut or something rare; without bytes, the rest of a large body came.
            let mut rest = input.slice(at.min(input.len())..);
            self.connection
                .receive_message(&mut rest, &mut self.effects);
            self.complete_rest();
            at = input.len().saturating_sub(rest.len());
            if rest.is_empty() || self.connection.is_over() {
                return;
            }
        }
    }

    /// Takes the replies from `at` on that lie in the input as a whole; gives where they end. The machine
    /// is locked once for all of them, and none is read under its lock.
    fn complete_whole(&mut self, input: &Bytes, at: usize) -> usize {
        let mut end = at;
        let (mut ended, mut late) = (mem::take(&mut self.ended), Vec::new());
        {
            let mut state = self.core.lock();
            while let Some(whole) = self.connection.find_whole(input, end)
                && let Some(sequence) = whole.reply()
            {
                end = whole.end();
                self.turn.record();
                match state.link.take_request(sequence) {
                    Ok(request) => ended.push((request, sequence, whole)),
                    // TR-41: without a request, it is dropped.
                    Err(unmatched) => late.push(unmatched),
                }
            }
        }
        if ended.len() > 1 {
            // Who gets a reply often asks the next thing at once.
            self.core.application.expect(ended.len());
        }
        // EX-275: the callers go on in turns of their own, when no lock is held.
        let (mut ends, mut woken) = (mem::take(&mut self.ends), mem::take(&mut self.woken));
        ends.extend(ended.drain(..).map(|(request, sequence, whole)| {
            let end = match reply_whole(&request, &whole, input) {
                Some(reply) => End::Reply(reply),
                None => End::Other(Outcome::BrokenReply),
            };
            (sequence, end)
        }));
        {
            let mut state = self.core.lock();
            let end = |(sequence, end)| state.waiting.end(sequence, end);
            woken.extend(ends.drain(..).filter_map(end));
        }
        let last = woken.pop();
        if !woken.is_empty() {
            woken.drain(..).for_each(Waker::wake);
            // The runtime runs first what was woken last, and then everybody in this order.
            self.core.application.look_later();
        }
        if let Some(last) = last {
            last.wake();
        }
        (self.ended, self.ends, self.woken) = (ended, ends, woken);
        for unmatched in late {
            self.core.late_reply(unmatched);
        }
        end
    }

    fn complete_rest(&mut self) {
        let mut others = Vec::new();
        for effect in self.effects.drain(..) {
            let ConnectionEffect::Message(Message::Reply { sequence, payload }) = effect else {
                others.push(effect);
                continue;
            };
            let request = self.core.lock().link.take_request(sequence);
            match request {
                Ok(request) => {
                    let end = End::Other(reply_outcome(&request, &payload));
                    let woken = self.core.lock().waiting.end(sequence, end);
                    if let Some(waker) = woken {
                        waker.wake();
                    }
                }
                Err(unmatched) => self.core.late_reply(unmatched),
            }
        }
        if !others.is_empty() {
            self.core.apply(LinkEvent::Decoded(self.lane, others));
        }
    }

    async fn deliver(&mut self, from: &PeerLink, input: Bytes) {
        // What was left in the queue came before.
        self.core.drain_kept().await;
        for lane in Lane::ALL {
            self.core.lane(lane).cork();
        }
        let mut delivery = Delivery {
            offered: self.core.offered(),
            unwritten: 0,
        };
        let core = Arc::clone(&self.core);
        let mut at = 0_usize;
        loop {
            // One record alone is not worth a burst.
            let (mut burst, mut offered_before, mut ask_behind) = (None, 0_usize, 1_usize);
            while let Some(whole) = self.connection.find_whole(&input, at) {
                let length = whole.end().saturating_sub(at);
                let asks = burst.is_none() && offered_before >= ask_behind;
                if asks && delivery.offered == Offered::Taken {
                    // What is at hand is mostly of one kind.
                    let rest = input.len().saturating_sub(at);
                    let records = rest.checked_div(length).unwrap_or(1).min(BURST_MESSAGES);
                    burst = core.node.inbound.on_burst(from, records);
                    ask_behind = offered_before.saturating_add(BURST_ASKED_EVERY);
                }
                let offered = if is_message(&whole, &input) {
                    message_whole(&whole, &input, |message, answer| {
                        core.offer_message(&delivery, burst.as_deref_mut(), from, message, answer)
                    })
                } else {
                    ordinary_whole(&whole, &input, |record, answer| {
                        core.offer_next(&delivery, burst.as_deref_mut(), from, record, answer)
                    })
                };
                let Ok(offered) = offered else {
                    break;
                };
                at = whole.end();
                offered_before = offered_before.saturating_add(1);
                let next = self.note(&mut delivery, offered);
                if offered != Offered::Taken || next == Next::Pause {
                    burst = None;
                }
                if next == Next::Pause {
                    self.pause(&mut delivery).await;
                }
            }
            drop(burst);
            // What is left is cut or something rare; without bytes, the rest of a large body came.
            let mut rest = input.slice(at.min(input.len())..);
            self.connection
                .receive_message(&mut rest, &mut self.effects);
            at = input.len().saturating_sub(rest.len());
            self.deliver_rest(&mut delivery, from).await;
            if rest.is_empty() || self.connection.is_over() {
                break;
            }
        }
        for lane in Lane::ALL {
            self.core.lane(lane).uncork();
        }
        self.core.finish_drain().await;
    }

    async fn deliver_rest(&mut self, delivery: &mut Delivery, from: &PeerLink) {
        // The memory of the list is used again.
        let mut effects = mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            let effect = match effect {
                ConnectionEffect::Message(message) => match ordinary(message) {
                    Ok((record, answer)) => {
                        let offered = self.core.offer_next(delivery, None, from, record, answer);
                        if self.note(delivery, offered) == Next::Pause {
                            self.pause(delivery).await;
                        }
                        continue;
                    }
                    Err(message) => ConnectionEffect::Message(message),
                },
                other @ (ConnectionEffect::Write(_)
                | ConnectionEffect::Ready(_)
                | ConnectionEffect::Flow(_)
                | ConnectionEffect::Dropped(_)
                | ConnectionEffect::End(_)) => other,
            };
            self.core.apply(LinkEvent::Decoded(self.lane, vec![effect]));
            self.core.drain_kept().await;
        }
        self.effects = effects;
    }

    /// A record was offered; tells whether something has to be done before the next one.
    #[inline]
    fn note(&mut self, delivery: &mut Delivery, offered: Offered) -> Next {
        delivery.offered = offered;
        delivery.unwritten = delivery.unwritten.saturating_add(1);
        self.turn.record();
        let again = offered == Offered::Again;
        if again || delivery.unwritten >= BURST_MESSAGES || self.is_turn_over() {
            Next::Pause
        } else {
            Next::Record
        }
    }

    /// TR-53: a turn ends within a read when another link may wait for one.
    fn is_turn_over(&self) -> bool {
        self.turn.has_no_record_left() && self.core.node.has_several_links()
    }

    /// What has to be done between two records.
    async fn pause(&mut self, delivery: &mut Delivery) {
        if delivery.offered == Offered::Again {
            self.core.drain_kept().await;
            delivery.offered = self.core.offered();
        }
        let over = self.is_turn_over();
        if over || delivery.unwritten >= BURST_MESSAGES {
            self.core.flush();
            delivery.unwritten = 0;
        }
        if over {
            self.turn.end().await;
        }
    }
}

/// What follows a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Record,
    Pause,
}

/// The records of one read on their way to the host.
struct Delivery {
    /// What the host made of the last one.
    offered: Offered,
    /// How many were handed up since the lanes were written.
    unwritten: usize,
}

/// Runs a future, and tells whether it had to wait.
async fn waited<T>(future: impl Future<Output = T>) -> (T, bool) {
    let mut future = pin!(future);
    let mut waited = false;
    let value = poll_fn(|cx| {
        let poll = future.as_mut().poll(cx);
        waited |= poll.is_pending();
        poll
    });
    (value.await, waited)
}

impl LinkCore {
    /// Offers a record to the host, or keeps it for a host that has paused.
    #[inline]
    fn offer_next(
        self: &Arc<Self>,
        delivery: &Delivery,
        burst: Option<&mut (dyn Burst + '_)>,
        from: &PeerLink,
        record: Record,
        answer: Option<Sequence>,
    ) -> Offered {
        if delivery.offered == Offered::Taken {
            return match burst {
                Some(burst) => {
                    let reply = self.reply_handle(from, answer);
                    self.offer_by(|| burst.on_record(record, reply))
                }
                None => self.offer_record(from.clone(), record, answer),
            };
        }
        self.queue_record(from, record, answer);
        delivery.offered
    }

    /// As [`Self::offer_next`], for a message that need not become a record unless the host wants one.
    #[inline]
    fn offer_message(
        self: &Arc<Self>,
        delivery: &Delivery,
        mut burst: Option<&mut (dyn Burst + '_)>,
        from: &PeerLink,
        message: &ActorMessage<'_>,
        answer: Option<Sequence>,
    ) -> Offered {
        if delivery.offered == Offered::Taken {
            let reply = self.reply_handle(from, answer);
            let mut as_record = false;
            let offered = self.offer_by(|| {
                let flow = match &mut burst {
                    Some(burst) => burst.on_message(message, reply),
                    None => self.node.inbound.on_message(from, message, reply),
                };
                as_record = flow.is_none();
                flow.unwrap_or(Flow::Continue)
            });
            if !as_record {
                return offered;
            }
        }
        self.offer_next(delivery, burst, from, message.to_record(), answer)
    }

    /// Keeps a record for a host that has paused.
    fn queue_record(self: &Arc<Self>, from: &PeerLink, record: Record, answer: Option<Sequence>) {
        let reply = self.reply_handle(from, answer);
        let received = Received {
            from: from.clone(),
            record,
            reply,
        };
        self.inbox.push(Item::Record(Box::new(received)));
    }

    /// Whether a lane is read although the host has paused: a peer of E2 was told to, its probes come
    /// behind what it has sent before it heard of that, and there is room for that (TR-46, TR-52).
    fn reads_on(&self) -> bool {
        let max = self.node.config.bounds.send_charge_max;
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        self.tells_flow.load(Ordering::Acquire) && self.inbox.bytes() < max
    }

    /// EX-274: a reply that ends no request is reported, and changes nothing.
    fn late_reply(&self, unmatched: Unmatched) {
        if let Some(token) = self.token() {
            let peer = token.peer().clone();
            let diagnostic = Diagnostic::LateReply { peer, unmatched };
            self.node.inbound.on_diagnostic(diagnostic);
        }
    }

    /// Whether the host takes the next record.
    fn offered(&self) -> Offered {
        if self.inbox.is_paused() {
            Offered::Paused
        } else {
            Offered::Taken
        }
    }

    /// Writes what a turn of deliveries has left in both lanes.
    fn flush(&self) {
        for lane in Lane::ALL {
            self.lane(lane).flush_now();
        }
    }
}
