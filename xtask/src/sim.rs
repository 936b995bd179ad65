//! `cargo xtask sim`: worlds from seeds; everything else is the command line of the simulator.

use anyhow::Result;

use crate::run;

/// Many worlds want an optimized simulator, so it is built like that.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let mut sim = run::cargo();
    sim.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "spotlane-sim",
        "--",
    ])
    .args(args);
    run::run(&mut sim)
}
