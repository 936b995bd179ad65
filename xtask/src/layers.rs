//! `cargo xtask layers`: dependencies between our crates point to lower layers only.
//!
//! The table below is the one place where a crate gets its layer; `cargo metadata` says who
//! depends on whom.

use anyhow::Result;
use serde_json::Value;

use crate::run;
use crate::tree::{Problem, judge};

/// Where a crate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// A crate of the product: 0 is the lowest.
    Product(u8),
    /// Proves or measures the product; the product does not depend on it.
    Test,
    /// The tools of the project, above everything; they may use what tests use.
    Tools,
}

const LAYERS: &[(&str, Layer)] = &[
    ("spotlane-types", Layer::Product(0)),
    ("spotlane-gate", Layer::Product(0)),
    ("spotlane-wire", Layer::Product(1)),
    ("spotlane-store", Layer::Product(1)),
    ("spotlane-relocation", Layer::Product(2)),
    ("spotlane-session", Layer::Product(2)),
    ("spotlane-stream-io", Layer::Product(2)),
    ("spotlane-stream-proto", Layer::Product(2)),
    ("spotlane-mesh-proto", Layer::Product(2)),
    ("spotlane-store-memory", Layer::Product(2)),
    ("spotlane-store-redis", Layer::Product(2)),
    ("spotlane-location", Layer::Product(3)),
    ("spotlane-lane", Layer::Product(2)),
    ("spotlane-mesh", Layer::Product(3)),
    ("spotlane-stream", Layer::Product(3)),
    ("spotlane-runtime", Layer::Product(4)),
    ("spotlane", Layer::Product(5)),
    ("spotlane-client", Layer::Product(5)),
    ("spotlane-counter", Layer::Product(6)),
    ("spotlane-cli", Layer::Product(7)),
    ("spotlane-store-conformance", Layer::Test),
    ("spotlane-contract", Layer::Test),
    ("spotlane-sim", Layer::Test),
    ("spotlane-bench", Layer::Tools),
    ("spotlane-redis-testkit", Layer::Test),
    ("spotlane-lane-bench", Layer::Test),
    ("xtask", Layer::Tools),
];

/// Outside of the workspace and of the table: cargo-fuzz wants a package of its own.
const FUZZ: &str = "spotlane-fuzz";

/// Crates whose dependencies are counted: these and no others, and `Optional` only as optional.
const CLOSED: [(&str, &[(&str, Presence)]); 2] = [
    ("spotlane-types", &[]),
    (
        "spotlane-wire",
        &[
            ("bytes", Presence::Always),
            ("crc-fast", Presence::Always),
            ("serde", Presence::Optional),
            ("spotlane-types", Presence::Always),
            ("thiserror", Presence::Always),
        ],
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Always,
    Optional,
}

/// Checks the workspace and the crates beside it.
pub(crate) fn command(args: &[String]) -> Result<()> {
    run::only_flags(args, &[])?;
    let mut metadata = vec![run::metadata("Cargo.toml")?];
    for manifest in run::excluded_manifests() {
        metadata.push(run::metadata(&manifest)?);
    }
    let packages: Vec<&Value> = metadata.iter().flat_map(run::packages).collect();
    let problems = check(&packages);
    judge(
        "layers",
        &problems,
        &format!("{} crates, every dependency points down", packages.len()),
    )
}

/// Whether the folder under `crates/` holds a crate of the test layer.
pub(crate) fn is_test_crate(folder: &str) -> bool {
    let name = format!("spotlane-{folder}");
    name == FUZZ || layer_of(&name) == Some(Layer::Test)
}

fn layer_of(name: &str) -> Option<Layer> {
    if name == FUZZ {
        return Some(Layer::Test);
    }
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| *layer)
}

fn check(packages: &[&Value]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        match layer_of(name) {
            None => problems.push(Problem::of(
                name,
                "unknown crate: give it a layer in the table of xtask/src/layers.rs",
            )),
            Some(layer) => {
                for dependency in dependencies {
                    problems.extend(check_edge(name, layer, dependency));
                    problems.extend(check_closed(name, dependency));
                }
            }
        }
    }
    problems
}

fn check_edge(name: &str, layer: Layer, dependency: &Value) -> Option<Problem> {
    let on = text(dependency, "name");
    let Some(below) = layer_of(on) else {
        let ours = dependency["path"].is_string();
        return ours.then(|| Problem::of(name, format!("depends on {on}, which has no layer")));
    };
    if may_depend(layer, below, dependency["kind"] == "dev") {
        return None;
    }
    let (layer, below) = (words(layer), words(below));
    Some(Problem::of(
        name,
        format!("is in {layer} and depends on {on} in {below}: dependencies point to lower layers"),
    ))
}

