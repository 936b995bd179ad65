//! Node ids are bytes; people give them names.

use spotlane::id::NodeRid;

/// How an id that is no word is written.
const HEX: &str = "hex:";

/// The id of a node as a word, when it is one; `hex:` and its bytes otherwise.
pub fn node_name(node: &NodeRid) -> String {
    match std::str::from_utf8(node.as_bytes()) {
        Ok(word)
            if word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) =>
        {
            word.to_owned()
        }
        _ => format!("{HEX}{node}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_itself_and_everything_else_is_hex() {
        let name = |bytes: &[u8]| node_name(&NodeRid::new(bytes).unwrap());
        assert_eq!(name(b"node-1.a_B"), "node-1.a_B");
        assert_eq!(name(b"a b"), "hex:612062");
        assert_eq!(name(b"hex:00"), "hex:6865783a3030");
        assert_eq!(name(&[0xff]), "hex:ff");
    }
}
