//! The one runner: sends a plan, and settles conflicts and unknown outcomes (ST-71, ST-72, ST-90).

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use spotlane_store::{Found, Mutation, ReadOutcome, StoreProvider, WriteRequest};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::time::Monotonic;
use spotlane_wire::authority::AuthorityPayload;

use crate::authority::{
    self, ActiveObject, Authority, Change, ClosingObject, CreationOperation, PreparedTarget,
    Reservation, ReservedObject, Settled, TerminalRecord,
};
use crate::counter::{Counter, Expected, Reading, Taken};
use crate::directory::Candidate;
use crate::effort::{Answer, Effort};
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::lease::{HeldLease, LiveLease};
use crate::record::{NodeDescriptorRow, RecordError, Seen};
use crate::time::Timing;

/// The location repository: authority operations, directory and aggregates over one store.
///
/// Every operation takes the moment until which it may try. It tries again while the state that it
/// began with and the caller's own eligibility hold (ST-71). Its result is never a guess: success means that the row says
/// so, a conflict means that it changed nothing, and what could not be settled is
/// [`LocationError::Indeterminate`] (ST-72).
///
/// # Cancel safety
/// Dropping the future of an operation that writes leaves its outcome unknown, as
/// [`LocationError::Indeterminate`] does: read the object and decide.
#[derive(Debug)]
pub struct Repository<P, T> {
    store: P,
    timing: T,
    /// The next numbers of the counters. It is a leaf: nothing is locked and nothing awaited while it is held.
    expected: Mutex<Expected>,
}

/// How a change ended.
pub(crate) struct Done {
    /// The row as it is now; `None` when it was removed.
    pub(crate) row: Option<Found>,
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// A repository over a store.
    pub fn new(store: P, timing: T) -> Self {
        Self {
            store,
            timing,
            expected: Mutex::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &P {
        &self.store
    }

    pub(crate) fn timing(&self) -> &T {
        &self.timing
    }

    pub(crate) fn effort(&self, until: Monotonic) -> Effort<'_, P, T> {
        Effort::new(&self.store, &self.timing, until)
    }

    /// ST-61: past its admission deadline a host starts nothing; and what it started may not outlast the deadline.
    pub(crate) fn admitted(
        &self,
        held: &HeldLease,
        until: Monotonic,
    ) -> Result<Effort<'_, P, T>, LocationError> {
        if !held.admits(self.timing.now()) {
            return Err(LocationError::stale(Stale::PastDeadline));
        }
        Ok(self.effort(until.min(held.deadline())))
    }

    fn expected(&self) -> MutexGuard<'_, Expected> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers that a first attempt asks for.
    async fn take(
        &self,
        effort: &mut Effort<'_, P, T>,
        counters: &[Counter],
    ) -> Result<Vec<Taken>, LocationError> {
        let mut numbers = Vec::with_capacity(counters.len());
        for counter in counters {
            let expected = self.expected().take(*counter);
            numbers.push(if let Some(taken) = expected {
                taken
            } else {
                let read = Reading::of(*counter, effort.read(&counter.key()).await?)?;
                self.expected().begin(read, None)
            });
        }
        Ok(numbers)
    }

    /// Sends a change until its outcome is known.
    pub(crate) async fn run(
        &self,
        effort: &mut Effort<'_, P, T>,
        mut change: Change,
    ) -> Result<Done, LocationError> {
        let counters = change.effect.counters();
        let mut taken = self.take(effort, counters).await?;
        loop {
            let readings: Vec<Reading> = taken.iter().map(|taken| taken.reading).collect();
            let batch = change.batch(&readings)?;
            let answer = effort.write(batch.request.clone()).await?;
            if let Answer::Applied(applied) = answer {
                let row = batch.value.zip(applied.versions.first().cloned());
                let store_now = applied.store_now;
                let row = row.map(|(value, version)| Found {
                    value,
                    version,
                    expires_at: None,
                    store_now,
                });
                return Ok(Done { row });
            }
            let unknown = matches!(answer, Answer::Unknown);
            let reread = Reread::of(effort, &change, counters).await?;
            let value = batch.value.as_ref();
            let settled = change.settle(value, reread.row.clone(), unknown);
            effort.settled();
            match settled {
                Settled::Done(_) if batch.value.is_none() && !reread.has_extra(&change) => {
                    return Err(LocationError::conflict(Conflict::Gone));
                }
                Settled::Done(_) => {
                    return Ok(Done {
                        row: reread.row.found(),
                    });
                }
                Settled::Lost(reason) => return Err(LocationError::conflict(reason)),
                Settled::Again => {}
            }
            let also = change.also.as_ref().zip(reread.also);
            if also.is_some_and(|(also, outcome)| !authority::holds(also, outcome)) {
                return Err(LocationError::conflict(Conflict::Aggregate));
            }
            let descriptor_moved = still_eligible(&mut change, reread.lease, reread.descriptor)?;
            let read = counters.iter().zip(reread.counters);
            let read: Vec<Reading> = read
                .map(|(counter, outcome)| Reading::of(*counter, outcome))
                .collect::<Result<_, _>>()?;
            // ST-90: a counter that moved on is no conflict; the same operation takes the next number. Where nothing that
            // this operation looks at has moved, something is about to: give it time.
            if read == readings && !descriptor_moved && matches!(answer, Answer::Conflict) {
                effort.pause().await?;
            }
            let mut expected = self.expected();
            taken = read
                .into_iter()
                .zip(taken)
                .map(|(read, wrong)| expected.begin(read, Some(wrong)))
                .collect();
        }
    }

