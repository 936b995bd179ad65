//! The shape of every machine of this crate, which all machines of the product share.

pub use spotlane_types::machine::Machine;