fn may_depend(from: Layer, on: Layer, for_tests: bool) -> bool {
    match (from, on) {
        (_, Layer::Tools) => false,
        (Layer::Tools, _) | (Layer::Test, Layer::Product(_)) => true,
        (Layer::Product(from), Layer::Product(on)) => on < from,
        (Layer::Product(_) | Layer::Test, Layer::Test) => for_tests,
    }
}

fn words(layer: Layer) -> String {
    match layer {
        Layer::Product(number) => format!("layer {number}"),
        Layer::Test => "the test layer".to_owned(),
        Layer::Tools => "the tools".to_owned(),
    }
}

fn check_closed(name: &str, dependency: &Value) -> Option<Problem> {
    let (_, allowed) = CLOSED.iter().find(|(closed, _)| *closed == name)?;
    if dependency["kind"] == "dev" {
        return None;
    }
    let on = text(dependency, "name");
    let what = match allowed.iter().find(|(known, _)| *known == on) {
        None => format!("may not depend on {on}; its dependencies are counted"),
        Some((_, Presence::Optional)) if dependency["optional"] != true => {
            format!("may have {on} only behind a feature (`optional = true`)")
        }
        Some(_) => return None,
    };
    Some(Problem::of(name, what))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A package that depends on `on`; `kind` as in the metadata: null, "dev" or "build".
    fn package(name: &str, on: &str, kind: Option<&str>) -> Value {
        let path = layer_of(on).map(|_| "somewhere");
        json!({"name": name, "dependencies": [
            {"name": on, "kind": kind, "optional": false, "path": path}]})
    }

    fn problems_of(name: &str, on: &str, kind: Option<&str>) -> usize {
        check(&[&package(name, on, kind)]).len()
    }

    #[test]
    fn a_lower_layer_is_allowed() {
        assert_eq!(problems_of("spotlane-wire", "spotlane-types", None), 0);
        assert_eq!(problems_of("spotlane-runtime", "spotlane-types", None), 0);
        assert_eq!(problems_of("spotlane-sim", "spotlane-runtime", None), 0);
        assert_eq!(problems_of("xtask", "spotlane-contract", None), 0);
    }

    #[test]
    fn sideways_and_upwards_are_refused_for_every_kind_of_dependency() {
        for kind in [None, Some("dev"), Some("build")] {
            assert_eq!(
                problems_of("spotlane-session", "spotlane-relocation", kind),
                1,
                "{kind:?}"
            );
            assert_eq!(
                problems_of("spotlane-store", "spotlane-location", kind),
                1,
                "{kind:?}"
            );
            assert_eq!(
                problems_of("spotlane-relocation", "spotlane", kind),
                1,
                "{kind:?}"
            );
            assert_eq!(problems_of("spotlane-cli", "xtask", kind), 1, "{kind:?}");
        }
    }

    #[test]
    fn the_test_layer_serves_tests_only() {
        assert_eq!(
            problems_of("spotlane-wire", "spotlane-contract", Some("dev")),
            0
        );
        assert_eq!(
            problems_of("spotlane-wire", "spotlane-contract", Some("build")),
            2
        );
        assert_eq!(
            problems_of("spotlane-location", "spotlane-contract", None),
            1
        );
        assert_eq!(problems_of("spotlane-sim", "spotlane-contract", None), 1);
        assert_eq!(
            problems_of("spotlane-sim", "spotlane-contract", Some("dev")),
            0
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_refused() {
        assert_eq!(problems_of("spotlane-extra", "bytes", None), 1);
        let on_extra = json!({"name": "spotlane-mesh", "dependencies": [
            {"name": "extra", "kind": null, "optional": false, "path": "crates/extra"}]});
        assert_eq!(check(&[&on_extra]).len(), 1);
    }

    #[test]
    fn types_and_wire_have_counted_dependencies() {
        assert_eq!(problems_of("spotlane-types", "bytes", None), 1);
        assert_eq!(problems_of("spotlane-types", "proptest", Some("dev")), 0);
        assert_eq!(problems_of("spotlane-wire", "crc-fast", None), 0);
        assert_eq!(problems_of("spotlane-wire", "tokio", None), 1);
        assert_eq!(problems_of("spotlane-wire", "serde", None), 1);
        let optional = json!({"name": "spotlane-wire", "dependencies": [
            {"name": "serde", "kind": null, "optional": true, "path": null}]});
        assert_eq!(check(&[&optional]), []);
    }

    #[test]
    fn folders_of_the_test_layer_are_known() {
        assert!(is_test_crate("contract") && is_test_crate("fuzz") && !is_test_crate("wire"));
    }
}
