//! The row that says who owns an object (ST-51).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use spotlane_store::{KeyLabel, StoreKey};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::CreationRequestSize;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{
    CreationContentReference, MeshName, NodeRid, OwnerId, ReservationId, Sha256, StableType,
};
use spotlane_types::kind::StatefulObjectKind;
use spotlane_wire::authority::AuthorityPayload;
use spotlane_wire::durable;

use super::{RecordError, Sealed, V1};
use crate::{json, key};

/// Whether an object is being created or exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-51")]
pub enum AllocationState {
    /// Its owner is creating it; its capacity is pending.
    Reserved,
    /// It exists; its capacity is in use.
    Active,
}

/// The node that an allocation counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-51")]
pub struct DescriptorName {
    /// Its mesh.
    #[serde(with = "json::text")]
    pub mesh_name: MeshName,
    /// Its routing id.
    #[serde(with = "json::hex", rename = "routingIdHex")]
    pub routing_id: NodeRid,
}

/// How many Spots of one type an allocation takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-51")]
pub struct SpotTypeCount {
    /// The kind of Spot.
    #[serde(with = "json::named")]
    pub object_kind: StatefulObjectKind,
    /// Its type.
    #[serde(with = "json::text")]
    pub stable_type: StableType,
    /// How many.
    pub count: u32,
}

/// The capacity that one object takes of its node. The row is where it is kept: pending while reserved, in use while
/// active, given back with the row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-51")]
pub struct CapacityBundle {
    /// Slots for Actors.
    pub actors: u32,
    /// Slots for Spots.
    pub spots: u32,
    /// The slots of one type of Spot; none for an Actor.
    pub spot_type: Option<SpotTypeCount>,
}

impl CapacityBundle {
    /// What one object of this kind and type takes.
    pub fn of_one(kind: StatefulObjectKind, stable_type: &StableType) -> Self {
        let spot = |object_kind| Self {
            actors: 0,
            spots: 1,
            spot_type: Some(SpotTypeCount {
                object_kind,
                stable_type: stable_type.clone(),
                count: 1,
            }),
        };
        match kind {
            StatefulObjectKind::Actor => Self {
                actors: 1,
                spots: 0,
                spot_type: None,
            },
            StatefulObjectKind::UserSpot | StatefulObjectKind::InstanceSpot => spot(kind),
        }
    }
}

/// Where an object lives and what it takes there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-51")]
pub struct Allocation {
    /// Whether it exists yet.
    pub state: AllocationState,
    /// Its kind.
    #[serde(with = "json::named")]
    pub object_kind: StatefulObjectKind,
    /// Its type.
    #[serde(with = "json::text")]
    pub stable_type: StableType,
    /// Its node.
    pub descriptor: DescriptorName,
    /// The run of that node.
    #[serde(with = "json::decimal")]
    pub descriptor_lifecycle_generation: NodeGeneration,
    /// What it takes of that node.
    pub capacity: CapacityBundle,
}

/// The creation that a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-51")]
pub struct PendingCreation {
    /// The reservation.
    #[serde(with = "json::text")]
    pub reservation_id: ReservationId,
    /// Where the request is.
    #[serde(with = "json::text")]
    pub request_content_reference: CreationContentReference,
    /// Its digest.
    #[serde(with = "json::hex")]
    pub request_sha256: Sha256,
    /// Its size in bytes.
    #[serde(with = "request_size")]
    pub request_encoded_size: CreationRequestSize,
}

/// How a request stands in its reference.
const INLINE: &str = "inline-v1:";

impl PendingCreation {
    /// A creation whose request stands in the row itself.
    ///
    /// # Errors
    /// The request is longer than a reference can hold.
    pub fn inline(
        reservation_id: ReservationId,
        request: &[u8],
    ) -> Result<Self, spotlane_types::ValueError> {
        let text = format!("{INLINE}{}", URL_SAFE_NO_PAD.encode(request));
        let size = u32::try_from(request.len()).unwrap_or(u32::MAX);
        Ok(Self {
            reservation_id,
            request_content_reference: CreationContentReference::new(&text)?,
            request_sha256: key::sha256(request),
            request_encoded_size: CreationRequestSize::new(size)?,
        })
    }

    /// The request, if it is what the row says: of its form, size and digest. Otherwise no factory runs and the creation
    /// has failed (RL-84).
    pub fn request(&self) -> Option<Bytes> {
        let text = self
            .request_content_reference
            .as_str()
            .strip_prefix(INLINE)?;
        let request = URL_SAFE_NO_PAD.decode(text).ok()?;
        let size = u32::try_from(request.len()).ok()?;
        let same =
            size == self.request_encoded_size.get() && key::sha256(&request) == self.request_sha256;
        same.then(|| Bytes::from(request))
    }
}

mod request_size {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::CreationRequestSize;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the form that serde calls"
    )]
    pub(super) fn serialize<S: Serializer>(
        v: &CreationRequestSize,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.serialize_u32(v.get())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<CreationRequestSize, D::Error> {
        CreationRequestSize::new(u32::deserialize(d)?).map_err(D::Error::custom)
    }
}

/// Who owns an object (ST-51, RL-9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-51")]
pub struct AuthorityRow {
    /// The format.
    pub record_version: V1,
    /// The framework's part: `ZLAU`.
    #[serde(with = "json::base64")]
    pub payload: Bytes,
    /// The incarnation.
    #[serde(with = "json::decimal")]
    pub object_generation: ObjectGeneration,
    /// The tenure of its owner.
    #[serde(with = "json::decimal")]
    pub authority_owner_generation: AuthorityOwnerGeneration,
    /// Its owner.
    #[serde(with = "json::text")]
    pub owner_id: OwnerId,
    /// The lease of its owner.
    #[serde(with = "json::decimal")]
    pub owner_lease_generation: OwnerLeaseGeneration,
    /// Where it lives.
    pub allocation: Allocation,
    /// Its creation, while that is under way.
    #[serde(deserialize_with = "present")]
    pub pending_creation: Option<PendingCreation>,
}

/// A member that may be null but not absent.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(d)
}

impl AuthorityRow {
    /// Decodes the framework's part.
    ///
    /// # Errors
    /// [`RecordError::Payload`], by recovery `GiveUp`.
    pub fn decode_payload(&self, key: &StoreKey) -> Result<AuthorityPayload, RecordError> {
        durable::decode(&self.payload).map_err(|source| RecordError::Payload {
            key: KeyLabel::of(key.as_str()),
            source,
        })
    }
}

impl Sealed for AuthorityRow {
    fn check(&self, key: &StoreKey) -> Result<(), &'static str> {
        let Some(object) = key::object_of(key) else {
            return Err("the key is that of an authority row");
        };
        let allocation = &self.allocation;
        let actor = allocation.object_kind == StatefulObjectKind::Actor;
        if actor != matches!(object, AuthorityKey::Actor(_)) {
            return Err("the object kind is that of the key");
        }
        match &allocation.capacity.spot_type {
            None if actor => Ok(()),
            Some(slots)
                if !actor
                    && slots.object_kind == allocation.object_kind
                    && slots.stable_type == allocation.stable_type =>
            {
                Ok(())
            }
            None | Some(_) => Err("the capacity is that of the object's kind and type"),
        }
    }
}
