//! Rules over several fields, in the order of the table in docs/decoding.md.
//!
//! They look at the JSON form of what was read: the contract's own names, nothing derived.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A rule that no layout can say; every breach is an invalid field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Not both words of an id are zero.
    NotBothZero,
    /// WR-20 and what a creation terminal may carry.
    CreationTerminalShape,
    /// WR-20 without a payload.
    ControlData,
    /// WR-20 with the payload of a completion.
    Completion,
    /// WR-20 with the payload frame of a record.
    TerminalRecord,
    /// WR-56: an explicit failure has a code.
    RelocationFailed,
    /// WR-30, WR-33.
    FrozenRecord,
    /// WR-63.
    RelocationState,
    /// WR-62.
    AuthorityPayload,
    /// WR-42.
    RelocationEnvelope,
}

type Checked = Result<(), &'static str>;

impl Rule {
    /// The rule that the contract file writes as `rules(name)`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "not-both-zero" => Some(Self::NotBothZero),
            "creation-terminal-shape" => Some(Self::CreationTerminalShape),
            _ => None,
        }
    }

    /// Rules of a struct or envelope that only prose names.
    pub(crate) fn of_type(name: &str) -> Vec<Self> {
        match name {
            "relocation-control-data" => vec![Self::ControlData],
            "frozen-record" => vec![Self::FrozenRecord],
            "authority-payload-v1" => vec![Self::AuthorityPayload],
            "relocation-envelope-v1" => vec![Self::RelocationEnvelope],
            _ => Vec::new(),
        }
    }

    /// Rules of one case of a union.
    pub(crate) fn of_case(union: &str, case: &str) -> Vec<Self> {
        match (union, case) {
            ("frozen-record-body", "completion") => vec![Self::Completion],
            ("authority-relocation-state", "true") => vec![Self::RelocationState],
            _ => Vec::new(),
        }
    }

    /// Rules that look at the body of a command and its payload frame.
    pub(crate) fn of_command(name: &str) -> Vec<Self> {
        match name {
            "reply" | "replyRelay" => vec![Self::TerminalRecord],
            "relocationFailed" => vec![Self::RelocationFailed],
            _ => Vec::new(),
        }
    }

    /// WR-34: only a frozen record may have an operation id of zero.
    pub(crate) fn waives_operation_id(struct_name: &str) -> bool {
        struct_name == "frozen-record"
    }

    /// Checks the fields of the struct or case it belongs to; the error is the name of a field.
    /// `has_payload` tells about the payload frame and matters to rules of records only.
    pub(crate) fn check(self, map: &Map<String, Value>, has_payload: bool) -> Checked {
        match self {
            Self::NotBothZero => ensure(!is_zero_id(map), "low"),
            Self::CreationTerminalShape => creation_terminal(map),
            Self::ControlData => terminal_code(map),
            Self::Completion => {
                terminal_code(map)?;
                ensure(is_ok(map) || !flag(map, "hasPayload"), "hasPayload")
            }
            Self::TerminalRecord => {
                terminal_code(map)?;
                ensure(is_ok(map) || !has_payload, "payload")
            }
            Self::RelocationFailed => ensure(text(map, "failureCode") != "none", "failureCode"),
            Self::FrozenRecord => frozen_record(map),
            Self::RelocationState => relocation_state(map),
            Self::AuthorityPayload => authority_payload(map),
            Self::RelocationEnvelope => relocation_envelope(map),
        }
    }
}

fn ensure(holds: bool, field: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(field) }
}

/// A member that is an enum's name, a text or a decimal string; empty where there is none.
fn text<'a>(map: &'a Map<String, Value>, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn object<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    map.get(name).and_then(Value::as_object)
}

fn is_zero_id(map: &Map<String, Value>) -> bool {
    text(map, "high") == "0" && text(map, "low") == "0"
}

fn is_ok(map: &Map<String, Value>) -> bool {
    text(map, "terminalResult") == "ok"
}

/// The failure codes that go with a terminal result (WR-20).
pub(crate) fn codes_of(result: &str) -> &'static [&'static str] {
    match result {
        "notFound" => &[
            "actorRouteNotFound",
            "spotRouteNotFound",
            "actorSessionNotBound",
            "handlerNotFound",
            "routeHandlerNotFound",
            "actorDispatchHandlerNotFound",
            "requestTargetNotFound",
        ],
        "conflict" => &[
            "actorAlreadyExists",
            "actorTypeMismatch",
            "spotTypeMismatch",
            "actorLocationStale",
            "spotGenerationStale",
            "spotMoving",
        ],
        "rejected" => &["requestRejected", "workerQueueFull", "actorCreateRejected"],
        "protocolError" => &["payloadDecodeFailed", "requestProtocolError"],
        "internalError" => &[
            "actorCreateFailed",
            "spotCreateFailed",
            "routeNotConnected",
            "requestFailed",
            "workerTimedOut",
            "workerFailed",
            "relocationDataLost",
        ],
        _ => &["none"],
    }
}

fn terminal_code(map: &Map<String, Value>) -> Checked {
    let codes = codes_of(text(map, "terminalResult"));
    ensure(codes.contains(&text(map, "failureCode")), "failureCode")
}

fn creation_terminal(map: &Map<String, Value>) -> Checked {
    terminal_code(map)?;
    ensure(
        is_ok(map) || !flag(map, "hasApplicationPayload"),
        "hasApplicationPayload",
    )?;
    ensure(is_ok(map) == flag(map, "hasCreation"), "hasCreation")
}

