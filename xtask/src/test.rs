//! `cargo xtask test`: every test of the workspace, doc tests included.

use anyhow::{Result, bail};

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
    let services = prepare()?;
    let mut test = run::cargo();
    test.args(["test", "--workspace", "--all-features"])
        .args(passed);
    test.envs(services.variables.iter().map(|(name, value)| (name, value)));
    run::run(&mut test)
}

/// What tests need besides the code; it runs until this is dropped.
#[derive(Debug, Default)]
struct Services {
    /// Tells the tests where the services listen.
    variables: Vec<(String, String)>,
}

/// Starts what the tests talk to. Nothing yet: the Redis servers of the store tests start here.
#[expect(clippy::unnecessary_wraps, reason = "starting a server can fail")]
fn prepare() -> Result<Services> {
    Ok(Services::default())
}
