//! Messages to Actors: one-way and with an answer, to wherever the Actor is.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{self, Poll};
use std::time::Duration;

use spotlane_lane::{Lane, Refusal};
use spotlane_types::id::{ActorId, PacketName};
use tokio::sync::oneshot;

use crate::cell::{Cell, NOT_ADMITTED, Work};
use crate::clock::Deadline;
use crate::core::Core;
use crate::error::Error;
use crate::handlers::BoxFuture;
use crate::message::{Message, Origin, Outcome, ReplyTo, application_name};
use crate::payload::{FromPayload, IntoPayload, Payload};
use crate::remote;
use crate::resolve::{self, Place};
use crate::slots::{Live, Slot, Unit};

/// Who makes a call.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Somebody outside of any turn.
    Handle,
    /// The turn of an Actor.
    Actor(Arc<Unit>, TurnMark),
}

/// Says whether the turn that a handle comes from is still running (EX-366).
#[derive(Clone, Debug)]
pub(crate) struct TurnMark(Weak<()>);

impl TurnMark {
    /// The mark of a turn that runs as long as `turn` lives.
    pub(crate) fn of(turn: &Arc<()>) -> Self {
        Self(Arc::downgrade(turn))
    }

    fn is_running(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Caller {
    pub(crate) fn reference(&self) -> Option<spotlane_wire::reference::ActorRef> {
        match self {
            Self::Handle => None,
            Self::Actor(unit, _) => Some(spotlane_wire::reference::ActorRef {
                actor_id: unit.reference.id.clone(),
                object_generation: unit.reference.generation,
            }),
        }
    }
}

/// An Actor by its id, wherever it is: sends and requests. Cheap to clone.
///
/// Messages go to the bare id; which incarnation or node it is does not matter (RL-8).
#[derive(Clone)]
pub struct ActorHandle {
    core: Arc<Core>,
    id: Result<ActorId, Error>,
    caller: Caller,
}

impl ActorHandle {
    pub(crate) fn new(core: Arc<Core>, id: &str, caller: Caller) -> Self {
        let id = ActorId::new(id).map_err(Error::from);
        Self { core, id, caller }
    }

    /// Sends a one-way message. It completes when the message is admitted at this host: in the Actor's queue when that is
    /// here, else in the queue to its node (EX-260, EX-264). A later failure is not reported.
    pub fn send(&self, name: &str, message: impl IntoPayload) -> SendCall {
        SendCall {
            call: self.call(name, message),
        }
    }

    /// Sends a request. It ends exactly once: with the handler's answer or an error (EX-269).
    pub fn request(&self, name: &str, message: impl IntoPayload) -> RequestCall {
        RequestCall {
            call: self.call(name, message),
        }
    }

    fn call(&self, name: &str, message: impl IntoPayload) -> Call {
        let parts = self.id.clone().and_then(|id| {
            Ok(Parts {
                id,
                name: application_name(name)?,
                payload: message.into_payload()?,
            })
        });
        Call {
            core: Arc::clone(&self.core),
            caller: self.caller.clone(),
            parts,
            timeout: None,
        }
    }
}

impl fmt::Debug for ActorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorHandle")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

struct Parts {
    id: ActorId,
    name: PacketName,
    payload: Payload,
}

/// A call that was not made yet. It does nothing until it is awaited; dropped before, it was only checked (EX-303).
struct Call {
    core: Arc<Core>,
    caller: Caller,
    /// What is wrong with the arguments comes out when the call is made.
    parts: Result<Parts, Error>,
    timeout: Option<Duration>,
}

impl Call {
    /// EX-282: an option is set once.
    fn set_timeout(&mut self, timeout: Duration) {
        if self.timeout.replace(timeout).is_some() && self.parts.is_ok() {
            self.parts = Err(Error::invalid("the timeout is set twice"));
        }
        if timeout.is_zero() && self.parts.is_ok() {
            self.parts = Err(Error::invalid("the timeout is 0, must be above 0"));
        }
    }
}

/// A one-way message on its way; await it.
#[must_use = "a call does nothing until it is awaited"]
pub struct SendCall {
    call: Call,
}

impl SendCall {
    /// How long it may wait for a route and for room, at most the send timeout of the host (EX-267).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call.set_timeout(timeout);
        self
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Nothing was sent: `NotFound`, `Unavailable`, `DeadlineExceeded`, `ShuttingDown` or `InvalidOperation`.
    ///
    /// # Cancel safety
    /// Dropped before it is done, nothing was sent (EX-301).
    pub async fn submit(self) -> Result<(), Error> {
        self.into_future().await
    }
}

impl IntoFuture for SendCall {
    type Output = Result<(), Error>;
    type IntoFuture = Sending;

    fn into_future(self) -> Self::IntoFuture {
        Sending {
            call: Some(self.call),
            later: None,
        }
    }
}

/// A one-way message that is being sent: what [`SendCall`] is awaited as.
///
/// Nearly always the owner is known and has room, and then there is nothing to wait for, no timer and no memory of its own.
pub struct Sending {
    call: Option<Call>,
    /// What is left to do when something has to be waited for.
    later: Option<BoxFuture<'static, Result<(), Error>>>,
}

impl Future for Sending {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        // What is sent at once is sent from where it lies.
        let tried = self.call.as_mut().map(|call| match &mut call.parts {
            Ok(parts) => send_now(&call.core, &call.caller, parts),
            // It is taken out below.
            Err(_) => Ok(Sent::No),
        });
        match tried {
            Some(Ok(Sent::Yes)) => {
                self.call = None;
                return Poll::Ready(Ok(()));
            }
            Some(Err(error)) => {
                self.call = None;
                return Poll::Ready(Err(error));
            }
            Some(Ok(Sent::No)) | None => {}
        }
        if let Some(call) = self.call.take() {
            let Call {
                core,
                caller,
                parts,
                timeout,
            } = call;
            let parts = match parts {
                Ok(parts) => parts,
                Err(error) => return Poll::Ready(Err(error)),
            };
            self.later = Some(Box::pin(async move {
                let most = core.settings.all.send_timeout;
                let timeout = timeout.map_or(most, |timeout| timeout.min(most));
                let deadline = core.deadline(timeout);
                let send = send(&core, &caller, parts, &deadline);
                in_time(timeout, send, "the message found no room in time").await
            }));
        }
        match &mut self.later {
            Some(later) => later.as_mut().poll(cx),
            // It was polled again behind its end.
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").finish_non_exhaustive()
    }
}

impl fmt::Debug for SendCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCall").finish_non_exhaustive()
    }
}

