//! ST-92: the Relocation Store.

use std::time::Duration;

use spotlane_store::bound::{REFERENCE_BYTES_MAX, VALUE_BYTES_MAX};
use spotlane_store::{
    BlobOutcome, BlobReference, DeleteOutcome, PutOutcome, RelocationProvider, RenewOutcome,
    StoreValue, Ttl,
};
use tokio::task::JoinSet;

use super::Run;
use crate::report::{Checked, Stop, demand};
use crate::subject::RelocationSubject;

const RULE: &str = "ST-92";
/// Lives that are tried one after the other: a provider whose clock cannot be moved, on a machine that is busy with other
/// things, lets a short one pass before its blob is renewed.
const LIVES: [Duration; 3] = [
    Duration::from_millis(400),
    Duration::from_secs(3),
    Duration::from_secs(20),
];

pub(super) async fn check<S: RelocationSubject>(run: &mut Run, subject: &S) {
    run.note(
        RULE,
        "a blob is stored once and never replaced",
        stored(&subject.node()).await,
    );
    run.note(
        RULE,
        "references and bytes up to their bounds work",
        bounds(&subject.node()).await,
    );
    run.note(
        RULE,
        "a blob lives until its expiry and longer when renewed",
        lives(subject).await,
    );
    run.note(
        RULE,
        "of many that put other bytes one succeeds",
        race(subject).await,
    );
}

fn reference(name: &str) -> Result<BlobReference, Stop> {
    Ok(BlobReference::new(&format!("conformance/{name}"))?)
}

fn bytes(text: &str) -> Result<StoreValue, Stop> {
    Ok(StoreValue::new(text.as_bytes().to_vec())?)
}

async fn stored<P: RelocationProvider>(store: &P) -> Checked {
    let (name, life) = (reference("stored")?, Ttl::new(Duration::from_mins(5))?);
    store.delete(&name).await?;
    let missing = matches!(store.get(&name).await?, BlobOutcome::Missing { .. });
    demand(missing, || "a deleted blob was found".into())?;
    let first = store.put(&name, bytes("one")?, life).await?;
    let PutOutcome::Stored {
        expires_at,
        store_now,
    } = first
    else {
        return Err(Stop("a new blob was a conflict".into()));
    };
    demand(expires_at == store_now.after(life), || {
        "a life does not count from its put".into()
    })?;
    let again = store.put(&name, bytes("one")?, life).await?;
    let is_stored = matches!(again, PutOutcome::Stored { .. });
    demand(is_stored, || "the same bytes were a conflict".into())?;
    for other in ["two", "on", "one ", ""] {
        let other = store.put(&name, bytes(other)?, life).await?;
        demand(other == PutOutcome::Conflict, || {
            "other bytes were no conflict".into()
        })?;
    }
    let value = store.get(&name).await?.value();
    demand(value == Some(bytes("one")?), || {
        "the first bytes are not there".into()
    })?;
    demand(store.delete(&name).await? == DeleteOutcome::Deleted, || {
        "nothing deleted".into()
    })?;
    demand(store.delete(&name).await? == DeleteOutcome::Missing, || {
        "deleted twice".into()
    })?;
    let renewed = store.renew(&name, life).await?;
    demand(renewed == RenewOutcome::Missing, || {
        "what is missing was renewed".into()
    })
}

async fn bounds<P: RelocationProvider>(store: &P) -> Checked {
    let life = Ttl::new(Duration::from_mins(5))?;
    let long = reference(&"r".repeat(REFERENCE_BYTES_MAX - "conformance/".len()))?;
    let value: Vec<u8> = (0..=u8::MAX).cycle().take(VALUE_BYTES_MAX).collect();
    for value in [value, vec![]] {
        let value = StoreValue::new(value)?;
        let outcome = store.put(&long, value.clone(), life).await?;
        let is_stored = matches!(outcome, PutOutcome::Stored { .. });
        demand(is_stored, || "a blob at its bounds was refused".into())?;
        demand(store.get(&long).await?.value() == Some(value), || {
            "bytes changed".into()
        })?;
        store.delete(&long).await?;
    }
    demand(BlobReference::new("").is_err(), || {
        "an empty reference was taken".into()
    })?;
    demand(BlobReference::new("a\0b").is_err(), || {
        "a reference with NUL was taken".into()
    })?;
    let long = "r".repeat(REFERENCE_BYTES_MAX + 1);
    demand(BlobReference::new(&long).is_err(), || {
        "a long reference was taken".into()
    })
}

