//! Numbers that are neither id nor generation: sequences, counts, sizes, weights.

use crate::bound::{
    CREATION_INTENT_BYTES, GENERATION_MAX, MESSAGE_FOLLOW_HOP_COUNT, OBJECT_TYPE_CAPACITY_MAX,
    RELOCATION_CHUNK_BYTES, RELOCATION_CHUNK_COUNT, RELOCATION_LOGICAL_BYTES, WEIGHT_MAX,
};
use crate::number::number_type;

number_type! {
    /// A positive number without a narrower meaning. Contract: `nonzero-u64`.
    Positive: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// A number that may be zero, without a narrower meaning. Contract: `ordinal-or-zero`.
    Ordinal: u64, 0, GENERATION_MAX, PartialOrd, Ord;
    /// A positive number of 32 bits without a narrower meaning. Contract: `nonzero-u32`.
    PositiveU32: u32, 1, u32::MAX, PartialOrd, Ord;

    /// Ties a reply to its request on one connection.
    Correlation: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// Names the route back to the caller of a request, unique for the run of its source (RL-260).
    ReplyRouteId: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// Names one liveness probe.
    ProbeId: u64, 1, GENERATION_MAX, PartialOrd, Ord;

    /// The number of a participant of a unit, from 1 in the order of the authority keys (WR-41).
    ParticipantId: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// The place of a saved record or timer tick in the order of its participant, from 1 (WR-42).
    WorkOrder: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// The place of a message in the order of its client session.
    SessionSequence: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// The place of a record in the inbox of an Instance Spot that is being activated.
    InboxSequence: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// The place of a reply among those that a target relays for one participant.
    RelaySequence: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// How far the inbox of an activated Instance Spot has been replayed; 0 is not at all.
    ReplayCursor: u64, 0, GENERATION_MAX, PartialOrd, Ord;
    /// How many records were sent as relay before the boundary (WR-50).
    BoundaryRecordCount: u64, 0, GENERATION_MAX, PartialOrd, Ord;

    /// Counts the ticks of a timer that were delivered, from 1.
    DeliveryIndex: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// Counts the ticks of a timer that were due, from 1.
    ScheduledIndex: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// How many due ticks a delivered tick stands for besides itself.
    SkippedTicks: u64, 0, GENERATION_MAX, PartialOrd, Ord;
    /// How many late ticks a timer delivers one after another at most.
    MaxCatchUpTicks: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// The period of a timer in milliseconds.
    PeriodMillis: u64, 1, GENERATION_MAX, PartialOrd, Ord;

    /// How often a message was forwarded; at most 8.
    HopCount: u8, 0, MESSAGE_FOLLOW_HOP_COUNT, PartialOrd, Ord;
    /// A share of the placement, 0 to 100 on the wire; 0 alone means excluded (WR-64).
    Weight: u32, 0, WEIGHT_MAX, PartialOrd, Ord;
    /// How many objects of a type or node may be active.
    CapacityLimit: u32, 1, OBJECT_TYPE_CAPACITY_MAX, PartialOrd, Ord;
    /// How many objects of a type or node may be in creation.
    PendingCapacityLimit: u32, 0, OBJECT_TYPE_CAPACITY_MAX, PartialOrd, Ord;
    /// How many more objects of a type a node takes.
    AvailableCapacity: u64, 0, GENERATION_MAX, PartialOrd, Ord;
    /// How much pending capacity a reservation takes.
    PendingCapacityDelta: u32, 1, u32::MAX, PartialOrd, Ord;
    /// The largest message that a peer accepts, in bytes.
    MaxMessageBytes: u32, 1, u32::MAX, PartialOrd, Ord;

    /// The version of an application's stored state; compared, never interpreted.
    ApplicationVersion: i64, 0, i64::MAX, PartialOrd, Ord;
    /// The encoded bytes of a creation request.
    CreationRequestSize: u32, 0, CREATION_INTENT_BYTES, PartialOrd, Ord;
    /// The bytes of a whole relocation stream, at most 2^38.
    RelocationLogicalLength: u64, 0, RELOCATION_LOGICAL_BYTES, PartialOrd, Ord;
    /// The number of chunks of a relocation stream.
    RelocationChunkCount: u32, 0, RELOCATION_CHUNK_COUNT, PartialOrd, Ord;
    /// The bytes of one stored chunk of a relocation.
    ChunkLength: u64, 1, GENERATION_MAX, PartialOrd, Ord;
    /// The largest relocation chunk that a target takes, in bytes; at most 64 MiB (WR-57).
    ReceiveChunkLimit: u32, 1, RELOCATION_CHUNK_BYTES, PartialOrd, Ord;
}

impl Weight {
    /// The wire value of a weight setting of 0 to 10,000: divided by 100 and rounded up (WR-64).
    ///
    /// # Errors
    /// The setting is above 10,000.
    ///
    /// ```
    /// use spotlane_types::count::Weight;
    /// assert_eq!(Weight::from_setting(1)?.get(), 1);
    /// assert_eq!(Weight::from_setting(0)?.get(), 0);
    /// # Ok::<(), spotlane_types::ValueError>(())
    /// ```
    pub const fn from_setting(setting: u32) -> Result<Self, crate::ValueError> {
        Self::new(setting.div_ceil(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WR-64
    #[test]
    fn only_a_weight_of_zero_means_excluded() {
        assert_eq!(Weight::from_setting(0).unwrap().get(), 0);
        assert_eq!(Weight::from_setting(1).unwrap().get(), 1);
        assert_eq!(Weight::from_setting(100).unwrap().get(), 1);
        assert_eq!(Weight::from_setting(101).unwrap().get(), 2);
        assert_eq!(Weight::from_setting(10_000).unwrap().get(), 100);
        assert!(Weight::from_setting(10_001).is_err());
    }
}
