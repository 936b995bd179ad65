//! ST-4: what is at a bound works, what is above it never reaches the provider.

use spotlane_store::bound::{
    BATCH_KEYS_MAX, CURSOR_BYTES_MAX, KEY_BYTES_MAX, PAGE_ROWS_MAX, PREFIX_BYTES_MAX,
    REQUEST_BYTES_MAX, VALUE_BYTES_MAX, VERSION_BYTES_MAX,
};
use spotlane_store::{
    Condition, Cursor, KeyPrefix, Mutation, ScanRequest, StoreKey, StoreProvider, StoreVersion,
    WriteRequest,
};

use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::Subject;

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    let node = Node::new(subject.node());
    run.note(
        "ST-4",
        "keys of every length and byte work",
        keys(&node).await,
    );
    run.note("ST-4", "values up to 1 MiB work", values(&node).await);
    run.note("ST-4", "a batch of 2,048 keys works", batch(&node).await);
    run.note("ST-4", "a request of 4 MiB works", request(&node).await);
    run.note("ST-4", "nothing above a bound can be asked for", above());
}

async fn keys<P: StoreProvider>(node: &Node<P>) -> Checked {
    let head = "conformance/keys/";
    let fill = |end: &str| {
        format!(
            "{head}{}{end}",
            "k".repeat(KEY_BYTES_MAX - head.len() - end.len())
        )
    };
    let names = [
        "c".to_owned(),
        fill(""),
        fill("ä"),
        format!("{head}nul\0within\0"),
        format!("{head}line\r\n$1\r\n"),
        format!("{head}case"),
        format!("{head}CASE"),
        // One letter in two Unicode forms: two keys, because keys are compared by byte.
        format!("{head}\u{e9}"),
        format!("{head}e\u{301}"),
        format!("{head}trailing "),
        format!("{head}trailing"),
    ];
    let keys: Vec<_> = names
        .iter()
        .map(|name| StoreKey::new(name))
        .collect::<Result<_, _>>()?;
    for (n, key) in keys.iter().enumerate() {
        node.put(key, format!("value {n}").as_bytes(), None).await?;
    }
    for (n, key) in keys.iter().enumerate() {
        let expected = format!("value {n}").into_bytes();
        let found = node.value(key).await?;
        demand(found == Some(expected), || {
            format!("{key:?} is mixed up with another key")
        })?;
    }
    node.delete(&StoreKey::new("c")?).await
}

async fn values<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("values", "key")?;
    for size in [
        0,
        1,
        31,
        32,
        255,
        256,
        65_535,
        65_536,
        VALUE_BYTES_MAX - 1,
        VALUE_BYTES_MAX,
    ] {
        let value: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
        let version = node.put(&key, &value, None).await?;
        let bytes = version.as_str().len();
        demand(bytes <= VERSION_BYTES_MAX, || {
            format!("a version of {bytes} bytes")
        })?;
        let found = node.value(&key).await?;
        demand(found.as_deref() == Some(&value), || {
            format!("a value of {size} bytes changed")
        })?;
        let condition = Condition::Value(key.clone(), spotlane_store::StoreValue::new(value)?);
        let held = node
            .write(vec![condition], vec![])
            .await?
            .applied()
            .is_some();
        demand(held, || {
            format!("a condition on a value of {size} bytes failed")
        })?;
    }
    node.delete(&key).await
}

async fn batch<P: StoreProvider>(node: &Node<P>) -> Checked {
    let keys: Vec<_> = (0..BATCH_KEYS_MAX)
        .map(|n| key("batch", &n.to_string()))
        .collect::<Result<_, _>>()?;
    let puts = keys
        .iter()
        .map(|key| put(key, b"value", None))
        .collect::<Result<_, _>>()?;
    let applied = node.apply(vec![], puts).await?;
    demand(applied.versions.len() == BATCH_KEYS_MAX, || {
        "versions are missing".into()
    })?;
    let conditions = keys
        .iter()
        .zip(applied.versions)
        .map(|(key, version)| Condition::Version(key.clone(), version))
        .collect();
    let deletes = keys
        .iter()
        .map(|key| Mutation::Delete { key: key.clone() })
        .collect();
    node.apply(conditions, deletes).await?;
    let ends = [keys.first(), keys.last()];
    for key in ends.into_iter().flatten() {
        demand(node.value(key).await?.is_none(), || {
            "a large batch left a record".into()
        })?;
    }
    Ok(())
}