/// A request on its way; await it.
#[must_use = "a call does nothing until it is awaited"]
pub struct RequestCall {
    call: Call,
}

impl RequestCall {
    /// How long everything together may take: look-up, room, handler and answer (EX-268). The host's
    /// `default_request_timeout` otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call.set_timeout(timeout);
        self
    }

    /// Makes the call and waits for the answer.
    ///
    /// # Errors
    /// One of the twelve kinds (EX-356). After `DeadlineExceeded` and `Unavailable` the handler may have run all the same
    /// (EX-354).
    ///
    /// # Cancel safety
    /// Dropped before the Actor's queue took it, it never runs; dropped while it is queued here, it ends without its
    /// handler; later only the wait ends (EX-301, EX-304).
    pub async fn submit(self) -> Result<Payload, Error> {
        self.into_future().await
    }

    /// As [`RequestCall::submit`], and reads the answer.
    ///
    /// # Errors
    /// As there; `ProtocolError` when the answer is something else.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn reply<T: FromPayload>(self) -> Result<T, Error> {
        T::from_payload(self.submit().await?)
    }
}

impl IntoFuture for RequestCall {
    type Output = Result<Payload, Error>;
    type IntoFuture = Requesting;

    fn into_future(self) -> Self::IntoFuture {
        Requesting {
            state: Request::New(self.call),
        }
    }
}

