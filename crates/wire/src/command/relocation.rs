//! The move of an object: commands 30, 31, 34, 40, 52 and 53 (WR-50 to WR-57).

use spotlane_types::count::{
    ApplicationVersion, BoundaryRecordCount, RelocationChunkCount, RelocationLogicalLength,
};
use spotlane_types::generation::{NodeGeneration, TargetAttemptGeneration};
use spotlane_types::id::{NodeRid, RelocationId};
use spotlane_types::kind::{FailureCode, RelocationRole};

use super::wire_command;
use crate::blob::DurableBlob;
use crate::error::Breach;
use crate::frozen::FrozenRecord;
use crate::reference::{RelocationCoordinatorFence, RelocationTargetFence};
use crate::relocation::RelocationObject;

/// WR-56: a failure always says why.
fn failed_rule(failed: &RelocationFailed) -> Result<(), Breach> {
    if failed.failure_code == FailureCode::None {
        return Err(Breach::new(
            "failureCode",
            "an explicit failure has a code other than none",
        ));
    }
    Ok(())
}

wire_command! {
    /// Asks the target to prepare; also the manifest of the stream that follows.
    40 "relocationPrepare" command RelocationPrepare frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its attempt.
        target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who is to prepare.
        target: RelocationTargetFence = "target",
        /// Who asks; only the source may (WR-51).
        initiator_role: RelocationRole = "initiatorRole",
        /// The object that moves.
        object: RelocationObject = "object",
        /// The node that owns it.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// The run of that node.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// The bytes of the whole stream.
        payload_total_length: RelocationLogicalLength = "payloadTotalLength",
        /// The chunks of the stream.
        payload_chunk_count: RelocationChunkCount = "payloadChunkCount",
        /// CRC-32C of the whole stream (WR-50).
        payload_checksum_crc32c: u32 = "payloadChecksumCrc32c",
        /// The version of the application's state.
        application_version: ApplicationVersion = "applicationVersion",
    }

    /// One chunk of the stream, on the same ordered connection.
    52 "relocationState" command RelocationState frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its attempt.
        target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who speaks; only the source may (WR-51).
        sender_role: RelocationRole = "senderRole",
        /// The object that moves.
        object: RelocationObject = "object",
        /// The place of the chunk, from 0.
        chunk_ordinal: u32 = "chunkOrdinal",
        /// Its bytes.
        chunk_data: DurableBlob = "chunkData",
    }

    /// The target has restored the object; dispatch is closed and the source is still owner.
    30 "relocationReady" command RelocationReady frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its attempt.
        target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who has prepared.
        target: RelocationTargetFence = "target",
        /// The object that moves.
        object: RelocationObject = "object",
        /// Who speaks; only the target may (WR-51).
        sender_role: RelocationRole = "senderRole",
    }

    /// The target has failed and cleaned up (WR-56).
    53 "relocationFailed" command RelocationFailed frames [] rule failed_rule {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its attempt.
        target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who has failed.
        target: RelocationTargetFence = "target",
        /// The object that was to move.
        object: RelocationObject = "object",
        /// Who speaks; only the target may (WR-51).
        sender_role: RelocationRole = "senderRole",
        /// Why.
        failure_code: FailureCode = "failureCode",
    }

    /// One record that was accepted after capture.
    31 "relocationData" command RelocationData frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its attempt.
        target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who speaks; only the source may (WR-51).
        sender_role: RelocationRole = "senderRole",
        /// The object that moves.
        object: RelocationObject = "object",
        /// The record.
        record: Box<FrozenRecord> = "record",
    }

    /// Closes the relay batch: the boundary.
    34 "relocationCutover" command RelocationCutover frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its attempt.
        target_attempt_generation: TargetAttemptGeneration = "targetAttemptGeneration",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who speaks; only the source may (WR-51).
        sender_role: RelocationRole = "senderRole",
        /// The object that moves.
        object: RelocationObject = "object",
        /// The records that were relayed.
        boundary_record_count: BoundaryRecordCount = "boundaryRecordCount",
        /// CRC-32C of their encoded forms one after another (WR-50).
        boundary_checksum_crc32c: u32 = "boundaryChecksumCrc32c",
    }
}
