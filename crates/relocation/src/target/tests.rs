//! One event in, the complete list of effects out.
