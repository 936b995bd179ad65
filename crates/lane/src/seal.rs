//! Sealing a Spot for a move, giving it back, and handing it on (EX-200 to EX-206).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::core::{ATTENTION, Admission, After, Bound, Core, Run};
use crate::driven::Hold;
use crate::error::{AskError, Fifo};
use crate::host::AnyLane;
use crate::jobs::JobPermit;
use crate::lane::Lane;
use crate::owner::Owner;
use crate::policy::{ActorDelivery, Seal, Spot};
use crate::queue::{Current, Dispatch, Entry, Work};
use crate::reply::Reply;
use crate::signal::Boundaries;
use crate::timer::Tick;

/// Why a lane was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SealError {
    /// Another move was requested already or holds the seal.
    #[error("the lane is already being moved")]
    AlreadyMoving,
    /// The lane ended or is closing.
    #[error("the lane ended")]
    Ended,
    /// The member is bound to another gate than the sealed one, or runs.
    #[error("the lane is no member behind the sealed gate")]
    NotAMember,
}

impl<O: Owner<Policy = Spot>> Lane<O> {
    /// Asks for the seal, at once, and waits for S0: the first turn boundary at which no turn of this gate runs,
    /// is parked or suspended (EX-202). Dispatch stays open until then (EX-200).
    ///
    /// From S0 on nothing runs here, messages are held in acceptance order and membership changes are
    /// refused (EX-201).
    ///
    /// # Errors
    /// The lane is being moved already, or ended.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request, or gives the seal back if it was just taken; nothing
    /// is lost or reordered.
    pub fn request_seal(&self) -> impl Future<Output = Result<SealGuard<O>, SealError>> + use<O> {
        let placed = place_request(&self.core).map(|receiver| {
            let core = Arc::clone(&self.core);
            (
                receiver,
                Request {
                    core,
                    granted: false,
                },
            )
        });
        async move {
            let (receiver, mut request) = placed?;
            if receiver.await.is_err() {
                return Err(SealError::Ended);
            }
            request.granted = true;
            Ok(SealGuard(Fixed::take(Arc::clone(&request.core))))
        }
    }
}

fn place_request<O>(core: &Arc<Core<O>>) -> Result<oneshot::Receiver<()>, SealError>
where
    O: Owner<Policy = Spot>,
{
    let mut after = After::default();
    let (sender, receiver) = oneshot::channel();
    let mut inner = core.lock();
    match inner.admission {
        Admission::Open | Admission::Queueing => {}
        Admission::Held => return Err(SealError::AlreadyMoving),
        Admission::ConnectionClosing | Admission::Closed | Admission::Ended => {
            return Err(SealError::Ended);
        }
    }
    if !matches!(inner.policy.seal, Seal::Open) {
        return Err(SealError::AlreadyMoving);
    }
    inner.policy.seal = Seal::Requested(sender);
    core.signal(ATTENTION);
    // Of a lane that runs nothing this is a boundary, unless only the application says what is one (EX-203).
    let managed = core.kind.boundaries() == Boundaries::FrameworkManaged;
    if managed && inner.run == Run::Idle && inner.nothing_suspended() {
        inner.take_s0(&mut after);
    }
    drop(inner);
    after.run(core);
    Ok(receiver)
}

/// Withdraws a request whose future is dropped (EX-174: Requested → Open).
struct Request<O: Owner<Policy = Spot>> {
    core: Arc<Core<O>>,
    granted: bool,
}

impl<O: Owner<Policy = Spot>> Drop for Request<O> {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        let mut inner = self.core.lock();
        let requester = inner.withdraw_seal();
        let sealed = matches!(inner.policy.seal, Seal::Sealed);
        drop(inner);
        // It could wake somebody, so it goes with no lock held (EX-360).
        drop(requester);
        if sealed {
            reopen(&self.core, None, None);
        }
    }
}

/// One captured entry of a sealed lane, in its place.
#[non_exhaustive]
pub enum Captured<'a, O: Owner> {
    /// An accepted item that has not started.
    Item {
        /// The FIFO it stands in.
        fifo: Fifo,
        /// The item itself.
        item: &'a O::Item,
        /// Retained payload bytes (EX-93).
        payload_bytes: u64,
    },
    /// A queued tick (EX-245).
    Tick(&'a Tick),
}

