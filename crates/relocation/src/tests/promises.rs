//! The 33 promises that the contract lists for relocation, T-REL-01 to T-REL-33: each has a test that is named after it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The promises that need processes or real sockets besides.
const LEVEL_P: [u32; 6] = [7, 11, 13, 19, 28, 33];
/// Where tests of that level stand.
const PROCESSES: [&str; 2] = ["crates/spotlane/tests", "crates/cli/tests"];
/// The promises that name Spots too: their tests hold for Actors, and those of Spots come with them.
const ALSO_OF_SPOTS: [(u32, &str); 2] = [
    (1, "all kinds of units share one commit"),
    (32, "a queue is prepared by the approval of a User Spot"),
];

/// The numbers of the tests in the sources below a folder, each with its files.
fn tests_below(folder: &Path, found: &mut BTreeMap<u32, Vec<String>>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines().filter_map(|line| line.split_once("fn t_rel_")) {
                let number = line
                    .1
                    .split('_')
                    .next()
                    .and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    found
                        .entry(number)
                        .or_default()
                        .push(path.display().to_string());
                }
            }
        }
    }
}

#[test]
fn every_promise_has_a_test_of_its_name() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    tests_below(&crates, &mut found);
    let numbers: Vec<u32> = found.keys().copied().collect();
    assert_eq!(numbers, (1..=33).collect::<Vec<_>>());
    for number in LEVEL_P {
        let files = &found[&number];
        let real = |file: &String| PROCESSES.iter().any(|place| file.contains(&place[7..]));
        assert!(
            files.iter().any(real),
            "T-REL-{number} at level P: {files:?}"
        );
    }
    assert!(
        ALSO_OF_SPOTS
            .iter()
            .all(|(number, _)| found.contains_key(number))
    );
}
