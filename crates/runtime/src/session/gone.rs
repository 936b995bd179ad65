//! Session owners that have ended without a word: their clients' connections are gone with them (SB-91), and nobody sends a
//! notice for the bindings that they leave behind.
//!
//! A host has ended when its lease has, which the directory shows (ST-80). An Actor whose session owner has ended is told as
//! by a notice (RL-47), and its binding ends: it would be asked for a seal otherwise whenever the Actor moves, and no move
//! would get an answer (RL-358).

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use spotlane_session::Peer;

use crate::core::Core;

/// What the last look at the directory said of session owners.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// A leaf lock.
    seen: Mutex<Seen>,
    /// A binding came from elsewhere than its session owner, which may have ended by then.
    unsure: AtomicBool,
}

/// As many as there are nodes.
#[derive(Debug, Default)]
struct Seen {
    listed: HashSet<Peer>,
    /// Who has sessions that are bound here and was not in the list.
    missing: HashSet<Peer>,
}

impl Watch {
    /// The next look asks about every binding.
    pub(super) fn look_again(&self) {
        self.unsure.store(true, Ordering::Release);
    }
}

/// Ends the bindings of session owners that are gone; called behind each complete look at the directory, one at a time.
///
/// Two looks in a row have to miss a run: the first list may have been read before its node came.
pub(crate) fn end_those_of_the_gone(core: &Arc<Core>) {
    let watch = &core.sessions.watch;
    let nodes = core.directory.nodes();
    let listed: HashSet<Peer> = nodes
        .iter()
        .map(|node| {
            let descriptor = &node.descriptor().row.descriptor;
            Peer {
                node_rid: descriptor.routing_id.clone(),
                node_generation: descriptor.lifecycle_generation,
            }
        })
        .collect();
    let unsure = watch.unsure.swap(false, Ordering::AcqRel);
    let mut seen = watch.seen.lock().unwrap_or_else(PoisonError::into_inner);
    if !unsure && seen.missing.is_empty() && seen.listed == listed {
        return;
    }
    let before = std::mem::take(&mut seen.missing);
    seen.listed.clone_from(&listed);
    drop(seen);
    let here = Peer {
        node_rid: core.identity.rid.clone(),
        node_generation: core.identity.generation,
    };
    let mut missing = HashSet::new();
    for live in core.slots.all_live() {
        let Some(owner) = live.unit.session.owner() else {
            continue;
        };
        if owner == here || listed.contains(&owner) {
            continue;
        }
        if before.contains(&owner) {
            live.unit.session.owner_gone(core, owner.clone());
        }
        missing.insert(owner);
    }
    let mut seen = watch.seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.missing = missing;
}
