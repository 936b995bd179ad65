//! ST-40: many writers at once.

use std::sync::Arc;

use spotlane_store::{Condition, StoreKey, StoreProvider};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::batches::finish;
use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::Subject;

const WRITERS: usize = 256;
const INCREMENTS_EACH: usize = 4;
const CREATORS: usize = 64;
const OBJECTS: usize = 25;

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    run.note(
        "ST-40",
        "hundreds of writers of one key lose no update",
        counter(subject).await,
    );
    run.note(
        "ST-2",
        "of many that create one record exactly one succeeds",
        winners(subject).await,
    );
}

/// Each writer adds one, several times, by compare and set.
async fn counter<S: Subject>(subject: &S) -> Checked {
    let key = key("counter", "key")?;
    let node = Node::new(subject.node());
    node.put(&key, b"0", None).await?;
    let mut writers = JoinSet::new();
    // On a busy machine the first writers would be done before the last ones are there.
    let start = Arc::new(Barrier::new(WRITERS));
    for _ in 0..WRITERS {
        let (node, key, start) = (node.clone(), key.clone(), Arc::clone(&start));
        writers.spawn(async move {
            start.wait().await;
            for _ in 0..INCREMENTS_EACH {
                add_one(&node, &key).await?;
            }
            Ok(())
        });
    }
    finish(&mut writers).await?;
    let last = node.value(&key).await?.unwrap_or_default();
    let (last, expected) = (number(&last)?, WRITERS * INCREMENTS_EACH);
    demand(last == expected, || {
        format!("{expected} increments ended at {last}")
    })
}

/// Adds one by compare and set, as often as others come first.
async fn add_one<P: StoreProvider>(node: &Node<P>, key: &StoreKey) -> Checked {
    let mut refused = None;
    loop {
        tokio::task::yield_now().await;
        let found = node.read(key).await?.found();
        let found = found.ok_or_else(|| Stop("the counter is gone".into()))?;
        // A version never comes again (ST-9), so the record did not change in between, and the refusal was wrong.
        demand(refused != Some(found.version.clone()), || {
            "a write conflicted although its condition held".into()
        })?;
        let next = number(found.value.as_bytes())? + 1;
        let condition = vec![Condition::Version(key.clone(), found.version.clone())];
        let puts = vec![put(key, next.to_string().as_bytes(), None)?];
        if node.write(condition, puts).await?.applied().is_some() {
            return Ok(());
        }
        refused = Some(found.version);
    }
}

fn number(bytes: &[u8]) -> Result<usize, Stop> {
    let text = std::str::from_utf8(bytes).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Stop("the counter is no number".into()))
}

async fn winners<S: Subject>(subject: &S) -> Checked {
    let mut racers = JoinSet::new();
    let start = Arc::new(Barrier::new(OBJECTS * CREATORS));
    for object in 0..OBJECTS {
        let key = key("winners", &object.to_string())?;
        let node = Node::new(subject.node());
        node.delete(&key).await?;
        for racer in 0..CREATORS {
            let (node, key, start) = (node.clone(), key.clone(), Arc::clone(&start));
            racers.spawn(async move {
                start.wait().await;
                let missing = vec![Condition::Missing(key.clone())];
                let puts = vec![put(&key, racer.to_string().as_bytes(), None)?];
                let won = node.write(missing, puts).await?.applied().is_some();
                Ok::<_, Stop>((object, racer, won))
            });
        }
    }
    let mut winners = vec![Vec::new(); OBJECTS];
    while let Some(ended) = racers.join_next().await {
        let (object, racer, won) = ended??;
        if let Some(winners) = winners.get_mut(object).filter(|_| won) {
            winners.push(racer);
        }
    }
    let node = Node::new(subject.node());
    for (object, winners) in winners.iter().enumerate() {
        let [winner] = winners.as_slice() else {
            return Err(Stop(format!(
                "object {object} has {} creators",
                winners.len()
            )));
        };
        let value = node.value(&key("winners", &object.to_string())?).await?;
        demand(value == Some(winner.to_string().into_bytes()), || {
            format!("object {object} is not its creator's")
        })?;
    }
    Ok(())
}
