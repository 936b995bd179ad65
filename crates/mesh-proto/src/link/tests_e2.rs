//! What a link does differently in the second edition.

use core::num::NonZeroU64;

use bytes::Bytes;
use spotlane_types::count::ProbeId;
use spotlane_types::id::SecurityIdentity;
use spotlane_wire::Record;
use spotlane_wire::command::admission::Hello;
use spotlane_wire::command::liveness::LivenessProbe;
use spotlane_wire::descriptor::ServiceAdmission;

use super::*;
use crate::admission::{Expected, Terms};
use crate::sample::{capability, descriptor, rid};
use crate::zmp::{
    Envelope, Generation, Opening, PairId, Pairing, Ready, encode_record, hello_frame, ready_frame,
};

const NOW: Monotonic = Monotonic::ORIGIN;

fn key() -> PairKey {
    PairKey {
        pair: PairId::new(NonZeroU64::new(7).unwrap()),
        generation: Generation::FIRST,
    }
}

/// A dialler `b`.
fn dial(opening: Opening) -> Link {
    let terms = Terms {
        own_id: rid("b"),
        own: descriptor("b"),
        required: capability(),
        expected: Expected::Anyone,
        authenticated: SecurityIdentity::new("plaintext").unwrap(),
    };
    let mut settings = LinkSettings::new(terms, ProbeId::new(100).unwrap());
    settings.opening = opening;
    let mut link = Link::dial(settings, key(), &mut Vec::new());
    for lane in Lane::ALL {
        step(&mut link, LinkEvent::Opened(lane, Monotonic::ORIGIN));
    }
    link
}

fn step(link: &mut Link, event: LinkEvent) -> Effects {
    let mut out = Vec::new();
    link.on_event(NOW, event, &mut out);
    out
}

/// HELLO and READY of an acceptor `a`.
fn shake(link: &mut Link, lane: Lane, pairing: Pairing) -> Effects {
    let ready = Ready {
        pairing,
        lane,
        receive_limit: None,
    };
    let bytes = [hello_frame(&rid("a")), ready_frame(&rid("a"), &ready)].concat();
    step(link, LinkEvent::Received(lane, bytes.into()))
}

fn written(out: &[LinkEffect], on: Lane) -> Vec<Bytes> {
    let writes = out.iter().filter_map(|effect| match effect {
        LinkEffect::Write(lane, parts) if *lane == on => Some(parts.to_bytes()),
        _ => None,
    });
    writes.collect()
}

fn flow(state: FlowState, epoch: u64) -> Bytes {
    flow_frame(Flow {
        state,
        epoch: NonZeroU64::new(epoch).unwrap(),
    })
}

fn receive(link: &mut Link, record: &Record) -> Effects {
    let mut frames = FrameBuffer::default();
    record.encode(&mut frames).unwrap();
    let bytes = encode_record(Edition::E2, Envelope::Plain, &frames).to_bytes();
    step(link, LinkEvent::Received(Lane::Application, bytes))
}

fn hello() -> Record {
    let route_mesh = descriptor("a");
    let admission = ServiceAdmission::RouteMesh { route_mesh };
    Hello { admission }.into()
}

/// TR-2, TR-46, TR-67, TR-88: each new link says that it runs; probes and their answers take the
/// Application lane, where replies alone have the other one.
#[test]
fn a_link_of_the_second_edition_keeps_the_completion_lane_for_replies() {
    for opening in [Opening::Fixed(Edition::E2), Opening::Neutral] {
        let mut link = dial(opening);
        shake(&mut link, Lane::Application, Pairing::ByIdentity);
        let out = shake(&mut link, Lane::Completion, Pairing::ByIdentity);
        assert_eq!(link.edition(), Edition::E2);
        let last = written(&out, Lane::Completion).pop();
        assert_eq!(last, Some(flow(FlowState::Running, 1)));
        let out = receive(&mut link, &hello());
        let probes = written(&out, Lane::Application);
        assert_eq!(probes.len(), 2, "admit, and the first probe: {out:?}");
        assert_eq!(written(&out, Lane::Completion), [] as [Bytes; 0]);
        let probe_id = ProbeId::new(5).unwrap();
        let out = receive(&mut link, &LivenessProbe { probe_id }.into());
        assert_eq!(written(&out, Lane::Application).len(), 1);
        assert_eq!(out.len(), 1);
    }
}

/// TR-46: what the host says is told with rising epochs, and what the peer says is handed to the driver.
#[test]
fn flow_states_go_both_ways() {
    let mut link = dial(Opening::Fixed(Edition::E2));
    let paused = || LinkEvent::Flow(FlowState::Paused);
    assert_eq!(step(&mut link, paused()), [], "there is no pair yet");
    shake(&mut link, Lane::Application, Pairing::ByIdentity);
    shake(&mut link, Lane::Completion, Pairing::ByIdentity);
    let out = step(&mut link, paused());
    assert_eq!(
        written(&out, Lane::Completion),
        [flow(FlowState::Paused, 2)]
    );
    let out = step(&mut link, LinkEvent::Flow(FlowState::Running));
    assert_eq!(
        written(&out, Lane::Completion),
        [flow(FlowState::Running, 3)]
    );
    let theirs = flow(FlowState::Paused, 9);
    let out = step(&mut link, LinkEvent::Received(Lane::Completion, theirs));
    assert_eq!(out, [LinkEffect::PeerFlow(FlowState::Paused)]);
    step(&mut link, LinkEvent::Shutdown);
    let out = step(&mut link, paused());
    assert_eq!(out, [LinkEffect::Ignored(Ignored::AfterEnd)]);
}

/// TR-46: the first edition has no frame for it.
#[test]
fn the_first_edition_tells_no_flow_state() {
    let mut link = dial(Opening::default());
    shake(&mut link, Lane::Application, Pairing::ByKey(key()));
    let out = shake(&mut link, Lane::Completion, Pairing::ByKey(key()));
    assert_eq!(written(&out, Lane::Completion), [] as [Bytes; 0]);
    let out = step(&mut link, LinkEvent::Flow(FlowState::Paused));
    assert_eq!(out, []);
}

/// TR-3: a peer that answers its two lanes in different editions.
#[test]
fn lanes_of_different_editions_end_the_link() {
    let mut link = dial(Opening::Neutral);
    shake(&mut link, Lane::Application, Pairing::ByKey(key()));
    let out = shake(&mut link, Lane::Completion, Pairing::ByIdentity);
    assert_eq!(
        out.last(),
        Some(&LinkEffect::Ended(EndReason::MixedEditions))
    );
}
