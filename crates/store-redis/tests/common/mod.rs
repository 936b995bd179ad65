//! What the test files of this crate share.

use std::time::Duration;

use spotlane_store::{
    Condition, Found, Mutation, Recovery, StoreError, StoreKey, StoreProvider, StoreVersion, Ttl,
    WriteRequest,
};
use spotlane_store_redis::{RedisOptions, RedisStore};

/// Long enough for two shared cores.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn open(url: &str) -> RedisStore {
    open_within(url, PATIENCE)
}

pub(crate) fn open_within(url: &str, timeout: Duration) -> RedisStore {
    RedisStore::open(&RedisOptions::new(url, "app1").operation_timeout(timeout)).unwrap()
}

pub(crate) fn key(name: &str) -> StoreKey {
    StoreKey::new(name).unwrap()
}

pub(crate) fn put_request(name: &str, value: &[u8], ttl: Option<Ttl>) -> WriteRequest {
    WriteRequest::new(
        vec![],
        vec![Mutation::put(key(name), value.to_vec(), ttl).unwrap()],
    )
    .unwrap()
}

pub(crate) fn swap_request(name: &str, version: &StoreVersion, value: &[u8]) -> WriteRequest {
    let condition = Condition::Version(key(name), version.clone());
    let put = Mutation::put(key(name), value.to_vec(), None).unwrap();
    WriteRequest::new(vec![condition], vec![put]).unwrap()
}

pub(crate) async fn put(store: &impl StoreProvider, name: &str, value: &[u8]) -> StoreVersion {
    let applied = store
        .write(put_request(name, value, None))
        .await
        .unwrap()
        .applied()
        .unwrap();
    applied.versions.into_iter().next().unwrap()
}

/// What the record is, asked until there is an answer: for a store whose own time is short.
pub(crate) async fn settled(store: &RedisStore, name: &str) -> Option<Found> {
    let answer = async {
        loop {
            match store.read(&key(name)).await {
                Ok(outcome) => return outcome.found(),
                Err(error) => assert_eq!(error.recovery(), Recovery::Retry, "a read: {error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.unwrap()
}

/// The error of a write once the server has refused the connection; until it has, nothing was sent.
pub(crate) async fn refusal(store: &RedisStore, name: &str) -> StoreError {
    let refused = async {
        loop {
            let error = store.write(put_request(name, b"v", None)).await;
            let error = error.unwrap_err();
            if error.recovery() != Recovery::Retry {
                return error;
            }
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap()
}

pub(crate) async fn value(store: &impl StoreProvider, name: &str) -> Option<Vec<u8>> {
    let found = store.read(&key(name)).await.unwrap().found();
    found.map(|found| found.value.as_bytes().to_vec())
}
