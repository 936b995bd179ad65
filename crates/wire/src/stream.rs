//! Relocation streams piece by piece.
