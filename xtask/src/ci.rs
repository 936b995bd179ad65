//! `cargo xtask ci`: every check and every test, exactly as CI runs them.
//!
//! It never writes a source file. The first step that fails ends the run; the table at the end
//! shows what ran and how long it took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::report::{Table, say};
use crate::{fixtures, layers, rules, run, test, tidy};

/// Name and action of one step.
type Step = (&'static str, fn() -> Result<()>);

/// Cheap checks first, so that a slip is reported in seconds.
const STEPS: [Step; 10] = [
    ("fmt", format_is_clean),
    ("tidy", || tidy::command(&[])),
    ("layers", || layers::command(&[])),
    ("fixtures", || fixtures::command(&[])),
    ("rules", || rules::command(&[])),
    ("clippy", clippy_is_clean),
    ("alone", each_crate_builds_alone),
    ("rustdoc", docs_are_clean),
    ("bench", benches_build),
    ("test", || test::command(&[])),
];

/// Runs all steps in order.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &[])?;
    run_steps(&STEPS)
}

fn run_steps(steps: &[Step]) -> Result<()> {
    let mut table = Table::new(["step", "seconds", "result"]);
    let mut result = Ok(());
    for (name, action) in steps {
        if result.is_err() {
            table.row([name, "", "not run"]);
            continue;
        }
        say(&format!("== {name}"));
        let (outcome, time) = timed(*action);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        table.row([name, &format!("{:.1}", time.as_secs_f64()), word]);
        result = outcome.with_context(|| format!("step `{name}`"));
    }
    say(&format!("\n{table}"));
    result
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool that tells how long its steps took"
)]
fn timed(action: fn() -> Result<()>) -> (Result<()>, Duration) {
    let start = Instant::now();
    let outcome = action();
    (outcome, start.elapsed())
}

fn format_is_clean() -> Result<()> {
    run::run(run::cargo().args(["fmt", "--all", "--", "--check"]))?;
    for manifest in run::excluded_manifests() {
        run::run(run::cargo().args(["fmt", "--manifest-path", &manifest, "--", "--check"]))?;
    }
    Ok(())
}

fn clippy_is_clean() -> Result<()> {
    let mut clippy = run::cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--all-features"]);
    run::run(clippy.args(["--", "-D", "warnings"]))
}

/// Features that a crate forgot to ask for hide in a workspace build whenever another crate asks
/// for them. Checked and not linked: what is missing shows at the check already.
fn each_crate_builds_alone() -> Result<()> {
    let metadata = run::metadata("Cargo.toml")?;
    for package in run::packages(&metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        for features in ["--no-default-features", "--all-features"] {
            let mut check = run::cargo();
            check.args(["clippy", "--quiet", "--package", name, features]);
            run::run(check.args(["--", "-D", "warnings"]))?;
        }
    }
    Ok(())
}

fn docs_are_clean() -> Result<()> {
    let mut doc = run::cargo();
    doc.args([
        "doc",
        "--workspace",
        "--all-features",
        "--no-deps",
        "--quiet",
    ]);
    run::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The bench crate is outside of the workspace, so nothing else would notice that it broke. The
/// features that bring heavy peers stay off.
fn benches_build() -> Result<()> {
    let mut clippy = run::cargo();
    clippy.args([
        "clippy",
        "--manifest-path",
        crate::bench::MANIFEST,
        "--all-targets",
    ]);
    clippy.args(["--target-dir", crate::bench::TARGET, "--", "-D", "warnings"]);
    run::run(&mut clippy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_ends_the_run() {
        let steps: [Step; 2] = [
            ("bad", || anyhow::bail!("planted")),
            ("after", || panic!("must not run")),
        ];
        let error = run_steps(&steps).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `bad`: planted");
    }
}
