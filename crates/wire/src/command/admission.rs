//! Admission of a node to its peers: commands 1 to 4.

use spotlane_types::kind::RejectReason;

use super::wire_command;
use crate::descriptor::ServiceAdmission;

wire_command! {
    /// Asks to be admitted.
    1 "hello" command Hello frames [] {
        /// Who asks.
        admission: ServiceAdmission = "admission",
    }

    /// Admits a peer.
    2 "admit" command Admit frames [] {
        /// Who admits.
        admission: ServiceAdmission = "admission",
    }

    /// Refuses a peer.
    3 "reject" command Reject frames [] {
        /// Why.
        reason: RejectReason = "reason",
    }

    /// Tells an admitted peer what has changed.
    4 "update" command Update frames [] {
        /// The new description.
        admission: ServiceAdmission = "admission",
    }
}
