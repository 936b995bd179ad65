//! The admin endpoint: HTTP with JSON, on loopback unless a token guards it.
//!
//! | path | answer |
//! |---|---|
//! | `GET /healthz`, `GET /readyz` | 200 or 503, without a token |
//! | `GET /metrics` | the text form of Prometheus |
//! | `GET /v1/status` | [`Status`] |
//! | `GET /v1/objects/{kind}/{id}` | [`Location`] |
//! | `POST /v1/relocate` | [`Location`] |
//! | `POST /v1/drain` | [`Drained`] |

mod gate;
mod node;
mod route;
mod server;

#[cfg(test)]
mod tests;

pub(crate) use gate::Gate;
pub(crate) use node::{
    DrainBody, Drained, ErrorBody, Location, Node, ObjectKind, ObjectName, Peer, Refusal,
    RefusalKind, RelocateBody, Status,
};
pub(crate) use route::{Metrics, Routes};
pub(crate) use server::AdminServer;
