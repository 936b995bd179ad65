//! Sessions that leave in the very moment in which their Actor is captured, or crosses the boundary.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use spotlane_store_memory::MemoryStore;
use spotlane_types::id::SessionRid;

use super::*;
use crate::{Actor, Context, Handlers, Host, Policy, store_time};

/// So often two threads meet. A step that is cut in two is found in a part of that.
const ROUNDS: u64 = 4_000;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Counts how often it was told that its session has left.
struct Told(Arc<AtomicU64>);

impl Actor for Told {
    const TYPE: &'static str = "told";

    fn configure(_: &mut Handlers<Self>) {}

    async fn on_disconnected(&mut self, _: &mut Context) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct World {
    host: Host,
    core: Arc<Core>,
    told: Arc<AtomicU64>,
}

impl World {
    async fn start() -> Self {
        let told = Arc::<AtomicU64>::default();
        let count = Arc::clone(&told);
        let host = Host::builder()
            .mesh("test")
            .node_id("a")
            .listen("tcp://127.0.0.1:0")
            .location_store(MemoryStore::new(store_time))
            .actor(Policy::disable(), move || Told(Arc::clone(&count)));
        let host = host.start().await.unwrap();
        let core = Arc::clone(host.core());
        Self { host, core, told }
    }

    async fn actor(&self, id: &str) -> Arc<Live> {
        self.host.actors().create::<Told>(id).await.unwrap();
        self.core.slots.live(&id.parse().unwrap()).unwrap()
    }

    /// Command 38 about the binding of this number, by a session of this host.
    fn says(&self, live: &Live, binding: BindingTransition) -> Result<(), BindingTransition> {
        let session = &live.unit.session;
        let bind = BoundSessionBind {
            correlation: self.core.ids.correlation(),
            actor: session.fence(),
            session_rid: SessionRid::new(&1_u32.to_be_bytes()).unwrap(),
            binding,
        };
        let from = bindings::owner(&self.core);
        let taken = session.bind(&self.core, from, bind, BindReply::Nobody);
        taken.map_err(|late| late.1.binding)
    }

    async fn until(&self, there: impl Fn() -> bool) {
        let wait = async {
            while !there() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("in time");
    }
}

fn number(number: u64) -> BindingGeneration {
    BindingGeneration::new(number).unwrap()
}

fn begins(it: u64) -> BindingTransition {
    BindingTransition::Active {
        binding_generation: number(it),
    }
}

fn ends(it: u64) -> BindingTransition {
    BindingTransition::Tombstone {
        retired_binding_generation: number(it),
    }
}

/// Runs both at once, in the order that chance and `round` give.
fn meet<A, B: Send>(
    round: u64,
    one: impl FnOnce() -> A,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    let ready = AtomicU64::new(0);
    let meets = |waits: u64| {
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
        for _ in 0..waits {
            std::hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            meets(round % 64);
            other()
        });
        meets(32);
        let one = one();
        (one, other.join().unwrap())
    })
}

/// SB-65, RL-357: a session that leaves while its Actor is captured is either carried and leaves behind the capture, or has
/// left and its callback is saved work. Never both, never neither, and the callback runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_leaves_at_the_capture_is_carried_or_has_left() {
    let world = World::start().await;
    let live = world.actor("p").await;
    let (core, session) = (&world.core, &live.unit.session);
    let relocation = RelocationId::new(1, 1).unwrap();
    for round in 1..=ROUNDS {
        world.says(&live, begins(round)).unwrap();
        session.refuse_binds();
        let guard = live.lane.request_seal().await.unwrap();
        let capture = || {
            let carried = session.capture(core, relocation);
            (carried.is_some(), session.captured_callbacks())
        };
        let (captured, left) = meet(round, capture, || world.says(&live, ends(round)));
        left.unwrap();
        assert!(
            matches!(captured, (true, 0) | (false, 1)),
            "round {round}: {captured:?}"
        );
        guard.restore(None);
        session.allow_binds(core);
        world
            .until(|| world.told.load(Ordering::SeqCst) >= round)
            .await;
        assert_eq!(world.told.load(Ordering::SeqCst), round, "once each");
        world
            .until(|| session.lock().machine.session().is_none())
            .await;
    }
}

/// SB-65: between the moment in which the lane takes nothing any more and the one in which the Actor has crossed the boundary
/// its callbacks are not over: they cross with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_leaves_on_the_boundary_is_among_what_crosses() {
    let world = World::start().await;
    for (id, is_there) in [("p", true), ("q", false)] {
        let live = world.actor(id).await;
        let session = &live.unit.session;
        world.says(&live, begins(1)).unwrap();
        session.refuse_binds();
        let guard = live.lane.request_seal().await.unwrap();
        let relocation = RelocationId::new(1, 1).unwrap();
        assert!(session.capture(&world.core, relocation).is_some());
        let handoff = guard.into_handoff();
        if !is_there {
            let id = live.unit.id();
            world.core.slots.change(id, |_| (None, ()));
        }
        world.says(&live, ends(1)).unwrap();
        assert_eq!(session.cross(), 1, "{id}");
        drop(handoff);
    }
}

/// SB-65: what comes for an Actor that has crossed the boundary is given back as it came, since nobody would do anything
/// about it here.
#[tokio::test]
async fn what_comes_for_an_actor_that_has_left_is_given_back() {
    let world = World::start().await;
    let live = world.actor("p").await;
    world.says(&live, begins(1)).unwrap();
    assert_eq!(live.unit.session.cross(), 0);
    for binding in [ends(1), begins(2)] {
        let late = world.says(&live, binding.clone()).unwrap_err();
        assert_eq!(late, binding);
    }
    assert_eq!(
        live.unit.session.lock().waiting.len(),
        0,
        "nobody waits for it"
    );
}

/// SB-65: a session that leaves while its Actor crosses the boundary is either in what crosses or given back, for whoever
/// stands in the Actor's place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_leaves_at_the_boundary_crosses_or_is_given_back() {
    let world = World::start().await;
    let relocation = RelocationId::new(1, 1).unwrap();
    for round in 1..=ROUNDS / 8 {
        let live = world.actor(&format!("p{round}")).await;
        let session = &live.unit.session;
        world.says(&live, begins(round)).unwrap();
        session.refuse_binds();
        let guard = live.lane.request_seal().await.unwrap();
        assert!(session.capture(&world.core, relocation).is_some());
        let (crossed, left) = meet(
            round,
            || session.cross(),
            || world.says(&live, ends(round)).is_ok(),
        );
        assert_eq!(crossed, u64::from(left), "round {round}");
        drop(guard);
    }
}