async fn lives<S: RelocationSubject>(subject: &S) -> Checked {
    for life in LIVES {
        if lives_for(subject, life).await? == Pace::Kept {
            return Ok(());
        }
    }
    Err(Stop("the suite was too slow for its own blobs".into()))
}

/// Whether the suite was fast enough for the lives that it gave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Kept,
    TooSlow,
}

async fn lives_for<S: RelocationSubject>(subject: &S, life: Duration) -> Result<Pace, Stop> {
    let (store, other) = (subject.node(), subject.node());
    let (short, long) = (Ttl::new(life)?, Ttl::new(life * 100)?);
    let (dies, renewed, put_again) = (
        reference("dies")?,
        reference("renewed")?,
        reference("put-again")?,
    );
    let mut expiry = None;
    for name in [&dies, &put_again, &renewed] {
        store.delete(name).await?;
        let outcome = store.put(name, bytes("one")?, short).await?;
        let PutOutcome::Stored { expires_at, .. } = outcome else {
            return Err(Stop("a new blob was a conflict".into()));
        };
        expiry = Some(expires_at);
    }
    let outcome = other.renew(&renewed, long).await?;
    let RenewOutcome::Renewed {
        expires_at,
        store_now,
    } = outcome
    else {
        // By the store's own clock: it has expired, or it lives and was not renewed.
        return match other.get(&renewed).await? {
            BlobOutcome::Missing { store_now } if Some(store_now) >= expiry => Ok(Pace::TooSlow),
            _ => Err(Stop("a blob that lives was not renewed".into())),
        };
    };
    demand(expires_at == store_now.after(long), || {
        "a renewal counts from elsewhere".into()
    })?;
    let RenewOutcome::Renewed {
        expires_at: after, ..
    } = other.renew(&renewed, short).await?
    else {
        return Err(Stop("a blob that lives was not renewed".into()));
    };
    demand(after == expires_at, || {
        "a renewal made a life shorter".into()
    })?;
    let outcome = other.put(&put_again, bytes("one")?, long).await?;
    demand(outcome != PutOutcome::Conflict, || {
        "the same bytes were a conflict".into()
    })?;
    subject.pass(life + life / 2).await;
    demand(store.get(&dies).await?.value().is_none(), || {
        "a blob outlived its expiry".into()
    })?;
    for name in [&renewed, &put_again] {
        let value = store.get(name).await?.value();
        demand(value.is_some(), || "a renewed blob is gone".into())?;
        store.delete(name).await?;
    }
    let outcome = store.put(&dies, bytes("two")?, short).await?;
    demand(outcome != PutOutcome::Conflict, || {
        "an expired blob was a conflict".into()
    })?;
    Ok(Pace::Kept)
}

async fn race<S: RelocationSubject>(subject: &S) -> Checked {
    let (name, life) = (reference("race")?, Ttl::new(Duration::from_mins(5))?);
    subject.node().delete(&name).await?;
    let mut racers = JoinSet::new();
    for racer in 0..64 {
        let (store, name) = (subject.node(), name.clone());
        racers.spawn(async move {
            let outcome = store.put(&name, bytes(&racer.to_string())?, life).await?;
            Ok::<_, Stop>((racer, outcome != PutOutcome::Conflict))
        });
    }
    let mut winners = Vec::new();
    while let Some(ended) = racers.join_next().await {
        let (racer, won) = ended??;
        if won {
            winners.push(racer);
        }
    }
    let [winner] = winners.as_slice() else {
        return Err(Stop(format!("{} of 64 puts succeeded", winners.len())));
    };
    let value = subject.node().get(&name).await?.value();
    demand(value == Some(bytes(&winner.to_string())?), || {
        "another blob is stored".into()
    })
}
