//! `cargo xtask test`: every test of the workspace, doc tests included.

use anyhow::{Context as _, Result, bail};

use crate::run;

/// Needs nothing but cargo: nextest has no doc tests, so it could not replace this.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let passed = match args.split_first() {
        None => &[],
        Some((dashes, passed)) if dashes == "--" => passed,
        Some((arg, _)) => {
            bail!("unexpected argument `{arg}`: write what cargo test gets after `--`")
        }
    };
    prepare()?;
    let mut test = run::cargo();
    test.args(["test", "--workspace", "--all-features"])
        .args(passed);
    run::run(&mut test)
}

/// Finds or installs the server that the tests of the stores start. A program of its own, so that
/// `xtask` does not have to be built with what only these tests need.
fn prepare() -> Result<()> {
    let mut install = run::cargo();
    install.args(["run", "--quiet", "--package", "spotlane-redis-testkit"]);
    run::run(&mut install).context("no server for the tests of the stores")
}
