//! The names of observable steps, as the behavior vectors of the public contract have them.
//!
//! [`Trace`] turns what both machines do into these names. Steps that happen elsewhere (handlers, session
//! owners, replies) are added by whoever sees them, with [`Trace::push`].

use spotlane_wire::Record;

use crate::source::{CleanUpOutcome, Closing, SourceEffect, SourceEvent, SourceStage};
use crate::target::{LifecycleStep, TargetEffect, TargetStage};

macro_rules! vocabulary {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)+) => {
        /// One observable step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(clippy::exhaustive_enums, reason = "closed by the behavior vectors")]
        pub enum BehaviorEvent {
            $($(#[$doc])* $variant,)+
        }

        impl BehaviorEvent {
            /// All steps, in the order of the vectors.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in the vectors.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

vocabulary! {
    /// A move was accepted.
    RelocationRequested = "relocationRequested";
    /// S0: the source starts no turn any more.
    SourceAdmissionSealed = "sourceAdmissionSealed";
    /// The payload is fixed in the memory of the source.
    SourceStateCaptured = "sourceStateCaptured";
    /// The target holds what arrives.
    TargetTemporaryQueueOpened = "targetTemporaryQueueOpened";
    /// The target is ready for the relay.
    TargetStateRestored = "targetStateRestored";
    /// The store names the target.
    OwnershipCommitted = "ownershipCommitted";
    /// The callbacks before the opening are done.
    TargetLifecycleCompleted = "targetLifecycleCompleted";
    /// The former owner is told that the Actor has left.
    SourceMembershipLeaveSubmitted = "sourceMembershipLeaveSubmitted";
    /// The Join has its completion.
    PublicJoinCompleted = "publicJoinCompleted";
    /// Saved work may take live permits.
    SavedWorkAdmitted = "savedWorkAdmitted";
    /// So may what arrived since.
    TemporaryWorkAdmitted = "temporaryWorkAdmitted";
    /// Dispatch is open.
    TargetDispatchActivated = "targetDispatchActivated";
    /// The target is Ready to others.
    TargetReadyPublished = "targetReadyPublished";
    /// The source disposes of its instance.
    SourceCleanupStarted = "sourceCleanupStarted";
    /// `OnClosing(RelocationOut)` has returned.
    SourceClosingCompleted = "sourceClosingCompleted";
    /// The instance is gone.
    SourceCleanupCompleted = "sourceCleanupCompleted";
    /// The row shows `completed`.
    AuthorityCompleted = "authorityCompleted";
    /// The session owner has switched.
    SessionRouteConverged = "sessionRouteConverged";
    /// The route update has ended.
    SessionRouteTerminalDelivered = "sessionRouteTerminalDelivered";
    /// Application operation submitted.
    ApplicationOperationSubmitted = "applicationOperationSubmitted";
    /// Application operation delivered.
    ApplicationOperationDelivered = "applicationOperationDelivered";
    /// Application operation replied.
    ApplicationOperationReplied = "applicationOperationReplied";
    /// Application operation settled.
    ApplicationOperationSettled = "applicationOperationSettled";
    /// Message follow relay delivered.
    MessageFollowRelayDelivered = "messageFollowRelayDelivered";
    /// Message follow reply completed.
    MessageFollowReplyCompleted = "messageFollowReplyCompleted";
    /// Relay notice observed.
    RelayNoticeObserved = "relayNoticeObserved";
    /// Next application operation submitted.
    NextApplicationOperationSubmitted = "nextApplicationOperationSubmitted";
    /// Next application operation delivered.
    NextApplicationOperationDelivered = "nextApplicationOperationDelivered";
    /// Following application operation submitted.
    FollowingApplicationOperationSubmitted = "followingApplicationOperationSubmitted";
    /// Following application operation delivered.
    FollowingApplicationOperationDelivered = "followingApplicationOperationDelivered";
    /// The follow route is over.
    MessageFollowExpired = "messageFollowExpired";
    /// First relocation stable.
    FirstRelocationStable = "firstRelocationStable";
    /// Followed request replied.
    FollowedRequestReplied = "followedRequestReplied";
    /// Return operation submitted.
    ReturnOperationSubmitted = "returnOperationSubmitted";
    /// Return operation delivered at current owner.
    ReturnOperationDeliveredAtCurrentOwner = "returnOperationDeliveredAtCurrentOwner";
    /// Successor relocation requested.
    SuccessorRelocationRequested = "successorRelocationRequested";
    /// Successor relocation admitted.
    SuccessorRelocationAdmitted = "successorRelocationAdmitted";
    /// Second relocation stable.
    SecondRelocationStable = "secondRelocationStable";
    /// Round trip session notification delivered.
    RoundTripSessionNotificationDelivered = "roundTripSessionNotificationDelivered";
    /// Late predecessor notice observed.
    LatePredecessorNoticeObserved = "latePredecessorNoticeObserved";
    /// Post round trip request replied.
    PostRoundTripRequestReplied = "postRoundTripRequestReplied";
    /// The operation has its result.
    RelocationTerminalDelivered = "relocationTerminalDelivered";
}

/// What was observed of one move, in order.
///
/// The results of the operation, the phase `completed` and everything at a session owner are not the
/// machines' business, so they are not derived here.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    seen: Vec<BehaviorEvent>,
    closing: bool,
    join: bool,
    lifecycle: bool,
}

impl Trace {
    /// Nothing has been observed.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was observed, in order.
    pub fn seen(&self) -> &[BehaviorEvent] {
        &self.seen
    }

    /// Adds a step that was seen elsewhere.
    pub fn push(&mut self, event: BehaviorEvent) {
        self.seen.push(event);
    }

    /// An event that the driver is about to give to the source.
    pub fn source_event(&mut self, event: &SourceEvent) {
        if let SourceEvent::CleanedUp(CleanUpOutcome::Done | CleanUpOutcome::CallbackFailed) = event
        {
            if self.closing {
                self.push(BehaviorEvent::SourceClosingCompleted);
            }
            self.push(BehaviorEvent::SourceCleanupCompleted);
        }
    }

    /// An effect of the source.
    pub fn source(&mut self, effect: &SourceEffect) {
        if let SourceEffect::Entered(stage) = effect {
            match stage {
                SourceStage::Waiting => self.push(BehaviorEvent::RelocationRequested),
                SourceStage::SourcePaused => self.push(BehaviorEvent::SourceAdmissionSealed),
                SourceStage::TargetRestoring => self.push(BehaviorEvent::SourceStateCaptured),
                SourceStage::SourceRunning
                | SourceStage::RelayReady
                | SourceStage::CutoverSubmitted
                | SourceStage::AwaitCommit
                | SourceStage::Reconciling
                | SourceStage::Unavailable
                | SourceStage::FollowOnly
                | SourceStage::Ended => {}
            }
        }
        if let SourceEffect::CleanUp(closing) = effect {
            self.closing = *closing == Closing::RelocationOut;
            self.push(BehaviorEvent::SourceCleanupStarted);
        }
        if let SourceEffect::RemoveFollow = effect {
            self.push(BehaviorEvent::MessageFollowExpired);
        }
    }

    /// An effect of the target.
    pub fn target<M>(&mut self, effect: &TargetEffect<M>) {
        if let TargetEffect::RegisterQueue = effect {
            self.push(BehaviorEvent::TargetTemporaryQueueOpened);
        }
        if let TargetEffect::Entered(stage) = effect {
            match stage {
                TargetStage::RelayReady => self.push(BehaviorEvent::TargetStateRestored),
                TargetStage::OwnerCommitted => self.push(BehaviorEvent::OwnershipCommitted),
                TargetStage::Absent
                | TargetStage::Prewarmed
                | TargetStage::TargetRestoring
                | TargetStage::CutoverReceived
                | TargetStage::CutoverFallback
                | TargetStage::StoreRetry
                | TargetStage::TargetOpen
                | TargetStage::TargetRemoved => {}
            }
        }
        if let TargetEffect::RunLifecycle(LifecycleStep::Joined(_)) = effect {
            self.join = true;
        }
        if let TargetEffect::SendToNode { record, .. } = effect
            && let Record::ActorLeft(_) = &**record
        {
            self.lifecycle_done();
            self.push(BehaviorEvent::SourceMembershipLeaveSubmitted);
        }
        if let TargetEffect::Open(_) = effect {
            self.opened();
        }
        if let TargetEffect::RecordActivated = effect {
            self.push(BehaviorEvent::TargetReadyPublished);
        }
    }

    fn lifecycle_done(&mut self) {
        if !self.lifecycle {
            self.lifecycle = true;
            self.push(BehaviorEvent::TargetLifecycleCompleted);
        }
    }

    /// RL-74: merged before, admitted only now.
    fn opened(&mut self) {
        self.lifecycle_done();
        if self.join {
            self.push(BehaviorEvent::PublicJoinCompleted);
        }
        self.push(BehaviorEvent::SavedWorkAdmitted);
        self.push(BehaviorEvent::TemporaryWorkAdmitted);
        self.push(BehaviorEvent::TargetDispatchActivated);
    }
}
