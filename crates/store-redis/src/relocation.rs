//! The Relocation Store on Redis (ST-92).

use std::sync::Arc;

use bytes::Bytes;
use fred::types::Value;
use spotlane_store::{
    BlobOutcome, BlobReference, DeleteOutcome, Failure, PutOutcome, RelocationProvider,
    RenewOutcome, StoreError, StoreTime, StoreValue, Ttl,
};

use crate::classify::returned;
use crate::encode::{of_read, time, unexpected};
use crate::key::Domain;
use crate::link::Link;
use crate::options::{OpenError, RedisOptions};
use crate::script::Script;

/// A [`RelocationProvider`] on Redis 7 or Valkey. A clone shares the connection.
#[derive(Clone, Debug)]
pub struct RedisRelocation {
    link: Arc<Link>,
}

impl RedisRelocation {
    /// As [`RedisStore::open`](crate::RedisStore::open).
    ///
    /// # Errors
    /// [`OpenError`] when an option is not valid.
    pub fn open(options: &RedisOptions) -> Result<Self, OpenError> {
        let link = Link::open(options, Domain::relocation(options.prefix()))?;
        Ok(Self {
            link: Arc::new(link),
        })
    }

    async fn change(
        &self,
        script: &Script,
        reference: &BlobReference,
        arguments: &[Bytes],
    ) -> Result<Answer, StoreError> {
        let keys = [self.link.domain.blob(reference)];
        let deadline = self.link.deadline();
        let answer = self.link.write(script, &keys, arguments, deadline).await?;
        Answer::of(answer, reference)
    }
}

/// What the blob scripts return: a status and what belongs to it.
struct Answer {
    status: i64,
    parts: Vec<Value>,
}

impl Answer {
    fn of(answer: Value, reference: &BlobReference) -> Result<Self, StoreError> {
        let mut parts = answer.into_array();
        if parts.is_empty() {
            return Err(unexpected("a status"));
        }
        let status = parts
            .remove(0)
            .as_i64()
            .ok_or_else(|| unexpected("a status"))?;
        if status == 2 {
            let problem = parts.first().and_then(Value::as_string).unwrap_or_default();
            return Err(returned(&problem, reference.as_str()));
        }
        Ok(Self { status, parts })
    }

    fn times(&self) -> Result<(StoreTime, StoreTime), StoreError> {
        Ok((time(self.parts.first())?, time(self.parts.get(1))?))
    }
}

fn millis(ttl: Ttl) -> Bytes {
    Bytes::from(ttl.as_millis().to_string())
}

impl RelocationProvider for RedisRelocation {
    async fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<PutOutcome, StoreError> {
        let arguments = [value.into_bytes(), millis(ttl)];
        let answer = self
            .change(&self.link.scripts.blob_put, reference, &arguments)
            .await?;
        if answer.status == 0 {
            return Ok(PutOutcome::Conflict);
        }
        let (store_now, expires_at) = answer.times()?;
        Ok(PutOutcome::Stored {
            expires_at,
            store_now,
        })
    }

    async fn get(&self, reference: &BlobReference) -> Result<BlobOutcome, StoreError> {
        let keys = [self.link.domain.blob(reference)];
        let deadline = self.link.deadline();
        let answer = self
            .link
            .read(&self.link.scripts.blob_get, &keys, &[], deadline)
            .await?;
        let answer = Answer::of(answer, reference).map_err(of_read)?;
        let store_now = time(answer.parts.first()).map_err(of_read)?;
        if answer.status == 0 {
            return Ok(BlobOutcome::Missing { store_now });
        }
        // A blob without expiry reports -1, which is no time.
        let expires_at = time(answer.parts.get(1)).ok();
        let bytes = answer.parts.into_iter().nth(2).and_then(Value::into_bytes);
        let bytes = bytes.ok_or_else(|| of_read(unexpected("the bytes")))?;
        let value = StoreValue::new(bytes).map_err(|error| {
            let failure = Failure::new("the stored blob is malformed").with_source(error);
            StoreError::Permanent(failure.at_key(reference.as_str()))
        })?;
        Ok(BlobOutcome::Found {
            value,
            expires_at,
            store_now,
        })
    }

    async fn renew(&self, reference: &BlobReference, ttl: Ttl) -> Result<RenewOutcome, StoreError> {
        let script = &self.link.scripts.blob_renew;
        let answer = self.change(script, reference, &[millis(ttl)]).await?;
        if answer.status == 0 {
            return Ok(RenewOutcome::Missing);
        }
        let (store_now, expires_at) = answer.times()?;
        Ok(RenewOutcome::Renewed {
            expires_at,
            store_now,
        })
    }

    async fn delete(&self, reference: &BlobReference) -> Result<DeleteOutcome, StoreError> {
        let answer = self
            .change(&self.link.scripts.blob_delete, reference, &[])
            .await?;
        Ok(if answer.status == 0 {
            DeleteOutcome::Missing
        } else {
            DeleteOutcome::Deleted
        })
    }
}
