//! The tables of TR-72 and TR-75 with a virtual clock.

use core::time::Duration;

use spotlane_types::count::Weight;
use spotlane_types::generation::{DescriptorRevision, NodeGeneration};
use spotlane_types::id::{ChannelName, Endpoint, MeshName, ProtocolCapability, SecurityIdentity};
use spotlane_types::kind::{ObjectRole, RuntimeState};
use spotlane_wire::FrameBuffer;
use spotlane_wire::descriptor::{ChannelEntry, Channels, ProtocolCapabilities};

use super::*;
use crate::sample::{capability, descriptor, rid};

fn at(millis: u64) -> Monotonic {
    Monotonic::ORIGIN.after(Duration::from_millis(millis))
}

fn terms() -> Terms {
    Terms {
        own_id: rid("b"),
        own: descriptor("b"),
        required: capability(),
        expected: Expected::Anyone,
        authenticated: SecurityIdentity::new("plaintext").unwrap(),
    }
}

fn offered(node: &RouteMeshAdmission) -> Offered {
    let admission = ServiceAdmission::RouteMesh {
        route_mesh: node.clone(),
    };
    let mut out = FrameBuffer::default();
    let record = Record::from(Hello {
        admission: admission.clone(),
    });
    record.encode(&mut out).unwrap();
    Offered::of(admission, &out.to_frames()[0])
}

fn changed(change: impl FnOnce(&mut RouteMeshAdmission)) -> Offered {
    let mut node = descriptor("a");
    change(&mut node);
    offered(&node)
}

fn step(machine: &mut Admission, millis: u64, event: AdmissionEvent) -> Vec<AdmissionEffect> {
    let mut out = Vec::new();
    machine.on_event(at(millis), event, &mut out);
    out
}

fn new(side: Side, terms: Terms) -> Admission {
    Admission::new(side, rid("a"), terms, at(0))
}

fn admitted() -> Admission {
    let mut machine = new(Side::Acceptor, terms());
    step(&mut machine, 0, AdmissionEvent::Hello(changed(|_| {})));
    assert!(machine.admitted().is_some());
    machine
}

fn reject_of(effects: &[AdmissionEffect]) -> Option<RejectReason> {
    effects.iter().find_map(|effect| match effect {
        AdmissionEffect::Send(record) => match &**record {
            Record::Reject(reject) => Some(reject.reason),
            _ => None,
        },
        _ => None,
    })
}

fn sends_admit(effects: &[AdmissionEffect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, AdmissionEffect::Send(record) if matches!(**record, Record::Admit(_))))
}

fn sends_hello(effects: &[AdmissionEffect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, AdmissionEffect::Send(record) if matches!(**record, Record::Hello(_))))
}

/// TR-70
#[test]
fn hello_is_answered_with_admit_and_both_admit_their_sender() {
    let mut acceptor = new(Side::Acceptor, terms());
    assert!(step(&mut acceptor, 0, AdmissionEvent::PairReady).is_empty());
    let out = step(&mut acceptor, 1, AdmissionEvent::Hello(changed(|_| {})));
    assert!(
        matches!(&out[..], [AdmissionEffect::Admitted(node), AdmissionEffect::Send(_)]
        if **node == descriptor("a"))
    );
    assert!(sends_admit(&out));

    let mut dialler = new(Side::Dialler, terms());
    assert!(sends_hello(&step(
        &mut dialler,
        0,
        AdmissionEvent::PairReady
    )));
    let out = step(&mut dialler, 1, AdmissionEvent::Admit(changed(|_| {})));
    assert!(
        matches!(&out[..], [AdmissionEffect::Admitted(_)]),
        "{out:?}"
    );
    assert_eq!(dialler.next_deadline(), None);
}

/// TR-71, TR-79
#[test]
fn a_dialler_repeats_its_hello_and_both_sides_give_up_after_fifteen_seconds() {
    let mut dialler = new(Side::Dialler, terms());
    step(&mut dialler, 0, AdmissionEvent::PairReady);
    let mut hellos = 0;
    let mut ended = Vec::new();
    while let Some(due) = dialler.next_deadline() {
        let mut out = Vec::new();
        dialler.on_deadline(due, &mut out);
        hellos += usize::from(sends_hello(&out));
        ended = out;
    }
    assert_eq!(hellos, 29);
    assert_eq!(ended, [AdmissionEffect::End(AdmissionEnd::NotAdmitted)]);

    let mut acceptor = new(Side::Acceptor, terms());
    assert_eq!(acceptor.next_deadline(), Some(at(15_000)));
    let mut out = Vec::new();
    acceptor.on_deadline(at(14_999), &mut out);
    assert_eq!(out, []);
    acceptor.on_deadline(at(15_000), &mut out);
    assert_eq!(out, [AdmissionEffect::End(AdmissionEnd::NotAdmitted)]);
}

