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

/// What a refusal to encode this record says: kind, field, message.
fn refusal(record: &Value) -> (String, String, String) {
    let answer = ask_one(&json!({"op": "encode", "record": record}));
    assert_eq!(answer["ok"], false, "{answer}");
    let text = |member: &str| answer[member].as_str().unwrap().to_owned();
    (text("error"), text("field"), text("message"))
}

/// WR-1, WR-2, WR-3
#[test]
fn a_refused_record_has_the_kind_that_a_decoder_would_give_it() {
    let probe = |change: &Value| {
        let mut record = json!({"command": 5, "body": {"probeId": "1"}});
        for (name, value) in change.as_object().unwrap() {
            record[name] = value.clone();
        }
        record
    };
    let payload = json!({"packetName": "a", "contentType": "b", "payload": ""});
    let timed_out = json!({
        "correlation": "1", "terminalResult": "timedOut", "failureCode": "none", "tail": {},
    });
    for (record, kind, field) in [
        (probe(&json!({"command": 7})), "unknown-command", "command"),
        (
            probe(&json!({"command": 255})),
            "unknown-command",
            "command",
        ),
        (probe(&json!({"command": 256})), "invalid-field", "command"),
        (
            probe(&json!({"command": 1_u64 << 32})),
            "invalid-field",
            "command",
        ),
        (probe(&json!({"command": -1})), "invalid-field", "command"),
        (probe(&json!({"command": 1.5})), "invalid-field", "command"),
        (probe(&json!({"command": "5"})), "invalid-field", "command"),
        (probe(&json!({"command": null})), "invalid-field", "command"),
        (json!({"body": {}}), "invalid-field", "command"),
        (probe(&json!({"flags": 1})), "invalid-flags", "flags"),
        (probe(&json!({"flags": 256})), "invalid-field", "flags"),
        (
            probe(&json!({"payload": payload})),
            "frame-count",
            "payload",
        ),
        (probe(&json!({"metadata": []})), "frame-count", "metadata"),
        (json!({"command": 16, "body": {}}), "frame-count", "payload"),
        (
            json!({"command": 20, "body": timed_out, "payload": payload}),
            "invalid-field",
            "payload",
        ),
        (probe(&json!({"name": null})), "invalid-field", "name"),
        (probe(&json!({"name": 5})), "invalid-field", "name"),
        (probe(&json!({"name": "hello"})), "invalid-field", "name"),
        (
            probe(&json!({"body": {"probeId": -1}})),
            "invalid-field",
            "probeId",
        ),
    ] {
        let (said, place, message) = refusal(&record);
        assert_eq!(
            (said.as_str(), place.as_str()),
            (kind, field),
            "{record}: {message}"
        );
        assert!(
            message.starts_with(&format!("member '{field}'")) || field == "probeId",
            "{message}"
        );
    }
}

#[test]
fn what_is_missing_is_called_missing_and_frames_stand_beside_the_body() {
    assert_eq!(refusal(&json!({"command": 5})).2, "member 'body': missing");
    let reply = json!({"command": 20, "body": {
        "correlation": "1", "terminalResult": "ok", "failureCode": "none",
    }});
    let (_, field, message) = refusal(&reply);
    assert_eq!(field, "tail", "{message}");
    assert!(message.ends_with("missing"), "{message}");
    let (_, _, message) = refusal(&json!({"command": 16, "body": {}}));
    assert_eq!(
        message,
        "member 'payload': the command has this frame always"
    );
    let (_, _, message) = refusal(&json!({"command": 16, "body": {"payload": {}}}));
    assert_eq!(message, "member 'body.payload': not a member of this value");
}

#[test]
fn a_number_that_no_field_can_hold_is_an_invalid_field_of_a_value_too() {
    let value = json!([{"chunkOrder": 0}, {"chunkOrder": -3}]);
    let answer = ask_one(&json!({"op": "encode-type", "type": "rid", "value": value}));
    assert_eq!(answer["error"], "invalid-field");
    assert_eq!(answer["field"], "[1].chunkOrder");
    let twice = r#"{"op":"encode-type","type":"rid","value":{"a":1,"a":2}}"#;
    let answer = ask(twice).remove(0);
    assert_eq!(answer["error"], "bad-request");
    assert_eq!(answer["message"], "`value`: member 'a' twice");
}

/// Every line has its answer, blank ones too: who counts lines stays in step.
#[test]
fn a_bad_line_is_answered_with_its_number_and_the_next_line_is_read() {
    let good = r#"{"op":"decode-type","type":"bool8","hex":"01"}"#;
    let lines = [
        ("no json", "column 2"),
        (good, ""),
        ("   ", "empty"),
        ("", "empty"),
        ("\r", "empty"),
        ("[]", "request"),
        (r#"{"op":"transcode"}"#, "`transcode`"),
        (r#"{"frames":[]}"#, "`op`"),
        (r#"{"op":"decode"}"#, "`frames`"),
        (r#"{"op":"decode","frames":[],"framez":1}"#, "`framez`"),
        (r#"{"op":"decode","frames":[],"hex":"00"}"#, "`hex`"),
        (r#"{"op":"decode","frames":[],"frames":[]}"#, "twice"),
        (good, ""),
        ("\t", "empty"),
    ];
    let text: Vec<_> = lines.iter().map(|(line, _)| *line).collect();
    let answers = ask(&text.join("\n"));
    assert_eq!(answers.len(), lines.len());
    for ((index, answer), (line, word)) in answers.iter().enumerate().zip(lines) {
        if line == good {
            assert_eq!(*answer, json!({"ok": true, "value": true}));
            continue;
        }
        assert_eq!(answer["ok"], false);
        assert_eq!(answer["error"], "bad-request");
        assert_eq!(answer["line"], index + 1, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(ask(""), [""; 0], "no line");
    assert_eq!(ask("\n").len(), 1);
}

#[test]
fn a_bad_line_says_its_column_only_where_that_means_something() {
    let said = |line: &str| ask(line).remove(0)["message"].as_str().unwrap().to_owned();
    for end in ["", "\n", "\r\n"] {
        let message = said(&format!("{{{end}"));
        assert_eq!(message, "EOF while parsing an object at column 1");
    }
    let message = said(r#"{"op":"decode","frames":[],"a at line 1 column 2":0}"#);
    assert!(
        message.starts_with("`a at line 1 column 2` is not a member"),
        "{message}"
    );
    assert!(message.ends_with("value"), "{message}");
    assert_eq!(
        said(r#"{"op":"decode","op":"decode"}"#),
        "`op` is there twice"
    );
    let message = said(r#"{"op":"decode","frames":[1]}"#);
    assert!(message.ends_with(" at column 26"), "{message}");
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
