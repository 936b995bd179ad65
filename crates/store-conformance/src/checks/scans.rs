//! ST-5: scans.

use std::time::Duration;

use spotlane_store::bound::{CURSOR_BYTES_MAX, PAGE_BYTES_MAX, PAGE_ROWS_MAX, VALUE_BYTES_MAX};
use spotlane_store::{
    Cursor, KeyPrefix, Mutation, Row, ScanOutcome, ScanPage, ScanRequest, StoreKey, StoreProvider,
    Ttl,
};

use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::Subject;

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    let node = Node::new(subject.node());
    run.note(
        "ST-5",
        "rows come in the order of their key bytes",
        order(&node).await,
    );
    run.note(
        "ST-5",
        "a prefix names exactly its keys",
        prefixes(&node).await,
    );
    run.note("ST-5", "pages keep limit and 4 MiB", pages(&node).await);
    run.note(
        "ST-5",
        "the snapshot stays as it was at the first page",
        frozen(subject).await,
    );
    run.note(
        "ST-5",
        "a row that expires during the scan is still there",
        expiring(subject).await,
    );
    run.note(
        "ST-5",
        "a page can be asked for again",
        repeated(&node).await,
    );
    run.note(
        "ST-5",
        "a cursor that is not this scan's is expired",
        cursors(&node).await,
    );
}

async fn page<P: StoreProvider>(
    node: &Node<P>,
    prefix: &str,
    limit: usize,
    cursor: Option<Cursor>,
) -> Result<ScanPage, Stop> {
    let request = ScanRequest::new(KeyPrefix::new(prefix)?, limit, cursor)?;
    match node.0.scan(request).await? {
        ScanOutcome::Page(page) => Ok(page),
        ScanOutcome::Expired => Err(Stop("a scan expired under way".into())),
    }
}

/// All rows from a cursor on.
async fn rest<P: StoreProvider>(
    node: &Node<P>,
    prefix: &str,
    limit: usize,
    mut cursor: Option<Cursor>,
) -> Result<Vec<Row>, Stop> {
    let mut rows = Vec::new();
    loop {
        let page = page(node, prefix, limit, cursor).await?;
        demand(page.rows().len() <= limit, || {
            "a page has more rows than its limit".into()
        })?;
        let bytes: usize = page.rows().iter().map(Row::encoded_bytes).sum();
        demand(bytes <= PAGE_BYTES_MAX, || {
            format!("a page of {bytes} bytes")
        })?;
        cursor = page.next().cloned();
        rows.extend(page.into_rows());
        if cursor.is_none() {
            return Ok(rows);
        }
    }
}

async fn fill<P: StoreProvider>(node: &Node<P>, names: &[String]) -> Result<Vec<StoreKey>, Stop> {
    let keys: Vec<_> = names
        .iter()
        .map(|name| StoreKey::new(name))
        .collect::<Result<_, _>>()?;
    for chunk in keys.chunks(500) {
        let puts = chunk
            .iter()
            .map(|key| put(key, format!("of {}", key.as_str()).as_bytes(), None))
            .collect::<Result<_, _>>()?;
        node.apply(vec![], puts).await?;
    }
    Ok(keys)
}

async fn order<P: StoreProvider>(node: &Node<P>) -> Checked {
    let head = "conformance/order/";
    let tails = [
        "b",
        "a",
        "B",
        "aa",
        "a\0b",
        "a\0",
        "ä",
        "\u{10ffff}",
        "\u{ffff}",
        "z",
        "0",
        "~",
        "\u{7f}",
    ];
    let names: Vec<_> = tails.iter().map(|tail| format!("{head}{tail}")).collect();
    fill(node, &names).await?;
    let mut expected = names;
    expected.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    for limit in [1, 2, 5, 13, 1_000] {
        let rows = rest(node, head, limit, None).await?;
        let found: Vec<_> = rows.iter().map(|row| row.key.as_str().to_owned()).collect();
        demand(found == expected, || format!("limit {limit}: {found:?}"))?;
    }
    Ok(())
}

