//! The real program: one answer per line, before the next line is sent.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[test]
fn every_line_is_answered_before_the_next_is_sent() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("wire")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut requests = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let exchanges = [
        (
            r#"{"op":"decode","frames":["5a4d0105000000000000000007"]}"#,
            r#"{"ok":true,"record":{"command":5,"name":"livenessProbe","flags":0,"body":{"probeId":"7"},"metadata":null,"payload":null}}"#,
        ),
        (
            r#"{"op":"encode-type","type":"spot-ref","value":{"spotId":"s","objectGeneration":"1"}}"#,
            r#"{"ok":true,"hex":"01730000000000000001"}"#,
        ),
    ];
    for (request, expected) in exchanges {
        writeln!(requests, "{request}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), expected);
    }
    drop(requests);
    assert!(child.wait().unwrap().success());
}
