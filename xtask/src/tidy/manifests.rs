//! Manifests: crates inherit fields, lints and versions from the workspace.

use toml::{Table, Value};

use crate::tree::{Files, Problem, texts};

const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];
/// The tables of a manifest that hold dependencies.
pub(super) const DEPENDENCIES: [&str; 3] =
    ["dependencies", "dev-dependencies", "build-dependencies"];

/// Cannot forbid unsafe code: the macro of a fuzz target expands to it.
const FUZZ: &str = "crates/fuzz/Cargo.toml";

/// Has unsafe code, each block with its reason (`docs/decisions/lane-gate.md`); a manifest inherits all lints or none, so it repeats
/// the others.
const UNSAFE: &str = "crates/gate/Cargo.toml";

/// Checks the manifest of every crate.
pub(super) fn check(files: &Files) -> Vec<Problem> {
    let mut problems = Vec::new();
    let root = files
        .get("Cargo.toml")
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let root = match root.unwrap_or_default().parse::<Table>() {
        Ok(root) => root,
        Err(error) => return vec![Problem::of("Cargo.toml", error.message())],
    };
    for (path, text) in texts(files, "/Cargo.toml").filter(|(path, _)| *path != FUZZ) {
        match text.parse::<Table>() {
            Err(error) => problems.push(Problem::of(path, error.message())),
            Ok(manifest) => {
                let mut check = Check {
                    path,
                    problems: &mut problems,
                };
                match manifest.get("workspace") {
                    None => check.member(&manifest),
                    Some(workspace) => check.excluded(workspace, &root),
                }
                if *path == *UNSAFE {
                    check.repeated(&manifest, &root);
                } else {
                    check.lints(&manifest);
                }
            }
        }
    }
    problems
}

struct Check<'a> {
    path: &'a str,
    problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    fn say(&mut self, what: String) {
        self.problems.push(Problem::of(self.path, what));
    }

    fn member(&mut self, manifest: &Table) {
        let package = manifest.get("package").and_then(Value::as_table);
        for field in INHERITED {
            if !package
                .and_then(|package| package.get(field))
                .is_some_and(inherits)
            {
                self.say(format!(
                    "`{field}` is not inherited: `{field}.workspace = true`"
                ));
            }
        }
        if !package.is_some_and(|package| package.contains_key("description")) {
            self.say("no `description`".to_owned());
        }
        let targets = manifest.get("target").and_then(Value::as_table);
        let targets = targets
            .into_iter()
            .flat_map(Table::values)
            .filter_map(Value::as_table);
        for table in std::iter::once(manifest).chain(targets) {
            for kind in DEPENDENCIES {
                let dependencies = table.get(kind).and_then(Value::as_table);
                for (name, dependency) in dependencies.into_iter().flatten() {
                    if !inherits(dependency) {
                        self.say(format!(
                            "{name}: versions live in `[workspace.dependencies]`"
                        ));
                    }
                }
            }
        }
    }

    /// A workspace of its own cannot inherit, so it repeats, and this keeps the copies equal.
    fn excluded(&mut self, workspace: &Value, root: &Table) {
        let ours = root
            .get("workspace")
            .and_then(|workspace| workspace.get("lints"));
        if workspace.get("lints") != ours {
            self.say("`[workspace.lints]` differs from that of the main workspace".to_owned());
        }
    }

    /// Every lint of the workspace at its level, and unsafe code only where it is expected.
    fn repeated(&mut self, manifest: &Table, root: &Table) {
        let workspace = root
            .get("workspace")
            .and_then(|workspace| workspace.get("lints"));
        let tools = workspace.and_then(Value::as_table);
        for (tool, lints) in tools.into_iter().flatten() {
            for (lint, level) in lints.as_table().into_iter().flatten() {
                let warned = Value::String("warn".to_owned());
                let wanted = if lint == "unsafe_code" {
                    &warned
                } else {
                    level
                };
                let own = manifest.get("lints").and_then(|own| own.get(tool));
                if own.and_then(|own| own.get(lint)) != Some(wanted) {
                    self.say(format!("`{tool}` lint `{lint}` must be at {wanted}"));
                }
            }
        }
    }

    fn lints(&mut self, manifest: &Table) {
        if !manifest.get("lints").is_some_and(inherits) {
            self.say("lints are not inherited: `[lints] workspace = true`".to_owned());
        }
    }
}

fn inherits(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    const ROOT: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
    const FINE: &str = "\
[package]
name = \"x\"
description = \"X.\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true

[dependencies]
bytes.workspace = true
serde = { workspace = true, optional = true }

[lints]
workspace = true
";

    fn problems(manifest: &str) -> Vec<String> {
        let files = plant([("Cargo.toml", ROOT), ("crates/x/Cargo.toml", manifest)]);
        check(&files).into_iter().map(|found| found.what).collect()
    }

    #[test]
    fn a_manifest_that_inherits_everything_is_fine() {
        assert_eq!(problems(FINE), [""; 0]);
    }

    #[test]
    fn each_thing_that_is_not_inherited_is_named() {
        let cases = [
            ("edition.workspace = true", "edition = \"2021\"", "edition"),
            ("license.workspace = true\n", "", "license"),
            ("description = \"X.\"\n", "", "description"),
            ("bytes.workspace = true", "bytes = \"1\"", "bytes"),
            ("[lints]\nworkspace = true\n", "", "lints"),
            (
                "[lints]",
                "[target.'cfg(unix)'.dev-dependencies]\nlibc = \"0.2\"\n[lints]",
                "libc",
            ),
        ];
        for (fine, planted, named) in cases {
            let found = problems(&FINE.replace(fine, planted));
            assert!(
                found.len() == 1 && found[0].contains(named),
                "{named}: {found:?}"
            );
        }
    }

    #[test]
    fn an_excluded_crate_repeats_the_lints() {
        let equal = format!("{ROOT}[lints]\nworkspace = true\n");
        assert_eq!(problems(&equal), [""; 0]);
        assert_eq!(problems(&equal.replace("forbid", "allow")).len(), 1);
    }

    #[test]
    fn the_crate_with_unsafe_code_repeats_all_other_lints() {
        let root = format!("{ROOT}unused = \"warn\"\n");
        let own = FINE.replace(
            "[lints]\nworkspace = true\n",
            "[lints.rust]\nunsafe_code = \"warn\"\nunused = \"warn\"\nmore = \"deny\"\n",
        );
        let found = |own: &str| {
            let files = plant([("Cargo.toml", &*root), (UNSAFE, own)]);
            check(&files).len()
        };
        assert_eq!(found(&own), 0);
        assert_eq!(found(&own.replace("unused = \"warn\"\n", "")), 1);
        assert_eq!(
            found(&own.replace("code = \"warn\"", "code = \"allow\"")),
            1
        );
        assert_eq!(problems(&own).len(), 1, "of another crate");
    }

    #[test]
    fn a_manifest_that_is_no_toml_is_reported() {
        assert_eq!(problems("[package").len(), 1);
    }
}
