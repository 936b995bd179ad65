//! The notation of the contract file: what is read, and on which line it is refused.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use serde_json::{Value, json};
use spotlane_contract::{Contract, Kind};

const BASE: &str = "
int u8 u8 0..255
int u16 u16 0..65535
int u64 u64 0..18446744073709551615
enum bool8 u8 false=0 true=1
enum color u8
    red=1 green=2
text name len:u8 1..3
bytes blob len:u16 0..4
fixed pair 2
";

fn parse(text: &str) -> Contract {
    Contract::parse(&format!("{BASE}{text}")).unwrap()
}

fn error(text: &str) -> String {
    // The text starts on line 1 of what is counted.
    let error = Contract::parse(&format!("{text}\n{BASE}")).unwrap_err();
    error.to_string()
}

/// Decodes, encodes back, and gives the value or the kind and field of the refusal.
fn read(contract: &Contract, name: &str, bytes: &[u8]) -> Result<Value, (Kind, String)> {
    let value = contract
        .decode_type(name, bytes)
        .map_err(|refusal| (refusal.kind, refusal.field))?;
    assert_eq!(contract.encode_type(name, &value).unwrap(), bytes);
    Ok(value)
}

fn refused(kind: Kind, field: &str) -> Result<Value, (Kind, String)> {
    Err((kind, field.to_owned()))
}

