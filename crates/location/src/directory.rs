//! Who is there: descriptors of nodes, checked against their leases, and the objects that are ready (ST-80, ST-82).

use std::collections::HashMap;

use spotlane_store::{
    Condition, Cursor, Mutation, ReadOutcome, Row, ScanOutcome, ScanRequest, StoreKey,
    StoreProvider, StoreTime, StoreValue, WriteRequest,
};
use spotlane_types::id::{MeshName, OwnerId};
use spotlane_types::time::Monotonic;

use crate::authority::Authority;
use crate::effort::{Answer, Effort};
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::lease::{HeldLease, LiveLease};
use crate::record::{MeshNodeDescriptor, NodeDescriptorRow, Record as _, RecordError, Seen};
use crate::repository::Repository;
use crate::time::Timing;

/// Rows of one page of a scan.
const SCAN_ROWS: usize = 500;

/// Most nodes of one mesh that are looked at; more are an error, because nothing is chosen from a part of them.
pub const DISCOVERED_NODES_MAX: usize = 65_536;

/// A descriptor whose owner's lease was live when it was checked (ST-80, RL-280).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    descriptor: Seen<NodeDescriptorRow>,
    lease: LiveLease,
}

impl Candidate {
    /// The descriptor.
    pub fn descriptor(&self) -> &Seen<NodeDescriptorRow> {
        &self.descriptor
    }

    /// The lease of its owner.
    pub fn lease(&self) -> &LiveLease {
        &self.lease
    }

    /// Judges a descriptor by an exact read of its owner's lease; `None` when it does not count.
    ///
    /// # Errors
    /// [`RecordError`], by recovery `GiveUp`: the lease is corrupt (ST-80).
    pub fn of(
        descriptor: Seen<NodeDescriptorRow>,
        lease: ReadOutcome,
    ) -> Result<Option<Self>, RecordError> {
        let row = &descriptor.row;
        let live = LiveLease::of(&key::owner_lease(&row.owner_id), lease)?;
        let live = live.filter(|live| live.is_of(&row.owner_id, row.lease_generation));
        Ok(live.map(|lease| Self { descriptor, lease }))
    }
}

/// One page of an operational listing (ST-82).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectPage {
    /// The objects, reserved and active.
    pub objects: Vec<Authority>,
    /// Where the next page begins; `None` ends the listing.
    pub next: Option<Cursor>,
}

/// Which objects a listing is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two key spaces of RL-1")]
pub enum Listed {
    /// All Actors.
    Actors,
    /// All Spots, whatever their kind.
    Spots,
}

impl<P: StoreProvider, T: Timing> Repository<P, T> {
    /// Publishes the descriptor of a node of this host, fenced by the host's lease (ST-61).
    ///
    /// # Errors
    /// By recovery: `GiveUp` when the lease is past its deadline or lost; `ReadThenDecide` for a conflict (a later
    /// revision of the same run is there) or an unsettled outcome; `Retry` when the store was not reached; `FixCall` when
    /// the descriptor names another owner.
    pub async fn publish(
        &self,
        held: &HeldLease,
        descriptor: MeshNodeDescriptor,
        until: Monotonic,
    ) -> Result<(), LocationError> {
        let mut effort = self.admitted(held, until)?;
        let row = NodeDescriptorRow::of(descriptor);
        if !held.lease().is_of(&row.owner_id, row.lease_generation) {
            return Err(LocationError::Call {
                rule: "a host publishes descriptors of its own",
            });
        }
        let key = row.key();
        let value = StoreValue::new(row.encode())?;
        let mut unknown = false;
        loop {
            let there = effort.read(&key).await?.found();
            if unknown && there.as_ref().is_some_and(|there| there.value == value) {
                return Ok(());
            }
            effort.settled();
            let first = match there {
                None => Condition::Missing(key.clone()),
                Some(there) => {
                    let version = there.version.clone();
                    let seen = Seen::<NodeDescriptorRow>::read(&key, there)?;
                    if is_not_older(&seen.row, &row) {
                        return Err(LocationError::conflict(Conflict::Changed));
                    }
                    Condition::Version(key.clone(), version)
                }
            };
            let put = Mutation::Put {
                key: key.clone(),
                value: value.clone(),
                ttl: None,
            };
            let request = WriteRequest::new(vec![first, held.lease().condition()], vec![put])?;
            let answer = effort.write(request).await?;
            if let Answer::Applied(_) = answer {
                return Ok(());
            }
            unknown = matches!(answer, Answer::Unknown);
            if matches!(answer, Answer::Conflict) {
                self.own_lease(&mut effort, held).await?;
            }
        }
    }

