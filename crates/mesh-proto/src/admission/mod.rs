//! How a peer becomes a peer: hello, admit, reject, update.
//!
//! | stage | hello | admit | reject | update | deadline |
//! |---|---|---|---|---|---|
//! | waiting | → admitted, answered | → admitted | dialler ended | violation | hello again, or ended |
//! | admitted | compared, answered | compared | dialler ended | compared | none |
//! | ended | ignored | ignored | ignored | ignored | none |
//!
//! A descriptor that does not pass is answered with a reject in both stages. The dialler then ends;
//! the acceptor waits for another hello and ends by its deadline (TR-79).

mod judge;
#[cfg(test)]
mod tests;

use spotlane_types::id::NodeRid;
use spotlane_types::kind::RejectReason;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::admission::{Admit, Hello, Reject, Update};
use spotlane_wire::descriptor::{RouteMeshAdmission, ServiceAdmission};
use thiserror::Error;

pub use judge::{Change, Expected, NOT_REQUIRED, Offer, Offered, Terms, is_connection_needed};

use crate::bound::{HELLO_REPEAT, UNADMITTED_TIMEOUT};
use crate::machine::Machine;

/// Which side opened the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two ends")]
pub enum Side {
    /// We did.
    Dialler,
    /// The peer did.
    Acceptor,
}

/// What can happen to an admission.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "commands 1 to 4, and what the host may want"
)]
pub enum AdmissionEvent {
    /// The pair is ready.
    PairReady,
    /// The peer asks for our hello with an empty message (TR-29).
    Asked,
    /// The peer said hello.
    Hello(Offered),
    /// The peer admits us.
    Admit(Offered),
    /// The peer refuses us.
    Reject(RejectReason),
    /// The peer has changed.
    Update(Offered),
    /// Our own descriptor has changed (TR-77).
    Describe(Box<RouteMeshAdmission>),
    /// A hello came on another link that is not used: answer it here (TR-74).
    AnswerHello,
}

/// What an admission asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the link handles each of them")]
pub enum AdmissionEffect {
    /// Send this on the Application lane.
    Send(Box<Record>),
    /// The peer is admitted with this descriptor.
    Admitted(Box<RouteMeshAdmission>),
    /// The descriptor of the admitted peer is now this one.
    Updated(Box<RouteMeshAdmission>),
    /// The run that was admitted is over; all that is tied to it ends now, before a new one is
    /// admitted (TR-76).
    RunEnded,
    /// The peer refuses our descriptor, which does not end the link here.
    RefusedByPeer(RejectReason),
    /// The input changed nothing.
    Ignored(AdmissionIgnored),
    /// The link has to end.
    End(AdmissionEnd),
}

/// Input that changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionIgnored {
    /// The descriptor that is admitted already.
    Repeated,
    /// A revision that is not higher, with other bytes: a violation, not answered (TR-75).
    StaleRevision,
    /// An update of a peer that is not admitted: a violation.
    UpdateBeforeAdmission,
    /// We said hello moments ago, so we do not say it again (TR-29).
    AskedAgain,
    /// Nothing to answer or to tell before the peer is admitted.
    NotAdmitted,
    /// Anything after the end.
    AfterEnd,
}

/// Why an admission ends its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdmissionEnd {
    /// The peer refused us.
    #[error("the peer refused us: {}", .0.name())]
    RefusedByPeer(RejectReason),
    /// We refused the peer that we dialled.
    #[error("we refused the peer: {}", .0.name())]
    RefusedPeer(RejectReason),
    /// Neither side needs the link (TR-73).
    #[error("the link is not required")]
    NotRequired,
    /// Nobody was admitted in time (TR-79).
    #[error("the peer was not admitted in time")]
    NotAdmitted,
}

/// The admission of one link.
#[derive(Debug)]
pub struct Admission {
    side: Side,
    peer: NodeRid,
    terms: Terms,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Waiting(Waiting),
    Admitted(Box<Offer>),
    Ended,
}

#[derive(Debug)]
struct Waiting {
    give_up: Monotonic,
    /// When the dialler repeats its hello; the acceptor sends one only when asked, and not sooner.
    hello: Option<Monotonic>,
}

type Effects = Vec<AdmissionEffect>;