/// One captured entry, taken out for good.
#[non_exhaustive]
pub enum Saved<O: Owner> {
    /// An accepted item that has not started.
    Item {
        /// The FIFO it stood in.
        fifo: Fifo,
        /// The item itself.
        item: O::Item,
        /// Retained payload bytes (EX-93).
        payload_bytes: u64,
        /// The local caller that waits for the answer, if there is one.
        caller: Option<Caller<O>>,
    },
    /// A queued tick (EX-245).
    Tick(Tick),
}

/// A local caller that waits for an item which moved away.
pub struct Caller<O: Owner>(Reply<Result<O::Reply, AskError>>);

impl<O: Owner> Caller<O> {
    /// Gives the caller its one answer (EX-269). Dropped without one, the call ends as unavailable.
    pub fn answer(self, outcome: Result<O::Reply, AskError>) {
        // A caller that went away does not want it.
        drop(self.0.answer(outcome));
    }
}

/// The entries of one lane, out of reach of its driver.
struct Queues<O: Owner> {
    lifecycle: VecDeque<Entry<O>>,
    application: VecDeque<Entry<O>>,
    /// What a bound lane had chosen already; it stands in front of everything.
    current: Option<(Fifo, Current<O>)>,
    /// EX-132: one permit stays with the unit, the others went back at capture.
    permit: Option<JobPermit>,
}

impl<O: Owner> Queues<O> {
    fn release_permits(&mut self) -> Vec<JobPermit> {
        let all = self.lifecycle.iter_mut().chain(&mut self.application);
        let queued = all.filter_map(|entry| match entry {
            Entry::Work(work) => work.permit.take(),
            _ => None,
        });
        let mut permits: Vec<JobPermit> = queued.collect();
        if let Some((_, Current::Queued(Entry::Work(work)))) = &mut self.current {
            permits.extend(work.permit.take());
        }
        if !permits.is_empty() {
            self.permit = Some(permits.swap_remove(0));
        }
        permits
    }

    fn captured(&self) -> impl Iterator<Item = Captured<'_, O>> {
        let current = self
            .current
            .as_ref()
            .and_then(|(fifo, current)| match current {
                Current::Queued(entry) => captured(*fifo, entry),
                Current::Barrier(item) => Some(Captured::Item {
                    fifo: Fifo::Lifecycle,
                    item,
                    payload_bytes: 0,
                }),
            });
        let lifecycle = self
            .lifecycle
            .iter()
            .filter_map(|entry| captured(Fifo::Lifecycle, entry));
        let application = self
            .application
            .iter()
            .filter_map(|entry| captured(Fifo::Application, entry));
        current.into_iter().chain(lifecycle).chain(application)
    }

    fn into_saved(self) -> Vec<Saved<O>> {
        let current = self.current.and_then(|(fifo, current)| match current {
            Current::Queued(entry) => saved(fifo, entry),
            Current::Barrier(item) => Some(Saved::Item {
                fifo: Fifo::Lifecycle,
                item,
                payload_bytes: 0,
                caller: None,
            }),
        });
        let lifecycle = self
            .lifecycle
            .into_iter()
            .filter_map(|entry| saved(Fifo::Lifecycle, entry));
        let application = self
            .application
            .into_iter()
            .filter_map(|entry| saved(Fifo::Application, entry));
        current
            .into_iter()
            .chain(lifecycle)
            .chain(application)
            .collect()
    }
}

/// EX-204: a ticket is not captured, the item behind it is; continuations cannot exist at S0.
fn captured<O: Owner>(fifo: Fifo, entry: &Entry<O>) -> Option<Captured<'_, O>> {
    match entry {
        Entry::Work(work) => {
            let (item, payload_bytes) = (&work.item, work.payload_bytes);
            Some(Captured::Item {
                fifo,
                item,
                payload_bytes,
            })
        }
        Entry::Tick(queued) => Some(Captured::Tick(&queued.tick)),
        Entry::Ticket(_) | Entry::Resume(_) => None,
    }
}

fn saved<O: Owner>(fifo: Fifo, entry: Entry<O>) -> Option<Saved<O>> {
    match entry {
        Entry::Work(Work {
            item,
            payload_bytes,
            reply,
            ..
        }) => Some(Saved::Item {
            fifo,
            item,
            payload_bytes,
            caller: reply.is_expected().then(|| Caller(reply)),
        }),
        Entry::Tick(queued) => {
            queued.end.moved();
            Some(Saved::Tick(queued.tick))
        }
        Entry::Ticket(_) | Entry::Resume(_) => None,
    }
}

