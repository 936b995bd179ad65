//! `spotlane demo`: three hosts in one process on real sockets, traffic, moves, and a judge.

mod args;
mod clients;
mod collect;
mod moves;
mod oracle;
mod random;
mod recorder;
mod run;
mod spread;
mod tag;
mod traffic;
mod troubles;
mod verdict;
mod world;

pub(crate) use args::DemoArgs;
pub(crate) use recorder::{Figures, POINTS};
pub(crate) use run::run;
