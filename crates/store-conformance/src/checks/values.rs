//! ST-3: conditions and mutations. ST-9: versions.

use std::collections::BTreeSet;

use spotlane_store::{Condition, Mutation, StoreProvider, StoreValue, StoreVersion};

use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::{Restarted, Subject};

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    let node = Node::new(subject.node());
    run.note(
        "ST-3",
        "each condition holds exactly when it says so",
        conditions(&node).await,
    );
    run.note(
        "ST-3",
        "a renewed value keeps its bytes and changes its version",
        renewal(&node).await,
    );
    run.note(
        "ST-3",
        "a delete needs no record and leaves none",
        deletes(&node).await,
    );
    run.note(
        "ST-9",
        "no version of a key comes twice",
        versions(&node).await,
    );
}

async fn conditions<P: StoreProvider>(node: &Node<P>) -> Checked {
    let (there, absent) = (key("conditions", "there")?, key("conditions", "absent")?);
    node.delete(&absent).await?;
    let old = node.put(&there, b"first", None).await?;
    let new = node.put(&there, b"value", None).await?;
    let value = |bytes: &'static [u8]| StoreValue::new(bytes);
    let foreign = StoreVersion::new("no version of anybody")?;
    let cases = [
        (Condition::Missing(absent.clone()), true),
        (Condition::Missing(there.clone()), false),
        (Condition::Version(there.clone(), new.clone()), true),
        (Condition::Version(there.clone(), old), false),
        (Condition::Version(there.clone(), foreign), false),
        (Condition::Version(absent.clone(), new), false),
        (Condition::Value(there.clone(), value(b"value")?), true),
        (Condition::Value(there.clone(), value(b"first")?), false),
        (Condition::Value(there.clone(), value(b"valu")?), false),
        (Condition::Value(there.clone(), value(b"value ")?), false),
        (Condition::Value(there.clone(), value(b"")?), false),
        (Condition::Value(absent, value(b"")?), false),
    ];
    for (condition, holds) in cases {
        let told = format!("{condition:?}");
        let applied = node
            .write(vec![condition], vec![])
            .await?
            .applied()
            .is_some();
        demand(applied == holds, || format!("{told} should be {holds}"))?;
    }
    Ok(())
}

/// An owner lease: the version changes with each renewal, its bytes do not.
async fn renewal<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("renewal", "lease")?;
    let first = node.put(&key, b"\x00lease\xff", None).await?;
    let lease = || StoreValue::new(&b"\x00lease\xff"[..]);
    let condition = vec![Condition::Value(key.clone(), lease()?)];
    let renewed = node
        .apply(condition, vec![put(&key, b"\x00lease\xff", None)?])
        .await?;
    demand(renewed.versions != [first], || {
        "a renewal kept the version".into()
    })?;
    let outcome = node
        .write(vec![Condition::Value(key, lease()?)], vec![])
        .await?;
    demand(outcome.applied().is_some(), || {
        "a value condition failed after a renewal".into()
    })
}

async fn deletes<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("deletes", "key")?;
    node.delete(&key).await?;
    node.delete(&key).await?;
    node.put(&key, b"value", None).await?;
    node.delete(&key).await?;
    demand(node.value(&key).await?.is_none(), || {
        "a deleted record was found".into()
    })?;
    let missing = vec![Condition::Missing(key.clone())];
    let again = node
        .write(missing, vec![put(&key, b"again", None)?])
        .await?;
    demand(again.applied().is_some(), || {
        "a deleted record was not missing".into()
    })
}

/// ST-9: over rewrites, deletes, re-creations and writes of the same bytes.
async fn versions<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("versions", "key")?;
    let mut seen = BTreeSet::new();
    for round in 0..50 {
        if round % 3 == 0 {
            node.delete(&key).await?;
        }
        let version = node.put(&key, b"same", None).await?;
        let is_new = seen.insert(version.as_str().to_owned());
        demand(is_new, || format!("version {version:?} came twice"))?;
    }
    let stale = StoreVersion::new(seen.first().map(String::as_str).unwrap_or_default())?;
    let stale = vec![Condition::Version(key.clone(), stale)];
    let outcome = node.write(stale, vec![Mutation::Delete { key }]).await?;
    demand(outcome.applied().is_none(), || {
        "the first version still held".into()
    })
}

/// ST-9 over a restart of the provider.
pub(super) async fn check_restart<S: Subject>(run: &mut Run, subject: &S) {
    run.note(
        "ST-9",
        "no version of a key comes twice after a restart",
        restarted(subject).await,
    );
}

async fn restarted<S: Subject>(subject: &S) -> Checked {
    let (kept, gone) = (key("restart", "kept")?, key("restart", "gone")?);
    let node = Node::new(subject.node());
    let mut seen = BTreeSet::new();
    for key in [&kept, &gone] {
        for _ in 0..10 {
            seen.insert((
                key.clone(),
                node.put(key, b"before", None).await?.as_str().to_owned(),
            ));
        }
    }
    node.delete(&gone).await?;
    if subject.restart().await == Restarted::NothingOutlivesIt {
        return Ok(());
    }
    let node = Node::new(subject.node());
    let value = node.value(&kept).await?;
    demand(value.as_deref() == Some(b"before"), || {
        "a record was lost by the restart".into()
    })?;
    for key in [&kept, &gone] {
        for _ in 0..10 {
            let version = node.put(key, b"after", None).await?;
            if !seen.insert((key.clone(), version.as_str().to_owned())) {
                return Err(Stop(format!(
                    "version {version:?} came again after a restart"
                )));
            }
        }
    }
    Ok(())
}
