//! Chooses the fields that rules speak of before the rest is generated, so that the values hold.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rng::Rng;
use crate::rules::{FrozenId, Rule, codes_of, frozen_row};

/// What is decided about the members of one object.
pub(crate) type Presets = BTreeMap<&'static str, Preset>;

/// A decision about one member.
#[derive(Debug)]
pub(crate) enum Preset {
    /// It is this value.
    Exactly(Value),
    /// It is an object in which some members are decided.
    Inside(Presets),
}

impl Preset {
    fn inside<const N: usize>(members: [(&'static str, Value); N]) -> Self {
        Self::Inside(
            members
                .into_iter()
                .map(|(name, value)| (name, Self::Exactly(value)))
                .collect(),
        )
    }
}

const RESULTS: [&str; 14] = [
    "ok",
    "timedOut",
    "notFound",
    "terminated",
    "protocolError",
    "internalError",
    "rejected",
    "conflict",
    "busy",
    "notConnected",
    "invalidArgument",
    "invalidState",
    "notSupported",
    "backpressured",
];

/// Decides what `rule` needs. Rules that are mended afterwards decide nothing.
pub(crate) fn plan(rule: Rule, rng: &mut Rng, presets: &mut Presets) {
    match rule {
        Rule::NotBothZero | Rule::RelocationEnvelope => {}
        Rule::ControlData | Rule::TerminalRecord | Rule::Completion => {
            terminal(rng, presets, &["hasPayload"]);
        }
        Rule::CreationTerminalShape => {
            let is_ok = terminal(rng, presets, &["hasApplicationPayload"]);
            presets.insert("hasCreation", Preset::Exactly(json!(is_ok)));
        }
        Rule::RelocationFailed => {
            let result = *rng.pick(&["notFound", "conflict", "rejected", "internalError"]);
            let code = *rng.pick(codes_of(result));
            presets.insert("failureCode", Preset::Exactly(json!(code)));
        }
        Rule::FrozenRecord => frozen_record(rng, presets),
        Rule::RelocationState => relocation_state(rng, presets),
        Rule::AuthorityPayload => authority_payload(rng, presets),
    }
}

/// Chooses result and code; `payloads` are the members that only `ok` may set.
fn terminal(rng: &mut Rng, presets: &mut Presets, payloads: &[&'static str]) -> bool {
    // Half of them ok, because only these have tails and payloads.
    let result = if rng.one_in(2) {
        "ok"
    } else {
        *rng.pick(&RESULTS)
    };
    let code = *rng.pick(codes_of(result));
    presets.insert("terminalResult", Preset::Exactly(json!(result)));
    presets.insert("failureCode", Preset::Exactly(json!(code)));
    if result != "ok" {
        presets.extend(
            payloads
                .iter()
                .map(|name| (*name, Preset::Exactly(json!(false)))),
        );
    }
    result == "ok"
}

const RECORD_KINDS: [&str; 14] = [
    "nodeSend",
    "nodeRequest",
    "channelSend",
    "channelRequest",
    "spotSend",
    "spotRequest",
    "spotMulticast",
    "spotControl",
    "actorSend",
    "actorRequest",
    "completion",
    "sendReady",
    "relocationControl",
    "instanceSpotActivation",
];

/// For a completion: any kind but `none`.
const OPERATION_KINDS: [&str; 15] = [
    "nodeRequest",
    "channelRequest",
    "spotRequest",
    "actorRequest",
    "actorLookup",
    "actorDestroy",
    "actorJoin",
    "actorLeave",
    "streamBind",
    "streamUnbind",
    "streamClose",
    "instanceSpotRequest",
    "userSpotCreate",
    "userSpotClose",
    "actorCreate",
];

fn frozen_record(rng: &mut Rng, presets: &mut Presets) {
    let record_kind = *rng.pick(&RECORD_KINDS);
    let row = frozen_row(record_kind);
    let kinds = if row.kinds.is_empty() {
        &OPERATION_KINDS[..]
    } else {
        row.kinds
    };
    let kind = *rng.pick(kinds);
    let has_id = match row.id {
        FrozenId::Zero => false,
        FrozenId::NonZero => true,
        FrozenId::ByKind => kind != "none",
    };
    let id = if has_id {
        nonzero_id(rng)
    } else {
        json!({ "high": "0", "low": "0" })
    };
    presets.insert("recordKind", Preset::Exactly(json!(record_kind)));
    presets.insert("operationKind", Preset::Exactly(json!(kind)));
    presets.insert("operationId", Preset::Exactly(id));
    if !row.is_application {
        presets.insert("source", Preset::inside([("sourceKind", json!("node"))]));
        presets.insert("hasMetadata", Preset::Exactly(json!(false)));
    }
    if record_kind == "instanceSpotActivation" {
        let inner = if kind == "none" { "send" } else { "request" };
        presets.insert("body", Preset::inside([("operationKind", json!(inner))]));
    }
}

fn nonzero_id(rng: &mut Rng) -> Value {
    let (high, low) = match rng.below(4) {
        0 => (0, 1),
        1 => (1, 0),
        2 => (u64::MAX, u64::MAX),
        _ => (rng.bits(), rng.bits() | 1),
    };
    json!({ "high": high.to_string(), "low": low.to_string() })
}

fn relocation_state(rng: &mut Rng, presets: &mut Presets) {
    let phases = [
        "none",
        "preparing",
        "captured",
        "prepared",
        "committed",
        "activating",
        "activated",
        "cleaning",
        "completed",
        "aborted",
    ];
    let phase = *rng.pick(&phases);
    let has_target = match phase {
        "preparing" => false,
        "none" | "captured" | "aborted" => rng.one_in(2),
        _ => true,
    };
    let least = u64::from(phase != "preparing");
    let generation = match rng.below(3) {
        0 => least,
        1 => (1 << 63) - 2,
        _ => rng.within(least, 1_000),
    };
    let number = |rng: &mut Rng| match rng.below(3) {
        _ if !has_target => 0,
        0 => 1,
        1 => (1 << 63) - 1,
        _ => rng.within(1, 1_000_000),
    };
    let mut set = |name: &'static str, value: Value| {
        presets.insert(name, Preset::Exactly(value));
    };
    set("phase", json!(phase));
    set("aggregateGeneration", json!(generation.to_string()));
    set("targetNodeRid", json!(if has_target { "00ff" } else { "" }));
    set("targetNodeGeneration", json!(number(rng).to_string()));
    set(
        "targetOwnerId",
        json!(if has_target { "owner-é" } else { "" }),
    );
    set("targetOwnerLeaseGeneration", json!(number(rng).to_string()));
}

fn authority_payload(rng: &mut Rng, presets: &mut Presets) {
    let spot_states = ["creating", "ready", "closing", "relocating"];
    let instance_states = ["coldActivating", "ready", "closing", "relocating"];
    let kind_of_object = *rng.pick(&["actor", "entry", "user", "instance", "instance"]);
    let state = match kind_of_object {
        "actor" => None,
        "instance" => Some(*rng.pick(&instance_states)),
        _ => Some(*rng.pick(&spot_states)),
    };
    let is_instance = kind_of_object == "instance";
    let object = match state {
        None => Preset::inside([("objectKind", json!("actor"))]),
        Some(state) => {
            let mut spot = Presets::from([("spotKind", Preset::Exactly(json!(kind_of_object)))]);
            if is_instance {
                spot.insert(
                    "instance",
                    Preset::inside([("authorityState", json!(state))]),
                );
            } else {
                spot.insert("state", Preset::Exactly(json!(state)));
            }
            let kind = ("objectKind", Preset::Exactly(json!("spot")));
            Preset::Inside(Presets::from([kind, ("spot", Preset::Inside(spot))]))
        }
    };
    let may_relocate = state.is_none_or(|state| state == "relocating");
    let kind = match state {
        _ if may_relocate && rng.one_in(2) => "maintenanceRelocation",
        Some("coldActivating") if rng.one_in(2) => "coldActivation",
        Some("closing") if rng.one_in(2) => "close",
        _ => "steady",
    };
    let has_relocation = kind == "maintenanceRelocation";
    let has_recovery = is_instance && state == Some("ready") && rng.one_in(2);
    presets.insert("object", object);
    presets.insert("operationKind", Preset::Exactly(json!(kind)));
    let relocation = [("hasRelocation", json!(has_relocation))];
    presets.insert("relocationState", Preset::inside(relocation));
    let recovery = [("hasActivationRecovery", json!(has_recovery))];
    presets.insert("activationRecoveryState", Preset::inside(recovery));
}