/// A request that waits for its answer: what [`RequestCall`] is awaited as.
pub struct Requesting {
    state: Request,
}

enum Request {
    New(Call),
    /// On its way to the owner, with nothing to wait for but the answer.
    Asked(remote::Asked),
    /// Something else has to be waited for, or the Actor is here.
    Later(BoxFuture<'static, Outcome>),
    Ended,
}

impl Future for Requesting {
    type Output = Result<Payload, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        if matches!(self.state, Request::New(_))
            && let Request::New(call) = std::mem::replace(&mut self.state, Request::Ended)
        {
            self.state = begin(call)?;
        }
        let polled = match &mut self.state {
            Request::Asked(asked) => asked.poll(cx),
            Request::Later(later) => later.as_mut().poll(cx),
            // It was polled again behind its end.
            Request::New(_) | Request::Ended => return Poll::Pending,
        };
        if polled.is_ready() {
            self.state = Request::Ended;
        }
        polled
    }
}

impl fmt::Debug for Requesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requesting").finish_non_exhaustive()
    }
}

/// Sends a request whose owner is known and has room; everything else is for a future that can wait.
fn begin(call: Call) -> Result<Request, Error> {
    let Call {
        core,
        caller,
        parts,
        timeout,
    } = call;
    let mut parts = parts?;
    let timeout = timeout.unwrap_or(core.settings.all.default_request_timeout);
    must_not_wait_for_itself(&caller, &parts.id)?;
    core.must_take_messages()?;
    if let Some(fence) = resolve::known_elsewhere(&core, &parts.id) {
        let (name, payload) = (&parts.name, &mut parts.payload);
        let asked = remote::ask_now(&core, &caller, fence, name, payload, timeout)?;
        if let Some(asked) = asked {
            return Ok(Request::Asked(asked));
        }
    }
    Ok(Request::Later(Box::pin(async move {
        let deadline = core.deadline(timeout);
        let parts = match request_here(&core, &caller, parts, timeout).await? {
            Ok(outcome) => return outcome,
            Err(parts) => parts,
        };
        let request = request(&core, &caller, parts, &deadline);
        in_time(timeout, request, NO_ANSWER).await
    })))
}

impl fmt::Debug for RequestCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCall").finish_non_exhaustive()
    }
}

async fn in_time<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, Error>>,
    late: &'static str,
) -> Result<T, Error> {
    match tokio::time::timeout(timeout, call).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::deadline(format!("{late} ({timeout:?})"))),
    }
}

/// EX-37, EX-365: an Actor that waits for itself waits for ever, so it is told at the call site. What was started in a turn
/// and outlives it waits for nothing of its own (EX-366).
fn must_not_wait_for_itself(caller: &Caller, id: &ActorId) -> Result<(), Error> {
    match caller {
        Caller::Actor(unit, turn) if turn.is_running() && unit.id() == id => {
            Err(Error::invalid(OWN_ANSWER))
        }
        Caller::Actor(..) | Caller::Handle => Ok(()),
    }
}

/// EX-154: as [`must_not_wait_for_itself`] for a handle of the host, which knows no turn: one that was moved into a handler
/// of this Actor is told by the waker it is polled with.
pub(crate) async fn must_not_run_the_caller(live: &Live, what: &'static str) -> Result<(), Error> {
    if live.lane.runs_caller().await {
        return Err(Error::invalid(what));
    }
    Ok(())
}

const OWN_ANSWER: &str = "an actor cannot wait for its own answer";

