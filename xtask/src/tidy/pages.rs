//! Pages that list what exists: every crate of ours and every dependency has its row, and no row
//! outlives what it is about.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::tree::{Files, Problem, text, texts};

const DEPENDENCIES: &str = "docs/dependencies.md";
/// Pages with a table of the folders of `crates/`.
const LAYOUTS: [&str; 2] = ["README.md", "docs/architecture.md"];
const CRATES: &str = "crates/";

/// Compares the pages with manifests and folders.
pub(super) fn check(files: &Files) -> Vec<Problem> {
    let mut problems = compare(files, DEPENDENCIES, &dependencies(files), |name| {
        Some(name).filter(|name| !name.contains('/'))
    });
    let crates = crates(files);
    for page in LAYOUTS {
        problems.extend(compare(files, page, &crates, |name| {
            Some(name).filter(|name| name.starts_with(CRATES))
        }));
    }
    problems
}

/// Both directions: what has no row, and rows about what is not there. Of the names in a first
/// column those count that `ours` accepts.
fn compare(
    files: &Files,
    page: &str,
    there: &BTreeSet<String>,
    ours: impl Fn(&str) -> Option<&str>,
) -> Vec<Problem> {
    let contents = files.get(page).and_then(|bytes| text(bytes));
    let mut problems = Vec::new();
    let mut rows = BTreeSet::new();
    for (at, line) in contents.unwrap_or_default().lines().enumerate() {
        for name in first_column(line).filter_map(&ours) {
            let name = name.trim_end_matches('/');
            if !there.contains(name) {
                problems.push(Problem::at(
                    page,
                    at,
                    format!("a row about `{name}`, which is not there"),
                ));
            }
            if !rows.insert(name.to_owned()) {
                problems.push(Problem::at(
                    page,
                    at,
                    format!("a second row about `{name}`"),
                ));
            }
        }
    }
    let missing = there.difference(&rows);
    problems.extend(missing.map(|name| Problem::of(page, format!("no row about `{name}`"))));
    problems
}

/// What stands in backticks in the first cell of a row of a table.
fn first_column(line: &str) -> impl Iterator<Item = &str> {
    let cell = line.strip_prefix('|').and_then(|row| row.split('|').next());
    cell.unwrap_or_default().split('`').skip(1).step_by(2)
}

/// The folders of `crates/`.
fn crates(files: &Files) -> BTreeSet<String> {
    let inside = files.keys().filter_map(|path| path.strip_prefix(CRATES));
    let folders = inside.filter_map(|path| path.split_once('/'));
    folders
        .map(|(folder, _)| format!("{CRATES}{folder}"))
        .collect()
}

/// Crates of others: those of the workspace, and those that a crate outside of it asks for itself.
fn dependencies(files: &Files) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // A manifest that cannot be read is a finding of its own, in `manifests`.
    let manifests = texts(files, "Cargo.toml").filter_map(|(_, text)| text.parse::<Table>().ok());
    for manifest in manifests {
        let table = |name: &str| manifest.get(name).and_then(Value::as_table);
        let targets = table("target").into_iter().flat_map(Table::values);
        let tables = std::iter::once(&manifest)
            .chain(table("workspace"))
            .chain(targets.filter_map(Value::as_table));
        for table in tables {
            for kind in super::manifests::DEPENDENCIES {
                let dependencies = table.get(kind).and_then(Value::as_table);
                names.extend(dependencies.into_iter().flatten().filter_map(external));
            }
        }
    }
    names
}

/// The name in the registry of what is neither ours nor inherited.
fn external((name, dependency): (&String, &Value)) -> Option<String> {
    if dependency.get("path").is_some() || dependency.get("workspace").is_some() {
        return None;
    }
    let renamed = dependency.get("package").and_then(Value::as_str);
    Some(renamed.unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::plant;

    const ROOT: &str = "\
[workspace.dependencies]
spotlane-x = { path = \"crates/x\" }
bytes = { version = \"1\" }
ssl = { package = \"rustls\", version = \"1\" }
";
    const BENCH: &str = "\
[dependencies]
spotlane-x = { path = \"../x\" }
bytes = \"1\"
[target.'cfg(unix)'.dev-dependencies]
prost = \"1\"
[workspace]
";
    const X: &str = "[dependencies]\nbytes.workspace = true\n";
    const ROWS: &str =
        "| crate | for |\n|---|---|\n| `bytes` | `y` |\n\n| `rustls`, `prost` | z |\n";
    const LAYOUT: &str = "| `crates/x` | x |\n| `crates/bench/` | b |\n| `fixtures/` | f |\n";

    fn problems(rows: &str, readme: &str, architecture: &str) -> Vec<String> {
        let files = plant([
            ("Cargo.toml", ROOT),
            ("crates/x/Cargo.toml", X),
            ("crates/bench/Cargo.toml", BENCH),
            (DEPENDENCIES, rows),
            (LAYOUTS[0], readme),
            (LAYOUTS[1], architecture),
        ]);
        let found = check(&files).into_iter();
        found
            .map(|found| format!("{}: {}", found.place, found.what))
            .collect()
    }

    #[test]
    fn pages_that_list_everything_once_are_fine() {
        assert_eq!(problems(ROWS, LAYOUT, LAYOUT), [""; 0]);
    }

    #[test]
    fn a_dependency_without_a_row_and_a_row_without_a_dependency_are_found() {
        let missing = ROWS.replace("`rustls`, ", "");
        assert_eq!(
            problems(&missing, LAYOUT, LAYOUT),
            ["docs/dependencies.md: no row about `rustls`"]
        );
        let stale = format!("{ROWS}| `redis` | r |\n| `bytes` | b |\n");
        assert_eq!(
            problems(&stale, LAYOUT, LAYOUT),
            [
                "docs/dependencies.md:6: a row about `redis`, which is not there",
                "docs/dependencies.md:7: a second row about `bytes`",
            ]
        );
        assert_eq!(problems("", LAYOUT, LAYOUT).len(), 3);
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found_on_both_pages() {
        let missing = LAYOUT.replace("| `crates/x` | x |\n", "");
        assert_eq!(
            problems(ROWS, &missing, LAYOUT),
            ["README.md: no row about `crates/x`"]
        );
        let stale = format!("{LAYOUT}| `crates/y` | y |\n");
        assert_eq!(
            problems(ROWS, LAYOUT, &stale),
            ["docs/architecture.md:4: a row about `crates/y`, which is not there"]
        );
    }
}
