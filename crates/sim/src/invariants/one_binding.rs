//! At most one binding of an Actor is current: a newer one retires the one before for good (SB-2, SB-33, SB-50).

use super::{Invariant, View};
use crate::observation::{ActorIndex, BindingNumber, Observation, SessionSight};

/// See the module.
#[derive(Debug)]
pub(super) struct OneBinding;

impl OneBinding {
    fn is_replaced(view: &View<'_>, binding: BindingNumber) -> bool {
        let facts = view.oracle.book().binding(binding);
        facts.is_some_and(|facts| facts.replaced)
    }

    /// Where nothing goes wrong, the session that holds an Actor is the one that its owner knows.
    fn agree(view: &View<'_>, actor: ActorIndex) -> Result<(), String> {
        let hosts = view.hosts.iter();
        let holders: Vec<_> = hosts.flat_map(|host| host.holders(actor)).collect();
        let current = view.oracle.book().current(actor);
        let others = holders
            .iter()
            .filter(|(_, binding)| Some(*binding) != current);
        match others.count() {
            0 => Ok(()),
            _ => Err(format!(
                "{actor:?} is bound by {current:?}, and in the hands of {holders:?}"
            )),
        }
    }
}

impl Invariant for OneBinding {
    fn name(&self) -> &'static str {
        "one-binding"
    }

    fn observe(&mut self, seen: &Observation, view: &View<'_>) -> Result<(), String> {
        match seen {
            Observation::Session(SessionSight::Registered { actor, binding, .. })
                if Self::is_replaced(view, *binding) =>
            {
                Err(format!("{binding:?} of {actor:?} was replaced and is back"))
            }
            Observation::Session(SessionSight::Carried { actor, binding, .. })
                if Self::is_replaced(view, *binding) =>
            {
                Err(format!(
                    "{actor:?} moved with {binding:?}, which was replaced"
                ))
            }
            Observation::Session(SessionSight::Admitted {
                message,
                actor,
                at,
                binding,
            }) => {
                let current = view.oracle.book().current(*actor);
                if current == Some(*binding) {
                    return Ok(());
                }
                Err(format!(
                    "{at:?} took {message:?} for {actor:?} from {binding:?}, but {current:?} is bound"
                ))
            }
            _ => Ok(()),
        }
    }

    fn at_end(&mut self, view: &View<'_>) -> Result<(), String> {
        if !view.plan.climate.is_gentle() {
            return Ok(());
        }
        let mut actors = view.plan.actor_indices();
        actors.try_for_each(|actor| Self::agree(view, actor))
    }
}