async fn request(core: &Arc<Core>, caller: &Caller, parts: Parts, deadline: &Deadline) -> Outcome {
    must_not_wait_for_itself(caller, &parts.id)?;
    core.must_take_messages()?;
    let Parts {
        id,
        name,
        mut payload,
    } = parts;
    loop {
        let live = match resolve::find(core, &id, deadline).await? {
            Place::Here(live) => live,
            Place::Moving(holder) => {
                let (sender, answer) = oneshot::channel();
                let message = local(caller, &name, payload, ReplyTo::local(sender));
                match holder.hold(message) {
                    Ok(()) => return ended(core, answer).await,
                    Err(message) => payload = untouched(message),
                }
                continue;
            }
            Place::There(tenure) => {
                return remote::request(core, caller, *tenure, name, payload, deadline).await;
            }
        };
        must_not_run_the_caller(&live, OWN_ANSWER).await?;
        let (sender, answer) = oneshot::channel();
        let message = local(caller, &name, payload, ReplyTo::local(sender));
        match enter(core, caller, &live, message, deadline).await {
            Ok(()) => return ended(core, answer).await,
            Err((refusal, work)) => payload = again(core, &live, &refusal, work)?,
        }
    }
}

/// As [`enter`] without waiting for anything; gives the message back when that is not possible.
fn enter_now(core: &Core, live: &Live, message: Box<Message>) -> Result<(), Box<Message>> {
    if !core.admits() {
        return Err(message);
    }
    let Some(permit) = core.jobs.source().try_reserve() else {
        return Err(message);
    };
    let bytes = message.payload_bytes();
    let entered = live.lane.enqueue_job(permit, Work::Message(message), bytes);
    entered.or_else(|refused| match refused.into_item() {
        (Work::Message(message), _permit) => Err(message),
        // Nothing else was given to it.
        _ => Ok(()),
    })
}

/// As [`request`] for an Actor of this host that has room, so that nothing has to be waited for but the answer; gives back
/// any other.
async fn request_here(
    core: &Core,
    caller: &Caller,
    parts: Parts,
    timeout: Duration,
) -> Result<Result<Outcome, Parts>, Error> {
    let Some(live) = core.slots.live(&parts.id) else {
        return Ok(Err(parts));
    };
    must_not_run_the_caller(&live, OWN_ANSWER).await?;
    let Parts { id, name, payload } = parts;
    let (sender, answer) = oneshot::channel();
    let message = local(caller, &name, payload, ReplyTo::local(sender));
    match enter_now(core, &live, message) {
        Ok(()) => {
            let answer = in_time(timeout, ended(core, answer), NO_ANSWER);
            Ok(Ok(answer.await))
        }
        Err(message) => {
            let payload = untouched(message);
            Ok(Err(Parts { id, name, payload }))
        }
    }
}

const NO_ANSWER: &str = "no answer came in time";

/// Whether a message has left its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    /// It found no known owner or no room, and the parts are as they were.
    No,
}

/// As [`send`] without waiting for anything.
fn send_now(core: &Core, caller: &Caller, parts: &mut Parts) -> Result<Sent, Error> {
    core.must_take_messages()?;
    if let Some(fence) = resolve::known_elsewhere(core, &parts.id) {
        return remote::send_now(core, caller, fence, &parts.name, &mut parts.payload);
    }
    let Some(live) = core.slots.live(&parts.id) else {
        return Ok(Sent::No);
    };
    let message = local(caller, &parts.name, parts.payload.take(), ReplyTo::NOBODY);
    match enter_now(core, &live, message) {
        Ok(()) => Ok(Sent::Yes),
        Err(message) => {
            parts.payload = untouched(message);
            Ok(Sent::No)
        }
    }
}

