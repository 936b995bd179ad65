//! The command on real files, and on files with a planted defect.

use serde_json::{Value, json};

use super::outcome::report;
use super::*;

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let found = Found::under(folder);
    assert_eq!(found.broken, []);
    found.files
}

/// Every vector file of a folder with what came of it.
fn results(folder: &Path) -> Vec<(PathBuf, Sheet)> {
    let files = files_in(folder);
    files
        .into_iter()
        .map(|path| {
            let sheet = run(&std::fs::read(&path).unwrap());
            (path, sheet)
        })
        .collect()
}

fn all_pass(folder: &Path) {
    let results = results(folder);
    assert!(!results.is_empty(), "no vector file");
    for (path, sheet) in results {
        assert_eq!(sheet.failures, [], "{}", path.display());
        assert!(sheet.passed > 0, "{}: no vector", path.display());
    }
}

#[test]
fn the_fixtures_pass() {
    all_pass(&tree::root().join(FIXTURES));
}

/// All published vectors; they are not part of the project, so they may not be there.
#[test]
fn the_golden_vectors_pass() {
    let golden = tree::root().join(GOLDEN);
    if golden.is_dir() {
        all_pass(&golden);
    }
}

/// A file of ours with this one vector.
fn ours(vector: &Value) -> Sheet {
    let file = json!({"format": ours::FORMAT, "family": "test", "vectors": [vector]});
    run(file.to_string().as_bytes())
}

fn why(sheet: &Sheet) -> &str {
    assert_eq!(sheet.failures.len(), 1, "{sheet:?}");
    &sheet.failures[0].what
}

fn probe() -> Value {
    json!({
        "name": "probe",
        "command": 5,
        "frames": ["5a4d0105000000000000000007"],
        "value": {
            "command": 5, "name": "livenessProbe", "flags": 0, "body": {"probeId": "7"},
            "metadata": null, "payload": null,
        },
    })
}

#[test]
fn a_vector_of_ours_is_held_to_all_that_it_says() {
    assert_eq!(ours(&probe()).failures, []);
    let mut flipped = probe();
    flipped["frames"][0] = json!("5a4d0105000000000000000008");
    assert!(why(&ours(&flipped)).contains("body.probeId"));
    let mut other = probe();
    other["command"] = json!(6);
    assert!(why(&ours(&other)).contains("command byte"));
    let mut both = probe();
    both["error"] = json!({"kind": "invalid-field"});
    assert!(why(&ours(&both)).contains("`value` or an `error`"));
    let refused = |error: Value| {
        ours(&json!({
            "name": "zero", "command": 5, "frames": ["5a4d0105000000000000000000"], "error": error,
        }))
    };
    let right = json!({"kind": "invalid-field", "field": "probeId", "frame": 0, "offset": 5});
    assert_eq!(refused(right.clone()).failures, []);
    for (member, wrong) in [
        ("kind", json!("truncated-field")),
        ("kind", json!("weird")),
        ("field", json!("probe")),
        ("frame", json!(1)),
        ("offset", json!(4)),
    ] {
        let mut error = right.clone();
        error[member] = wrong;
        assert_eq!(refused(error).failures.len(), 1, "{member}");
    }
    let loose = json!({"name": "l", "type": "bool8", "hex": "01", "encoded": "00"});
    assert!(why(&ours(&loose)).contains("both forms"));
}

#[test]
fn a_member_that_is_not_understood_is_named() {
    let mut vector = probe();
    vector["weight"] = json!(1);
    assert!(why(&ours(&vector)).contains("`weight`"));
    let file = json!({"format": ours::FORMAT, "family": "f", "vectors": [], "more": 1});
    assert!(why(&run(file.to_string().as_bytes())).contains("`more`"));
    let mut error = json!({"name": "z", "type": "rid", "hex": "00"});
    error["error"] = json!({"kind": "invalid-field", "place": 0});
    assert!(why(&ours(&error)).contains("`place`"));
}

