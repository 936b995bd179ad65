//! The names of the records: parts joined by NUL, which no part can hold (ST section 5).

use ring::digest;
use spotlane_store::{KeyPrefix, StoreKey};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::hex;
use spotlane_types::id::{MeshName, NodeRid, OperationId, OwnerId, RelocationId, Sha256};

/// The counter of owner lease generations.
pub const OWNER_COUNTER: &str = "zlink:v11:owner-counter";
/// The counter of object generations.
pub const OBJECT_COUNTER: &str = "zlink:v11:object-counter";
/// The counter of authority owner generations.
pub const AUTHORITY_OWNER_COUNTER: &str = "zlink:v11:authority-owner-counter";

/// Every part has at most 510 bytes and there are at most three, so no name comes near the limit of ST-4.
#[expect(
    clippy::expect_used,
    reason = "a name of bounded parts is within 1 to 1,024 bytes"
)]
fn name(text: &str) -> StoreKey {
    StoreKey::new(text).expect("a name of bounded parts is within 1 to 1,024 bytes")
}

#[expect(
    clippy::expect_used,
    reason = "a name of bounded parts is within 1,024 bytes"
)]
fn prefix(text: &str) -> KeyPrefix {
    KeyPrefix::new(text).expect("a name of bounded parts is within 1,024 bytes")
}

/// The digest of some bytes.
pub(crate) fn sha256(bytes: &[u8]) -> Sha256 {
    let mut out = [0; 32];
    let digest = digest::digest(&digest::SHA256, bytes);
    for (to, from) in out.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    Sha256::new(out)
}

/// The descriptor of one node.
pub fn mesh_node(mesh: &MeshName, rid: &NodeRid) -> StoreKey {
    name(&format!(
        "mesh-node\0{mesh}\0{}",
        hex::encode(rid.as_bytes())
    ))
}

/// The descriptors of all nodes of a mesh (ST-80).
pub fn mesh_nodes(mesh: &MeshName) -> KeyPrefix {
    prefix(&format!("mesh-node\0{mesh}\0"))
}

/// The descriptors of all nodes of all meshes.
pub fn all_mesh_nodes() -> KeyPrefix {
    prefix("mesh-node\0")
}

/// The lease of one owner.
pub fn owner_lease(owner: &OwnerId) -> StoreKey {
    name(&format!("owner-lease\0{owner}"))
}

/// The row that says who owns an object. Its stored name has the raw id; the text form of WR-60 stands elsewhere.
pub fn authority(object: &AuthorityKey) -> StoreKey {
    match object {
        AuthorityKey::Actor(id) => name(&format!("authority\0actor\0{id}")),
        AuthorityKey::Spot(id) => name(&format!("authority\0spot\0{id}")),
    }
}

/// The rows of all Actors (ST-82).
pub fn all_actors() -> KeyPrefix {
    prefix("authority\0actor\0")
}

/// The rows of all Spots (ST-82).
pub fn all_spots() -> KeyPrefix {
    prefix("authority\0spot\0")
}

/// The object that an authority row belongs to; `None` for any other name.
pub fn object_of(key: &StoreKey) -> Option<AuthorityKey> {
    let rest = key.as_str().strip_prefix("authority\0")?;
    if let Some(id) = rest.strip_prefix("actor\0") {
        return id.parse().ok().map(AuthorityKey::Actor);
    }
    id_of_spot(rest)
}

fn id_of_spot(rest: &str) -> Option<AuthorityKey> {
    let id = rest.strip_prefix("spot\0")?;
    id.parse().ok().map(AuthorityKey::Spot)
}

/// The terminal result of one creation (RL-87).
pub fn creation_terminal(
    source: &NodeRid,
    generation: NodeGeneration,
    operation: OperationId,
) -> StoreKey {
    let rid = hex::encode(source.as_bytes());
    name(&format!(
        "creation-terminal\0{rid}\0{generation}\0{operation}"
    ))
}

/// The record of one aggregate change (ST-83).
pub fn aggregate(relocation: RelocationId) -> StoreKey {
    name(&format!("aggregate\0{relocation}"))
}

/// One page of a member list, named by the digest of its bytes (ST-84).
pub fn aggregate_page(hash: &Sha256) -> StoreKey {
    name(&format!("aggregate-page\0{}", hex::encode(hash.as_bytes())))
}

/// The row of a counter.
pub(crate) fn counter(text: &'static str) -> StoreKey {
    name(text)
}
