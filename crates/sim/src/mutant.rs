//! Known defects that can be switched on, to see that an invariant reports each of them.
//!
//! A checker that never failed is not trusted. Every mutant is one place in the driver of a simulated host; the
//! machines stay as they are.

use std::fmt;
use std::str::FromStr;

macro_rules! mutants {
    ($($(#[$meta:meta])* $name:ident = $text:literal caught by $invariant:literal;)+) => {
        /// A known defect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Mutant {
            $($(#[$meta])* $name,)+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The invariant that has to report it.
            pub const fn invariant(self) -> &'static str {
                match self {
                    $(Self::$name => $invariant,)+
                }
            }
        }
    };
}

mutants! {
    /// The target serves as soon as it has answered that it is ready.
    OpenBeforeCommit = "open-before-commit" caught by "no-handler-before-commit";
    /// The target takes an unanswered commit for a success.
    UnknownIsSuccess = "unknown-is-success" caught by "no-handler-before-commit";
    /// The source serves again when the connection is lost after the boundary.
    ReopenAfterBoundary = "reopen-after-boundary" caught by "no-return";
    /// The source goes on serving while its payload is on the way.
    ServeWhileSealed = "serve-while-sealed" caught by "exactly-once";
    /// Saved work is also put into the hold.
    RelaySavedWork = "relay-saved-work" caught by "exactly-once";
    /// The first record of the hold is forgotten.
    LoseHeld = "lose-held" caught by "exactly-once";
    /// The hold is relayed backwards.
    ReverseHold = "reverse-hold" caught by "sender-order";
    /// A forwarded message is sent on and also kept in the queue.
    ForwardTwice = "forward-twice" caught by "exactly-once";
    /// A message at the old address is dropped silently.
    DropAtOldAddress = "drop-at-old-address" caught by "exactly-once";
    /// The relay goes before the saved work at the target.
    MergeBackwards = "merge-backwards" caught by "sender-order";
    /// The state is not restored.
    ForgetState = "forget-state" caught by "state-lineage";
    /// The timer begins anew at the target.
    ForgetTimer = "forget-timer" caught by "exactly-once";
    /// The payload copy of the source is given up twice.
    ReleaseTwice = "release-twice" caught by "payload-released-once";
    /// The payload copy of the source is never given up.
    NeverRelease = "never-release" caught by "payload-released-once";
    /// A request is answered by the source as well.
    AnswerTwice = "answer-twice" caught by "one-terminal";
    /// A request that ends with its unit is not answered.
    AnswerNever = "answer-never" caught by "one-terminal";
    /// The follow route is never removed.
    KeepFollow = "keep-follow" caught by "nothing-resident";
    /// Every forwarded message makes a notice.
    NoticeEachTime = "notice-each-time" caught by "one-notice";
    /// The assembly of a removed target is never given up.
    KeepTarget = "keep-target" caught by "nothing-resident";
    /// Chunks do not wait for the budget.
    IgnoreBudget = "ignore-budget" caught by "budget";
    /// The driver never tells the source that its safe point has come.
    NoSafePoint = "no-safe-point" caught by "moves-settle";
    /// An Actor's owner takes what a retired session relays.
    RetiredRelay = "retired-relay" caught by "one-binding";
    /// Nobody tells a session that another one has its Actor.
    NeverReplaced = "never-replaced" caught by "one-binding";
    /// A replacement that comes before the answer to the bind that it retires is lost.
    LoseEarly = "lose-early" caught by "one-binding";
    /// A session delivers every push that names one of its bindings.
    DeliverStalePush = "deliver-stale-push" caught by "push-to-current";
    /// A route update is carried out twice.
    RouteTwice = "route-twice" caught by "held-once";
    /// What was held is sent on although the connection is closed.
    HeldAfterClose = "held-after-close" caught by "held-once";
    /// What was held is sent on backwards.
    HeldBackwards = "held-backwards" caught by "held-once";
    /// A session answers that it holds before it does.
    SealedTooEarly = "sealed-too-early" caught by "seal-holds";
    /// A source does not give a seal back when its move fails.
    KeepSeal = "keep-seal" caught by "seals-end";
    /// The disconnect callback runs twice.
    DisconnectTwice = "disconnect-twice" caught by "one-disconnect";
    /// A disconnect notice is not sent, and counts as settled.
    LoseNotice = "lose-notice" caught by "one-disconnect";
    /// A relayed message goes before everything in the queue.
    RelayOvertakes = "relay-overtakes" caught by "client-order";
    /// A replaced session is closed as soon as its callback has ended.
    CloseAtOnce = "close-at-once" caught by "replaced-closes";
    /// The request behind a relay that fails is not ended.
    ForgetFailedRelay = "forget-failed-relay" caught by "one-terminal";
    /// A closed session is never over.
    KeepSession = "keep-session" caught by "nothing-resident";
    /// Handlers start although the lease of the host has ended.
    IgnoreLease = "ignore-lease" caught by "no-handler-before-commit";
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no mutant has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMutant(String);

impl fmt::Display for UnknownMutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no mutant is called {}; --mutants lists them", self.0)
    }
}

impl std::error::Error for UnknownMutant {}

impl FromStr for Mutant {
    type Err = UnknownMutant;

    fn from_str(text: &str) -> Result<Self, UnknownMutant> {
        let found = Self::ALL.iter().find(|mutant| mutant.name() == text);
        found.copied().ok_or_else(|| UnknownMutant(text.to_owned()))
    }
}
