//! Nodes that count, objects that are ready, and lists for operators (ST-80 to ST-82, RL-280, RL-365).

use std::time::Duration;

use spotlane_location::authority::Authority;
use spotlane_location::cache::{RouteCache, RouteCacheSettings};
use spotlane_location::directory::Listed;
use spotlane_location::record::RecordError;
use spotlane_location::{LocationError, Resolved, Timing, key};
use spotlane_store::{
    BoxedStore, Cursor, Mutation, PageBuilder, ReadOutcome, Recovery, ScanOutcome, ScanRequest,
    StoreError, StoreKey, StoreProvider, WriteOutcome, WriteRequest,
};
use spotlane_types::id::OwnerId;
use spotlane_types::kind::SpotAuthorityState;

use crate::host::{Host, descriptor, memory, mesh, spot};

async fn put(store: &BoxedStore, put: Mutation) {
    let request = WriteRequest::new(vec![], vec![put]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
}

async fn names(host: &Host) -> Vec<String> {
    let found = host
        .repository
        .discover(&mesh(), host.until())
        .await
        .unwrap();
    found
        .iter()
        .map(|node| node.lease().owner().to_string())
        .collect()
}

/// ST-80, RL-280: a descriptor counts only while exactly the lease that it names is live.
#[tokio::test]
async fn a_node_counts_while_its_lease_is_live() {
    let (store, clock) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    clock.advance(Duration::from_secs(10));
    let b = Host::start("b", &store, store.clone()).await;
    assert_eq!(names(&b).await, ["a", "b"]);
    clock.advance(Duration::from_secs(5));
    assert_eq!(names(&b).await, ["b"]);
    // A new run of the same owner does not bring the descriptor of the former run back.
    a.keeper.claim().await.unwrap();
    assert_eq!(names(&b).await, ["b"]);
    assert_eq!(
        b.repository.candidate(&a.name(), b.until()).await.unwrap(),
        None
    );
}

/// ST-80: one corrupt lease fails the whole look, so that nothing is selected from a part of it.
#[tokio::test]
async fn a_corrupt_lease_fails_discovery() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let lease = key::owner_lease(&OwnerId::new("a").unwrap());
    let bytes = store
        .read(&lease)
        .await
        .unwrap()
        .found()
        .unwrap()
        .value
        .into_bytes();
    put(&store, Mutation::put(lease, bytes, None).unwrap()).await;
    let error = a.repository.discover(&mesh(), a.until()).await.unwrap_err();
    assert!(matches!(
        error,
        LocationError::Record(RecordError::Expiry { .. })
    ));
    assert_eq!(error.recovery(), Recovery::GiveUp);
}

/// WR-8: an earlier revision of the same run does not come back.
#[tokio::test]
async fn an_earlier_revision_is_not_published() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let publish = |revision| {
        a.repository
            .publish(&a.held, descriptor("a", &a.held, revision), a.until())
    };
    publish(3).await.unwrap();
    for earlier in [2, 3] {
        assert!(matches!(
            publish(earlier).await,
            Err(LocationError::Conflict { .. })
        ));
    }
    publish(4).await.unwrap();
}

/// ST-82, RL-365: only a ready object has a route.
#[tokio::test]
async fn find_returns_ready_objects_only() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let room = spot("room");
    let find = || a.repository.find(&room, a.until());
    assert_eq!(find().await.unwrap(), Resolved::Missing);
    let reserved = a.reserve_on(&a, "room").await.unwrap();
    assert_eq!(find().await.unwrap(), Resolved::NotReady);
    let active = a.commit("room", &reserved).await.unwrap();
    let Resolved::Ready(route) = find().await.unwrap() else {
        panic!("a committed object is ready")
    };
    assert_eq!(route.tenure.node_rid, a.node.routing_id);
    assert_eq!(route.store_version, *active.version());
    let closing = a.payload("room", SpotAuthorityState::Closing);
    a.repository
        .preserve(&a.held, &active, &closing, a.until())
        .await
        .unwrap();
    assert_eq!(find().await.unwrap(), Resolved::NotReady);
}

/// ST-81, RL-94: a route ends with its owner's deadline, and a dead owner has none.
#[tokio::test]
async fn a_cached_route_never_outlives_its_owner() {
    let (store, clock) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    a.create("room").await;
    let room = spot("room");
    let live = || {
        a.repository
            .live_route(&room, Duration::from_secs(5), a.until())
    };
    let found = live().await.unwrap().unwrap();
    let mut cache = RouteCache::new(RouteCacheSettings::default(), 8);
    let now = a.time.now();
    cache.insert(found.route, now, found.owner_deadline);
    let (last, late) = (Duration::from_millis(9_999), Duration::from_secs(10));
    assert!(cache.usable(&room, now.after(last)).is_some());
    assert!(cache.usable(&room, now.after(late)).is_none());
    assert!(cache.get(&room, now.after(last)).is_some());
    assert!(cache.get(&room, now.after(late)).is_none());
    assert!(cache.usable(&room, now.after(last)).is_none(), "it is gone");
    clock.advance(Duration::from_secs(15));
    assert_eq!(live().await.unwrap(), None);
}

/// ST-82
#[tokio::test]
async fn operators_list_all_objects_page_by_page() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    for id in ["r1", "r2", "r3"] {
        a.create(id).await;
    }
    a.reserve_on(&a, "r4").await.unwrap();
    let (mut cursor, mut seen) = (None, Vec::new());
    loop {
        let page = a.repository.list(Listed::Spots, 3, cursor, a.until()).await;
        let page = page.unwrap().unwrap();
        seen.extend(page.objects);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 4);
    assert!(matches!(seen.last(), Some(Authority::Reserved(_))));
    for limit in [0, 1_001] {
        let refused = a
            .repository
            .list(Listed::Actors, limit, None, a.until())
            .await;
        assert_eq!(refused.unwrap_err().recovery(), Recovery::FixCall);
    }
}

/// Pages of descriptors without end.
struct Endless(BoxedStore);

impl StoreProvider for Endless {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.0.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.0.write(request).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        let first = ScanRequest::first(request.prefix().clone(), 1).unwrap();
        let one = self.0.scan(first).await?.page().unwrap();
        let store_now = one.store_now();
        let row = one.into_rows().remove(0);
        let mut page = PageBuilder::new(&request);
        while !page.is_full() {
            page.push(row.clone()).unwrap();
        }
        let next = Cursor::new(&b"next"[..]).unwrap();
        Ok(ScanOutcome::Page(page.finish(Some(next), store_now)))
    }
}

/// ST-80: a mesh with more nodes than anybody looks at is an error that says so, and not a silent part of them.
#[tokio::test]
async fn too_many_nodes_are_an_error() {
    let (store, _) = memory();
    let endless = BoxedStore::new(Endless(store.clone()));
    let a = Host::start("a", &store, endless).await;
    let error = a.repository.discover(&mesh(), a.until()).await.unwrap_err();
    assert_eq!(error.recovery(), Recovery::GiveUp);
    assert!(error.to_string().contains("65536"), "{error}");
}
