//! Liveness of a peer: commands 5 and 6.

use spotlane_types::count::ProbeId;

use super::wire_command;

wire_command! {
    /// Asks a peer for a sign of life.
    5 "livenessProbe" command LivenessProbe frames [] {
        /// What the answer repeats.
        probe_id: ProbeId = "probeId",
    }

    /// Answers a probe.
    6 "livenessAck" command LivenessAck frames [] {
        /// The probe that is answered.
        probe_id: ProbeId = "probeId",
    }
}
