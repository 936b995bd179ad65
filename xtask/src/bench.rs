//! `cargo xtask bench`: builds the bench crate in release mode and runs its programs.
//!
//! A bench is a program (bin target) of `crates/bench`, or the one of `crates/lane-bench`, whose peers
//! would enter the lock file of the former. What a program needs in heavy peers is a
//! feature that its `required-features` name, so only the programs that are asked for pay for it.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::report::say;
use crate::{run, tree};

/// The crates with the benches.
pub(crate) const MANIFESTS: [&str; 2] = ["crates/bench/Cargo.toml", "crates/lane-bench/Cargo.toml"];
/// Apart from the tests' folder, so that a bench build and a test build do not wait for each other.
pub(crate) const TARGET: &str = "target/bench";

/// One program and the features it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bench {
    manifest: &'static str,
    name: String,
    features: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    names: Vec<String>,
    /// Handed on to the programs.
    flags: Vec<String>,
    list: bool,
}

/// Runs the named benches, or all.
pub(crate) fn command(args: &[String]) -> Result<()> {
    let request = parse(args)?;
    let mut benches = Vec::new();
    for manifest in MANIFESTS {
        benches.extend(programs(manifest, &run::metadata(manifest)?));
    }
    benches.sort_by(|left, right| left.name.cmp(&right.name));
    let chosen = choose(&benches, &request.names)?;
    if request.list {
        for bench in chosen {
            say(&bench.name);
        }
        return Ok(());
    }
    for manifest in MANIFESTS {
        build(manifest, &chosen)?;
    }
    let folder = tree::root().join(TARGET).join("release");
    for bench in chosen {
        let program = folder.join(format!("{}{}", bench.name, std::env::consts::EXE_SUFFIX));
        let mut program = std::process::Command::new(program);
        run::run(program.args(&request.flags).current_dir(tree::root()))?;
    }
    Ok(())
}

fn parse(args: &[String]) -> Result<Request> {
    let mut request = Request::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" | "--json" | "--ours" => request.flags.push(arg.clone()),
            "--only" => {
                let Some(text) = args.next() else {
                    bail!("--only needs a part of the name of a figure behind it");
                };
                request.flags.extend([arg.clone(), text.clone()]);
            }
            "--list" => request.list = true,
            name if !name.starts_with('-') => request.names.push(name.to_owned()),
            _ => bail!(
                "unexpected argument `{arg}`: known here are --quick, --json, --ours, --only TEXT and --list"
            ),
        }
    }
    Ok(request)
}

fn programs(manifest: &'static str, metadata: &Value) -> Vec<Bench> {
    let packages = run::packages(metadata).into_iter();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let programs = targets.filter(|target| target["kind"][0] == "bin");
    let words = |list: &Value| -> Vec<String> {
        let words = list.as_array().into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    programs
        .map(|target| Bench {
            manifest,
            name: target["name"].as_str().unwrap_or_default().to_owned(),
            features: words(&target["required-features"]),
        })
        .collect()
}

fn choose<'a>(benches: &'a [Bench], names: &[String]) -> Result<Vec<&'a Bench>> {
    for name in names {
        if !benches.iter().any(|bench| bench.name == *name) {
            let mut known: Vec<_> = benches.iter().map(|bench| bench.name.as_str()).collect();
            known.sort_unstable();
            bail!(
                "there is no bench `{name}`; the benches are {}",
                known.join(", ")
            );
        }
    }
    let wanted = |bench: &&Bench| names.is_empty() || names.contains(&bench.name);
    Ok(benches.iter().filter(wanted).collect())
}

/// Builds what was chosen of one crate.
fn build(manifest: &str, chosen: &[&Bench]) -> Result<()> {
    let chosen: Vec<&Bench> = chosen
        .iter()
        .copied()
        .filter(|bench| bench.manifest == manifest)
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let mut build = run::cargo();
    build.args([
        "build",
        "--release",
        "--manifest-path",
        manifest,
        "--target-dir",
        TARGET,
    ]);
    let features: BTreeSet<&str> = chosen
        .iter()
        .flat_map(|bench| &bench.features)
        .map(String::as_str)
        .collect();
    if !features.is_empty() {
        build
            .arg("--features")
            .arg(features.into_iter().collect::<Vec<_>>().join(","));
    }
    for bench in chosen {
        build.args(["--bin", &bench.name]);
    }
    run::run(&mut build)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn names_and_flags_are_told_apart() {
        let request = parse(&words("crc --quick codec --only 64 --list")).unwrap();
        assert_eq!(
            (request.names, request.flags),
            (words("crc codec"), words("--quick --only 64"))
        );
        assert!(request.list);
        assert!(parse(&words("crc --only")).is_err());
    }

    #[test]
    fn programs_are_benches_and_an_unknown_name_is_refused() {
        let metadata = json!({"packages": [{"targets": [
            {"kind": ["lib"], "name": "spotlane_bench"},
            {"kind": ["bin"], "name": "net", "required-features": ["net-peers"]},
            {"kind": ["bin"], "name": "crc"}]}]});
        let benches = programs(MANIFESTS[0], &metadata);
        assert_eq!(benches.len(), 2);
        assert_eq!(
            choose(&benches, &words("net")).unwrap()[0].features,
            ["net-peers"]
        );
        assert_eq!(choose(&benches, &[]).unwrap().len(), 2);
        let error = choose(&benches, &words("nte")).unwrap_err().to_string();
        assert!(
            error.contains("`nte`") && error.contains("crc, net"),
            "{error}"
        );
    }
}