/// The work and the state of a lane that a seal has fixed. Dropping it gives the lane back.
struct Fixed<O: Owner> {
    core: Arc<Core<O>>,
    queues: Option<Queues<O>>,
    key: Option<Hold<O>>,
}

impl<O: Owner> Fixed<O> {
    /// Takes queues and state out of a lane that takes no turns any more.
    fn take(core: Arc<Core<O>>) -> Self {
        let mut queues = take_queues(&core);
        let key = core.lock().take();
        let key = key.map(|key| key.hold(Arc::clone(&core)));
        drop(queues.release_permits());
        Self {
            core,
            queues: Some(queues),
            key,
        }
    }

    fn state(&mut self) -> Option<&mut O> {
        self.key.as_mut()?.inside().owner.as_mut()
    }

    fn captured(&self) -> impl Iterator<Item = Captured<'_, O>> {
        self.queues.iter().flat_map(Queues::captured)
    }

    fn give_back(&mut self, permit: Option<JobPermit>) {
        if let Some(mut queues) = self.queues.take() {
            let permit = queues.permit.take().or(permit);
            reopen(&self.core, Some((queues, self.key.take())), permit);
        }
    }

    fn into_handoff(mut self) -> Handoff<O> {
        if let Some(spot) = self.core.lock().spot() {
            spot.seal = Seal::Moved;
        }
        Handoff {
            core: Arc::clone(&self.core),
            queues: self.queues.take(),
            key: self.key.take(),
        }
    }
}

impl<O: Owner> Drop for Fixed<O> {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

/// A sealed Spot before the boundary: it can still be given back (EX-174, EX-205).
///
/// Dropping the guard gives the Spot back as [`SealGuard::restore`] without a permit does, so an
/// abandoned move cannot leave an object behind that never runs again.
pub struct SealGuard<O: Owner<Policy = Spot>>(Fixed<O>);

impl<O: Owner<Policy = Spot>> SealGuard<O> {
    /// The state of the Spot, for its capture. `None` when the host was stopped meanwhile.
    pub fn state(&mut self) -> Option<&mut O> {
        self.0.state()
    }

    /// What was accepted and has not started, in order: lifecycle first, then application work. Fixed
    /// since S0 (EX-204).
    pub fn captured(&self) -> impl Iterator<Item = Captured<'_, O>> {
        self.0.captured()
    }

    /// Whether S0 was taken at a boundary that the application marked: the target, or the source if it is given back, owes the
    /// Spot one completion (EX-203, RL-207). A Spot that is given back gets it here.
    pub fn is_marked(&self) -> bool {
        self.0.core.lock().is_marked()
    }

    /// Covers a member of the `SpotWide` unit with this seal (EX-177): fixes its queue and holds what
    /// arrives for it from now on.
    ///
    /// # Errors
    /// The lane is not bound to the sealed gate.
    pub fn cover<A>(&self, member: &Lane<A>) -> Result<CoveredMember<A>, SealError>
    where
        A: Owner<Policy = ActorDelivery>,
    {
        let core = Arc::clone(&member.core);
        let mut after = After::default();
        let mut inner = core.lock();
        let bound = inner.bound == Bound::Shared;
        let gate = inner
            .ext
            .as_ref()
            .and_then(|ext| ext.gate.as_ref())
            .map(|gate| gate.gate_id());
        if !bound || gate != Some(self.0.core.id) || inner.run == Run::Running {
            return Err(SealError::NotAMember);
        }
        if matches!(
            inner.admission,
            Admission::Closed | Admission::Ended | Admission::Held
        ) {
            return Err(SealError::Ended);
        }
        inner.admission = Admission::Held;
        inner.hold_waiters(&mut after);
        drop(inner);
        after.run(&core);
        Ok(CoveredMember(Fixed::take(core)))
    }

    /// Gives the Spot back before the boundary: the captured work in its places, then what was held, in
    /// acceptance order and before anything that arrives later (EX-205). Members are restored first.
    ///
    /// `permit` is the live permit the restored work begins with, unless the unit kept one (EX-136,
    /// EX-214); hosts without a job queue pass `None`.
    pub fn restore(mut self, permit: Option<JobPermit>) {
        self.0.give_back(permit);
    }

