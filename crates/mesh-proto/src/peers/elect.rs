//! Which link of a peer is the current one (TR-33, TR-34), and which one is admitted (TR-74).

use std::collections::BTreeMap;

use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::NodeRid;
use thiserror::Error;

use crate::admission::Side;
use crate::bound::PAIRS_PER_PEER_MAX;
use crate::zmp::PairId;

/// Names one link for its driver; never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

impl LinkId {
    /// Takes a number that no other link of the node ever had.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// TR-34: which side's dialling wins: the one with the smaller id. Bytes are compared unsigned over
/// the common prefix, then the shorter id is smaller.
pub fn winning_side(own: &NodeRid, peer: &NodeRid) -> Side {
    if own.as_bytes() < peer.as_bytes() {
        Side::Dialler
    } else {
        Side::Acceptor
    }
}

/// Which link of a peer carries what we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by TR-33")]
pub struct Election {
    /// The link that is used from now on; `None` when none is left.
    pub current: Option<LinkId>,
    /// The link that was used until now, when it is another one.
    pub before: Option<LinkId>,
}

/// What becomes of a link on which a peer was admitted (TR-74, TR-76).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-74 and TR-76")]
pub enum Verdict {
    /// It is the admitted link now. These others are not used any more.
    Keep {
        /// Links of the same run that lose, and all links of an earlier run.
        superseded: Vec<LinkId>,
    },
    /// Another link of the same run is kept; this one is not used.
    Lose {
        /// The link that is kept.
        keeper: LinkId,
    },
}

/// There are too many pairs of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a peer has {PAIRS_PER_PEER_MAX} pairs already")]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct PeersFull;

/// The links of a node, by peer.
#[derive(Debug)]
pub struct Peers {
    own: NodeRid,
    peers: BTreeMap<NodeRid, Vec<Pair>>,
}

/// Pairs of a peer stand in the order in which they became ready.
#[derive(Debug)]
struct Pair {
    link: LinkId,
    side: Side,
    intent: PairId,
    /// The run of the peer that was admitted on it, while it is the admitted link.
    run: Option<NodeGeneration>,
}

impl Peers {
    /// No peer has a link.
    pub const fn new(own: NodeRid) -> Self {
        Self {
            own,
            peers: BTreeMap::new(),
        }
    }

    /// Takes a link whose pair is ready.
    ///
    /// # Errors
    /// The peer has too many pairs; close the link.
    pub fn on_ready(
        &mut self,
        peer: &NodeRid,
        link: LinkId,
        side: Side,
        intent: PairId,
    ) -> Result<Election, PeersFull> {
        let before = self.current(peer);
        let pairs = self.peers.entry(peer.clone()).or_default();
        if pairs.len() >= PAIRS_PER_PEER_MAX {
            return Err(PeersFull);
        }
        pairs.push(Pair {
            link,
            side,
            intent,
            run: None,
        });
        Ok(self.elected(peer, before))
    }

    /// Forgets a link that has ended. The newest standby takes over (TR-33).
    pub fn on_ended(&mut self, peer: &NodeRid, link: LinkId) -> Election {
        let before = self.current(peer);
        if let Some(pairs) = self.peers.get_mut(peer) {
            pairs.retain(|pair| pair.link != link);
            if pairs.is_empty() {
                self.peers.remove(peer);
            }
        }
        self.elected(peer, before)
    }

    fn elected(&self, peer: &NodeRid, before: Option<LinkId>) -> Election {
        let current = self.current(peer);
        Election {
            current,
            before: before.filter(|before| Some(*before) != current),
        }
    }

    /// The link that messages to `peer` go to (TR-31); `None` is "not connected" at once (TR-37).
    pub fn current(&self, peer: &NodeRid) -> Option<LinkId> {
        let pairs = self.peers.get(peer)?;
        let winner = winning_side(&self.own, peer);
        let newest = |side| pairs.iter().rev().find(|pair| pair.side == side);
        let pair = newest(winner).or_else(|| pairs.last())?;
        Some(pair.link)
    }

    /// The link on which `peer` is admitted, and its run.
    pub fn admitted(&self, peer: &NodeRid) -> Option<(LinkId, NodeGeneration)> {
        let pairs = self.peers.get(peer)?;
        pairs.iter().find_map(|pair| Some((pair.link, pair.run?)))
    }