    /// Withdraws a descriptor of this host; none there is well.
    ///
    /// # Errors
    /// By recovery, as [`Repository::publish`].
    pub async fn withdraw(
        &self,
        held: &HeldLease,
        descriptor: &MeshNodeDescriptor,
        until: Monotonic,
    ) -> Result<(), LocationError> {
        let mut effort = self.effort(until);
        let key = key::mesh_node(&descriptor.mesh_name, &descriptor.routing_id);
        loop {
            let there = effort.read(&key).await?.found();
            effort.settled();
            let Some(there) = there else { return Ok(()) };
            let version = there.version.clone();
            let seen = Seen::<NodeDescriptorRow>::read(&key, there)?;
            if !held
                .lease()
                .is_of(&seen.row.owner_id, seen.row.lease_generation)
            {
                return Ok(());
            }
            let conditions = vec![
                Condition::Version(key.clone(), version),
                held.lease().condition(),
            ];
            let request =
                WriteRequest::new(conditions, vec![Mutation::Delete { key: key.clone() }])?;
            match effort.write(request).await? {
                Answer::Applied(_) => return Ok(()),
                Answer::Conflict => self.own_lease(&mut effort, held).await?,
                Answer::Unknown | Answer::NotTaken => {}
            }
        }
    }

    async fn own_lease(
        &self,
        effort: &mut Effort<'_, P, T>,
        held: &HeldLease,
    ) -> Result<(), LocationError> {
        let key = held.lease().key();
        match LiveLease::of(&key, effort.read(&key).await?)? {
            Some(live) if live == *held.lease() => effort.pause().await,
            Some(_) => Err(LocationError::stale(Stale::Replaced)),
            None => Err(LocationError::stale(Stale::Missing)),
        }
    }

    /// All nodes of a mesh whose owner's lease is live (ST-80, RL-280). Nothing is returned before all were checked.
    ///
    /// # Errors
    /// By recovery: `Retry` when the store was not reached or the snapshot was lost to the end of the deadline; `GiveUp`
    /// when a descriptor or lease is corrupt, or there are more than [`DISCOVERED_NODES_MAX`].
    pub async fn discover(
        &self,
        mesh: &MeshName,
        until: Monotonic,
    ) -> Result<Vec<Candidate>, LocationError> {
        let mut effort = self.effort(until);
        let descriptors = self.descriptors(&mut effort, mesh).await?;
        // One read for each owner: several nodes may belong to one host.
        let mut owners: Vec<&OwnerId> = descriptors.iter().map(|d| &d.row.owner_id).collect();
        owners.sort_unstable_by_key(|owner| owner.as_str());
        owners.dedup();
        let keys: Vec<_> = owners.iter().map(|owner| key::owner_lease(owner)).collect();
        let outcomes = effort.read_all(&keys).await?;
        let mut leases: HashMap<OwnerId, LiveLease> = HashMap::with_capacity(keys.len());
        for (key, outcome) in keys.iter().zip(outcomes) {
            if let Some(live) = LiveLease::of(key, outcome)? {
                leases.insert(live.owner().clone(), live);
            }
        }
        let candidates = descriptors.into_iter().filter_map(|descriptor| {
            let row = &descriptor.row;
            let live = leases.get(&row.owner_id)?;
            let lease = (live.is_of(&row.owner_id, row.lease_generation)).then(|| live.clone())?;
            Some(Candidate { descriptor, lease })
        });
        Ok(candidates.collect())
    }