async fn prefixes<P: StoreProvider>(node: &Node<P>) -> Checked {
    let head = "conformance/prefix/";
    let names: Vec<_> = ["a", "ab", "abc", "b", "a\u{10ffff}"]
        .iter()
        .map(|tail| format!("{head}{tail}"))
        .collect();
    let keys = fill(node, &names).await?;
    for (prefix, count) in [
        ("a", 4),
        ("ab", 2),
        ("abc", 1),
        ("abcd", 0),
        ("b", 1),
        ("", 5),
    ] {
        let prefix = format!("{head}{prefix}");
        let rows = rest(node, &prefix, 2, None).await?;
        demand(rows.len() == count, || {
            format!("{prefix:?} found {} rows", rows.len())
        })?;
    }
    node.delete(keys.first().unwrap_or(&key("prefix", "a")?))
        .await?;
    let rows = rest(node, head, 2, None).await?;
    demand(rows.len() == 4, || "a deleted record was scanned".into())?;
    // The empty prefix names every key there is.
    let all = rest(node, "", PAGE_ROWS_MAX, None).await?;
    let own = all
        .iter()
        .filter(|row| row.key.as_str().starts_with(head))
        .count();
    demand(own == 4, || {
        format!("the empty prefix found {own} of 4 rows")
    })
}

async fn pages<P: StoreProvider>(node: &Node<P>) -> Checked {
    let head = "conformance/pages/";
    let names: Vec<_> = (0..=PAGE_ROWS_MAX)
        .map(|n| format!("{head}{n:05}"))
        .collect();
    let keys = fill(node, &names).await?;
    let rows = rest(node, head, PAGE_ROWS_MAX, None).await?;
    demand(rows.len() == keys.len(), || {
        format!("{} of {} rows", rows.len(), keys.len())
    })?;
    let head = "conformance/large/";
    for n in 0..9 {
        let key = StoreKey::new(&format!("{head}{n}"))?;
        node.put(&key, &vec![n; VALUE_BYTES_MAX], None).await?;
    }
    let rows = rest(node, head, PAGE_ROWS_MAX, None).await?;
    demand(rows.len() == 9, || {
        format!("{} of 9 large rows", rows.len())
    })?;
    for row in rows {
        let is_whole = row.value.as_bytes().len() == VALUE_BYTES_MAX;
        demand(is_whole, || "a large row is not whole".into())?;
        node.delete(&row.key).await?;
    }
    Ok(())
}

/// After the first page: every third row is overwritten twice, every third deleted, the others stay, and as many come.
async fn frozen<S: Subject>(subject: &S) -> Checked {
    let (node, other) = (Node::new(subject.node()), Node::new(subject.node()));
    let head = "conformance/frozen/";
    let names: Vec<_> = (0..600).map(|n| format!("{head}{n:04}")).collect();
    let keys = fill(&node, &names).await?;
    let first = page(&node, head, 7, None).await?;
    for (n, key) in keys.iter().enumerate() {
        match n % 3 {
            0 => {
                other.put(key, b"overwritten", None).await?;
                other.put(key, b"overwritten again", None).await?;
            }
            1 => other
                .apply(vec![], vec![Mutation::Delete { key: key.clone() }])
                .await
                .map(drop)?,
            _ => {}
        }
        other
            .put(&StoreKey::new(&format!("{}+", key.as_str()))?, b"new", None)
            .await?;
    }
    // A record that is deleted and made again is a new one.
    let again = StoreKey::new(&format!("{head}0001"))?;
    other.put(&again, b"made again", None).await?;
    let mut rows = first.rows().to_vec();
    rows.extend(rest(&node, head, 50, first.next().cloned()).await?);
    let (mut old, mut new) = (rows.clone(), rows);
    old.retain(|row| !row.key.as_str().ends_with('+'));
    new.retain(|row| row.key.as_str().ends_with('+'));
    let found: Vec<_> = old.iter().map(|row| row.key.clone()).collect();
    demand(found == keys, || {
        format!("{} of {} rows, or twice", found.len(), keys.len())
    })?;
    let is_old = old
        .iter()
        .all(|row| row.value.as_bytes() == format!("of {}", row.key.as_str()).as_bytes());
    demand(is_old, || {
        "a row shows bytes from after the first page".into()
    })?;
    let mut later: Vec<_> = new.iter().map(|row| row.key.clone()).collect();
    later.dedup();
    demand(later.len() == new.len(), || {
        "a row from after the first page came twice".into()
    })?;
    // The next scan sees the present.
    let rows = rest(&node, head, 500, None).await?;
    demand(rows.len() == 200 + 200 + 600 + 1, || {
        format!("{} rows afterwards", rows.len())
    })
}