/// What a record kind may carry (one row of WR-30).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrozenRow {
    /// Allowed operation kinds; empty means any but `none`.
    pub(crate) kinds: &'static [&'static str],
    /// Application kinds have every source and may have metadata, the others neither (WR-33).
    pub(crate) is_application: bool,
    pub(crate) id: FrozenId,
}

/// Whether the operation id of a frozen record is zero.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FrozenId {
    Zero,
    NonZero,
    /// Non-zero exactly when the operation kind is not `none`.
    ByKind,
}

/// The row of WR-30 for a record kind.
pub(crate) fn frozen_row(record_kind: &str) -> FrozenRow {
    let row = |kinds, is_application, id| FrozenRow {
        kinds,
        is_application,
        id,
    };
    match record_kind {
        "nodeSend" | "channelSend" | "spotMulticast" => row(&["none"], true, FrozenId::Zero),
        "spotSend" | "actorSend" => row(&["none"], true, FrozenId::NonZero),
        "nodeRequest" => row(&["nodeRequest"], true, FrozenId::NonZero),
        "channelRequest" => row(&["channelRequest"], true, FrozenId::NonZero),
        "spotRequest" => row(&["spotRequest"], true, FrozenId::NonZero),
        "actorRequest" => row(&["actorRequest"], true, FrozenId::NonZero),
        "spotControl" => row(
            &["none", "actorJoin", "actorLeave", "actorDestroy"],
            false,
            FrozenId::ByKind,
        ),
        "completion" => row(&[], false, FrozenId::NonZero),
        "instanceSpotActivation" => row(&["none", "instanceSpotRequest"], true, FrozenId::ByKind),
        _ => row(&["none"], false, FrozenId::Zero),
    }
}

fn frozen_record(map: &Map<String, Value>) -> Checked {
    let record_kind = text(map, "recordKind");
    let row = frozen_row(record_kind);
    let source = object(map, "source").map_or("", |source| text(source, "sourceKind"));
    ensure(row.is_application || source == "node", "source")?;
    ensure(
        row.is_application || !flag(map, "hasMetadata"),
        "hasMetadata",
    )?;
    let kind = text(map, "operationKind");
    let is_kind_allowed = if row.kinds.is_empty() {
        kind != "none"
    } else {
        row.kinds.contains(&kind)
    };
    ensure(is_kind_allowed, "operationKind")?;
    let wants_id = match row.id {
        FrozenId::Zero => false,
        FrozenId::NonZero => true,
        FrozenId::ByKind => kind != "none",
    };
    let has_id = object(map, "operationId").is_some_and(|id| !is_zero_id(id));
    ensure(has_id == wants_id, "operationId")?;
    // The reply route needs no check: its case is chosen by the operation kind (WR-31), so it
    // carries an id exactly when the kind is a request.
    if record_kind == "instanceSpotActivation" {
        let inner = object(map, "body").map_or("", |body| text(body, "operationKind"));
        let outer = if inner == "send" {
            "none"
        } else {
            "instanceSpotRequest"
        };
        ensure(kind == outer, "body")?;
    }
    Ok(())
}

fn relocation_state(map: &Map<String, Value>) -> Checked {
    let phase = text(map, "phase");
    ensure(
        text(map, "aggregateGeneration") != "0" || phase == "preparing",
        "aggregateGeneration",
    )?;
    let set = [
        !text(map, "targetNodeRid").is_empty(),
        text(map, "targetNodeGeneration") != "0",
        !text(map, "targetOwnerId").is_empty(),
        text(map, "targetOwnerLeaseGeneration") != "0",
    ];
    let (all, any) = (set.iter().all(|is| *is), set.iter().any(|is| *is));
    let is_allowed = match phase {
        "preparing" => !any,
        "none" | "captured" | "aborted" => all == any,
        _ => all,
    };
    ensure(is_allowed, "targetNodeRid")
}

fn authority_payload(map: &Map<String, Value>) -> Checked {
    let kind = text(map, "operationKind");
    let has = |part: &str, name: &str| object(map, part).is_some_and(|part| flag(part, name));
    let spot = object(map, "object").and_then(|object_| object(object_, "spot"));
    let instance = spot.and_then(|spot| object(spot, "instance"));
    let spot_state = spot.map(|spot| text(spot, "state"));
    let instance_state = instance.map(|instance| text(instance, "authorityState"));
    let state = instance_state.or(spot_state);

    let has_relocation = has("relocationState", "hasRelocation");
    ensure(
        (kind == "maintenanceRelocation") == has_relocation,
        "operationKind",
    )?;
    let is_relocating = state.is_none_or(|state| state == "relocating");
    ensure(!has_relocation || is_relocating, "operationKind")?;
    let is_cold = instance_state == Some("coldActivating");
    ensure(kind != "coldActivation" || is_cold, "operationKind")?;
    ensure(kind != "close" || state == Some("closing"), "operationKind")?;
    let has_recovery = has("activationRecoveryState", "hasActivationRecovery");
    ensure(
        !has_recovery || instance_state == Some("ready"),
        "activationRecoveryState",
    )
}

/// Participant and order of every entry of one of the two queues.
fn orders<'a>(map: &'a Map<String, Value>, name: &str) -> BTreeSet<(&'a str, &'a str)> {
    let entries = map
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let entries = entries.iter().filter_map(Value::as_object);
    entries
        .map(|entry| (text(entry, "participantId"), text(entry, "order")))
        .collect()
}

/// WR-42: the orders of saved work and timer ticks are one sequence, so none occurs in both.
fn relocation_envelope(map: &Map<String, Value>) -> Checked {
    let (saved, ticks) = (orders(map, "savedWork"), orders(map, "pendingTimerTicks"));
    ensure(saved.is_disjoint(&ticks), "pendingTimerTicks")
}