    /// The boundary: the ready reply was accepted. From here no call leads back (EX-206):
    ///
    /// ```compile_fail,E0599
    /// // EX-186: a hand-off cannot be restored.
    /// use spotlane_lane::{Owner, SealGuard, Spot};
    /// fn back<O: Owner<Policy = Spot>>(guard: SealGuard<O>) {
    ///     guard.into_handoff().restore(None);
    /// }
    /// ```
    pub fn into_handoff(self) -> Handoff<O> {
        self.0.into_handoff()
    }
}

/// A member Actor that moves with its `SpotWide` Spot. Dropping it gives the member back.
pub struct CoveredMember<A: Owner<Policy = ActorDelivery>>(Fixed<A>);

impl<A: Owner<Policy = ActorDelivery>> CoveredMember<A> {
    /// As [`SealGuard::state`].
    pub fn state(&mut self) -> Option<&mut A> {
        self.0.state()
    }

    /// As [`SealGuard::captured`].
    pub fn captured(&self) -> impl Iterator<Item = Captured<'_, A>> {
        self.0.captured()
    }

    /// As [`SealGuard::restore`]. Nothing of the member runs before the Spot is restored too.
    pub fn restore(mut self, permit: Option<JobPermit>) {
        self.0.give_back(permit);
    }

    /// As [`SealGuard::into_handoff`].
    pub fn into_handoff(self) -> Handoff<A> {
        self.0.into_handoff()
    }
}

/// An object past the boundary: its work is on its way to the target and never runs here again
/// (EX-206). Dropping it ends the lane.
pub struct Handoff<O: Owner> {
    core: Arc<Core<O>>,
    queues: Option<Queues<O>>,
    key: Option<Hold<O>>,
}

impl<O: Owner> Handoff<O> {
    /// The captured work, in order. Empty at the second call.
    pub fn take_saved(&mut self) -> Vec<Saved<O>> {
        self.queues.take().map_or_else(Vec::new, Queues::into_saved)
    }

    /// What was held since the last call, in acceptance order: what the source relays (EX-113).
    pub fn take_held(&mut self) -> Vec<Saved<O>> {
        let held = {
            let mut inner = self.core.lock();
            inner
                .ext
                .as_mut()
                .map_or_else(VecDeque::new, |ext| std::mem::take(&mut ext.hold))
        };
        held.into_iter()
            .filter_map(|entry| saved(Fifo::Application, entry))
            .collect()
    }

    /// The move is over: the lane ends and refuses what still comes (EX-112). Returns what was held to
    /// the last moment and the state that was left behind.
    pub fn moved(mut self) -> (Vec<Saved<O>>, Option<O>) {
        let held = self.end();
        let key = self.key.as_mut();
        let owner = key.and_then(|key| key.inside().owner.take());
        (held, owner)
    }

    fn end(&mut self) -> Vec<Saved<O>> {
        let held = {
            let mut inner = self.core.lock();
            // The last arrivals and the refusal of later ones meet in one span.
            inner.admission = Admission::Ended;
            inner
                .ext
                .as_mut()
                .map_or_else(VecDeque::new, |ext| std::mem::take(&mut ext.hold))
        };
        Arc::clone(&self.core).abort();
        held.into_iter()
            .filter_map(|entry| saved(Fifo::Application, entry))
            .collect()
    }
}

impl<O: Owner> Drop for Handoff<O> {
    fn drop(&mut self) {
        drop(self.end());
        if let Some(key) = self.key.take() {
            self.core.discard(key);
        }
    }
}

fn take_queues<O: Owner>(core: &Core<O>) -> Queues<O> {
    let mut inner = core.lock();
    let application = std::mem::take(&mut inner.app);
    let (lifecycle, current) = inner.ext.as_mut().map_or_else(
        || (VecDeque::new(), None),
        |ext| (std::mem::take(&mut ext.lifecycle), ext.current.take()),
    );
    drop(inner);
    Queues {
        lifecycle,
        application,
        current,
        permit: None,
    }
}

