//! Route notices: telling a sender of an old route once (RL-160 to RL-163).
//!
//! A notice is best effort; losing one prolongs the detour to the end of the sender's cache entry. So
//! that a hop does not send one per message, a marker per retained route says whether one is on its way
//! or out. Markers have no timer of their own: they end with their route.

use std::collections::BTreeMap;

use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::ReplyRouteId;
use spotlane_types::id::OperationId;
use spotlane_wire::Record;
use spotlane_wire::command::follow::{FollowNotice, FollowRoute, MessageFollow, NoticeHopCount};

use crate::follow::{Hop, object_of};

/// Entitles to send one notice. A claim that is no longer the current one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Claim {
    source: FollowRoute,
    target: FollowRoute,
    number: u64,
}

/// Whether a notice may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-162")]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Begin {
    /// Send one, and say with the claim how that went.
    Granted(Claim),
    /// One is on its way, or was sent.
    Suppressed,
}

/// What a claim did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-162")]
pub enum Settled {
    /// It was the current one.
    Applied,
    /// It was not.
    IgnoredStaleClaim,
}

/// The state of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-162")]
pub enum MarkerState {
    /// The next message may cause a notice.
    Idle,
    /// A notice is being sent.
    InFlight,
    /// A notice was sent; no other one until the route ends.
    SentUntilExpiry,
}

/// The markers of a node: one per pair of tenures.
#[derive(Debug, Default)]
pub struct NoticeRegistry {
    markers: BTreeMap<AuthorityKey, Vec<Marker>>,
    next_claim: u64,
}

#[derive(Debug)]
struct Marker {
    source: FollowRoute,
    target: FollowRoute,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    InFlight { claim: u64 },
    Sent,
}

impl NoticeRegistry {
    /// Asks whether a message along this route may cause a notice.
    pub fn begin(&mut self, source: &FollowRoute, target: &FollowRoute) -> Begin {
        if self.find(source, target).is_some() {
            return Begin::Suppressed;
        }
        let number = self.next_claim;
        self.next_claim = self.next_claim.saturating_add(1);
        let markers = self.markers.entry(object_of(source)).or_default();
        markers.push(Marker {
            source: source.clone(),
            target: target.clone(),
            progress: Progress::InFlight { claim: number },
        });
        Begin::Granted(Claim {
            source: source.clone(),
            target: target.clone(),
            number,
        })
    }

    /// The transport took the notice.
    pub fn mark_sent(&mut self, claim: &Claim) -> Settled {
        match self.claimed(claim) {
            Some(marker) => {
                marker.progress = Progress::Sent;
                Settled::Applied
            }
            None => Settled::IgnoredStaleClaim,
        }
    }

    /// The notice was not sent: the next message may cause one again.
    pub fn abort(&mut self, claim: &Claim) -> Settled {
        if self.claimed(claim).is_none() {
            return Settled::IgnoredStaleClaim;
        }
        self.expire_route(&claim.source, &claim.target);
        Settled::Applied
    }

    /// A route is kept; it begins without a marker.
    pub fn retain_route(&mut self, source: &FollowRoute, target: &FollowRoute) {
        self.expire_route(source, target);
    }

    /// A route has ended, and its marker with it.
    pub fn expire_route(&mut self, source: &FollowRoute, target: &FollowRoute) {
        let object = object_of(source);
        if let Some(markers) = self.markers.get_mut(&object) {
            markers.retain(|marker| marker.source != *source || marker.target != *target);
            if markers.is_empty() {
                self.markers.remove(&object);
            }
        }
    }

    /// The state of a marker.
    pub fn state(&self, source: &FollowRoute, target: &FollowRoute) -> MarkerState {
        match self.find(source, target).map(|marker| marker.progress) {
            None => MarkerState::Idle,
            Some(Progress::InFlight { .. }) => MarkerState::InFlight,
            Some(Progress::Sent) => MarkerState::SentUntilExpiry,
        }
    }

    fn find(&self, source: &FollowRoute, target: &FollowRoute) -> Option<&Marker> {
        let markers = self.markers.get(&object_of(source))?;
        markers
            .iter()
            .find(|marker| marker.source == *source && marker.target == *target)
    }

    fn claimed(&mut self, claim: &Claim) -> Option<&mut Marker> {
        let markers = self.markers.get_mut(&object_of(&claim.source))?;
        markers.iter_mut().find(|marker| {
            let same = marker.source == claim.source && marker.target == claim.target;
            match marker.progress {
                Progress::InFlight { claim: number } => same && number == claim.number,
                Progress::Sent => false,
            }
        })
    }
}

/// How much waits at the hop; for diagnostics of the sender only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two numbers of RL-160")]
pub struct Queued {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Command 50 about a hop that was taken; `None` for a message that was not forwarded (RL-160).
pub fn notice(
    hop: &Hop,
    queued: Queued,
    operation: OperationId,
    reply_route: Option<ReplyRouteId>,
) -> Option<Record> {
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let route = FollowNotice {
        source: hop.source.clone(),
        target: hop.target.clone(),
        hop_count: NoticeHopCount::new(hop.hops).ok()?,
        queued_messages: narrow(queued.messages),
        queued_bytes: narrow(queued.bytes),
        original_operation: operation,
        original_reply_route_id: reply_route.map_or(0, ReplyRouteId::get),
    };
    Some(MessageFollow { route }.into())
}

/// What a received notice means for a cached route (RL-161).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-161")]
pub enum NoticeJudgment {
    /// The entry is of exactly the tenure that ended: remove it.
    Remove,
    /// There is no entry, or it is of another tenure: change nothing.
    Keep,
    /// The two routes name different objects: a protocol error of the sender.
    Violation,
}

/// Compares a notice with the cached route of its object. It never touches a newer entry.
pub fn judge(notice: &FollowNotice, cached: Option<&FollowRoute>) -> NoticeJudgment {
    if object_of(&notice.source) != object_of(&notice.target) {
        return NoticeJudgment::Violation;
    }
    match cached {
        Some(entry) if *entry == notice.source => NoticeJudgment::Remove,
        Some(_) | None => NoticeJudgment::Keep,
    }
}

#[cfg(test)]
mod tests;