impl Admission {
    /// Waits for the peer, whose id is the one of its connections.
    pub fn new(side: Side, peer: NodeRid, terms: Terms, now: Monotonic) -> Self {
        let waiting = Waiting {
            give_up: now.after(UNADMITTED_TIMEOUT),
            hello: None,
        };
        Self {
            side,
            peer,
            terms,
            stage: Stage::Waiting(waiting),
        }
    }

    /// The descriptor of the peer, once it is admitted.
    pub fn admitted(&self) -> Option<&RouteMeshAdmission> {
        match &self.stage {
            Stage::Admitted(offer) => Some(&offer.descriptor),
            Stage::Waiting(_) | Stage::Ended => None,
        }
    }

    fn own(&self) -> ServiceAdmission {
        ServiceAdmission::RouteMesh {
            route_mesh: self.terms.own.clone(),
        }
    }

    fn hello(&self, out: &mut Effects) {
        let admission = self.own();
        send(Hello { admission }, out);
    }

    fn admit(&self, out: &mut Effects) {
        let admission = self.own();
        send(Admit { admission }, out);
    }

    /// TR-70: a hello or admit, which admit their sender alike; a hello has exactly one answer.
    fn offer(&mut self, offered: Offered, answered: Answered, out: &mut Effects) {
        let offer = match self.judged(offered) {
            Ok(offer) => offer,
            Err(reason) => return self.reject(reason, out),
        };
        let change = match &self.stage {
            Stage::Waiting(_) => None,
            Stage::Admitted(admitted) => Some(offer.change_from(admitted)),
            Stage::Ended => return ignored(AdmissionIgnored::AfterEnd, out),
        };
        match change {
            None => {
                out.push(AdmissionEffect::Admitted(offer.descriptor.clone().into()));
                self.stage = Stage::Admitted(offer);
            }
            Some(Change::NewRun) => {
                out.push(AdmissionEffect::RunEnded);
                out.push(AdmissionEffect::Admitted(offer.descriptor.clone().into()));
                self.stage = Stage::Admitted(offer);
            }
            Some(Change::Allowed) => self.update(offer, out),
            Some(Change::Repeated) => ignored(AdmissionIgnored::Repeated, out),
            Some(Change::Stale) => return ignored(AdmissionIgnored::StaleRevision, out),
            Some(Change::Fixed) => return self.reject(RejectReason::InvalidDescriptor, out),
        }
        if answered == Answered::Yes {
            self.admit(out);
        }
    }

    fn judged(&self, offered: Offered) -> Result<Box<Offer>, RejectReason> {
        match offered {
            Offered::Node(offer) => {
                self.terms.judge(&self.peer, &offer.descriptor)?;
                Ok(offer)
            }
            Offered::OtherTopology => Err(RejectReason::TopologyMismatch),
            Offered::Malformed => Err(RejectReason::InvalidDescriptor),
        }
    }

    fn update(&mut self, offer: Box<Offer>, out: &mut Effects) {
        out.push(AdmissionEffect::Updated(offer.descriptor.clone().into()));
        self.stage = Stage::Admitted(offer);
    }

    /// TR-75: what an update may do to an admitted peer.
    fn updated(&mut self, offered: Offered, out: &mut Effects) {
        let offer = match offered {
            Offered::Node(offer) => offer,
            Offered::OtherTopology | Offered::Malformed => {
                return self.reject(RejectReason::InvalidDescriptor, out);
            }
        };
        let change = match &self.stage {
            Stage::Waiting(_) => return ignored(AdmissionIgnored::UpdateBeforeAdmission, out),
            Stage::Admitted(admitted) => offer.change_from(admitted),
            Stage::Ended => return ignored(AdmissionIgnored::AfterEnd, out),
        };
        match change {
            Change::Repeated => ignored(AdmissionIgnored::Repeated, out),
            Change::Stale => ignored(AdmissionIgnored::StaleRevision, out),
            Change::Allowed => self.update(offer, out),
            // The generation is a fixed field too: a new run has to say hello.
            Change::Fixed | Change::NewRun => self.reject(RejectReason::InvalidDescriptor, out),
        }
    }