    /// Reads the row of an object.
    ///
    /// # Errors
    /// By recovery: `Retry` when the store was not reached, `GiveUp` when the row is malformed.
    pub async fn read(
        &self,
        object: &AuthorityKey,
        until: Monotonic,
    ) -> Result<Authority, LocationError> {
        let outcome = self.effort(until).read(&key::authority(object)).await?;
        Ok(Authority::of(object, outcome)?)
    }

    /// Reads the rows of many objects, in their order; a provider may gather the reads.
    ///
    /// # Errors
    /// As [`Repository::read`].
    pub async fn read_many(
        &self,
        objects: &[AuthorityKey],
        until: Monotonic,
    ) -> Result<Vec<Authority>, LocationError> {
        let keys: Vec<_> = objects.iter().map(key::authority).collect();
        let outcomes = self.effort(until).read_all(&keys).await?;
        let rows = objects.iter().zip(outcomes);
        Ok(rows
            .map(|(object, outcome)| Authority::of(object, outcome))
            .collect::<Result<_, _>>()?)
    }

    pub(crate) fn active(object: &AuthorityKey, done: Done) -> Result<ActiveObject, LocationError> {
        match Self::state(object, done)? {
            Authority::Active(active) => Ok(active),
            Authority::Missing | Authority::Reserved(_) => Err(not_as_written(object)),
        }
    }

    fn state(object: &AuthorityKey, done: Done) -> Result<Authority, LocationError> {
        let found = done.row.ok_or_else(|| not_as_written(object))?;
        Ok(Authority::of(object, ReadOutcome::Found(found))?)
    }

