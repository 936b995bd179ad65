//! What is worth reporting: a closed list (RL-320 to RL-324, WR-51, RL-353).
//!
//! Machines do not log. Whoever runs them writes these down, without ids or payloads (RL-331).

/// How loud a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two levels of the contract")]
pub enum Level {
    /// A fallback of the contract was taken.
    Warning,
    /// A promise broke.
    Error,
}

/// One report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL section 14")]
pub enum Diagnostic {
    /// The wait was over without cutover or retransmission (RL-320); counts the fallback (RL-335).
    CutoverTimeout,
    /// A cutover after the fallback, or one more (RL-321).
    LateCutover,
    /// The move ended without this node as owner (RL-323).
    LocationUpdateFailed,
    /// A cutover does not fit what came before it: a defect (RL-324).
    CutoverBoundaryMismatch,
    /// A second command 40 of one move has other contents after the ready reply (RL-353).
    ConflictingPrepare,
    /// A command names a sender that may not send it (WR-51).
    WrongRole,
    /// A bound unit stood still for more than half the time its sessions wait (OP-8).
    SealHalfUsed,
    /// A callback of the clean-up failed; clean-up goes on (RL-329).
    OnClosingFailed,
    /// A record of ours cannot be encoded and was not relayed: a defect.
    RecordNotEncodable,
}

impl Diagnostic {
    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CutoverTimeout => "cutover_timeout",
            Self::LateCutover => "late_cutover",
            Self::LocationUpdateFailed => "location_update_failed",
            Self::CutoverBoundaryMismatch => "cutover_boundary_mismatch",
            Self::ConflictingPrepare => "conflicting_prepare",
            Self::WrongRole => "wrong_role",
            Self::SealHalfUsed => "seal_half_used",
            Self::OnClosingFailed => "onClosingFailed",
            Self::RecordNotEncodable => "record_not_encodable",
        }
    }

    /// How loud it is.
    pub const fn level(self) -> Level {
        match self {
            Self::LocationUpdateFailed
            | Self::CutoverBoundaryMismatch
            | Self::ConflictingPrepare
            | Self::WrongRole
            | Self::RecordNotEncodable => Level::Error,
            Self::CutoverTimeout
            | Self::LateCutover
            | Self::SealHalfUsed
            | Self::OnClosingFailed => Level::Warning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RL-320, RL-321, RL-323, RL-324
    #[test]
    fn names_and_levels_are_the_contracts() {
        let all = [
            Diagnostic::CutoverTimeout,
            Diagnostic::LateCutover,
            Diagnostic::LocationUpdateFailed,
            Diagnostic::CutoverBoundaryMismatch,
        ];
        let lines = all.map(|one| format!("{} {:?}", one.name(), one.level()));
        insta::assert_snapshot!(lines.join("\n"), @r"
        cutover_timeout Warning
        late_cutover Warning
        location_update_failed Error
        cutover_boundary_mismatch Error
        ");
    }
}
