//! `cargo xtask loom`: the models of the gate and of the lane engine, under loom and under shuttle.
//!
//! Loom tries every interleaving of small worlds up to a number of preemptions, shuttle random ones of
//! larger worlds. Both replace locks and atomics by their own, so each is a build of its own, apart
//! from the folder of the ordinary tests.

use anyhow::Result;

use crate::run;

/// One checker: its `cfg`, and what the short and the long form set.
struct Checker {
    cfg: &'static str,
    setting: &'static str,
    short: &'static str,
    long: &'static str,
}

const CHECKERS: [Checker; 2] = [
    Checker {
        cfg: "loom",
        setting: "SPOTLANE_MODEL_PREEMPTIONS",
        short: "2",
        long: "3",
    },
    Checker {
        cfg: "shuttle",
        setting: "SPOTLANE_MODEL_SCHEDULES",
        short: "500",
        long: "50000",
    },
];

/// Runs both checkers; `--long` looks further and takes minutes.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &["--long"])?;
    let long = run::flag(args, "--long");
    for checker in &CHECKERS {
        let bound = if long { checker.long } else { checker.short };
        let mut test = run::cargo();
        test.args([
            "test",
            "--package",
            "spotlane-gate",
            "--package",
            "spotlane-lane",
        ])
        .args(["--lib", "--release"])
        .args(["--target-dir", &format!("target/{}", checker.cfg)])
        .arg("models")
        .env("RUSTFLAGS", format!("--cfg {}", checker.cfg))
        .env(checker.setting, bound);
        run::run(&mut test)?;
    }
    Ok(())
}
