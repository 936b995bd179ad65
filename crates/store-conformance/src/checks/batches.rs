//! ST-2: a batch happens as a whole or not at all.

use std::sync::Arc;

use spotlane_store::{
    Condition, KeyPrefix, Mutation, ScanRequest, StoreKey, StoreProvider, StoreVersion,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::Subject;

const WRITERS: usize = 8;
const WRITES_EACH: usize = 40;

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    let node = Node::new(subject.node());
    run.note(
        "ST-2",
        "one condition that fails keeps the whole batch out",
        refused(&node).await,
    );
    run.note(
        "ST-2",
        "an applied batch returns a version for each put",
        applied(&node).await,
    );
    run.note(
        "ST-2",
        "conditions see the state before the batch",
        before(&node).await,
    );
    run.note(
        "ST-2",
        "readers never see half of a batch",
        halves(subject).await,
    );
}

async fn refused<P: StoreProvider>(node: &Node<P>) -> Checked {
    let (kept, new) = (key("refused", "kept")?, key("refused", "new")?);
    let version = node.put(&kept, b"before", None).await?;
    node.delete(&new).await?;
    let wrong = StoreVersion::new("wrong")?;
    let orders = [
        vec![
            Condition::Missing(new.clone()),
            Condition::Version(kept.clone(), wrong.clone()),
        ],
        vec![
            Condition::Version(kept.clone(), wrong),
            Condition::Missing(new.clone()),
        ],
    ];
    for conditions in orders {
        let mutations = vec![put(&new, b"new", None)?, put(&kept, b"after", None)?];
        let outcome = node.write(conditions, mutations).await?;
        demand(outcome.applied().is_none(), || {
            "a failed condition was ignored".into()
        })?;
        demand(node.value(&new).await?.is_none(), || {
            "a conflict put a record".into()
        })?;
        let found = node.read(&kept).await?.found();
        let is_kept = found.is_some_and(|found| {
            found.version == version && found.value.as_bytes() == &b"before"[..]
        });
        demand(is_kept, || "a conflict changed a record".into())?;
    }
    Ok(())
}

async fn applied<P: StoreProvider>(node: &Node<P>) -> Checked {
    let keys: Vec<_> = (0..5)
        .map(|n| key("applied", &n.to_string()))
        .collect::<Result<_, _>>()?;
    let mut mutations = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        if n == 2 {
            node.put(key, b"to be deleted", None).await?;
            mutations.push(Mutation::Delete { key: key.clone() });
        } else {
            mutations.push(put(key, n.to_string().as_bytes(), None)?);
        }
    }
    let applied = node.apply(vec![], mutations).await?;
    demand(applied.versions.len() == 4, || {
        format!("four puts returned {} versions", applied.versions.len())
    })?;
    let mut versions = applied.versions.into_iter();
    for (n, key) in keys.iter().enumerate() {
        let found = node.read(key).await?.found();
        if n == 2 {
            demand(found.is_none(), || {
                "the delete of a batch left its record".into()
            })?;
            continue;
        }
        let found = found.ok_or_else(|| Stop("a put of a batch is missing".into()))?;
        demand(versions.next() == Some(found.version), || {
            "versions are not in the order of the puts".into()
        })?;
        demand(found.value.as_bytes() == n.to_string().as_bytes(), || {
            "the puts of a batch were mixed up".into()
        })?;
    }
    Ok(())
}

async fn before<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("before", "key")?;
    node.delete(&key).await?;
    let missing = vec![Condition::Missing(key.clone())];
    node.apply(missing, vec![put(&key, b"one", None)?]).await?;
    let version = node.read(&key).await?.found().map(|found| found.version);
    let version = version.ok_or_else(|| Stop("a record that was put is missing".into()))?;
    let same = vec![Condition::Version(key.clone(), version)];
    node.apply(same, vec![Mutation::Delete { key: key.clone() }])
        .await?;
    demand(node.value(&key).await?.is_none(), || {
        "a conditional delete left its record".into()
    })
}

/// Writers put the same bytes to two keys at once; every scan must find the two alike.
async fn halves<S: Subject>(subject: &S) -> Checked {
    let pair = Arc::new([key("halves", "a")?, key("halves", "b")?]);
    let node = Node::new(subject.node());
    write_pair(&node, &pair, b"start").await?;
    let (done, is_done) = watch::channel(());
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let (node, is_done) = (Node::new(subject.node()), is_done.clone());
        readers.spawn(async move {
            let mut rounds = 0_usize;
            while is_done.has_changed().is_ok() || rounds < 10 {
                rounds += 1;
                compare_pair(&node).await?;
                // A provider in memory never waits, so the readers would keep the writers out.
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    }
    drop(is_done);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (node, pair) = (Node::new(subject.node()), Arc::clone(&pair));
        writers.spawn(async move {
            for n in 0..WRITES_EACH {
                write_pair(&node, &pair, format!("{writer} {n}").as_bytes()).await?;
            }
            Ok(())
        });
    }
    finish(&mut writers).await?;
    drop(done);
    finish(&mut readers).await
}

async fn write_pair<P: StoreProvider>(
    node: &Node<P>,
    pair: &[StoreKey; 2],
    value: &[u8],
) -> Checked {
    let puts = pair
        .iter()
        .map(|key| put(key, value, None))
        .collect::<Result<_, _>>()?;
    node.apply(vec![], puts).await.map(drop)
}

async fn compare_pair<P: StoreProvider>(node: &Node<P>) -> Checked {
    let request = ScanRequest::first(KeyPrefix::new("conformance/halves/")?, 10)?;
    let page = node.0.scan(request).await?.page();
    let page = page.ok_or_else(|| Stop("a first page was expired".into()))?;
    let values: Vec<_> = page.rows().iter().map(|row| row.value.clone()).collect();
    let [a, b] = values.as_slice() else {
        return Err(Stop(format!(
            "a scan of two records found {}",
            values.len()
        )));
    };
    demand(a == b, || "a scan saw half of a batch".into())
}

pub(super) async fn finish(tasks: &mut JoinSet<Checked>) -> Checked {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
