//! `cargo xtask test`: every test of the workspace, doc tests included.

use std::process::{Command, Stdio};

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
    test.args(["test", "--workspace", "--all-features", "--no-fail-fast"])
        .args(passed);
    limit(&mut test)?;
    run::run(&mut test)
}

/// A test program that hangs is ended after so many seconds and fails; the harness has named the test by then. The longest
/// takes two minutes on two cores.
const LIMIT: &str = "1200";

fn limit(test: &mut Command) -> Result<()> {
    let mut timeout = Command::new("timeout");
    let found = timeout.arg("--version").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        // Then a test that hangs is ended by whoever waits for it.
        return Ok(());
    }
    let mut rustc = Command::new("rustc");
    let version = String::from_utf8(run::capture(rustc.arg("-vV"))?)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("`rustc -vV` names no host")?;
    let host = host.replace('-', "_").to_uppercase();
    let runner = format!("timeout --foreground --kill-after=10 {LIMIT}");
    test.env(format!("CARGO_TARGET_{host}_RUNNER"), runner);
    Ok(())
}

/// Finds or installs the server that the tests of the stores start. A program of its own, so that
/// `xtask` does not have to be built with what only these tests need.
fn prepare() -> Result<()> {
    let mut install = run::cargo();
    install.args(["run", "--quiet", "--package", "spotlane-redis-testkit"]);
    run::run(&mut install).context("no server for the tests of the stores")
}
