//! `cargo xtask ci`: every check and every test, exactly as CI runs them.
//!
//! It never writes a source file. A failed step does not hide what the later ones have to say; the
//! table at the end shows which failed and how long each took.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::report::{Table, say};
use crate::{fixtures, layers, loom, rules, run, test, tidy};

/// Name and action of one step.
type Step = (&'static str, fn() -> Result<()>);

/// Cheap checks first, so that a slip is reported in seconds.
const STEPS: [Step; 11] = [
    ("fmt", format_is_clean),
    ("tidy", || tidy::command(&[])),
    ("layers", || layers::command(&[])),
    ("fixtures", || fixtures::command(&[])),
    ("rules", || rules::command(&[])),
    ("clippy", clippy_is_clean),
    ("alone", each_crate_builds_alone),
    ("rustdoc", docs_are_clean),
    ("bench", benches_are_clean),
    ("test", || test::command(&[])),
    ("loom", || loom::command(&[])),
];

/// Runs all steps in order.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &[])?;
    run_steps(&STEPS)
}

fn run_steps(steps: &[Step]) -> Result<()> {
    let mut table = Table::new(["step", "seconds", "result"]);
    let mut failed = Vec::new();
    for (name, action) in steps {
        say(&format!("== {name}"));
        let (outcome, time) = timed(*action);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        table.row([name, &format!("{:.1}", time.as_secs_f64()), word]);
        if let Err(error) = outcome {
            say(&format!("{name}: {error:#}"));
            failed.push(*name);
        }
    }
    say(&format!("\n{table}"));
    if !failed.is_empty() {
        bail!(
            "failed: {}; each is a step of its own in the output above",
            failed.join(", ")
        );
    }
    Ok(())
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

/// The bench crates are outside of the workspace, so nothing else would notice that they broke. Linted
/// twice, because a bench with heavy peers stands behind a feature: checked, peers cost seconds, so
/// only the test, which has to link, does without them.
fn benches_are_clean() -> Result<()> {
    let [bench, lane_bench] = crate::bench::MANIFESTS;
    for (manifest, features) in [
        (bench, "--no-default-features"),
        (bench, "--all-features"),
        (lane_bench, "--all-features"),
    ] {
        let mut clippy = run::cargo();
        clippy.args(["clippy", "--locked", "--all-targets", features]);
        run::run(clippy.args(place(manifest)).args(["--", "-D", "warnings"]))?;
    }
    run::run(
        run::cargo()
            .args(["test", "--locked", "--lib"])
            .args(place(bench)),
    )
}

fn place(manifest: &str) -> [&str; 4] {
    [
        "--manifest-path",
        manifest,
        "--target-dir",
        crate::bench::TARGET,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_and_every_failure_is_named() {
        let steps: [Step; 3] = [
            ("bad", || bail!("planted")),
            ("fine", || Ok(())),
            ("worse", || bail!("planted")),
        ];
        let error = run_steps(&steps).unwrap_err().to_string();
        assert!(error.starts_with("failed: bad, worse;"), "{error}");
        assert!(run_steps(&steps[1..2]).is_ok());
    }
}
