//! The command on real files, and on files with a planted defect.

use serde_json::json;

use super::*;

/// Every vector file of a folder with what came of it.
fn results(folder: &Path) -> Vec<(PathBuf, Sheet)> {
    let files = files_in(folder).unwrap();
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
    ] {
        let sheet = run(text.as_bytes());
        assert!(why(&sheet).contains(word), "{sheet:?}");
        assert!(report(&[("x.json".to_owned(), sheet)]).is_err());
    }
}

#[test]
fn a_behavior_file_is_for_later_and_counts_as_neither() {
    let file =
        json!({"fixture": "zlink.framework.serial-execution", "accountingScenarios": [1, 2]});
    let sheet = run(file.to_string().as_bytes());
    assert_eq!((sheet.vectors(), sheet.later), (0, 2));
    let behavior = ("behavior.json".to_owned(), sheet);
    assert!(
        report(std::slice::from_ref(&behavior)).is_err(),
        "not a single vector"
    );
    assert!(report(&[("ours.json".to_owned(), ours(&probe())), behavior]).is_ok());
}

/// Every vector of ours with one digit changed: none may pass unnoticed unless the change makes
/// another vector that is right as well.
#[test]
fn a_flipped_digit_in_a_fixture_is_found() {
    let fixtures = files_in(&tree::root().join(FIXTURES)).unwrap();
    let mut found = 0;
    for path in fixtures {
        let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let vectors = file["vectors"].as_array_mut().unwrap();
        vectors.retain(|vector| vector["value"].is_object() && vector["type"].is_null());
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

/// The whole command on a folder with one bad file among good ones.
#[test]
fn the_command_fails_for_one_bad_file_in_a_folder_of_folders() {
    let folder = std::env::temp_dir().join(format!("spotlane-conformance-{}", std::process::id()));
    let inner = folder.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    let source = tree::root().join("fixtures/golden/liveness.json");
    std::fs::copy(source, folder.join("good.json")).unwrap();
    let args = [folder.display().to_string()];
    let good = command(&args);
    std::fs::write(inner.join("bad.json"), r#"{"format": "other-v1"}"#).unwrap();
    let bad = command(&args);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(good.is_ok(), "{good:?}");
    assert!(bad.unwrap_err().to_string().contains("1 of"));
}

/// The two codecs agree on every vector of ours, in value and in error kind.
#[test]
fn the_judge_agrees_with_every_fixture() {
    let root = tree::root();
    let contract = root.join("fixtures/contract/service-wire.contract");
    let judge =
        spotlane_contract::Contract::parse(&std::fs::read_to_string(contract).unwrap()).unwrap();
    let mut seen = 0;
    for path in files_in(&root.join(FIXTURES)).unwrap() {
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
