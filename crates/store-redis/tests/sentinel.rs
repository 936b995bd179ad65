//! A fail-over under Sentinel (ST-30, ST-36).

#![expect(clippy::unwrap_used, reason = "a test file")]
#![expect(
    dead_code,
    reason = "this file needs a part of what the test files share"
)]

mod common;

use common::{key, open, put, put_request};
use spotlane_redis_testkit::Sentinel;
use spotlane_store::{Recovery, StoreProvider};

/// ST-8, ST-36: the provider finds the new master; what it wrote before is there, and nothing is reported wrongly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_is_survived() {
    let sentinel = Sentinel::start().unwrap();
    let store = open(&sentinel.url());
    put(&store, "before", b"value").await;
    sentinel.fail_over().unwrap();
    let mut last = None;
    for _ in 0..1_000 {
        match store.write(put_request("after", b"value", None)).await {
            Ok(outcome) => {
                last = outcome.applied();
                break;
            }
            Err(error) => assert_ne!(error.recovery(), Recovery::GiveUp, "{error}"),
        }
    }
    assert!(last.is_some());
    assert!(store.read(&key("before")).await.unwrap().found().is_some());
}
