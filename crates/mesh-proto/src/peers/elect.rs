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
    /// An admitted standby that is used again, because the link that was kept has ended.
    pub resumed: Option<LinkId>,
}

/// What becomes of a link on which a peer was admitted (TR-74, TR-76).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-74 and TR-76")]
pub enum Verdict {
    /// It is the admitted link now.
    Keep {
        /// Links of the same run that lose: not used, while they last.
        standby: Vec<LinkId>,
        /// Links that are over: those of an earlier run, and older pairs of the same intent.
        outlived: Vec<LinkId>,
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
    /// The run of the peer that was admitted on it.
    run: Option<NodeGeneration>,
    used: Used,
}

/// Whether a pair is the admitted link of its peer; one at most is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Yes,
    No,
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
            used: Used::No,
        });
        Ok(self.elected(peer, before, None))
    }

    /// Room for one more pair of a peer: when it has as many as it may have, the oldest on which nobody was admitted gives way
    /// and is to be closed. So pairs that never say who they are keep nobody out. Call it before [`Self::on_ready`].
    pub fn make_room(&mut self, peer: &NodeRid) -> Option<LinkId> {
        let pairs = self.peers.get_mut(peer)?;
        if pairs.len() < PAIRS_PER_PEER_MAX {
            return None;
        }
        let oldest = pairs.iter().position(|pair| pair.run.is_none())?;
        Some(pairs.remove(oldest).link)
    }

    /// Forgets a link that has ended. The newest standby takes over (TR-33).
    ///
    /// The two nodes may have kept different links of one run, since each judges by what it saw first.
    /// The dialler then closes what its peer has kept, and the peer resumes the other one here.
    pub fn on_ended(&mut self, peer: &NodeRid, link: LinkId) -> Election {
        let before = self.current(peer);
        let winner = winning_side(&self.own, peer);
        let mut resumed = None;
        if let Some(pairs) = self.peers.get_mut(peer) {
            let kept = pairs.iter().find(|pair| pair.link == link);
            let kept = kept.filter(|pair| pair.used == Used::Yes);
            let run = kept.and_then(|pair| pair.run);
            pairs.retain(|pair| pair.link != link);
            // The last one of the greatest: the winner's side first, then the newest.
            let standby = pairs
                .iter_mut()
                .filter(|pair| run.is_some() && pair.run == run);
            if let Some(standby) = standby.max_by_key(|pair| pair.side == winner) {
                standby.used = Used::Yes;
                resumed = Some(standby.link);
            }
            if pairs.is_empty() {
                self.peers.remove(peer);
            }
        }
        self.elected(peer, before, resumed)
    }

    fn elected(&self, peer: &NodeRid, before: Option<LinkId>, resumed: Option<LinkId>) -> Election {
        let current = self.current(peer);
        Election {
            current,
            before: before.filter(|before| Some(*before) != current),
            resumed,
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
        let kept = pairs.iter().find(|pair| pair.used == Used::Yes)?;
        Some((kept.link, kept.run?))
    }

    /// Decides about a link on which the run `run` of `peer` passed admission.
    ///
    /// TR-74 keeps, of one run, the link that the smaller id dialled, and of one direction the one that
    /// is admitted already. A redial of the same intent is the exception: its dialler has lost the
    /// older pair, whether we have noticed or not, so the newer one is kept.
    pub fn on_admitted(&mut self, peer: &NodeRid, link: LinkId, run: NodeGeneration) -> Verdict {
        let winner = winning_side(&self.own, peer);
        let (mut standby, mut outlived) = (Vec::new(), Vec::new());
        let pairs = self
            .peers
            .get_mut(peer)
            .map_or(&mut [][..], |pairs| &mut pairs[..]);
        let Some(new) = pairs.iter_mut().find(|pair| pair.link == link) else {
            return Verdict::Keep { standby, outlived };
        };
        new.run = Some(run);
        let (side, intent) = (new.side, new.intent);
        let redialled = |pair: &Pair| pair.side == side && pair.intent == intent;
        let keeper = pairs.iter().find(|pair| {
            let kept = pair.link != link && pair.used == Used::Yes && pair.run == Some(run);
            kept && !redialled(pair) && (pair.side == side || pair.side == winner)
        });
        if let Some(keeper) = keeper {
            return Verdict::Lose {
                keeper: keeper.link,
            };
        }
        for pair in pairs {
            if pair.link == link {
                pair.used = Used::Yes;
            } else if redialled(pair) || pair.run.is_some_and(|old| old != run) {
                pair.run = None;
                pair.used = Used::No;
                outlived.push(pair.link);
            } else if pair.used == Used::Yes {
                pair.used = Used::No;
                standby.push(pair.link);
            }
        }
        Verdict::Keep { standby, outlived }
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
                standby: vec![],
                outlived: vec![ONE]
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
        assert!(matches!(kept, Verdict::Keep { outlived, .. } if outlived == [ONE]));
        assert_eq!(peers.admitted(&peer), Some((TWO, run(2))));
    }

    /// TR-74: the nodes saw two links of one direction in different orders and kept different ones.
    #[test]
    fn what_the_dialler_closes_hands_over_to_what_it_keeps() {
        let (mut acceptor, peer) = (Peers::new(rid("b")), rid("a"));
        for link in [ONE, TWO] {
            acceptor
                .on_ready(&peer, link, Side::Acceptor, intent(link.get()))
                .unwrap();
            acceptor.on_admitted(&peer, link, run(1));
        }
        assert_eq!(acceptor.admitted(&peer), Some((ONE, run(1))));
        // The dialler has kept link 2 and closes link 1.
        assert_eq!(acceptor.on_ended(&peer, ONE).resumed, Some(TWO));
        assert_eq!(acceptor.admitted(&peer), Some((TWO, run(1))));
        assert_eq!(acceptor.on_ended(&peer, TWO).resumed, None);
        assert_eq!(acceptor.admitted(&peer), None);
    }

    /// TR-33, TR-76: a link of an earlier run is never used again.
    #[test]
    fn a_link_of_an_earlier_run_is_not_resumed() {
        let (mut peers, peer) = (Peers::new(rid("b")), rid("a"));
        for link in [ONE, TWO] {
            peers
                .on_ready(&peer, link, Side::Acceptor, intent(link.get()))
                .unwrap();
            peers.on_admitted(&peer, link, run(link.get()));
        }
        assert_eq!(peers.on_ended(&peer, TWO).resumed, None);
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

    /// TR-33: the oldest that was not admitted gives way, and no other.
    #[test]
    fn a_pair_that_says_nothing_gives_way() {
        let (mut peers, peer) = (Peers::new(rid("b")), rid("a"));
        assert_eq!(peers.make_room(&peer), None);
        for link in (1..=8).map(LinkId::new) {
            assert_eq!(peers.make_room(&peer), None);
            let opened = peers.on_ready(&peer, link, Side::Acceptor, intent(link.get()));
            assert!(opened.is_ok());
        }
        peers.on_admitted(&peer, ONE, run(1));
        assert_eq!(peers.make_room(&peer), Some(TWO));
        assert_eq!(peers.make_room(&peer), None);
        assert_eq!(peers.admitted(&peer), Some((ONE, run(1))));
        let nine = LinkId::new(9);
        peers
            .on_ready(&peer, nine, Side::Acceptor, intent(9))
            .unwrap();
        for link in (3..=9).map(LinkId::new) {
            peers.on_admitted(&peer, link, run(1));
        }
        assert_eq!(peers.make_room(&peer), None, "all of them were admitted");
    }
}