#[test]
fn scalars_are_read() {
    let contract = parse("bound low = 2\nint small u8 low..5 # a comment");
    assert_eq!(read(&contract, "small", &[2]), Ok(json!(2)));
    assert_eq!(
        read(&contract, "small", &[6]),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(
        read(&contract, "u64", &[255; 8]),
        Ok(json!("18446744073709551615"))
    );
    assert_eq!(read(&contract, "color", &[2]), Ok(json!("green")));
    assert_eq!(
        read(&contract, "color", &[3]),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(read(&contract, "bool8", &[1]), Ok(json!(true)));
    assert_eq!(read(&contract, "name", b"\x02ab"), Ok(json!("ab")));
    assert_eq!(
        read(&contract, "name", b"\x02a\0"),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(
        read(&contract, "name", b"\x01\xff"),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(
        read(&contract, "name", b"\x04ab"),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(
        read(&contract, "name", b"\x03ab"),
        refused(Kind::TruncatedField, "")
    );
    assert_eq!(
        read(&contract, "name", b"\x01ab"),
        refused(Kind::TrailingByte, "")
    );
    assert_eq!(read(&contract, "pair", &[0xab, 1]), Ok(json!("ab01")));
}

#[test]
fn conditions_ranges_and_constants_hold() {
    let contract = parse(
        "struct s { on: bool8 ; x: u8 [1..4] if on==true
           b: blob ; y: u8 = 7 if present(b)
           c: color = red }",
    );
    assert_eq!(
        read(&contract, "s", &[1, 4, 0, 1, 9, 7, 1]),
        Ok(json!({ "on": true, "x": 4, "b": "09", "y": 7, "c": "red" }))
    );
    assert_eq!(
        read(&contract, "s", &[0, 0, 0, 1]),
        Ok(json!({ "on": false, "b": "", "c": "red" }))
    );
    assert_eq!(
        read(&contract, "s", &[1, 5]),
        refused(Kind::InvalidField, "x")
    );
    assert_eq!(
        read(&contract, "s", &[0, 0, 1, 9, 6]),
        refused(Kind::InvalidField, "y")
    );
    assert_eq!(
        read(&contract, "s", &[0, 0, 0, 2]),
        refused(Kind::InvalidField, "c")
    );
}

/// WR-5: a length that disagrees with what can be read is invalid, too large or too small alike.
#[test]
fn declared_lengths_are_compared_after_the_fields() {
    let contract = parse(
        "union u on k:color len:u16 { red { a: u8 ; b: name } green { } }
         envelope e v:u8=1 len:u8 max:3 { a: u16 }",
    );
    assert_eq!(
        read(&contract, "u", b"\x01\0\x03\x09\x01z"),
        Ok(json!({ "k": "red", "a": 9, "b": "z" }))
    );
    for length in [0, 2, 4, 200] {
        let bytes = [1, 0, length, 9, 1, b'z'];
        assert_eq!(
            read(&contract, "u", &bytes),
            refused(Kind::InvalidField, ""),
            "{length}"
        );
    }
    assert_eq!(
        read(&contract, "u", b"\x01\0\x03\x09"),
        refused(Kind::TruncatedField, "b")
    );
    assert_eq!(
        read(&contract, "u", b"\x03"),
        refused(Kind::InvalidField, "k")
    );
    assert_eq!(read(&contract, "e", &[1, 2, 0, 5]), Ok(json!({ "a": 5 })));
    assert_eq!(
        read(&contract, "e", &[2]),
        refused(Kind::InvalidField, "version")
    );
    // Above the bound comes before the fields.
    assert_eq!(
        read(&contract, "e", &[1, 4]),
        refused(Kind::InvalidField, "")
    );
}

#[test]
fn vectors_are_sorted_unique_and_bounded() {
    let contract = parse(
        "struct item { k: color ; n: name }
         vector v count:u16 max:3 of item sorted(k,n:wire-value-then-utf-8-bytes) unique(k,n)",
    );
    let ok = [0, 2, 1, 1, b'b', 2, 1, b'a'];
    assert_eq!(
        read(&contract, "v", &ok).unwrap().as_array().unwrap().len(),
        2
    );
    let twice = [0, 2, 1, 1, b'b', 1, 1, b'b'];
    assert_eq!(
        read(&contract, "v", &twice),
        refused(Kind::InvalidField, "1")
    );
    let down = [0, 2, 1, 1, b'b', 1, 1, b'a'];
    assert_eq!(
        read(&contract, "v", &down),
        refused(Kind::InvalidField, "1")
    );
    assert_eq!(
        read(&contract, "v", &[0, 4]),
        refused(Kind::InvalidField, "")
    );
    // Two elements take six bytes at least, so nothing is read of five.
    let short = [0, 2, 9, 9, 9, 9, 9];
    assert_eq!(
        read(&contract, "v", &short),
        refused(Kind::TruncatedField, "")
    );
}

#[test]
fn unions_take_discriminators_from_around_them() {
    let contract = parse(
        "enum kind u8 none=0 call=1
         union tail on pending:kind@context,color:color@field nolen { call+red { x: u8 } * { } }
         union route on any:kind@context len:u8 { call { id: u8 } * { } }
         struct inner { kind: kind ; route: route }
         command 9 answer application flags: payload:forbidden { color: color ; tail: tail }",
    );
    let record = |bytes: &[u8], pending| {
        let frame = [&[0x5a, 0x4d, 1, 9, 0], bytes].concat();
        contract
            .decode_record(&[frame], pending)
            .map(|record| record["body"].clone())
    };
    let with = json!({ "color": "red", "tail": { "x": 5 } });
    assert_eq!(record(&[1, 5], Some("call")).unwrap(), with);
    let without = json!({ "color": "green", "tail": {} });
    assert_eq!(record(&[2], Some("call")).unwrap(), without);
    assert_eq!(record(&[1, 5], None).unwrap_err().kind, Kind::TrailingByte);
    assert_eq!(record(&[1], Some("nothing")).unwrap_err().field, "pending");
    // Beside a field of the same enum the context is that field (WR-31).
    let inner = json!({ "kind": "call", "route": { "id": 3 } });
    assert_eq!(read(&contract, "inner", &[1, 1, 3]), Ok(inner));
    assert!(!contract.standalone_names().contains(&"route".to_owned()));
    assert_eq!(
        contract.decode_type("route", &[]).unwrap_err().kind,
        Kind::InvalidField
    );
}

#[test]
fn unknown_ids_of_a_tlv_are_skipped() {
    let contract = parse(
        "tlv t total:u8 id:u8 len:u8
           1 a: u8 required
           3 b: color optional",
    );
    assert_eq!(read(&contract, "t", &[3, 1, 1, 9]), Ok(json!({ "a": 9 })));
    let decode = |bytes: &[u8]| {
        contract
            .decode_type("t", bytes)
            .map_err(|refusal| refusal.kind)
    };
    assert_eq!(decode(&[6, 1, 1, 9, 2, 1, 0]), Ok(json!({ "a": 9 })));
    assert_eq!(
        decode(&[5, 1, 1, 9, 2, 1, 0]),
        Err(Kind::InvalidField),
        "the total is too small"
    );
    assert_eq!(decode(&[6, 1, 1, 9, 2, 1]), Err(Kind::TruncatedField));
    assert_eq!(read(&contract, "t", &[0]), refused(Kind::InvalidField, "a"));
    assert_eq!(
        read(&contract, "t", &[3, 3, 1, 1]),
        refused(Kind::InvalidField, "a")
    );
    // The frame ends between two entries.
    assert_eq!(
        read(&contract, "t", &[9, 1, 1, 9]),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(
        read(&contract, "t", &[9, 3, 1, 1]),
        refused(Kind::TruncatedField, "a")
    );
    assert_eq!(
        read(&contract, "t", &[9, 3, 1, 1, 1]),
        refused(Kind::InvalidField, "")
    );
    assert_eq!(
        read(&contract, "t", &[3, 1, 2, 9]),
        refused(Kind::InvalidField, "a")
    );
}

#[test]
fn encoding_refuses_what_is_no_value() {
    let contract = parse("struct s { a: u8 ; b: u64 ; c: blob }");
    let encode = |value: Value| contract.encode_type("s", &value);
    assert!(encode(json!({ "a": 1, "b": "1", "c": "ff" })).is_ok());
    for value in [
        json!({ "a": 1, "b": "1" }),
        json!({ "a": 1, "b": "1", "c": "ff", "d": 1 }),
        json!({ "a": 256, "b": "1", "c": "ff" }),
        json!({ "a": "1", "b": "1", "c": "ff" }),
        json!({ "a": 1.0, "b": "1", "c": "ff" }),
        json!({ "a": 1, "b": 1, "c": "ff" }),
        json!({ "a": 1, "b": "01", "c": "ff" }),
        json!({ "a": 1, "b": "18446744073709551616", "c": "ff" }),
        json!({ "a": 1, "b": "1", "c": "FF" }),
        json!({ "a": 1, "b": "1", "c": "f" }),
        json!({ "a": 1, "b": "1", "c": "0102030405" }),
        json!([]),
        json!(null),
    ] {
        let refusal = encode(value.clone()).unwrap_err();
        assert_eq!(refusal.kind, Kind::InvalidField, "{value}");
    }
}

/// A text and how the message begins.
const ERRORS: [(&str, &str); 25] = [
    (
        "struct s { a: nothing }",
        "line 1: there is no type `nothing`",
    ),
    (
        "\nstruct s {\n a: u8\n a: u8 }",
        "line 4: `a` exists already",
    ),
    (
        "struct s { a: u8 b: u8 }",
        "line 1: expected `;`, `}` or a new line, found `b`",
    ),
    (
        "struct s { a: u8 if b==true }",
        "line 1: no earlier field `b` that is always present",
    ),
    (
        "struct s { a: name [1..2] }",
        "line 1: only an integer has a range",
    ),
    ("struct s { a: s }", "line 1: contains itself"),
    (
        "struct s { a: u8 } rules(nice)",
        "line 1: there is no rule `nice`",
    ),
    (
        "union u on k:color len:u8 { red { } }",
        "line 1: a member of the discriminator has no case",
    ),
    (
        "union u on k:color len:u8 { red { }\n blue { } }",
        "line 2: the enum has no member `blue`",
    ),
    (
        "union u on k:u8 len:u8 { * { } }",
        "line 1: the discriminator `k` is no enum",
    ),
    (
        "union u on k:color@field nolen { * { } }\nstruct s { u: u }",
        "line 2: no earlier field `k` that is always present",
    ),
    (
        "union u on k:color@context nolen { * { } }\nstruct s { u: u }",
        "line 2: only a command knows the pending operation",
    ),
    (
        "vector v count:u8 max:many of u8",
        "line 1: `many` is neither a number nor a bound",
    ),
    (
        "vector v count:u8 max:- of u8 sorted(x)",
        "line 1: the element is no struct",
    ),
    ("int i u9 0..1", "line 1: `u9` is not an encoding"),
    (
        "int i u8 0..256",
        "line 1: the range 0..256 does not fit into 0..255",
    ),
    ("int u8 u8 0..9", "line 3: `u8` exists already"),
    ("enum e u8", "line 3: expected a member, found `int`"),
    (
        "command 300 x application flags: payload:forbidden { }",
        "line 1: a command id is one byte",
    ),
    (
        "command 1 x application flags:loud payload:forbidden { }",
        "line 1: there is no flag `loud`",
    ),
    (
        "command 1 x application flags: payload:required { }",
        "line 1: a payload needs the type",
    ),
    (
        "durable d magic:ABC body:u8",
        "line 1: a magic has four bytes",
    ),
    (
        "tlv t total:u8 id:u8 len:u8\n 2 a: u8 required\n 1 b: u8 required",
        "line 3: the id 1 is out of order or range",
    ),
    ("strukt s { }", "line 1: unknown declaration `strukt`"),
    ("struct s ?", "line 1: unexpected character '?'"),
];

#[test]
fn parse_errors_name_the_line() {
    for (text, expected) in ERRORS {
        let found = error(text);
        assert!(
            found.starts_with(expected),
            "{text}\n found: {found}\nwanted: {expected}"
        );
    }
}
