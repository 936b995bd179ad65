//! `spotlane demo`: three hosts in one process on real sockets, traffic, moves, and a judge.

mod args;
mod oracle;
mod random;
mod recorder;
mod spread;
mod tag;
mod verdict;

pub(crate) use args::DemoArgs;
