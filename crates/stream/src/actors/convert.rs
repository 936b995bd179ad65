//! Packets of clients as messages between nodes, and back.

use spotlane_session::{RelayForm, RelayMessage};
use spotlane_stream_proto::{Codec, Payload};
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::payload::{ApplicationPayload, MetadataEntry, MetadataFrame};

use super::bound::RelayFailure;
use crate::handler::Packet;

/// A packet as a message between nodes.
pub(super) fn to_message(packet: &Packet) -> Result<RelayMessage, RelayFailure> {
    let form = if packet.can_reply() {
        RelayForm::Request
    } else {
        RelayForm::Send
    };
    let metadata = match packet.metadata() {
        None => None,
        Some(metadata) => {
            let entries: Result<Vec<MetadataEntry>, _> = metadata
                .entries()
                .map(|(key, value)| {
                    Ok(MetadataEntry {
                        key: key.parse()?,
                        value: value.parse()?,
                    })
                })
                .collect();
            let entries = entries.map_err(|_: spotlane_types::ValueError| {
                RelayFailure::Unfit("a metadata key or value")
            })?;
            let frame = MetadataFrame::new(&entries);
            Some(frame.map_err(|_| RelayFailure::Unfit("its metadata is too long"))?)
        }
    };
    let name = packet.name().parse();
    let content_type = packet.payload.codec.content_type().parse();
    let bytes = PayloadBytes::new(packet.payload.bytes.clone());
    Ok(RelayMessage {
        form,
        metadata,
        payload: ApplicationPayload {
            packet_name: name.map_err(|_| RelayFailure::Unfit("its name"))?,
            content_type: content_type.map_err(|_| RelayFailure::Unfit("its codec"))?,
            payload: bytes.map_err(|_| RelayFailure::Unfit("its payload is too long"))?,
        },
    })
}

pub(super) fn from_application(payload: &ApplicationPayload) -> Payload {
    let codec = Codec::of_content_type(payload.content_type.as_str());
    Payload::plain(codec, payload.payload.as_bytes().clone())
}
