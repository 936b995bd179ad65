//! Deterministic simulation of whole clusters: the real machines and the real repository in seeded worlds.
//!
//! Test layer. A world has hosts that drive the machines of `spotlane-relocation` and `spotlane-session` as the runtime
//! does, a Location Store in memory behind its fault wrapper, a network of connections, senders, clients with sessions,
//! Actors with state and timers, and moves. It has no thread, no clock and no chance: everything follows from a seed, and one seed gives one trace,
//! byte for byte.
//!
//! ```
//! use spotlane_sim::plan::Plan;
//! use spotlane_sim::world::{Options, World};
//!
//! let outcome = World::new(Plan::of(1)?, Options::default())?.run()?;
//! assert_eq!(outcome.violations, []);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! `docs/simulation.md` tells how to run and replay it, and how to add an invariant or a mutant.

pub mod agenda;
pub mod campaign;
pub mod cast;
pub mod client;
pub mod executor;
pub mod faults;
pub mod host;
pub mod invariants;
pub mod mutant;
pub mod network;
pub mod observation;
pub mod oracle;
pub mod plan;
pub mod random;
mod ready;
pub mod scenario;
pub mod shared;
pub mod store;
pub mod trace;
pub mod vocabulary;
pub mod workload;
pub mod world;
