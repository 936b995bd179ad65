//! How an Actor type moves: exactly one policy per registration (RL-110 to RL-121).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use spotlane_types::kind::RelocationPolicyKind;

use crate::error::Error;
use crate::handlers::BoxFuture;

/// Writes the state of an Actor down and reads it back on another node (RL-114).
///
/// The bytes are the application's: format, version and migration. Both calls may be repeated with the same Actor and
/// must be safe to repeat (RL-118). Timers move by themselves and must not be registered again (RL-117).
pub trait Adapter<A>: Send + Sync + 'static {
    /// The state of an Actor that has ended its last turn here.
    ///
    /// # Errors
    /// The move fails and the Actor goes on here (RL-119).
    fn capture(&self, actor: &mut A) -> impl Future<Output = Result<Bytes, Error>> + Send;

    /// Puts the state into a fresh Actor, which no handler has seen yet.
    ///
    /// # Errors
    /// Tried once more with another fresh Actor; then the move fails and the Actor goes on where it was (RL-119).
    fn restore(
        &self,
        actor: &mut A,
        state: Bytes,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The relocation policy of an Actor type (RL-309). There is no default: moving state is a decision.
pub struct Policy<A>(pub(crate) Moving<A>);

pub(crate) enum Moving<A> {
    Disabled,
    Recreate,
    Preserve(Arc<dyn ErasedAdapter<A>>),
}

impl<A: Send + 'static> Policy<A> {
    /// The Actors never move (RL-110). A node that has one cannot be drained.
    pub const fn disable() -> Self {
        Self(Moving::Disabled)
    }

    /// The Actors move without their state: the factory makes a new one, accepted work and timers move (RL-111).
    pub const fn recreate() -> Self {
        Self(Moving::Recreate)
    }

    /// The Actors move with the state that the adapter writes down (RL-112).
    pub fn preserve(adapter: impl Adapter<A>) -> Self {
        Self(Moving::Preserve(Arc::new(adapter)))
    }

    pub(crate) const fn kind(&self) -> RelocationPolicyKind {
        match self.0 {
            Moving::Disabled => RelocationPolicyKind::Disabled,
            Moving::Recreate => RelocationPolicyKind::Recreate,
            Moving::Preserve(_) => RelocationPolicyKind::Snapshot,
        }
    }
}

impl<A> fmt::Debug for Policy<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Moving::Disabled => "Policy::disable",
            Moving::Recreate => "Policy::recreate",
            Moving::Preserve(_) => "Policy::preserve",
        })
    }
}

/// [`Adapter`] without its type.
pub(crate) trait ErasedAdapter<A>: Send + Sync {
    fn capture<'a>(&'a self, actor: &'a mut A) -> BoxFuture<'a, Result<Bytes, Error>>;
    fn restore<'a>(&'a self, actor: &'a mut A, state: Bytes) -> BoxFuture<'a, Result<(), Error>>;
}

impl<A: Send, T: Adapter<A>> ErasedAdapter<A> for T {
    fn capture<'a>(&'a self, actor: &'a mut A) -> BoxFuture<'a, Result<Bytes, Error>> {
        Box::pin(Adapter::capture(self, actor))
    }

    fn restore<'a>(&'a self, actor: &'a mut A, state: Bytes) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(Adapter::restore(self, actor, state))
    }
}
