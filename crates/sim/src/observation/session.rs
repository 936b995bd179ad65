//! What can be seen of client sessions and their bindings.

use std::fmt;

use spotlane_session::{CloseCause, Diagnostic};
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::RelocationId;

use super::{ActorIndex, MessageId};
use crate::network::HostIndex;

/// A client of a world by its place, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct ClientIndex(pub usize);

/// One connection of a client, by the order in which they were made, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct SessionIndex(pub u64);

/// Names one push of a world, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct PushId(pub u64);

/// Names a binding (SB-10): the session owner, of which there is one run in a world, and its count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingNumber(u64);

/// Where the owner is in a [`BindingNumber`].
const OWNER_BITS: u32 = 48;

impl BindingNumber {
    /// The binding with this count at a session owner.
    pub fn new(owner: HostIndex, count: u64) -> Self {
        let owner = u64::try_from(owner.0).unwrap_or(0);
        Self((owner << OWNER_BITS) | count)
    }

    /// As one number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What [`Self::get`] gave.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The count.
    pub const fn count(self) -> u64 {
        self.0 & ((1 << OWNER_BITS) - 1)
    }

    /// The session owner.
    pub fn owner(self) -> HostIndex {
        HostIndex(usize::try_from(self.0 >> OWNER_BITS).unwrap_or(0))
    }
}

impl fmt::Debug for BindingNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binding({}:{})", self.owner().0, self.count())
    }
}

/// Why a client's connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the ends of a connection")]
pub enum Ending {
    /// The client went.
    Client,
    /// The process that held it died.
    Crash,
    /// It was replaced, and the 100 ms after its callback are over (SB-54).
    Replaced,
    /// It was replaced, and its callback did not end in time (SB-55).
    CallbackTimeout,
    /// A seal found no route update in time (SB-88).
    SealTimeout,
    /// An Actor asked for it (SB-39).
    Actor,
    /// The session's own handler asked for it.
    Handler,
}

impl From<CloseCause> for Ending {
    fn from(cause: CloseCause) -> Self {
        match cause {
            CloseCause::Replaced => Self::Replaced,
            CloseCause::ReplacedCallbackTimeout => Self::CallbackTimeout,
            CloseCause::SealTimeout => Self::SealTimeout,
            CloseCause::ActorClosed => Self::Actor,
            CloseCause::HandlerClosed => Self::Handler,
        }
    }
}

/// Which way a command 44 decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-81 and SB-82")]
pub enum Verdict {
    /// To the target, by the target.
    Commit,
    /// To the source, by the source.
    Abort,
}

/// One thing that was seen of sessions and bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "every reader decides about every kind"
)]
#[expect(missing_docs, reason = "the fields are named by their types")]
pub enum SessionSight {
    /// A client has connected.
    Opened {
        session: SessionIndex,
        client: ClientIndex,
        at: HostIndex,
    },
    /// A session asks an Actor's owner for a binding.
    BindAsked {
        session: SessionIndex,
        actor: ActorIndex,
        binding: BindingNumber,
    },
    /// A binding is in force at its session (SB-23).
    Bound {
        session: SessionIndex,
        actor: ActorIndex,
        binding: BindingNumber,
        tenure: AuthorityOwnerGeneration,
    },
    /// A bind has failed.
    BindFailed {
        session: SessionIndex,
        actor: ActorIndex,
    },
    /// The route of a binding is another one (SES-4).
    Rerouted {
        session: SessionIndex,
        actor: ActorIndex,
        tenure: AuthorityOwnerGeneration,
    },
    /// A binding is not in force at its session any more.
    Unbound {
        session: SessionIndex,
        actor: ActorIndex,
        binding: BindingNumber,
    },
    /// A binding is in force at the Actor's owner (SB-22).
    Registered {
        actor: ActorIndex,
        at: HostIndex,
        binding: BindingNumber,
    },
    /// A binding is not in force at the Actor's owner any more.
    Retired {
        actor: ActorIndex,
        at: HostIndex,
        binding: BindingNumber,
    },
    /// A binding has come with its Actor (RL-357).
    Carried {
        relocation: RelocationId,
        actor: ActorIndex,
        at: HostIndex,
        binding: BindingNumber,
    },
    /// The Actor's owner took a relayed message (SB-33).
    Admitted {
        message: MessageId,
        actor: ActorIndex,
        at: HostIndex,
        binding: BindingNumber,
    },
    /// The session holds a message (SES-3).
    Held {
        session: SessionIndex,
        actor: ActorIndex,
        message: MessageId,
    },
    /// The session sends a message on to the Actor.
    Relayed {
        session: SessionIndex,
        actor: ActorIndex,
        message: MessageId,
    },
    /// The session gives a message up.
    NotRelayed {
        session: SessionIndex,
        message: MessageId,
    },
    /// The caller of a held message has given it up (SB-86).
    Withdrawn {
        session: SessionIndex,
        message: MessageId,
    },
    /// An Actor pushes to its session.
    Pushed {
        push: PushId,
        actor: ActorIndex,
        at: HostIndex,
        binding: BindingNumber,
        tenure: AuthorityOwnerGeneration,
    },
    /// A push has reached a client.
    Delivered { session: SessionIndex, push: PushId },
    /// A source has asked a session to hold (command 42).
    SealSent {
        relocation: RelocationId,
        binding: BindingNumber,
    },
    /// A session has answered that it holds (command 43).
    Sealed {
        session: SessionIndex,
        actor: ActorIndex,
        relocation: RelocationId,
    },
    /// A route update ends the hold of a session (SES-4, SES-5).
    Unsealed {
        session: SessionIndex,
        actor: ActorIndex,
        relocation: RelocationId,
    },
    /// A route update has left (command 44).
    RouteSent {
        relocation: RelocationId,
        binding: BindingNumber,
        verdict: Verdict,
    },
    /// A session has been replaced, and its callback begins (SB-53).
    ReplacedBegins { session: SessionIndex },
    /// That callback has ended.
    ReplacedEnded { session: SessionIndex },
    /// A connection is gone.
    Closed {
        session: SessionIndex,
        ending: Ending,
    },
    /// Every notice of a session is settled (SB-60).
    Over { session: SessionIndex },
    /// A session reported something.
    Reported {
        session: SessionIndex,
        actor: ActorIndex,
        what: Diagnostic,
    },
}