    /// Reads one node anew; `None` when it has no descriptor or its owner's lease is not live.
    ///
    /// # Errors
    /// By recovery, as [`Repository::discover`].
    pub async fn candidate(
        &self,
        name: &crate::record::DescriptorName,
        until: Monotonic,
    ) -> Result<Option<Candidate>, LocationError> {
        let mut effort = self.effort(until);
        let key = key::mesh_node(&name.mesh_name, &name.routing_id);
        let Some(found) = effort.read(&key).await?.found() else {
            return Ok(None);
        };
        let seen = Seen::<NodeDescriptorRow>::read(&key, found)?;
        let lease = effort.read(&key::owner_lease(&seen.row.owner_id)).await?;
        Ok(Candidate::of(seen, lease)?)
    }

    async fn descriptors(
        &self,
        effort: &mut Effort<'_, P, T>,
        mesh: &MeshName,
    ) -> Result<Vec<Seen<NodeDescriptorRow>>, LocationError> {
        let prefix = key::mesh_nodes(mesh);
        let mut descriptors = Vec::new();
        let mut cursor = None;
        loop {
            let request = ScanRequest::new(prefix.clone(), SCAN_ROWS, cursor.take())?;
            let Some(page) = effort.scan(request).await?.page() else {
                // A lost snapshot: what was gathered belongs to no one moment any more.
                descriptors.clear();
                effort.pause().await?;
                continue;
            };
            cursor = page.next().cloned();
            let store_now = page.store_now();
            for row in page.into_rows() {
                if descriptors.len() >= DISCOVERED_NODES_MAX {
                    return Err(LocationError::TooMany {
                        what: "the descriptors of a mesh",
                        most: DISCOVERED_NODES_MAX,
                    });
                }
                descriptors.push(seen(row, store_now)?);
            }
            if cursor.is_none() {
                return Ok(descriptors);
            }
        }
    }

    /// One page of all objects, for operators (ST-82); `None` when the snapshot is lost and the listing begins again.
    ///
    /// # Errors
    /// By recovery: `FixCall` when the limit is not 1 to 1,000; `Retry` when the store was not reached; `GiveUp` when a
    /// row is malformed.
    pub async fn list(
        &self,
        listed: Listed,
        limit: usize,
        cursor: Option<Cursor>,
        until: Monotonic,
    ) -> Result<Option<ObjectPage>, LocationError> {
        let prefix = match listed {
            Listed::Actors => key::all_actors(),
            Listed::Spots => key::all_spots(),
        };
        let request = ScanRequest::new(prefix, limit, cursor)?;
        let ScanOutcome::Page(page) = self.effort(until).scan(request).await? else {
            return Ok(None);
        };
        let next = page.next().cloned();
        let store_now = page.store_now();
        let objects = page
            .into_rows()
            .into_iter()
            .map(|row| {
                let rule = "the key is that of an authority row";
                let object = key::object_of(&row.key)
                    .ok_or_else(|| RecordError::contradiction(&row.key, rule))?;
                let found = spotlane_store::Found {
                    value: row.value,
                    version: row.version,
                    expires_at: row.expires_at,
                    store_now,
                };
                Authority::of(&object, ReadOutcome::Found(found))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Some(ObjectPage { objects, next }))
    }
}

fn seen(row: Row, store_now: StoreTime) -> Result<Seen<NodeDescriptorRow>, RecordError> {
    let key: StoreKey = row.key;
    let found = spotlane_store::Found {
        value: row.value,
        version: row.version,
        expires_at: row.expires_at,
        store_now,
    };
    Seen::read(&key, found)
}

/// Whether the row there is of the same run and not an earlier revision (WR-8).
fn is_not_older(there: &NodeDescriptorRow, ours: &NodeDescriptorRow) -> bool {
    there.owner_id == ours.owner_id
        && there.lease_generation == ours.lease_generation
        && there.descriptor.lifecycle_generation == ours.descriptor.lifecycle_generation
        && !ours.descriptor_revision.is_after(there.descriptor_revision)
}