fn discovered(endpoint: &str, generation: u64, security: &str) -> Expected {
    Expected::Discovered {
        node: rid("a"),
        endpoint: Endpoint::new(endpoint).unwrap(),
        generation: NodeGeneration::new(generation).unwrap(),
        security_identity: SecurityIdentity::new(security).unwrap(),
    }
}

/// TR-72, TR-78, TR-81
#[test]
fn each_fault_of_a_descriptor_has_its_reason() {
    let judge = |terms: Terms, offered: Offered| {
        let mut acceptor = new(Side::Acceptor, terms);
        let out = step(&mut acceptor, 0, AdmissionEvent::Hello(offered));
        assert!(acceptor.admitted().is_none());
        assert_eq!(out.len(), 1, "a reject and nothing else: {out:?}");
        reject_of(&out).unwrap()
    };
    let plain = || changed(|_| {});
    let expecting = |expected| Terms {
        expected,
        ..terms()
    };
    let node = descriptor("a");
    let endpoint = node.advertised_endpoint.as_str();
    let run = node.lifecycle_generation.get();
    let other_mesh = changed(|node| node.mesh_name = MeshName::new("other").unwrap());
    let no_capability = changed(|node| {
        let other = ProtocolCapability::new("other").unwrap();
        node.extension.protocol_capabilities = ProtocolCapabilities::new(vec![other]).unwrap();
    });
    let own_id = Terms {
        own_id: rid("a"),
        ..terms()
    };
    let authenticated = Terms {
        authenticated: SecurityIdentity::new("cn=x").unwrap(),
        ..terms()
    };
    let invalid = RejectReason::InvalidDescriptor;
    for (terms, offered, reason) in [
        (terms(), other_mesh, RejectReason::TopologyMismatch),
        (
            terms(),
            Offered::OtherTopology,
            RejectReason::TopologyMismatch,
        ),
        (
            expecting(Expected::Node(rid("c"))),
            plain(),
            RejectReason::IdentityMismatch,
        ),
        (
            expecting(discovered("tcp://x:1", run, "plaintext")),
            plain(),
            invalid,
        ),
        (
            expecting(discovered(endpoint, run + 1, "plaintext")),
            plain(),
            invalid,
        ),
        (
            expecting(discovered(endpoint, run, "cn=x")),
            plain(),
            invalid,
        ),
        (authenticated, plain(), invalid),
        (own_id, plain(), invalid),
        (terms(), no_capability, invalid),
        (terms(), Offered::Malformed, invalid),
    ] {
        assert_eq!(judge(terms, offered), reason);
    }
    let mut fits = new(
        Side::Acceptor,
        expecting(discovered(endpoint, run, "plaintext")),
    );
    step(&mut fits, 0, AdmissionEvent::Hello(plain()));
    assert!(fits.admitted().is_some());
}

/// TR-73
#[test]
fn two_object_clients_without_channels_need_no_link() {
    let client = |node: &mut RouteMeshAdmission| {
        node.extension.object_role = ObjectRole::Client;
        node.channels = Channels::new(vec![]).unwrap();
    };
    let mut own = terms();
    client(&mut own.own);
    let mut acceptor = new(Side::Acceptor, own.clone());
    let out = step(&mut acceptor, 0, AdmissionEvent::Hello(changed(client)));
    assert_eq!(reject_of(&out), Some(NOT_REQUIRED));
    // A channel of weight 0 is a channel.
    let with_channel = changed(|node| {
        client(node);
        node.channels = Channels::new(vec![ChannelEntry {
            channel_name: ChannelName::new("c").unwrap(),
            weight: Weight::new(0).unwrap(),
        }])
        .unwrap();
    });
    assert!(sends_admit(&step(
        &mut acceptor,
        1,
        AdmissionEvent::Hello(with_channel)
    )));

    let mut dialler = new(Side::Dialler, own);
    step(&mut dialler, 0, AdmissionEvent::PairReady);
    let out = step(&mut dialler, 1, AdmissionEvent::Reject(NOT_REQUIRED));
    assert_eq!(out, [AdmissionEffect::End(AdmissionEnd::NotRequired)]);
}

/// TR-74
#[test]
fn a_repeated_hello_changes_nothing_and_is_answered() {
    let mut machine = admitted();
    let out = step(&mut machine, 1, AdmissionEvent::Hello(changed(|_| {})));
    assert_eq!(out[0], AdmissionEffect::Ignored(AdmissionIgnored::Repeated));
    assert!(sends_admit(&out) && out.len() == 2);
    assert!(sends_admit(&step(
        &mut machine,
        2,
        AdmissionEvent::AnswerHello
    )));
}

