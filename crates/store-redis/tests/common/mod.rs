//! What the test files of this crate share.

use std::time::Duration;

use spotlane_store::{
    Condition, Mutation, StoreKey, StoreProvider, StoreVersion, Ttl, WriteRequest,
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

pub(crate) async fn value(store: &impl StoreProvider, name: &str) -> Option<Vec<u8>> {
    let found = store.read(&key(name)).await.unwrap().found();
    found.map(|found| found.value.as_bytes().to_vec())
}
