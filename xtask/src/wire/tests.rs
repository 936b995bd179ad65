//! The filter line by line.

use serde_json::{Value, json};

use super::*;

fn ask(lines: &str) -> Vec<Value> {
    let mut out = Vec::new();
    filter(lines.as_bytes(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ask_one(request: &Value) -> Value {
    let mut answers = ask(&format!("{request}\n"));
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

#[test]
fn frames_become_a_record_and_the_record_the_same_frames() {
    let odd = json!(["5a4d011001", "", "0"]);
    let bad = ask_one(&json!({"op": "decode", "frames": odd}));
    let message = bad["message"].as_str().unwrap();
    assert!(message.starts_with("`frames[2]` is not"), "{message}");
    let frames = json!(["5a4d011001", "0101016b000176", "01000000090161016200000001"]);
    let short = ask_one(&json!({"op": "decode", "frames": frames}));
    assert_eq!(short["error"], "truncated-field");
    assert_eq!(short["frame"], 2);
    let frames = json!([
        "5a4d011001",
        "0101016b000176",
        "01000000090161016200000001ff"
    ]);
    let answer = ask_one(&json!({"op": "decode", "frames": frames}));
    let record = json!({
        "command": 16, "name": "nodeSend", "flags": 1, "body": {},
        "metadata": [{"key": "k", "value": "v"}],
        "payload": {"packetName": "a", "contentType": "b", "payload": "ff"},
    });
    assert_eq!(answer, json!({"ok": true, "record": record}));
    let answer = ask_one(&json!({"op": "encode", "record": record}));
    assert_eq!(answer, json!({"ok": true, "frames": frames}));
}

#[test]
fn what_is_absent_is_null() {
    let answer = ask_one(&json!({"op": "decode", "frames": ["5a4d0105000000000000000007"]}));
    let body = json!({"probeId": "7"});
    assert_eq!(answer["record"]["body"], body);
    assert_eq!(answer["record"]["metadata"], Value::Null);
    assert!(
        answer["record"]
            .as_object()
            .unwrap()
            .contains_key("payload")
    );
}

/// WR-5
#[test]
fn an_error_says_kind_field_offset_frame_and_record() {
    let answer = ask_one(&json!({"op": "decode", "frames": ["5a4d0105000000000000000000"]}));
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["error"], "invalid-field");
    assert_eq!(answer["field"], "probeId");
    assert_eq!(answer["offset"], 5);
    assert_eq!(answer["frame"], 0);
    assert_eq!(answer["record"], "livenessProbe");
    assert!(answer["message"].is_string());
    assert!(answer.get("line").is_none(), "only a bad line has a number");
}

/// WR-21
#[test]
fn the_pending_operation_selects_the_tail() {
    let frames = json!(["5a4d01140000000000000000010000000000000000\
                         000000000000000500000000000000060000"]);
    let with =
        |pending: Value| ask_one(&json!({"op": "decode", "frames": frames, "pending": pending}));
    assert_eq!(with(json!(null))["error"], "trailing-byte");
    assert_eq!(with(json!("none"))["error"], "trailing-byte");
    assert_eq!(with(json!("streamBind"))["error"], "trailing-byte");
    let unknown = with(json!("bind"));
    assert_eq!(unknown["error"], "bad-request");
    assert!(unknown["message"].as_str().unwrap().contains("streamBind"));
    let frames = json!(["5a4d01140000000000000000010000000000000000\
                         00000000000000050000000000000006"]);
    let request = json!({"op": "decode", "frames": frames, "pending": "streamBind"});
    let answer = ask_one(&request);
    assert_eq!(answer["ok"], true, "{answer}");
    let record = &answer["record"];
    let back = ask_one(&json!({"op": "encode", "record": record, "pending": "streamBind"}));
    assert_eq!(back, json!({"ok": true, "frames": frames}));
}

#[test]
fn types_stand_alone_and_stored_formats_with_their_header() {
    let value = json!({"order": 0, "data": "aa"});
    let body =
        ask_one(&json!({"op": "encode-type", "type": "relocation-data-chunk-v1", "value": value}));
    assert_eq!(body, json!({"ok": true, "hex": "0000000000000001aa"}));
    let name = "durable:relocation-data-chunk-v1";
    let stored = ask_one(&json!({"op": "encode-type", "type": name, "value": value}));
    let hex = stored["hex"].as_str().unwrap();
    assert!(hex.starts_with("5a4c544301000000000009"), "{hex}");
    let back = ask_one(&json!({"op": "decode-type", "type": name, "hex": hex}));
    assert_eq!(back, json!({"ok": true, "value": value}));
    for name in ["durable:text8", "no-such-type"] {
        let answer = ask_one(&json!({"op": "decode-type", "type": name, "hex": ""}));
        assert_eq!(answer["error"], "bad-request");
        assert!(answer["message"].as_str().unwrap().contains(name));
    }
}

/// WR-6
#[test]
fn a_refused_value_names_the_field_without_the_body() {
    let record = json!({"command": 5, "body": {"probeId": "0"}});
    let answer = ask_one(&json!({"op": "encode", "record": record}));
    assert_eq!(answer["error"], "invalid-field");
    assert_eq!(answer["field"], "probeId");
    let record = json!({"command": 5, "body": {"probeId": "1", "extra": 1}});
    let answer = ask_one(&json!({"op": "encode", "record": record}));
    assert_eq!(answer["field"], "extra");
    let answer = ask_one(&json!({"op": "encode-type", "type": "rid", "value": ""}));
    assert_eq!(answer["error"], "invalid-field");
}

#[test]
fn a_bad_line_is_answered_with_its_number_and_the_next_line_is_read() {
    let good = r#"{"op":"decode-type","type":"bool8","hex":"01"}"#;
    let lines = [
        "no json",
        good,
        "   ",
        "",
        "[]",
        r#"{"op":"transcode"}"#,
        r#"{"frames":[]}"#,
        r#"{"op":"decode"}"#,
        r#"{"op":"decode","frames":[],"framez":1}"#,
        r#"{"op":"decode","frames":[],"hex":"00"}"#,
        r#"{"op":"decode","frames":[],"frames":[]}"#,
        r#"{"op":"encode","record":{"command":1.5}}"#,
        good,
    ];
    let answers = ask(&lines.join("\n"));
    let numbers: Vec<_> = answers
        .iter()
        .map(|answer| answer["line"].as_u64())
        .collect();
    assert_eq!(numbers[0], Some(1));
    assert_eq!(numbers[1], None);
    assert_eq!(numbers[2..10], (5..13).map(Some).collect::<Vec<_>>());
    assert_eq!(answers[10], json!({"ok": true, "value": true}));
    let said = [
        (2, "request"),
        (3, "`transcode`"),
        (4, "`op`"),
        (5, "`frames`"),
        (6, "`framez`"),
        (7, "`hex`"),
        (8, "twice"),
    ];
    for (index, word) in said {
        let message = answers[index]["message"].as_str().unwrap();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_a_bad_line() {
    let mut out = Vec::new();
    filter(
        &b"\xff\xfe\n{\"op\":\"decode\",\"frames\":[]}"[..],
        &mut out,
    )
    .unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["line"], 1);
    assert_eq!(lines[1]["error"], "frame-count");
}