async fn send(
    core: &Arc<Core>,
    caller: &Caller,
    parts: Parts,
    deadline: &Deadline,
) -> Result<(), Error> {
    core.must_take_messages()?;
    let Parts {
        id,
        name,
        mut payload,
    } = parts;
    loop {
        let live = match resolve::find(core, &id, deadline).await? {
            Place::Here(live) => live,
            Place::Moving(holder) => {
                match holder.hold(local(caller, &name, payload, ReplyTo::NOBODY)) {
                    Ok(()) => return Ok(()),
                    Err(message) => payload = untouched(message),
                }
                continue;
            }
            Place::There(tenure) => {
                return remote::send(core, caller, *tenure, name, payload, deadline).await;
            }
        };
        let message = local(caller, &name, payload, ReplyTo::NOBODY);
        match enter(core, caller, &live, message, deadline).await {
            Ok(()) => return Ok(()),
            Err((refusal, work)) => payload = again(core, &live, &refusal, work)?,
        }
    }
}

async fn ended(core: &Core, answer: oneshot::Receiver<Outcome>) -> Outcome {
    answer.await.unwrap_or_else(|_| Err(core.gone()))
}

/// The payload of a message that nobody took; its caller still waits.
fn untouched(mut message: Box<Message>) -> Payload {
    drop(message.reply.take());
    message.payload
}

fn local(caller: &Caller, name: &PacketName, payload: Payload, reply: ReplyTo) -> Box<Message> {
    let from = Origin::Local {
        actor: caller.reference().map(Box::new),
    };
    Box::new(Message::new(name.clone(), payload, None, from, reply))
}

/// A refused message is tried again when something else stands in the Actor's place by now (RL-170); otherwise it ends.
/// What was looked up before the wait is compared and not believed (EX-362).
fn again(core: &Core, live: &Arc<Live>, refusal: &Refusal, work: Work) -> Result<Payload, Error> {
    let Work::Message(message) = work else {
        return Err(Error::from(refusal));
    };
    let payload = untouched(message);
    let same = match core.slots.get(live.unit.id()) {
        Some(Slot::Live(now)) => Arc::ptr_eq(&now, live),
        _ => false,
    };
    if same || !matches!(refusal, Refusal::Ended) {
        return Err(Error::from(refusal));
    }
    Ok(payload)
}

/// EX-95, EX-127: puts a message of this host into an Actor's queue, waiting for room and for a permit.
async fn enter(
    core: &Core,
    caller: &Caller,
    live: &Live,
    message: Box<Message>,
    deadline: &Deadline,
) -> Result<(), (Refusal, Work)> {
    let bytes = message.payload_bytes();
    let lane = &live.lane;
    if !core.admits() {
        tracing::debug!(target: "spotlane::runtime::calls", "{NOT_ADMITTED}");
        return Err((Refusal::Sealed, Work::Message(message)));
    }
    let mut source = core.jobs.source();
    let work = Work::Message(message);
    match source.try_reserve() {
        Some(permit) => match lane.enqueue_job(permit, work, bytes) {
            Ok(()) => Ok(()),
            Err(refused) if refused.reason().is_full() => {
                let (work, permit) = refused.into_item();
                // EX-102: who waits for room holds no permit.
                drop(permit);
                wait_for_room(lane, caller, &mut source, work, bytes, deadline).await
            }
            Err(refused) => {
                let reason = refused.reason().clone();
                let (work, _permit) = refused.into_item();
                Err((reason, work))
            }
        },
        None => wait_for_room(lane, caller, &mut source, work, bytes, deadline).await,
    }
}

/// EX-129: a turn holds its gate, and what returns a permit may need that gate; so a turn waits for room only.
async fn wait_for_room(
    lane: &Lane<Cell>,
    caller: &Caller,
    source: &mut spotlane_lane::JobSource,
    work: Work,
    bytes: u64,
    deadline: &Deadline,
) -> Result<(), (Refusal, Work)> {
    let entered = match caller {
        Caller::Actor(_, turn) if turn.is_running() => {
            let left = deadline.left().unwrap_or_default();
            lane.submit_within(work, bytes, left).await
        }
        Caller::Handle | Caller::Actor(..) => lane.submit_job(source, work, bytes).await,
    };
    entered.map_err(|refused| {
        let reason = refused.reason().clone();
        (reason, refused.into_item())
    })
}