#[test]
fn a_file_that_is_not_understood_is_a_failure() {
    for (text, word) in [
        ("{", "JSON"),
        ("[]", "object"),
        ("{}", "`format`"),
        (r#"{"format": "somebody-elses-v1"}"#, "`somebody-elses-v1`"),
        (
            r#"{"format": "user-spot-close-v10"}"#,
            "`user-spot-close-v10`",
        ),
        (
            r#"{"fixture": "zlink.framework.other"}"#,
            "`zlink.framework.other`",
        ),
        (
            r#"{"format": "spotlane-vectors-v1 but changed", "family": "f", "vectors": [1]}"#,
            "`spotlane-vectors-v1 but changed`",
        ),
        (
            r#"{"format": "service-wire-v1 actor join reply", "canonical": []}"#,
            "`service-wire-v1 actor join reply`",
        ),
        (
            r#"{"format": "spotlane-vectors-v1", "schema": "x", "family": "f", "vectors": []}"#,
            "more than once",
        ),
    ] {
        let sheet = run(text.as_bytes());
        assert!(why(&sheet).contains(word), "{sheet:?}");
        assert!(report(&[("x.json".to_owned(), sheet)]).is_err());
    }
}

/// A behavior file as it should be.
fn behavior() -> Value {
    let name = "zlink.framework.serial-execution";
    json!({
        "fixture": name, "version": 1, "limits": {},
        "accountingScenarios": [{"name": "a"}, {"name": "b"}],
        "arbitrationScenarios": [{"name": "c"}], "sameOwnerCalls": {"name": "d"},
    })
}

fn run_json(file: &Value) -> Sheet {
    run(file.to_string().as_bytes())
}

#[test]
fn a_behavior_file_is_for_later_and_counts_as_neither() {
    let sheet = run_json(&behavior());
    assert_eq!((sheet.vectors(), sheet.later), (0, 4));
    let behavior = ("behavior.json".to_owned(), sheet);
    assert!(
        report(std::slice::from_ref(&behavior)).is_err(),
        "not a single vector"
    );
    assert!(report(&[("ours.json".to_owned(), ours(&probe())), behavior]).is_ok());
}

#[test]
fn a_behavior_file_has_all_its_cases_and_nothing_else() {
    for (member, value) in [
        ("sameOwnerCalls", Value::Null),
        ("sameOwnerCalls", json!("cases")),
        ("sameOwnerCalls", json!({})),
        ("accountingScenarios", json!([])),
        ("accountingScenarios", json!([{"name": "a"}, 2])),
        ("nonsense", json!([])),
        ("version", json!(2)),
    ] {
        let mut file = behavior();
        file[member] = value;
        assert!(why(&run_json(&file)).contains(member), "{file}");
    }
    let mut file = behavior();
    file.as_object_mut().unwrap().remove("arbitrationScenarios");
    assert!(why(&run_json(&file)).contains("`arbitrationScenarios` is missing"));
}

/// The behavior files that are published beside the golden vectors.
#[test]
fn the_published_behavior_is_counted() {
    let folder = tree::root().join("../shared/behavior");
    if folder.is_dir() {
        for (path, sheet) in results(&folder) {
            assert_eq!(sheet.failures, [], "{}", path.display());
            assert!(sheet.later > 0, "{}", path.display());
        }
    }
}

#[test]
fn a_file_without_a_vector_is_a_failure() {
    let empty = json!({"format": ours::FORMAT, "family": "f", "vectors": []});
    assert!(why(&run_json(&empty)).contains("not a single vector"));
    let keys = json!({"format": "authority-key-v1", "consumers": [], "cases": []});
    assert_eq!(run_json(&keys).failures.len(), 1);
}

#[test]
fn a_member_that_is_there_twice_is_a_failure_at_every_depth() {
    let good = json!({"format": ours::FORMAT, "family": "f", "vectors": [probe()]}).to_string();
    assert_eq!(run(good.as_bytes()).failures, []);
    for (once, twice) in [
        (r#""vectors":"#, r#""vectors":[],"vectors":"#),
        (
            r#""command":5,"frames""#,
            r#""command":5,"command":5,"frames""#,
        ),
        (r#""probeId":"7""#, r#""probeId":"8","probeId":"7""#),
    ] {
        assert!(good.contains(once), "{once}");
        let sheet = run(good.replacen(once, twice, 1).as_bytes());
        assert!(why(&sheet).contains("is there twice"), "{sheet:?}");
    }
}

/// Every vector of ours with one digit changed: none may pass unnoticed unless the change makes
/// another vector that is right as well.
#[test]
fn a_flipped_digit_in_a_fixture_is_found() {
    let fixtures = files_in(&tree::root().join(FIXTURES));
    let mut found = 0;
    for path in fixtures {
        let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let vectors = file["vectors"].as_array_mut().unwrap();
        vectors.retain(|vector| vector["value"].is_object() && vector["type"].is_null());
        if vectors.is_empty() {
            continue;
        }
        for vector in &mut *vectors {
            let Some(Value::String(frame)) = vector["frames"].get_mut(0) else {
                continue;
            };
            let last = frame.pop().unwrap();
            frame.push(if last == '1' { '2' } else { '1' });
        }
        let expected = vectors.len();
        let sheet = run(file.to_string().as_bytes());
        assert_eq!(sheet.failures.len(), expected, "{}", path.display());
        found += expected;
    }
    assert!(found >= 40, "every command has a value");
}

/// A folder of its own for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("spotlane-conformance-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn with_a_good_file(name: &str) -> Self {
        let folder = Self::new(name);
        let source = tree::root().join("fixtures/golden/liveness.json");
        std::fs::copy(source, folder.0.join("good.json")).unwrap();
        folder
    }

    /// As the command, without our own fixtures, which take long.
    fn run(&self) -> Result<()> {
        report(&run_all(&Found::under(&self.0), &self.0))
    }

    /// The rows that failed: file and why.
    fn failures(&self) -> Vec<(String, String)> {
        let results = run_all(&Found::under(&self.0), &self.0);
        let failed = results.into_iter().filter(|(_, s)| !s.failures.is_empty());
        failed
            .map(|(path, sheet)| (path, why(&sheet).to_owned()))
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The whole command on a folder with one bad file among good ones.
#[test]
fn the_command_fails_for_one_bad_file_in_a_folder_of_folders() {
    let folder = Folder::with_a_good_file("bad");
    let inner = folder.0.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    let args = [folder.0.display().to_string()];
    let good = command(&args);
    assert!(good.is_ok(), "{good:?}");
    std::fs::write(inner.join("bad.json"), r#"{"format": "other-v1"}"#).unwrap();
    assert!(command(&args).unwrap_err().to_string().contains("1 of"));
    assert_eq!(folder.failures()[0].0, "inner/bad.json");
}

#[test]
fn a_folder_without_a_vector_file_is_a_failure_and_other_endings_are_named() {
    let folder = Folder::new("empty");
    assert!(folder.run().unwrap_err().to_string().contains("1 of"));
    std::fs::write(folder.0.join("vectors.JSON"), "{}").unwrap();
    assert!(folder.run().is_err());
    let remarks = Found::under(&folder.0).remarks("top");
    assert_eq!(
        remarks,
        ["top: 1 without the ending `.json`, not looked at: vectors.JSON"]
    );
    let missing = run_all(&Found::under(&folder.0.join("missing")), &folder.0);
    assert_eq!(missing[0].0, "missing");
    assert!(report(&missing).is_err());
}

#[test]
fn a_single_file_can_be_given() {
    let folder = Folder::with_a_good_file("single");
    let found = Found::under(&folder.0.join("good.json"));
    assert_eq!(found.files.len(), 1);
    assert!(report(&run_all(&found, &folder.0)).is_ok());
}

/// A link to nothing is a row that failed, the rest runs; a link to a folder is not followed.
#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_a_row_that_failed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::with_a_good_file("links");
    symlink("nowhere", folder.0.join("dangling.json")).unwrap();
    symlink("good.json", folder.0.join("linked.json")).unwrap();
    symlink(".", folder.0.join("loop")).unwrap();
    symlink(".", folder.0.join("loop.json")).unwrap();
    let found = Found::under(&folder.0);
    assert_eq!(found.files.len(), 2, "{found:?}");
    let remarks = found.remarks("top");
    assert_eq!(
        remarks,
        ["top: 2 links to folders, not followed: loop, loop.json"]
    );
    let failures = folder.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].0, "dangling.json");
    assert!(failures[0].1.starts_with("cannot be read: "));
    assert!(folder.run().unwrap_err().to_string().contains("1 of"));
}

/// A file that was there when the folder was listed and cannot be read any more.
#[test]
fn a_file_that_cannot_be_read_is_a_row_that_failed() {
    let folder = Folder::with_a_good_file("gone");
    let found = Found::under(&folder.0);
    std::fs::remove_file(folder.0.join("good.json")).unwrap();
    let results = run_all(&found, &folder.0);
    assert_eq!(results.len(), 1);
    assert!(why(&results[0].1).starts_with("cannot be read: "));
}

/// The two codecs agree on every vector of ours, in value and in error kind.
#[test]
fn the_judge_agrees_with_every_fixture() {
    let root = tree::root();
    let contract = root.join("fixtures/contract/service-wire.contract");
    let judge =
        spotlane_contract::Contract::parse(&std::fs::read_to_string(contract).unwrap()).unwrap();
    let mut seen = 0;
    for path in files_in(&root.join(FIXTURES)) {
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for vector in file["vectors"].as_array().unwrap() {
            let pending = vector["pending"].as_str();
            let decoded = if let Some(name) = vector["type"].as_str() {
                judge.decode_type(name, &notation::bytes(&vector["hex"]).unwrap())
            } else {
                let frames = vector["frames"].as_array().unwrap().iter();
                let frames: Vec<_> = frames.map(|f| notation::bytes(f).unwrap()).collect();
                judge.decode_record(&frames, pending)
            };
            let place = format!("{}: {}", path.display(), vector["name"]);
            match (decoded, vector["error"]["kind"].as_str()) {
                (Ok(_), None) if vector["value"].is_null() => {}
                (Ok(value), None) => assert_eq!(value, vector["value"], "{place}"),
                (Err(refusal), Some(kind)) => assert_eq!(refusal.kind.as_str(), kind, "{place}"),
                (answer, _) => panic!("{place}: {answer:?}"),
            }
            seen += 1;
        }
    }
    assert!(seen > 1000);
}
