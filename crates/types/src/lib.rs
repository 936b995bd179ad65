//! The vocabulary of Spotlane: one type per id, generation and bound.
