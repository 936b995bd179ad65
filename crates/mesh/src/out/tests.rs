//! Who writes, and who waits for whom.

use std::time::Duration;

use bytes::BytesMut;
use spotlane_mesh_proto::zmp::Sink as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::stream::Incoming;

/// How long anything may take before a test has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A lane with a connection, what its peer reads, and the task that writes for it when nobody else does.
async fn lane() -> (Arc<LaneOut>, Arc<Stream>, Incoming) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (stream, _) = Stream::plain(dialled.unwrap()).unwrap();
    let (_, incoming) = Stream::plain(accepted.unwrap().0).unwrap();
    let lane = Arc::new(LaneOut::new(1 << 20));
    lane.open(Arc::clone(&stream));
    assert_eq!(lane.flush(), Left::Nothing);
    lane.lock().woken = false;
    (lane, stream, incoming)
}

/// Queues one byte as a message.
fn put(lane: &LaneOut, byte: u8) -> Act {
    let write = |queue: &mut Segment| {
        queue.copy(&[byte]);
        let mut size = Size::default();
        size.charge = 1;
        Ok::<_, ()>(size)
    };
    let act = lane.write(Room::Bounded, Flush::Soon, |_| None, write);
    act.unwrap_or_else(|why| panic!("{why:?}"))
}

/// The task of a lane as the tests run it: beside them, on the same thread.
async fn beside<T>(lane: &LaneOut, stream: &Arc<Stream>, test: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = test => done,
        () = lane.run(Arc::clone(stream)) => panic!("the lane is open"),
    }
}

async fn read(incoming: &mut Incoming, bytes: usize) -> Vec<u8> {
    let mut buffer = BytesMut::with_capacity(1024);
    let whole = async {
        while buffer.len() < bytes {
            assert_ne!(incoming.read(&mut buffer).await.unwrap(), 0);
        }
    };
    tokio::time::timeout(PATIENCE, whole).await.unwrap();
    buffer.to_vec()
}

/// EX-389: of those that are expected the last one writes for all, and nobody is woken for the others.
#[tokio::test]
async fn the_last_that_is_expected_writes_for_all() {
    let (lane, _stream, mut incoming) = lane().await;
    lane.expect(3);
    lane.look_later();
    assert_eq!(put(&lane, 1), Act::Nothing);
    assert_eq!(put(&lane, 2), Act::Nothing);
    assert_eq!(put(&lane, 3), Act::Flush);
    lane.act(Act::Flush);
    assert_eq!(read(&mut incoming, 3).await, [1, 2, 3]);
    // The next one that nobody expects finds the task of the lane woken already.
    assert_eq!(put(&lane, 4), Act::Nothing);
}

/// Two bursts of replies that come one behind the other expect the messages of both.
#[tokio::test]
async fn a_second_burst_adds_to_what_is_expected() {
    let (lane, _stream, mut incoming) = lane().await;
    lane.expect(2);
    lane.look_later();
    assert_eq!(put(&lane, 1), Act::Nothing);
    lane.expect(2);
    lane.look_later();
    assert_eq!(put(&lane, 2), Act::Nothing);
    assert_eq!(put(&lane, 3), Act::Nothing);
    assert_eq!(put(&lane, 4), Act::Flush);
    lane.act(Act::Flush);
    assert_eq!(read(&mut incoming, 4).await, [1, 2, 3, 4]);
}

/// A caller that has nothing more to say holds nobody up: the task of the lane writes what is there, and expects
/// nobody any more.
#[tokio::test]
async fn who_does_not_come_is_not_waited_for() {
    let (lane, stream, mut incoming) = lane().await;
    lane.expect(64);
    lane.look_later();
    assert_eq!(put(&lane, 1), Act::Nothing);
    assert_eq!(put(&lane, 2), Act::Nothing);
    let seen = beside(&lane, &stream, read(&mut incoming, 2)).await;
    assert_eq!(seen, [1, 2]);
    assert_eq!(lane.lock().expected, 0);
    // Whoever comes later wakes the task of the lane as if nobody had been expected.
    let act = put(&lane, 3);
    assert_eq!(act, Act::Wake);
    lane.act(act);
    assert_eq!(beside(&lane, &stream, read(&mut incoming, 1)).await, [3]);
}

/// Those who come one by one, each in a turn of its own, share a write, also when they are more than the turns that the
/// task of the lane gives; one that stays away at the end does not keep the others from being written.
#[tokio::test]
async fn a_slow_burst_is_written_without_its_last_one() {
    let (lane, stream, mut incoming) = lane().await;
    lane.expect(21);
    lane.look_later();
    let burst = async {
        for byte in 0..20 {
            let act = put(&lane, byte);
            lane.act(act);
            tokio::task::yield_now().await;
        }
        read(&mut incoming, 20).await
    };
    let seen = beside(&lane, &stream, burst).await;
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
}
