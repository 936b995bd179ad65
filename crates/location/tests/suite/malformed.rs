//! Stored rows that are not what they should be: named, never repaired, never taken for something else (ST-50, ST-73).

use std::time::Duration;

use spotlane_location::counter::Counter;
use spotlane_location::record::RecordError;
use spotlane_location::{LocationError, key};
use spotlane_store::{BoxedStore, Mutation, Recovery, StoreKey, StoreProvider, Ttl, WriteRequest};

use crate::host::{Host, everything, memory, mesh, spot};

async fn put(store: &BoxedStore, key: StoreKey, bytes: Vec<u8>, ttl: Option<Ttl>) {
    let put = Mutation::put(key, bytes, ttl).unwrap();
    let request = WriteRequest::new(vec![], vec![put]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
}

async fn bytes(store: &BoxedStore, key: &StoreKey) -> Vec<u8> {
    let found = store.read(key).await.unwrap().found().unwrap();
    found.value.into_bytes().to_vec()
}

fn gives_up(error: LocationError) -> RecordError {
    assert_eq!(error.recovery(), Recovery::GiveUp);
    match error {
        LocationError::Record(error) => error,
        other => panic!("expected a record error, found {other:?}"),
    }
}

/// ST-50, ST-51: every operation that meets the row says which one it is, and changes nothing.
#[tokio::test]
async fn a_malformed_authority_row_is_named_and_left_alone() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    host.create("room").await;
    let key = key::authority(&spot("room"));
    let good = bytes(&store, &key).await;
    let text = String::from_utf8(good).unwrap();
    for bad in [
        text.replace("\"recordVersion\":1", "\"recordVersion\":2"),
        text.replace("\"payload\":\"Wk", "\"payload\":\"AA"),
        text.replace("\"active\"", "\"gone\""),
        String::from("\u{0}"),
        String::new(),
    ] {
        put(&store, key.clone(), bad.into_bytes(), None).await;
        let rows = everything(&store).await;
        let read = host.repository.read(&spot("room"), host.until()).await;
        let find = host.repository.find(&spot("room"), host.until()).await;
        let reserve = host.reserve_on(&host, "room").await;
        for error in [read.unwrap_err(), find.unwrap_err(), reserve.unwrap_err()] {
            let error = gives_up(error);
            assert!(error.to_string().contains("room"), "{error}");
        }
        assert_eq!(everything(&store).await, rows);
    }
}

/// ST-73: a row with an expiry is corruption, not a row that will go away.
#[tokio::test]
async fn an_authority_row_with_an_expiry_is_corruption() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    host.create("room").await;
    let key = key::authority(&spot("room"));
    let row = bytes(&store, &key).await;
    put(
        &store,
        key,
        row,
        Some(Ttl::new(Duration::from_mins(1)).unwrap()),
    )
    .await;
    let error = host
        .repository
        .read(&spot("room"), host.until())
        .await
        .unwrap_err();
    assert!(matches!(gives_up(error), RecordError::Expiry { .. }));
}

/// ST-52
#[tokio::test]
async fn a_malformed_counter_issues_nothing() {
    for bad in ["0", "01", "x", "", "9223372036854775808"] {
        let (store, _) = memory();
        let host = Host::start("a", &store, store.clone()).await;
        put(&store, Counter::Object.key(), bad.into(), None).await;
        let rows = everything(&store).await;
        let error = gives_up(host.reserve_on(&host, "room").await.unwrap_err());
        assert!(error.to_string().contains("object-counter"), "{error}");
        assert_eq!(everything(&store).await, rows);
    }
}

/// ST-50, ST-80
#[tokio::test]
async fn a_malformed_descriptor_fails_discovery() {
    let (store, _) = memory();
    let host = Host::start("a", &store, store.clone()).await;
    let key = key::mesh_node(&host.node.mesh_name, &host.node.routing_id);
    let text = String::from_utf8(bytes(&store, &key).await).unwrap();
    for bad in [
        text.replace("\"recordVersion\":1", "\"recordVersion\":7"),
        text.replace(
            "\"descriptorRevision\":\"1\",\"descriptor\"",
            "\"descriptorRevision\":\"2\",\"descriptor\"",
        ),
        text.replace("\"serving\"", "\"dancing\""),
        text.replace("\"meshName\":\"main\"", "\"meshName\":\"other\""),
    ] {
        assert_ne!(bad, text);
        put(&store, key.clone(), bad.into_bytes(), None).await;
        gives_up(
            host.repository
                .discover(&mesh(), host.until())
                .await
                .unwrap_err(),
        );
    }
}