/// The mutations of a request of exactly this many encoded bytes.
fn request_of(bytes: usize) -> Result<Vec<Mutation>, Stop> {
    let mut rest = bytes;
    let mut mutations = Vec::new();
    for n in 0..5 {
        let key = key("request", &n.to_string())?;
        let head = put(&key, b"", None)?.encoded_bytes();
        // Four values of almost 1 MiB and a rest, whose exact size makes the sum.
        let size = (VALUE_BYTES_MAX - 1_024).min(rest.saturating_sub(head));
        let mutation = put(&key, &vec![b'v'; size], None)?;
        rest = rest.saturating_sub(mutation.encoded_bytes());
        mutations.push(mutation);
    }
    Ok(mutations)
}

async fn request<P: StoreProvider>(node: &Node<P>) -> Checked {
    let mutations = request_of(REQUEST_BYTES_MAX)?;
    let keys: Vec<_> = mutations
        .iter()
        .map(|mutation| mutation.key().clone())
        .collect();
    let request = WriteRequest::new(vec![], mutations.clone())?;
    demand(request.encoded_bytes() == REQUEST_BYTES_MAX, || {
        "the suite is wrong".into()
    })?;
    node.apply(vec![], mutations).await?;
    for key in &keys {
        demand(node.value(key).await?.is_some(), || {
            "a large request lost a record".into()
        })?;
        node.delete(key).await?;
    }
    Ok(())
}

/// Constructors refuse, so no provider is ever asked.
fn above() -> Checked {
    let refused = |is_refused: bool, what: &str| demand(is_refused, || format!("{what} was taken"));
    refused(StoreKey::new("").is_err(), "an empty key")?;
    refused(
        StoreKey::new(&"k".repeat(KEY_BYTES_MAX + 1)).is_err(),
        "a long key",
    )?;
    refused(
        StoreKey::from_utf8(b"\xff").is_err(),
        "a key that is not utf-8",
    )?;
    refused(StoreVersion::new("").is_err(), "an empty version")?;
    refused(
        StoreVersion::new(&"v".repeat(VERSION_BYTES_MAX + 1)).is_err(),
        "a long version",
    )?;
    let one = key("above", "key")?;
    let long = Mutation::put(one.clone(), vec![0; VALUE_BYTES_MAX + 1], None);
    refused(long.is_err(), "a long value")?;
    let many: Vec<_> = (0..=BATCH_KEYS_MAX)
        .map(|n| key("above", &n.to_string()))
        .collect::<Result<_, _>>()?;
    let missing: Vec<_> = many.iter().cloned().map(Condition::Missing).collect();
    refused(
        WriteRequest::new(missing, vec![]).is_err(),
        "a batch of 2,049 keys",
    )?;
    let (most, last) = many.split_at(BATCH_KEYS_MAX);
    let missing: Vec<_> = most.iter().cloned().map(Condition::Missing).collect();
    let delete: Vec<_> = last
        .iter()
        .map(|key| Mutation::Delete { key: key.clone() })
        .collect();
    refused(
        WriteRequest::new(missing, delete).is_err(),
        "2,049 keys over both lists",
    )?;
    let twice = vec![
        Condition::Missing(one.clone()),
        Condition::Missing(one.clone()),
    ];
    refused(
        WriteRequest::new(twice, vec![]).is_err(),
        "a key twice in the conditions",
    )?;
    let twice = vec![put(&one, b"", None)?, Mutation::Delete { key: one }];
    refused(
        WriteRequest::new(vec![], twice).is_err(),
        "a key twice in the mutations",
    )?;
    let large = request_of(REQUEST_BYTES_MAX + 1)?;
    refused(
        WriteRequest::new(vec![], large).is_err(),
        "a request above 4 MiB",
    )?;
    above_scans()
}

fn above_scans() -> Checked {
    let refused = |is_refused: bool, what: &str| demand(is_refused, || format!("{what} was taken"));
    let prefix = KeyPrefix::new("")?;
    refused(
        KeyPrefix::new(&"p".repeat(PREFIX_BYTES_MAX + 1)).is_err(),
        "a long prefix",
    )?;
    refused(
        ScanRequest::first(prefix.clone(), 0).is_err(),
        "a limit of zero",
    )?;
    refused(
        ScanRequest::first(prefix, PAGE_ROWS_MAX + 1).is_err(),
        "a limit of 1,001",
    )?;
    refused(Cursor::new(vec![]).is_err(), "an empty cursor")?;
    refused(
        Cursor::new(vec![0; CURSOR_BYTES_MAX + 1]).is_err(),
        "a long cursor",
    )
}
