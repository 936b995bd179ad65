//! From requests to keys and arguments of scripts, and from their answers to outcomes.

use std::collections::HashMap;

use bytes::Bytes;
use fred::types::Value;
use spotlane_store::{
    Applied, Condition, Found, Mutation, ReadOutcome, StoreError, StoreKey, StoreTime,
    StoreVersion, WriteOutcome, WriteRequest,
};

use crate::classify::returned;
use crate::key::Domain;
use crate::member::Member;

/// One write as the script takes it.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) arguments: Vec<Bytes>,
    pub(crate) bytes: usize,
    puts: usize,
}

impl Batch {
    /// See the head of `write.lua`.
    pub(crate) fn encode(domain: &Domain, request: WriteRequest) -> Self {
        let bytes = request.encoded_bytes();
        let puts = request.put_count();
        let (conditions, mutations) = request.into_parts();
        let mut keys = Vec::with_capacity(conditions.len() + mutations.len());
        let mut arguments = vec![
            decimal(conditions.len()),
            decimal(mutations.len()),
            Bytes::new(),
        ];
        // A key that is compared and changed is hashed once.
        let mut records = HashMap::with_capacity(conditions.len());
        for condition in conditions {
            let record = domain.record(condition.key());
            records.insert(condition.key().clone(), record.clone());
            keys.push(record);
            let key = text(condition.key().as_str());
            match condition {
                Condition::Missing(_) => arguments.extend([Bytes::from_static(b"m"), key]),
                Condition::Version(_, version) => {
                    arguments.extend([Bytes::from_static(b"v"), key, text(version.as_str())]);
                }
                Condition::Value(_, value) => {
                    arguments.extend([Bytes::from_static(b"x"), key, value.into_bytes()]);
                }
            }
        }
        for mutation in mutations {
            let compared = records.remove(mutation.key());
            keys.push(compared.unwrap_or_else(|| domain.record(mutation.key())));
            match mutation {
                Mutation::Delete { key } => {
                    arguments.extend([Bytes::from_static(b"d"), text(key.as_str())]);
                }
                Mutation::Put { key, value, ttl } => {
                    let ttl = ttl.map_or(0, spotlane_store::Ttl::as_millis);
                    let ttl = Bytes::from(ttl.to_string());
                    let put = Bytes::from_static(b"p");
                    arguments.extend([put, text(key.as_str()), value.into_bytes(), ttl]);
                }
            }
        }
        let count = arguments.len().saturating_sub(3);
        if let Some(place) = arguments.get_mut(2) {
            *place = decimal(count);
        }
        Self {
            keys,
            arguments,
            bytes,
            puts,
        }
    }

    /// What the script returned for it.
    pub(crate) fn outcome(
        &self,
        answer: Value,
        now: StoreTime,
    ) -> Result<WriteOutcome, StoreError> {
        let mut parts = answer.into_array().into_iter();
        match parts.next().and_then(|status| status.as_i64()) {
            Some(0) => Ok(WriteOutcome::Conflict),
            Some(1) => {
                let versions: Vec<_> = parts.map(version).collect::<Result<_, _>>()?;
                if versions.len() != self.puts {
                    return Err(unexpected("versions"));
                }
                Ok(WriteOutcome::Applied(Applied {
                    versions,
                    store_now: now,
                }))
            }
            Some(2) => {
                let key = parts
                    .next()
                    .and_then(|key| key.as_string())
                    .unwrap_or_default();
                let problem = parts
                    .next()
                    .and_then(|text| text.as_string())
                    .unwrap_or_default();
                Err(returned(&problem, &key))
            }
            _ => Err(unexpected("a status")),
        }
    }
}

/// The outcome of a read, from what `read.lua` returned for the record; `None` when it had no room for it.
pub(crate) fn observed(
    key: &StoreKey,
    answer: Value,
    store_now: StoreTime,
) -> Option<Result<ReadOutcome, StoreError>> {
    let member = match answer {
        Value::Integer(_) => return None,
        Value::Null => return Some(Ok(ReadOutcome::Missing { store_now })),
        Value::Array(problem) => return Some(Err(problem_of(&problem, key))),
        bytes => bytes.into_bytes(),
    };
    let Some(member) = member else {
        return Some(Err(of_read(unexpected("a member"))));
    };
    Some(Member::decode(key, &member).map(|member| {
        if !member.is_live(store_now) {
            return ReadOutcome::Missing { store_now };
        }
        let Member {
            value,
            version,
            expires_at,
            ..
        } = member;
        ReadOutcome::Found(Found {
            value,
            version,
            expires_at,
            store_now,
        })
    }))
}

/// An error that a script returned in place of a record.
pub(crate) fn problem_of(problem: &[Value], key: &StoreKey) -> StoreError {
    let text = problem
        .first()
        .and_then(Value::as_string)
        .unwrap_or_default();
    returned(&text, key.as_str())
}

/// The time of the server, which leads most answers.
pub(crate) fn time(value: Option<&Value>) -> Result<StoreTime, StoreError> {
    let millis = value
        .and_then(Value::as_u64)
        .ok_or_else(|| unexpected("a time"))?;
    Ok(StoreTime::from_unix_millis(millis))
}

fn version(value: Value) -> Result<StoreVersion, StoreError> {
    let text = value.as_string().ok_or_else(|| unexpected("a version"))?;
    StoreVersion::new(&text).map_err(|_| unexpected("a version"))
}

/// An answer that our own script cannot have given. The script has run, so whether anything changed is unknown.
pub(crate) fn unexpected(what: &str) -> StoreError {
    StoreError::indeterminate(format!("defect: the answer of a script lacks {what}"))
}

/// The same for a script that changes nothing: there is no unknown outcome.
pub(crate) fn of_read(error: StoreError) -> StoreError {
    match error {
        StoreError::Indeterminate(failure) => StoreError::Permanent(failure),
        other => other,
    }
}

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn decimal(number: usize) -> Bytes {
    Bytes::from(number.to_string())
}