    /// TR-79: a reject does not close by itself; the dialler closes, the acceptor waits.
    fn reject(&mut self, reason: RejectReason, out: &mut Effects) {
        send(Reject { reason }, out);
        match (self.side, &self.stage) {
            (Side::Dialler, Stage::Waiting(_)) => {
                let end = if reason == NOT_REQUIRED {
                    AdmissionEnd::NotRequired
                } else {
                    AdmissionEnd::RefusedPeer(reason)
                };
                self.end(end, out);
            }
            // An admitted peer stays what it was.
            (Side::Dialler, Stage::Admitted(_) | Stage::Ended) | (Side::Acceptor, _) => {}
        }
    }

    fn rejected(&mut self, reason: RejectReason, out: &mut Effects) {
        match self.side {
            Side::Dialler if reason == NOT_REQUIRED => self.end(AdmissionEnd::NotRequired, out),
            Side::Dialler => self.end(AdmissionEnd::RefusedByPeer(reason), out),
            Side::Acceptor => out.push(AdmissionEffect::RefusedByPeer(reason)),
        }
    }

    fn end(&mut self, end: AdmissionEnd, out: &mut Effects) {
        self.stage = Stage::Ended;
        out.push(AdmissionEffect::End(end));
    }

    /// TR-29: says hello on demand, but not more often than a dialler does.
    fn asked(&mut self, now: Monotonic, out: &mut Effects) {
        match &mut self.stage {
            Stage::Waiting(waiting) => {
                if waiting.hello.is_some_and(|next| next > now) {
                    return ignored(AdmissionIgnored::AskedAgain, out);
                }
                waiting.hello = Some(now.after(HELLO_REPEAT));
                self.hello(out);
            }
            Stage::Admitted(_) => ignored(AdmissionIgnored::AskedAgain, out),
            Stage::Ended => ignored(AdmissionIgnored::AfterEnd, out),
        }
    }
}

/// Whether a descriptor came in a record that has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Yes,
    No,
}

fn send(record: impl Into<Record>, out: &mut Effects) {
    out.push(AdmissionEffect::Send(Box::new(record.into())));
}

fn ignored(what: AdmissionIgnored, out: &mut Effects) {
    out.push(AdmissionEffect::Ignored(what));
}

impl Machine for Admission {
    type Event = AdmissionEvent;
    type Effect = AdmissionEffect;

    fn on_event(&mut self, now: Monotonic, event: AdmissionEvent, out: &mut Effects) {
        if matches!(self.stage, Stage::Ended) {
            return ignored(AdmissionIgnored::AfterEnd, out);
        }
        match event {
            AdmissionEvent::PairReady => match self.side {
                Side::Dialler => self.asked(now, out),
                Side::Acceptor => {}
            },
            AdmissionEvent::Asked => self.asked(now, out),
            AdmissionEvent::Hello(offered) => self.offer(offered, Answered::Yes, out),
            AdmissionEvent::Admit(offered) => self.offer(offered, Answered::No, out),
            AdmissionEvent::Reject(reason) => self.rejected(reason, out),
            AdmissionEvent::Update(offered) => self.updated(offered, out),
            AdmissionEvent::Describe(own) => {
                self.terms.own = *own;
                if self.admitted().is_some() {
                    let admission = self.own();
                    send(Update { admission }, out);
                }
            }
            AdmissionEvent::AnswerHello => {
                if self.admitted().is_some() {
                    self.admit(out);
                } else {
                    ignored(AdmissionIgnored::NotAdmitted, out);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match (&self.stage, self.side) {
            (Stage::Waiting(waiting), Side::Dialler) => Some(
                waiting
                    .hello
                    .map_or(waiting.give_up, |hello| hello.min(waiting.give_up)),
            ),
            (Stage::Waiting(waiting), Side::Acceptor) => Some(waiting.give_up),
            (Stage::Admitted(_) | Stage::Ended, _) => None,
        }
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Effects) {
        let Stage::Waiting(waiting) = &mut self.stage else {
            return;
        };
        if waiting.give_up <= now {
            return self.end(AdmissionEnd::NotAdmitted, out);
        }
        // TR-71: a dialler repeats its hello until it is admitted.
        if self.side == Side::Dialler && waiting.hello.is_some_and(|hello| hello <= now) {
            waiting.hello = Some(now.after(HELLO_REPEAT));
            self.hello(out);
        }
    }
}
