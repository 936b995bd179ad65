//! ST-6: the provider's clock decides expiry, and nothing else does.

use std::time::Duration;

use spotlane_store::{
    Condition, KeyPrefix, ScanRequest, StoreProvider, StoreValue, Ttl, bound::TTL_MAX,
};

use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::Subject;

/// Short enough for a provider whose clock cannot be moved, long enough for a write and a read.
const LIFE: Duration = Duration::from_millis(400);

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    run.note(
        "ST-6",
        "a record lives exactly until its expiry",
        lives(subject).await,
    );
    run.note(
        "ST-1",
        "an expired record is missing to reads, conditions and scans",
        expired(subject).await,
    );
    run.note(
        "ST-6",
        "a later put replaces the expiry",
        replaced(subject).await,
    );
    run.note(
        "ST-6",
        "the shortest and the longest life work",
        extremes(subject).await,
    );
}

async fn lives<S: Subject>(subject: &S) -> Checked {
    let (node, other) = (Node::new(subject.node()), Node::new(subject.node()));
    let key = key("lives", "key")?;
    let ttl = Ttl::new(LIFE)?;
    let applied = node
        .apply(vec![], vec![put(&key, b"value", Some(ttl))?])
        .await?;
    let expiry = applied.store_now.after(ttl);
    let found = other.read(&key).await?;
    let now = found.store_now();
    if let Some(found) = found.found() {
        demand(found.expires_at == Some(expiry), || {
            format!(
                "put at {:?}, expires at {:?}",
                applied.store_now, found.expires_at
            )
        })?;
    } else {
        demand(now >= expiry, || {
            "a record was missing before its expiry".into()
        })?;
    }
    // Every observation must agree with its own time, on both sides of the expiry.
    for _ in 0..4 {
        subject.pass(LIFE / 3).await;
        let seen = other.read(&key).await?;
        let (now, is_found) = (seen.store_now(), seen.found().is_some());
        demand(is_found == (now < expiry), || {
            format!("at {now:?} a record with expiry {expiry:?} was found: {is_found}")
        })?;
    }
    Ok(())
}

async fn expired<S: Subject>(subject: &S) -> Checked {
    let node = Node::new(subject.node());
    let key = key("expired", "key")?;
    let version = node.put(&key, b"value", Some(Ttl::new(LIFE)?)).await?;
    subject.pass(LIFE + LIFE / 2).await;
    demand(node.value(&key).await?.is_none(), || {
        "a read found an expired record".into()
    })?;
    let value = StoreValue::new(&b"value"[..])?;
    for condition in [
        Condition::Version(key.clone(), version),
        Condition::Value(key.clone(), value),
    ] {
        let outcome = node.write(vec![condition], vec![]).await?;
        demand(outcome.applied().is_none(), || {
            "a condition held on an expired record".into()
        })?;
    }
    let request = ScanRequest::first(KeyPrefix::new("conformance/expired/")?, 10)?;
    let page = node.0.scan(request).await?.page();
    let rows = page.map(|page| page.rows().len());
    demand(rows == Some(0), || {
        format!("a scan over an expired record: {rows:?} rows")
    })?;
    let missing = vec![Condition::Missing(key.clone())];
    let outcome = node.write(missing, vec![put(&key, b"new", None)?]).await?;
    demand(outcome.applied().is_some(), || {
        "an expired record was not missing".into()
    })
}

async fn replaced<S: Subject>(subject: &S) -> Checked {
    let node = Node::new(subject.node());
    let (cleared, longer) = (key("replaced", "cleared")?, key("replaced", "longer")?);
    let (short, long) = (Ttl::new(LIFE)?, Ttl::new(LIFE * 100)?);
    node.put(&cleared, b"value", Some(short)).await?;
    node.put(&longer, b"value", Some(short)).await?;
    // Each life of a batch counts from the one commit.
    let puts = vec![
        put(&cleared, b"value", None)?,
        put(&longer, b"value", Some(long))?,
    ];
    let applied = node.apply(vec![], puts).await?;
    subject.pass(LIFE + LIFE / 2).await;
    let found = node.read(&cleared).await?.found();
    let found = found.ok_or_else(|| Stop("an expiry outlived the put that removed it".into()))?;
    demand(found.expires_at.is_none(), || {
        "a put without a life kept the old expiry".into()
    })?;
    let found = node.read(&longer).await?.found();
    let found = found.ok_or_else(|| Stop("a renewed record expired too early".into()))?;
    demand(
        found.expires_at == Some(applied.store_now.after(long)),
        || "a renewed life does not count from its commit".into(),
    )
}

async fn extremes<S: Subject>(subject: &S) -> Checked {
    let node = Node::new(subject.node());
    let (short, long) = (key("extremes", "short")?, key("extremes", "long")?);
    let (least, most) = (Ttl::new(Duration::from_nanos(1))?, Ttl::new(TTL_MAX)?);
    let puts = vec![put(&short, b"", Some(least))?, put(&long, b"", Some(most))?];
    let applied = node.apply(vec![], puts).await?;
    subject.pass(Duration::from_millis(5)).await;
    demand(node.value(&short).await?.is_none(), || {
        "a life of 1 ms did not end".into()
    })?;
    let found = node.read(&long).await?.found();
    let expiry = found.and_then(|found| found.expires_at);
    demand(expiry == Some(applied.store_now.after(most)), || {
        format!("the longest life ends at {expiry:?}")
    })?;
    node.delete(&long).await
}
