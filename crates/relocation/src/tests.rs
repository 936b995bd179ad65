//! Whole moves: both machines over a simulated network.

mod behavior;
mod moves;
mod promises;
mod prop;