/// TR-75
#[test]
fn revisions_rise_and_fixed_fields_stay() {
    let revision = |number| DescriptorRevision::new(number).unwrap();
    let mut machine = admitted();
    let stale = [AdmissionEffect::Ignored(AdmissionIgnored::StaleRevision)];
    let draining = RuntimeState::Draining;
    let same = changed(|node| node.extension.runtime_state = draining);
    assert_eq!(
        step(&mut machine, 1, AdmissionEvent::Update(same.clone())),
        stale
    );
    assert_eq!(step(&mut machine, 1, AdmissionEvent::Hello(same)), stale);
    let lower = changed(|node| node.descriptor_revision = revision(1));
    assert_eq!(step(&mut machine, 2, AdmissionEvent::Update(lower)), stale);

    let higher = changed(|node| {
        node.descriptor_revision = revision(9);
        node.extension.runtime_state = draining;
    });
    let out = step(&mut machine, 3, AdmissionEvent::Update(higher));
    assert!(
        matches!(&out[..], [AdmissionEffect::Updated(node)]
        if node.extension.runtime_state == draining),
        "applied, not answered"
    );

    let fixed = changed(|node| {
        node.descriptor_revision = revision(10);
        node.channels = Channels::new(vec![]).unwrap();
    });
    let out = step(&mut machine, 4, AdmissionEvent::Update(fixed));
    assert_eq!(reject_of(&out), Some(RejectReason::InvalidDescriptor));
    assert_eq!(out.len(), 1);
    assert_eq!(machine.admitted().unwrap().descriptor_revision, revision(9));
}

/// TR-76
#[test]
fn another_run_ends_the_old_one_before_it_is_admitted() {
    let run = NodeGeneration::new(77).unwrap();
    let mut machine = admitted();
    let next = changed(|node| node.lifecycle_generation = run);
    let out = step(&mut machine, 1, AdmissionEvent::Hello(next.clone()));
    assert_eq!(out[0], AdmissionEffect::RunEnded);
    assert!(matches!(&out[1], AdmissionEffect::Admitted(node) if node.lifecycle_generation == run));
    assert!(sends_admit(&out));
    // By update it is a fixed field like any other.
    let mut machine = admitted();
    let out = step(&mut machine, 1, AdmissionEvent::Update(next));
    assert_eq!(reject_of(&out), Some(RejectReason::InvalidDescriptor));
}

/// TR-77
#[test]
fn our_own_change_goes_out_as_an_update_to_an_admitted_peer_alone() {
    let own = || AdmissionEvent::Describe(Box::new(descriptor("b")));
    assert!(step(&mut new(Side::Acceptor, terms()), 0, own()).is_empty());
    let out = step(&mut admitted(), 1, own());
    assert!(matches!(&out[..], [AdmissionEffect::Send(record)]
        if matches!(**record, Record::Update(_))));
}

/// TR-79
#[test]
fn a_reject_ends_the_dialler_and_not_the_acceptor() {
    let reason = RejectReason::TopologyMismatch;
    let mut dialler = new(Side::Dialler, terms());
    let out = step(&mut dialler, 1, AdmissionEvent::Reject(reason));
    assert_eq!(
        out,
        [AdmissionEffect::End(AdmissionEnd::RefusedByPeer(reason))]
    );
    let out = step(&mut dialler, 2, AdmissionEvent::Hello(changed(|_| {})));
    assert_eq!(out, [AdmissionEffect::Ignored(AdmissionIgnored::AfterEnd)]);
    let mut acceptor = new(Side::Acceptor, terms());
    let out = step(&mut acceptor, 1, AdmissionEvent::Reject(reason));
    assert_eq!(out, [AdmissionEffect::RefusedByPeer(reason)]);
}

/// TR-29
#[test]
fn an_empty_message_asks_for_a_hello_but_not_for_many() {
    let mut acceptor = new(Side::Acceptor, terms());
    assert!(sends_hello(&step(&mut acceptor, 0, AdmissionEvent::Asked)));
    let again = [AdmissionEffect::Ignored(AdmissionIgnored::AskedAgain)];
    assert_eq!(step(&mut acceptor, 499, AdmissionEvent::Asked), again);
    assert!(sends_hello(&step(
        &mut acceptor,
        500,
        AdmissionEvent::Asked
    )));
}

/// TR-75: each of these alone makes an update refused.
#[test]
fn every_fixed_field_is_fixed() {
    let changes: [fn(&mut RouteMeshAdmission); 5] = [
        |node| node.mesh_name = MeshName::new("other").unwrap(),
        |node| node.security_identity = SecurityIdentity::new("cn=x").unwrap(),
        |node| node.advertised_endpoint = Endpoint::new("tcp://x:1").unwrap(),
        |node| node.channels = Channels::new(vec![]).unwrap(),
        |node| node.extension.object_role = ObjectRole::None,
    ];
    for change in changes {
        let mut machine = admitted();
        let update = changed(|node| {
            node.descriptor_revision = DescriptorRevision::new(9).unwrap();
            change(node);
        });
        let out = step(&mut machine, 1, AdmissionEvent::Update(update));
        assert_eq!(reject_of(&out), Some(RejectReason::InvalidDescriptor));
    }
}