/// Lives that are tried one after the other: a provider whose clock cannot be moved, on a machine that is busy with other
/// things, lets a short one pass before the first page is read.
const LIVES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(25),
];

async fn expiring<S: Subject>(subject: &S) -> Checked {
    let node = Node::new(subject.node());
    let head = "conformance/expiring/";
    for life in LIVES {
        let first = expiring_page(&node, head, life).await?;
        if first.rows().len() == 2 {
            return expired_rows(subject, &node, head, life, first).await;
        }
    }
    Err(Stop("the suite was too slow for its own records".into()))
}

/// The first page over records with this life.
async fn expiring_page<P: StoreProvider>(
    node: &Node<P>,
    head: &str,
    life: Duration,
) -> Result<ScanPage, Stop> {
    let mut puts = Vec::new();
    for n in 0..6 {
        let key = StoreKey::new(&format!("{head}{n}"))?;
        puts.push(put(&key, b"value", Some(Ttl::new(life)?))?);
    }
    node.apply(vec![], puts).await?;
    page(node, head, 2, None).await
}

async fn expired_rows<S: Subject>(
    subject: &S,
    node: &Node<S::Provider>,
    head: &str,
    life: Duration,
    first: ScanPage,
) -> Checked {
    subject.pass(life + life / 10).await;
    // A write gives the provider the occasion to clean up.
    node.put(&key("expiring-other", "key")?, b"value", None)
        .await?;
    let rows = rest(node, head, 2, first.next().cloned()).await?;
    demand(rows.len() == 4, || {
        format!("{} of 4 rows after their expiry", rows.len())
    })
}

async fn repeated<P: StoreProvider>(node: &Node<P>) -> Checked {
    let head = "conformance/repeated/";
    fill(
        node,
        &(0..30).map(|n| format!("{head}{n:02}")).collect::<Vec<_>>(),
    )
    .await?;
    let first = page(node, head, 10, None).await?;
    let second = page(node, head, 10, first.next().cloned()).await?;
    let third = page(node, head, 10, second.next().cloned()).await?;
    for (cursor, expected) in [(first.next(), &second), (second.next(), &third)] {
        let again = page(node, head, 10, cursor.cloned()).await?;
        demand(again.rows() == expected.rows(), || {
            "the same cursor gave another page".into()
        })?;
    }
    Ok(())
}

async fn cursors<P: StoreProvider>(node: &Node<P>) -> Checked {
    let head = "conformance/cursors/";
    fill(
        node,
        &(0..30).map(|n| format!("{head}{n:02}")).collect::<Vec<_>>(),
    )
    .await?;
    let first = page(node, head, 10, None).await?;
    let own = first
        .next()
        .cloned()
        .ok_or_else(|| Stop("a page of many has no cursor".into()))?;
    let mut changed = own.as_bytes().to_vec();
    for byte in &mut changed {
        *byte ^= 0x11;
    }
    let cases = [
        (
            "a cursor of another prefix",
            "conformance/order/",
            own.clone(),
        ),
        ("a cursor of a shorter prefix", "conformance/", own),
        ("a changed cursor", head, Cursor::new(changed)?),
        ("an unknown cursor", head, Cursor::new(&b"unknown"[..])?),
        ("a cursor of one byte", head, Cursor::new(vec![0])?),
        (
            "a cursor of 4,096 bytes",
            head,
            Cursor::new(vec![b'1'; CURSOR_BYTES_MAX])?,
        ),
    ];
    for (what, prefix, cursor) in cases {
        let request = ScanRequest::new(KeyPrefix::new(prefix)?, 10, Some(cursor))?;
        let outcome = node.0.scan(request).await?;
        demand(outcome == ScanOutcome::Expired, || {
            format!("{what} gave a page")
        })?;
    }
    Ok(())
}