    /// Decides about a link on which the run `run` of `peer` passed admission.
    ///
    /// TR-74 keeps, of one run, the link that the smaller id dialled, and of one direction the one that
    /// is admitted already. A redial of the same intent is the exception: its dialler has lost the
    /// older pair, whether we have noticed or not, so the newer one is kept.
    pub fn on_admitted(&mut self, peer: &NodeRid, link: LinkId, run: NodeGeneration) -> Verdict {
        let winner = winning_side(&self.own, peer);
        let Some(pairs) = self.peers.get_mut(peer) else {
            return Verdict::Keep { superseded: vec![] };
        };
        let new = pairs.iter().find(|pair| pair.link == link);
        let Some((side, intent)) = new.map(|pair| (pair.side, pair.intent)) else {
            return Verdict::Keep { superseded: vec![] };
        };
        let keeper = pairs.iter().find(|pair| {
            let same_run = pair.link != link && pair.run == Some(run);
            let same_intent = pair.side == side && pair.intent == intent;
            let wins = pair.side == side || pair.side == winner;
            same_run && !same_intent && wins
        });
        if let Some(keeper) = keeper {
            return Verdict::Lose {
                keeper: keeper.link,
            };
        }
        let mut superseded = Vec::new();
        for pair in pairs {
            if pair.link == link {
                pair.run = Some(run);
            } else if pair.run.take().is_some() {
                superseded.push(pair.link);
            }
        }
        Verdict::Keep { superseded }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use super::*;
    use crate::sample::rid;

    const ONE: LinkId = LinkId::new(1);
    const TWO: LinkId = LinkId::new(2);
    const THREE: LinkId = LinkId::new(3);

    fn intent(number: u64) -> PairId {
        PairId::new(NonZeroU64::new(number).unwrap())
    }

    fn run(number: u64) -> NodeGeneration {
        NodeGeneration::new(number).unwrap()
    }

    /// TR-34, TR-36
    #[test]
    fn the_smaller_id_dials_and_a_prefix_is_smaller() {
        for (smaller, larger) in [("a", "b"), ("a", "aa"), ("Z", "a"), ("z", "\u{e9}")] {
            assert_eq!(winning_side(&rid(smaller), &rid(larger)), Side::Dialler);
            assert_eq!(winning_side(&rid(larger), &rid(smaller)), Side::Acceptor);
        }
    }

    /// TR-34: whichever pair comes first, both nodes choose the same one.
    #[test]
    fn both_sides_of_a_simultaneous_dial_agree() {
        for order in [[ONE, TWO], [TWO, ONE]] {
            // Link 1 is dialled by a, link 2 by b.
            for (own, peer, side_of_one) in [("a", "b", Side::Dialler), ("b", "a", Side::Acceptor)]
            {
                let mut peers = Peers::new(rid(own));
                for link in order {
                    let ours = (link == ONE) == (side_of_one == Side::Dialler);
                    let side = if ours { Side::Dialler } else { Side::Acceptor };
                    peers
                        .on_ready(&rid(peer), link, side, intent(link.get()))
                        .unwrap();
                }
                assert_eq!(peers.current(&rid(peer)), Some(ONE), "{own}, {order:?}");
                peers.on_admitted(&rid(peer), order[0], run(1));
                peers.on_admitted(&rid(peer), order[1], run(1));
                assert_eq!(peers.admitted(&rid(peer)), Some((ONE, run(1))));
            }
        }
    }

    /// TR-31, TR-33, TR-37
    #[test]
    fn a_newer_pair_of_one_direction_takes_over_and_hands_back() {
        let mut peers = Peers::new(rid("b"));
        let peer = rid("a");
        assert_eq!(peers.current(&peer), None);
        for link in [ONE, TWO] {
            let elected = peers.on_ready(&peer, link, Side::Acceptor, intent(link.get()));
            assert_eq!(elected.unwrap().current, Some(link));
        }
        let elected = peers.on_ended(&peer, TWO);
        assert_eq!((elected.current, elected.before), (Some(ONE), Some(TWO)));
        assert_eq!(peers.on_ended(&peer, ONE).current, None);
        assert!(peers.peers.is_empty());
    }

    /// TR-74
    #[test]
    fn of_one_run_and_direction_the_admitted_link_is_kept() {
        let (mut peers, peer) = (Peers::new(rid("b")), rid("a"));
        for link in [ONE, TWO] {
            peers
                .on_ready(&peer, link, Side::Acceptor, intent(link.get()))
                .unwrap();
        }
        peers.on_admitted(&peer, ONE, run(1));
        let lost = peers.on_admitted(&peer, TWO, run(1));
        assert_eq!(lost, Verdict::Lose { keeper: ONE });
        // The same intent again: a redial after a loss that we have not noticed.
        peers
            .on_ready(&peer, THREE, Side::Acceptor, intent(1))
            .unwrap();
        let kept = peers.on_admitted(&peer, THREE, run(1));
        assert_eq!(
            kept,
            Verdict::Keep {
                superseded: vec![ONE]
            }
        );
    }

    /// TR-76
    #[test]
    fn another_run_supersedes_the_links_of_the_old_one() {
        let (mut peers, peer) = (Peers::new(rid("b")), rid("a"));
        peers
            .on_ready(&peer, ONE, Side::Acceptor, intent(1))
            .unwrap();
        peers.on_admitted(&peer, ONE, run(1));
        peers
            .on_ready(&peer, TWO, Side::Acceptor, intent(2))
            .unwrap();
        let kept = peers.on_admitted(&peer, TWO, run(2));
        assert!(matches!(kept, Verdict::Keep { superseded } if superseded == [ONE]));
        assert_eq!(peers.admitted(&peer), Some((TWO, run(2))));
    }

    /// TR-33
    #[test]
    fn a_peer_that_opens_pair_after_pair_is_stopped() {
        let (mut peers, peer) = (Peers::new(rid("b")), rid("a"));
        let mut open = |link| peers.on_ready(&peer, LinkId::new(link), Side::Acceptor, intent(1));
        for link in 0..8 {
            open(link).unwrap();
        }
        assert_eq!(open(8), Err(PeersFull));
    }
}
