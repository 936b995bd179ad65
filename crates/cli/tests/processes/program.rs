//! The program as somebody uses it: its exit codes, its errors, its help.

use crate::common::{Folder, err, out, spotlane};

#[test]
fn misuse_ends_with_2_and_a_way_out() {
    for (arguments, hint) in [
        (&["dmeo"][..], "demo"),
        (&["demo", "--rate", "0"], "1..=200000"),
        (&["demo", "--state", "64kb"], "64KiB"),
        (&["demo", "--store", "disk"], "redis://HOST:PORT"),
        (&["relocate", "actor", "a"], "--to"),
        (&["find", "table", "a"], "actor"),
        (&["cluster", "--nodes", "0"], "1..=32"),
        (&["status", "--admin", "localhost"], "http://ADDRESS:PORT"),
        (&["node"], "--config"),
    ] {
        let output = spotlane(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            err(&output)
        );
        let text = err(&output);
        assert!(
            text.contains(hint),
            "{arguments:?} does not mention {hint}:\n{text}"
        );
        assert!(text.lines().count() <= 24, "{text}");
    }
}

#[test]
fn a_wrong_file_ends_with_2_before_anything_starts() {
    let folder = Folder::new();
    let file = folder.write(
        "node.toml",
        "[store]\nurl = \"memory\"\n[mesh]\nlisten = \"udp://1\"\nlsten = 1\n",
    );
    let output = spotlane(&["node", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    let text = err(&output);
    assert!(text.contains("node.toml: line 4: [mesh] listen"), "{text}");
    assert!(
        text.contains("node.toml: line 5: [mesh] lsten: unknown key; did you mean listen?"),
        "{text}"
    );
    assert_eq!(out(&output), "");
}

#[test]
fn a_right_file_is_checked_without_a_start() {
    let folder = Folder::new();
    let file = folder.write("node.toml", "[store]\nurl = \"redis://127.0.0.1:1\"\n");
    let output = spotlane(&["node", "--check", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).contains("is valid"));
}

#[test]
fn asking_nobody_ends_with_1_and_says_what_to_start() {
    let output = spotlane(&["status", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("spotlane cluster"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_taken_admin_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = Folder::new();
    let text = format!("[store]\nurl = \"memory\"\n[admin]\nlisten = \"http://{address}\"\n");
    let file = folder.write("node.toml", &text);
    let output = spotlane(&["node", "--config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains(&address.to_string()),
        "{}",
        err(&output)
    );
}
