//! ST-1: observations. ST-7, ST-8: cancelled and unanswered operations.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use spotlane_store::{
    Condition, ReadOutcome, Recovery, StoreError, StoreKey, StoreProvider, WriteOutcome,
    WriteRequest,
};

use super::{Node, Run, key, put};
use crate::report::{Checked, Stop, demand};
use crate::subject::{LossyNetwork, Subject};

/// How often an answer is lost, and a request.
const LOSSES: usize = 20;

pub(super) async fn check<S: Subject>(run: &mut Run, subject: &S) {
    let node = Node::new(subject.node());
    run.note(
        "ST-1",
        "a read is one observation with the store's time",
        observe(&node).await,
    );
    run.note(
        "ST-7",
        "an operation that was not started does nothing",
        unstarted(&node, subject.node()).await,
    );
    run.note(
        "ST-7",
        "a read settles a write that was dropped",
        dropped(&node).await,
    );
}

async fn observe<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("observe", "key")?;
    node.delete(&key).await?;
    let before = match node.read(&key).await? {
        ReadOutcome::Missing { store_now } => store_now,
        ReadOutcome::Found(_) => return Err(Stop("a deleted record was found".into())),
    };
    let applied = node.apply(vec![], vec![put(&key, b"value", None)?]).await?;
    let found = node.read(&key).await?.found();
    let found = found.ok_or_else(|| Stop("a record that was put is missing".into()))?;
    demand(found.value.as_bytes() == &b"value"[..], || {
        "other bytes than were put".into()
    })?;
    demand(applied.versions == [found.version.clone()], || {
        format!(
            "version {:?} was returned, {:?} is read",
            applied.versions, found.version
        )
    })?;
    demand(found.expires_at.is_none(), || {
        "an expiry that was not asked for".into()
    })?;
    demand(
        before <= applied.store_now && applied.store_now <= found.store_now,
        || {
            format!(
                "time goes {before:?}, {:?}, {:?}",
                applied.store_now, found.store_now
            )
        },
    )
}

/// By the provider itself: its object-safe form would hide work that it does before the first poll.
async fn unstarted<P: StoreProvider>(node: &Node<P>, provider: P) -> Checked {
    let key = key("unstarted", "key")?;
    node.delete(&key).await?;
    let request = WriteRequest::new(vec![], vec![put(&key, b"value", None)?])?;
    drop(provider.write(request));
    demand(node.value(&key).await?.is_none(), || {
        "a write that was never polled happened".into()
    })
}

async fn dropped<P: StoreProvider>(node: &Node<P>) -> Checked {
    let key = key("dropped", "key")?;
    for round in 0..LOSSES {
        let before = format!("before {round}");
        let version = node.put(&key, before.as_bytes(), None).await?;
        let condition = vec![Condition::Version(key.clone(), version)];
        let request = WriteRequest::new(condition, vec![put(&key, b"dropped", None)?])?;
        {
            let mut write = pin!(node.0.write(request));
            // Once: the operation has started and, on a network, waits for its answer.
            poll_fn(|context| {
                drop(write.as_mut().poll(context));
                Poll::Ready(())
            })
            .await;
        }
        let first = node.value(&key).await?;
        let known = [Some(before.into_bytes()), Some(b"dropped".to_vec())];
        demand(known.contains(&first), || {
            "the record has bytes that nobody put".into()
        })?;
        // Long enough for anything that was still under way: many answers came after it.
        for _ in 0..LOSSES {
            let again = node.value(&key).await?;
            demand(again == first, || {
                "a dropped write happened after a read".into()
            })?;
        }
    }
    Ok(())
}

/// ST-7, ST-8 with a network that loses answers and requests.
pub(super) async fn check_unknown<S: Subject>(run: &mut Run, subject: &S) {
    let Some((provider, network)) = subject.lossy() else {
        return;
    };
    let node = Node::new(provider);
    run.note(
        "ST-7",
        "a lost answer is indeterminate, and a read settles it",
        losses(&node, network, Loss::Answer).await,
    );
    run.note(
        "ST-7",
        "a lost request is never a success or a conflict, and a read settles it",
        losses(&node, network, Loss::Request).await,
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Answer,
    Request,
}

async fn losses<P: StoreProvider>(
    node: &Node<P>,
    network: &dyn LossyNetwork,
    loss: Loss,
) -> Checked {
    let key = key(
        "losses",
        if loss == Loss::Answer {
            "answer"
        } else {
            "request"
        },
    )?;
    for round in 0..LOSSES {
        let old = format!("old {round}").into_bytes();
        let new = format!("new {round}").into_bytes();
        let version = node.put(&key, &old, None).await?;
        // Nothing is owed any more before the loss, so it meets the write.
        node.read(&key).await?;
        let condition = vec![Condition::Version(key.clone(), version)];
        let request = WriteRequest::new(condition, vec![put(&key, &new, None)?])?;
        match loss {
            Loss::Answer => network.lose_next_answer(),
            Loss::Request => network.lose_next_request(),
        }
        let error = match node.0.write(request).await {
            Err(error) => error,
            Ok(WriteOutcome::Applied(_)) => {
                return Err(Stop(
                    "a write without an answer was reported as applied".into(),
                ));
            }
            Ok(WriteOutcome::Conflict) => {
                return Err(Stop(
                    "a write without an answer was reported as a conflict".into(),
                ));
            }
        };
        judge(&error, loss)?;
        settle(node, &key, &old, &new, loss).await?;
    }
    Ok(())
}

fn judge(error: &StoreError, loss: Loss) -> Checked {
    let is_right = match (error, loss) {
        (StoreError::Indeterminate(_), _) => error.recovery() == Recovery::ReadThenDecide,
        (StoreError::Transient(_), Loss::Request) => error.recovery() == Recovery::Retry,
        _ => false,
    };
    demand(is_right, || {
        format!("a write without an answer was reported as: {error}")
    })
}

async fn settle<P: StoreProvider>(
    node: &Node<P>,
    key: &StoreKey,
    old: &[u8],
    new: &[u8],
    loss: Loss,
) -> Checked {
    let first = node.value(key).await?;
    let expected: &[&[u8]] = if loss == Loss::Answer {
        &[new]
    } else {
        &[old, new]
    };
    demand(
        first
            .as_deref()
            .is_some_and(|value| expected.contains(&value)),
        || "the record has bytes that were not put, or lost what happened".into(),
    )?;
    let again = node.value(key).await?;
    demand(again == first, || "the write happened after a read".into())
}
