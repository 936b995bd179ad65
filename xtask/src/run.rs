//! Starting other programs, above all cargo.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tree;

/// The cargo that started us, so that the pinned toolchain is used throughout.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(tree::root());
    command
}

/// Runs to the end with our own standard output; fails when the program does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs to the end and returns what it printed on standard output.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let line = line_of(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}", errors.trim());
    }
    Ok(output.stdout)
}

/// `cargo metadata` without dependencies, of the workspace or of an excluded crate.
pub(crate) fn metadata(manifest: &str) -> Result<serde_json::Value> {
    let mut command = cargo();
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--manifest-path",
        manifest,
    ]);
    let output = capture(&mut command)?;
    serde_json::from_slice(&output).context("`cargo metadata` did not print JSON")
}

/// The packages of a workspace.
pub(crate) fn packages(metadata: &serde_json::Value) -> Vec<&serde_json::Value> {
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .collect()
}

fn line_of(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Refuses arguments of a command that takes none, or other flags than these.
pub(crate) fn only_flags(args: &[String], known: &[&str]) -> Result<()> {
    match args.iter().find(|arg| !known.contains(&arg.as_str())) {
        None => Ok(()),
        Some(arg) if known.is_empty() => bail!("unexpected argument `{arg}`: none is taken here"),
        Some(arg) => bail!(
            "unexpected argument `{arg}`: known here is {}",
            known.join(", ")
        ),
    }
}

/// Whether the flag was given.
pub(crate) fn flag(args: &[String], name: &str) -> bool {
    args.iter().any(|arg| arg == name)
}

/// Manifests of the crates that stand outside of the workspace, as far as they exist.
pub(crate) fn excluded_manifests() -> Vec<String> {
    let [bench, lane_bench] = crate::bench::MANIFESTS;
    let all = [bench, lane_bench, "crates/fuzz/Cargo.toml"];
    let root = tree::root();
    all.iter()
        .filter(|path| root.join(path).is_file())
        .map(|path| (*path).to_owned())
        .collect()
}