    /// Reserve: missing to reserved on a checked candidate; issues both generations and takes pending capacity (RL-10).
    ///
    /// A reservation that is in the way and whose target has ended is released first (ST-74). A host reserves one object
    /// for itself once at a time: two such calls would write the same bytes.
    ///
    /// # Errors
    /// By recovery: `ReadThenDecide` for a conflict (the object exists, is reserved by somebody alive, or the candidate is
    /// no more) and for an unsettled outcome; `Retry` when the store was not reached; `GiveUp` when the caller's lease is
    /// past its deadline, a counter is exhausted or a row malformed; `FixCall` when the arguments contradict each other.
    pub async fn reserve(
        &self,
        by: &HeldLease,
        to: &Candidate,
        reservation: Reservation,
        until: Monotonic,
    ) -> Result<ReservedObject, LocationError> {
        let mut effort = self.admitted(by, until)?;
        let object = authority::identity(&reservation.payload.object)?.object;
        let change = authority::reserve(by, to, reservation)?;
        loop {
            match self.run(&mut effort, change.clone()).await {
                Ok(done) => {
                    return match Self::state(&object, done)? {
                        Authority::Reserved(reserved) => Ok(reserved),
                        Authority::Missing | Authority::Active(_) => Err(not_as_written(&object)),
                    };
                }
                Err(LocationError::Conflict {
                    reason: Conflict::Exists,
                }) => {
                    let outcome = effort.read(&key::authority(&object)).await?;
                    let released = match Authority::of(&object, outcome)? {
                        Authority::Missing => true,
                        Authority::Reserved(found) => {
                            self.release_with(&mut effort, &found).await?
                        }
                        Authority::Active(_) => false,
                    };
                    if !released {
                        return Err(LocationError::conflict(Conflict::Exists));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Commit: the same reservation, active (RL-11). The terminal record goes in the same batch (RL-85).
    ///
    /// # Errors
    /// As [`Repository::reserve`]; `GiveUp` also when the reservation is another host's.
    pub async fn commit(
        &self,
        held: &HeldLease,
        node: &Candidate,
        reserved: &ReservedObject,
        payload: &AuthorityPayload,
        terminal: Option<TerminalRecord>,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let change = authority::commit(reserved, node, held, payload, terminal)?;
        Self::active(reserved.object(), self.run(&mut effort, change).await?)
    }

    /// Abort: the same reservation, missing; its capacity is given back (RL-11).
    ///
    /// # Errors
    /// As [`Repository::commit`].
    pub async fn abort(
        &self,
        held: &HeldLease,
        node: &Candidate,
        reserved: &ReservedObject,
        terminal: Option<TerminalRecord>,
        until: Monotonic,
    ) -> Result<(), LocationError> {
        let mut effort = self.admitted(held, until)?;
        let change = authority::abort(reserved, node, held, terminal)?;
        self.run(&mut effort, change).await.map(|_| ())
    }

    /// The result that a creation left, in the bytes of the wire contract; `None` while it has none or no more.
    ///
    /// Only for a resend of the same operation, which is answered by it; whoever else meets the object looks at its row
    /// (RL-87, RL-88).
    ///
    /// # Errors
    /// By recovery: `Retry` when the store was not reached.
    pub async fn creation_result(
        &self,
        operation: &CreationOperation,
        until: Monotonic,
    ) -> Result<Option<Bytes>, LocationError> {
        let outcome = self.effort(until).read(&operation.key()).await?;
        Ok(outcome.found().map(|found| found.value.into_bytes()))
    }

    /// Preserve: another payload; owner, generations and capacity stay (RL-12).
    ///
    /// # Errors
    /// As [`Repository::commit`].
    pub async fn preserve(
        &self,
        held: &HeldLease,
        active: &ActiveObject,
        payload: &AuthorityPayload,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let change = authority::preserve(active, held, payload)?;
        Self::active(active.object(), self.run(&mut effort, change).await?)
    }

    /// `NewOwner`: the prepared target becomes the owner (RL-13). One round trip while the counter is known.
    ///
    /// `active` is the row as it was first read: any other version of it is a conflict. Whether the target is healthy is
    /// no question here; its lease is compared, and a commit under matching fences stands (RL-19).
    ///
    /// # Errors
    /// As [`Repository::commit`]; a target past its own deadline never gets as far as the store (RL-286).
    pub async fn new_owner(
        &self,
        target: &PreparedTarget,
        active: &ActiveObject,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(target.held(), until)?;
        let change = authority::new_owner(active, target)?;
        Self::active(active.object(), self.run(&mut effort, change).await?)
    }

    /// Reincarnate: a new incarnation in place, under an explicit close (RL-14, RL-103).
    ///
    /// # Errors
    /// As [`Repository::commit`].
    pub async fn reincarnate(
        &self,
        held: &HeldLease,
        closing: &ClosingObject,
        payload: &AuthorityPayload,
        until: Monotonic,
    ) -> Result<ActiveObject, LocationError> {
        let mut effort = self.admitted(held, until)?;
        let change = authority::reincarnate(closing, held, payload)?;
        Self::active(closing.object(), self.run(&mut effort, change).await?)
    }

    /// Delete: the row goes, and its capacity with it (RL-14).
    ///
    /// # Errors
    /// As [`Repository::commit`].
    pub async fn delete(
        &self,
        held: &HeldLease,
        active: &ActiveObject,
        until: Monotonic,
    ) -> Result<(), LocationError> {
        let mut effort = self.admitted(held, until)?;
        let change = authority::delete(active, held)?;
        self.run(&mut effort, change).await.map(|_| ())
    }

    /// Releases a reservation whose target has ended; `false` when the target is alive (ST-74). Whoever meets one may.
    ///
    /// # Errors
    /// By recovery, as [`Repository::read`].
    pub async fn release_if_ended(
        &self,
        reserved: &ReservedObject,
        until: Monotonic,
    ) -> Result<bool, LocationError> {
        let mut effort = self.effort(until);
        self.release_with(&mut effort, reserved).await
    }

    /// Says `true` when the reservation is gone, by this call or by another.
    async fn release_with(
        &self,
        effort: &mut Effort<'_, P, T>,
        reserved: &ReservedObject,
    ) -> Result<bool, LocationError> {
        let row_key = key::authority(reserved.object());
        loop {
            let Some(evidence) = self.evidence(effort, reserved).await? else {
                return Ok(false);
            };
            let (conditions, mutations) = authority::release(reserved, evidence);
            let request = WriteRequest::new(conditions, mutations)?;
            if let Answer::Applied(_) = effort.write(request).await? {
                return Ok(true);
            }
            let row = effort.read(&row_key).await?;
            effort.settled();
            match row.found() {
                Some(found) if found.version == *reserved.version() => effort.pause().await?,
                Some(_) | None => return Ok(true),
            }
        }
    }

    /// What shows that the target of a reservation has ended: its lease is missing, expired or of another run, or its
    /// descriptor is missing or of another run. `None` when it lives.
    async fn evidence(
        &self,
        effort: &mut Effort<'_, P, T>,
        reserved: &ReservedObject,
    ) -> Result<Option<spotlane_store::Condition>, LocationError> {
        let row = reserved.row();
        let lease_key = key::owner_lease(&row.owner_id);
        let found = effort.read(&lease_key).await?;
        let value = found.clone().found().map(|found| found.value);
        let live = LiveLease::of(&lease_key, found)?;
        if !live.is_some_and(|live| live.is_of(&row.owner_id, row.owner_lease_generation)) {
            return Ok(Some(authority::lease_ended(lease_key, value)));
        }
        let name = &row.allocation.descriptor;
        let key = key::mesh_node(&name.mesh_name, &name.routing_id);
        let Some(found) = effort.read(&key).await?.found() else {
            return Ok(Some(spotlane_store::Condition::Missing(key)));
        };
        let seen = Seen::<NodeDescriptorRow>::read(&key, found)?;
        let run = seen.row.descriptor.lifecycle_generation;
        let other = run != row.allocation.descriptor_lifecycle_generation;
        Ok(other.then(|| spotlane_store::Condition::Version(key, seen.version)))
    }
}

/// What a batch that was not acknowledged is judged by, read in one go.
struct Reread {
    row: ReadOutcome,
    lease: ReadOutcome,
    descriptor: Option<ReadOutcome>,
    also: Option<ReadOutcome>,
    extra: Vec<ReadOutcome>,
    counters: Vec<ReadOutcome>,
}

impl Reread {
    async fn of<P: StoreProvider, T: Timing>(
        effort: &mut Effort<'_, P, T>,
        change: &Change,
        counters: &[Counter],
    ) -> Result<Self, LocationError> {
        let mut keys = vec![change.key.clone(), change.fence.lease.key()];
        keys.extend(change.descriptor.iter().map(|first| first.row.key()));
        keys.extend(change.also.iter().map(|also| also.key().clone()));
        keys.extend(change.extra.iter().map(|extra| extra.key().clone()));
        keys.extend(counters.iter().map(|counter| counter.key()));
        let mut outcomes = effort.read_all(&keys).await?.into_iter();
        let mut next = || {
            outcomes
                .next()
                .ok_or(LocationError::Unavailable { source: None })
        };
        let (row, lease) = (next()?, next()?);
        let descriptor = change.descriptor.as_ref().map(|_| next()).transpose()?;
        let also = change.also.as_ref().map(|_| next()).transpose()?;
        let extra = change
            .extra
            .iter()
            .map(|_| next())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            row,
            lease,
            descriptor,
            also,
            extra,
            counters: outcomes.collect(),
        })
    }

    /// Whether what was written with the row is there.
    ///
    /// A row that is gone may be gone by another's hand, whoever met a reservation that had ended (ST-74): then the result
    /// that our removal should have left is missing, and it was not ours.
    fn has_extra(&self, change: &Change) -> bool {
        change.extra.iter().zip(&self.extra).all(|(extra, there)| {
            let there = there.clone().found();
            match extra {
                Mutation::Put { value, .. } => there.is_some_and(|found| found.value == *value),
                Mutation::Delete { .. } => there.is_none(),
            }
        })
    }
}

/// ST-71: the own eligibility, read anew. Says whether the target's descriptor has another version.
fn still_eligible(
    change: &mut Change,
    lease: ReadOutcome,
    descriptor: Option<ReadOutcome>,
) -> Result<bool, LocationError> {
    let fence = &change.fence;
    match LiveLease::of(&fence.lease.key(), lease)? {
        Some(live) if live == fence.lease => {}
        Some(_) => return Err(fence.lost(Stale::Replaced)),
        None => return Err(fence.lost(Stale::Missing)),
    }
    let (Some(first), Some(descriptor)) = (&change.descriptor, descriptor) else {
        return Ok(false);
    };
    let key = first.row.key();
    let gone = || LocationError::conflict(Conflict::TargetDescriptor);
    let found = descriptor.found().ok_or_else(gone)?;
    let now = Seen::<NodeDescriptorRow>::read(&key, found)?;
    let (was, is) = (&first.row.descriptor, &now.row.descriptor);
    if was.lifecycle_generation != is.lifecycle_generation
        || !fence.lease.is_of(&is.owner_id, is.lease_generation)
    {
        return Err(gone());
    }
    if let authority::Effect::Row(row, authority::Issues::ObjectAndOwner) = &change.effect {
        let allocation = &row.allocation;
        if !authority::has_room(is, allocation.object_kind, &allocation.stable_type) {
            return Err(LocationError::conflict(Conflict::TargetCapacity));
        }
    }
    let moved = first.version != now.version;
    change.descriptor = Some(now);
    Ok(moved)
}

/// Our own defect: the row that we wrote is not read as what we wrote.
fn not_as_written(object: &AuthorityKey) -> LocationError {
    let rule = "a row is read as it was written; please report this";
    RecordError::contradiction(&key::authority(object), rule).into()
}