/// The opening span of form A (EX-209, EX-210, EX-212): the segment is fixed, live arrivals start behind it, admission
/// and dispatch open together. This is the place of the other form, in which the span observes that nothing is left (EX-211);
/// `docs/decisions/lane-opening.md` says why it was not chosen. Permits are waited for before, callbacks run after, never inside.
fn reopen<O: Owner>(
    core: &Arc<Core<O>>,
    back: Option<(Queues<O>, Option<Hold<O>>)>,
    permit: Option<JobPermit>,
) {
    let mut after = After::default();
    let mut inner = core.lock();
    if inner.admission == Admission::Ended {
        drop(inner);
        if let Some((queues, key)) = back {
            drop(queues);
            if let Some(key) = key {
                core.discard(key);
            }
        }
        drop(permit);
        return;
    }
    if let Some(spot) = inner.spot() {
        spot.seal = Seal::Open;
        spot.mark.given_back();
    }
    let closing = core.shared().is_stopping();
    inner.admission = if closing {
        Admission::Closed
    } else {
        Admission::Open
    };
    if let Some((
        Queues {
            mut lifecycle,
            application,
            current,
            ..
        },
        key,
    )) = back
    {
        if let Some(key) = key {
            drop(key.release(&mut inner));
        }
        // Tickets of members that were restored first may stand here already.
        let mut tickets = std::mem::replace(&mut inner.app, application);
        inner.app.append(&mut tickets);
        let ext = inner.ext();
        lifecycle.append(&mut ext.lifecycle);
        ext.lifecycle = lifecycle;
        ext.current = current;
    }
    let held = inner
        .ext
        .as_mut()
        .map_or_else(VecDeque::new, |ext| std::mem::take(&mut ext.hold));
    inner.app.extend(held);
    let segment = inner.app.len() as u64;
    let ext = inner.ext();
    ext.application = Dispatch::Open;
    if segment > 0 {
        ext.segment = segment;
        ext.segment_permit = permit;
    } else {
        after.permits.extend(permit);
    }
    core.signal(ATTENTION);
    // A member with a chosen item is ready still: its ticket stands in the Spot's restored FIFO. A
    // staged lane may be running the last lifecycle callback of its opening.
    if inner.run == Run::Stopped {
        inner.run = Run::Idle;
    }
    after.schedule = core.make_ready_if_any(&mut inner);
    inner.check_quiet(&mut after);
    drop(inner);
    after.run(core);
}

/// Opens a staged backlog: as [`reopen`], with the entries of the backlog in front of what arrived.
pub(crate) fn open_staged<O: Owner>(
    core: &Arc<Core<O>>,
    application: VecDeque<Entry<O>>,
    lifecycle: VecDeque<Entry<O>>,
    permit: Option<JobPermit>,
) {
    {
        let mut inner = core.lock();
        // Transfers: counted, never refused (EX-98).
        for entry in &application {
            if let Entry::Work(work) = entry {
                inner.ledger.accept(work.payload_bytes);
            } else {
                inner.ledger.accept(0);
            }
        }
        let ext = inner.ext();
        for entry in &lifecycle {
            if let Entry::Work(work) = entry {
                ext.lifecycle_ledger.accept(work.payload_bytes);
            }
        }
        // Lifecycle callbacks of the opening may still be queued; they stay in front.
        ext.lifecycle.extend(lifecycle);
        // Tickets of members that were opened first may stand here already.
        let mut tickets = std::mem::replace(&mut inner.app, application);
        inner.app.append(&mut tickets);
    }
    reopen(core, None, permit);
}

impl<O: Owner<Policy = Spot>> fmt::Debug for SealGuard<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealGuard")
            .field("lane", &self.0.core.id)
            .finish_non_exhaustive()
    }
}

impl<A: Owner<Policy = ActorDelivery>> fmt::Debug for CoveredMember<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoveredMember")
            .field("lane", &self.0.core.id)
            .finish_non_exhaustive()
    }
}

impl<O: Owner> fmt::Debug for Handoff<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff")
            .field("lane", &self.core.id)
            .finish_non_exhaustive()
    }
}

impl<O: Owner> fmt::Debug for Captured<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item {
                fifo,
                payload_bytes,
                ..
            } => f
                .debug_struct("Item")
                .field("fifo", fifo)
                .field("payload_bytes", payload_bytes)
                .finish_non_exhaustive(),
            Self::Tick(tick) => f.debug_tuple("Tick").field(tick).finish(),
        }
    }
}

impl<O: Owner> fmt::Debug for Saved<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item {
                fifo,
                payload_bytes,
                ..
            } => f
                .debug_struct("Item")
                .field("fifo", fifo)
                .field("payload_bytes", payload_bytes)
                .finish_non_exhaustive(),
            Self::Tick(tick) => f.debug_tuple("Tick").field(tick).finish(),
        }
    }
}

impl<O: Owner> fmt::Debug for Caller<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}
