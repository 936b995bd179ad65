//! The row in which a node says what it is and offers.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use spotlane_store::StoreKey;
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::{DescriptorRevision, NodeGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{
    ChannelName, Endpoint, MaintenanceWave, MeshName, NodeRid, OwnerId, SecurityIdentity, SpotId,
    StableType,
};
use spotlane_types::kind::{ObjectRole, RelocationPolicyKind, RuntimeState, StatefulObjectKind};
use spotlane_types::time::UnixMillis;

use super::{Sealed, V1};
use crate::{json, key};

/// A weight as it is set and stored: 0 to 10,000 (WR-64); 0 means excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct WeightSetting(u32);

impl WeightSetting {
    /// The greatest weight.
    pub const MAX: u32 = 10_000;

    /// Takes a number; `None` when it is above [`WeightSetting::MAX`].
    pub const fn new(weight: u32) -> Option<Self> {
        if weight > Self::MAX {
            return None;
        }
        Some(Self(weight))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for WeightSetting {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let weight = u32::deserialize(d)?;
        Self::new(weight).ok_or_else(|| D::Error::custom("expected a weight of 0 to 10000"))
    }
}

/// Weights by channel, written in the order of the channel names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelWeights(BTreeMap<String, WeightSetting>);

impl ChannelWeights {
    /// Sets the weight of a channel.
    pub fn set(&mut self, channel: &ChannelName, weight: WeightSetting) {
        self.0.insert(channel.to_string(), weight);
    }

    /// The weight of a channel.
    pub fn get(&self, channel: &ChannelName) -> Option<WeightSetting> {
        self.0.get(channel.as_str()).copied()
    }

    /// How many channels there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for ChannelWeights {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let weights = BTreeMap::<String, WeightSetting>::deserialize(d)?;
        for name in weights.keys() {
            ChannelName::new(name).map_err(D::Error::custom)?;
        }
        Ok(Self(weights))
    }
}

/// A type of object that a node hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct ObjectCapability {
    /// The kind.
    #[serde(with = "json::named")]
    pub object_kind: StatefulObjectKind,
    /// The type.
    #[serde(with = "json::text")]
    pub stable_type: StableType,
    /// What becomes of its state in a move.
    #[serde(with = "json::named")]
    pub policy: RelocationPolicyKind,
    /// Whether its state can be captured and restored.
    pub has_snapshot_adapter: bool,
    /// How many there may be; 0 means no limit.
    pub limit: u32,
}

/// How many there are, are being created, and may be; limit 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct SlotCount {
    /// In use.
    pub active: u32,
    /// Pending.
    pub reserved: u32,
    /// At most.
    pub limit: u32,
}

/// The same for one type of Spot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct SpotTypeSlots {
    /// The kind.
    #[serde(with = "json::named")]
    pub object_kind: StatefulObjectKind,
    /// The type.
    #[serde(with = "json::text")]
    pub stable_type: StableType,
    /// In use.
    pub active: u32,
    /// Pending.
    pub reserved: u32,
    /// At most.
    pub limit: u32,
}

/// What a node counts of itself: a hint for whoever selects, never an authority (RL-83).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct NodeCapacity {
    /// Its Actors.
    pub actors: SlotCount,
    /// Its Spots.
    pub spots: SlotCount,
    /// Its Spots by type.
    pub spot_types: Vec<SpotTypeSlots>,
}

/// How many activations run and may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct ActivationConcurrency {
    /// Running.
    pub active: u32,
    /// At most.
    pub limit: u32,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct MeshNodeDescriptor {
    /// Its mesh.
    #[serde(with = "json::text")]
    pub mesh_name: MeshName,
    /// Its routing id.
    #[serde(with = "json::hex", rename = "routingIdHex")]
    pub routing_id: NodeRid,
    /// Its run.
    #[serde(with = "json::decimal")]
    pub lifecycle_generation: NodeGeneration,
    /// The revision of this descriptor.
    #[serde(with = "json::decimal")]
    pub descriptor_revision: DescriptorRevision,
    /// Where it listens.
    #[serde(with = "json::text")]
    pub endpoint: Endpoint,
    /// Its Entry Spot, if it has one.
    #[serde(with = "json::text_or_null")]
    pub entry_spot_id: Option<SpotId>,
    /// Its share of each channel.
    pub channel_weights: ChannelWeights,
    /// The version of the application.
    #[serde(with = "json::decimal")]
    pub application_version: ApplicationVersion,
    /// What it hosts.
    pub object_capabilities: Vec<ObjectCapability>,
    /// Whether it hosts objects.
    #[serde(with = "json::named")]
    pub object_role: ObjectRole,
    /// Its share of new objects.
    pub placement_weight: WeightSetting,
    /// What it counts.
    pub capacity: NodeCapacity,
    /// How many activations run there.
    pub activation_concurrency: ActivationConcurrency,
    /// The maintenance wave it belongs to.
    #[serde(with = "json::text_or_null")]
    pub maintenance_wave: Option<MaintenanceWave>,
    /// Its state.
    #[serde(with = "json::named")]
    pub state: RuntimeState,
    /// What it presents to the security layer.
    #[serde(with = "json::text")]
    pub security_identity: SecurityIdentity,
    /// The host.
    #[serde(with = "json::text")]
    pub owner_id: OwnerId,
    /// The run of the host.
    #[serde(with = "json::decimal")]
    pub lease_generation: OwnerLeaseGeneration,
    /// When this was written.
    #[serde(with = "json::decimal")]
    pub updated_at_epoch_ms: UnixMillis,
}

/// A stored descriptor. It has no expiry; it counts only while the lease it names is live (ST-80).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct NodeDescriptorRow {
    /// The format.
    pub record_version: V1,
    /// The host.
    #[serde(with = "json::text")]
    pub owner_id: OwnerId,
    /// The run of the host.
    #[serde(with = "json::decimal")]
    pub lease_generation: OwnerLeaseGeneration,
    /// The revision.
    #[serde(with = "json::decimal")]
    pub descriptor_revision: DescriptorRevision,
    /// The descriptor.
    pub descriptor: MeshNodeDescriptor,
}

impl NodeDescriptorRow {
    /// The row of a descriptor: the outer members repeat inner ones.
    pub fn of(descriptor: MeshNodeDescriptor) -> Self {
        Self {
            record_version: V1,
            owner_id: descriptor.owner_id.clone(),
            lease_generation: descriptor.lease_generation,
            descriptor_revision: descriptor.descriptor_revision,
            descriptor,
        }
    }

    /// Its key.
    pub fn key(&self) -> StoreKey {
        key::mesh_node(&self.descriptor.mesh_name, &self.descriptor.routing_id)
    }
}

impl Sealed for NodeDescriptorRow {
    fn check(&self, key: &StoreKey) -> Result<(), &'static str> {
        let inner = &self.descriptor;
        if self.key() != *key {
            return Err("mesh and routing id are those of the key");
        }
        if self.owner_id != inner.owner_id || self.lease_generation != inner.lease_generation {
            return Err("the descriptor names the owner of its row");
        }
        if self.descriptor_revision != inner.descriptor_revision {
            return Err("the descriptor has the revision of its row");
        }
        Ok(())
    }
}
