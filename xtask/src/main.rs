//! The project's own commands: `cargo xtask NAME`.

fn main() {}
