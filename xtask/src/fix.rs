//! `cargo xtask fix`: the only command that changes sources.

use anyhow::Result;

use crate::run;

/// Formats last, because what clippy writes is not formatted.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &[])?;
    run::run(run::cargo().args([
        "clippy",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
        "--workspace",
        "--all-targets",
        "--all-features",
    ]))?;
    run::run(run::cargo().args(["fmt", "--all"]))?;
    for manifest in run::excluded_manifests() {
        run::run(run::cargo().args(["fmt", "--manifest-path", &manifest]))?;
    }
    Ok(())
}
