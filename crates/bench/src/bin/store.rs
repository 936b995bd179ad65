//! The Location Store on Redis beside bare clients and `redis-benchmark`, on one throw-away server.
//!
//! All of them make the same server do the same: one call of our own script that compares and sets one record, with the
//! same arguments. So what differs is what the clients cost, and what gathering of concurrent callers saves.

#![expect(clippy::unwrap_used, reason = "a bench")]

use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::Duration;

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use spotlane_bench::{Bench, now};
use spotlane_redis_testkit::Server;
use spotlane_store::{Condition, Mutation, StoreKey, StoreProvider, StoreValue, WriteRequest};
use spotlane_store_redis::{RedisOptions, RedisStore};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How many callers the figure for concurrent ones has, and how many commands `redis-benchmark` has under way.
const CALLERS: usize = 64;
/// A round trip takes long beside a call of a function: a contender has this many slices, each with new tasks, because
/// how a lone caller fares depends on which worker it and the client's own task happen to run.
const SLICES: u32 = 8;
const VALUE: &str = "node-7f3a9c21:00000000000000000042:10.0.0.17:7001:epoch-000000001";
const DOMAIN: &str = "app1:{zlink-location-v3}";

fn main() -> ExitCode {
    spotlane_bench::main(|bench| {
        let peers = Rc::new(Peers::start(bench.slice()));
        add(bench, &peers, "compare and set, one caller", 1);
        add(bench, &peers, "compare and set, 64 callers", CALLERS);
        add_read(bench, &peers);
    })
}

fn add(bench: &mut Bench, peers: &Rc<Peers>, name: &str, callers: usize) {
    let of = |run: fn(&Peers, usize) -> f64| {
        let peers = Rc::clone(peers);
        move || run(&peers, callers)
    };
    bench
        .figure(name, "op/s", of(Peers::ours))
        .peer("fred, a call each", of(Peers::bare_fred))
        .peer("redis, a call each", of(Peers::bare_redis))
        .peer(
            format!("redis-benchmark -P {callers}"),
            of(Peers::benchmark),
        );
}

fn add_read(bench: &mut Bench, peers: &Rc<Peers>) {
    let (ours, fred) = (Rc::clone(peers), Rc::clone(peers));
    bench
        .figure("read, one caller", "op/s", move || ours.our_read())
        .peer("fred, a call each", move || fred.bare_read());
}

/// The arguments after EVALSHA and the digest, as our provider sends them for one write.
fn call(caller: usize, entries: &[&str], records: usize) -> Vec<String> {
    let mut all = vec![(5 + records).to_string(), format!("{DOMAIN}:fence:bench")];
    all.extend(["sequence", "index", "scans", "due"].map(|part| format!("{DOMAIN}:{part}")));
    all.extend(vec![record(caller); records]);
    all.extend([DOMAIN, "30000", "1"].map(ToOwned::to_owned));
    all.extend(entries.iter().map(|entry| (*entry).to_owned()));
    all
}

fn record(caller: usize) -> String {
    format!("{DOMAIN}:opaque:{caller:064x}")
}

/// One compare and set.
fn arguments(caller: usize) -> Vec<String> {
    let key = format!("bench {caller}");
    let entries = ["1", "1", "7", "x", &key, VALUE, "p", &key, VALUE, "0"];
    call(caller, &entries, 2)
}

/// One put, to make the record.
fn creation(caller: usize) -> Vec<String> {
    let key = format!("bench {caller}");
    call(caller, &["0", "1", "4", "p", &key, VALUE, "0"], 1)
}

fn our_key(caller: usize) -> StoreKey {
    StoreKey::new(&format!("ours {caller}")).unwrap()
}

fn request(caller: usize) -> WriteRequest {
    let value = StoreValue::new(VALUE.as_bytes()).unwrap();
    let condition = Condition::Value(our_key(caller), value);
    let put = Mutation::put(our_key(caller), VALUE.as_bytes(), None).unwrap();
    WriteRequest::new(vec![condition], vec![put]).unwrap()
}

struct Peers {
    runtime: Runtime,
    slice: Duration,
    server: Server,
    write: String,
    read: String,
    store: RedisStore,
    fred: fred::clients::Client,
    redis: redis::aio::MultiplexedConnection,
}

impl Peers {
    fn start(slice: Duration) -> Self {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let server = Server::start().unwrap();
        let mut client = server.client().unwrap();
        let common = include_str!("../../../store-redis/src/scripts/common.lua");
        let mut load = |script: &str| {
            let script = format!("{common}{script}");
            client.command(&["SCRIPT", "LOAD", &script]).unwrap().text()
        };
        let write = load(include_str!("../../../store-redis/src/scripts/write.lua"));
        let read = load(include_str!("../../../store-redis/src/scripts/read.lua"));
        let fence = format!("{DOMAIN}:fence:bench");
        client.command(&["SET", &fence, "1"]).unwrap();
        for caller in 0..CALLERS {
            let mut parts = vec!["EVALSHA".to_owned(), write.clone()];
            parts.extend(creation(caller));
            let parts: Vec<_> = parts.iter().map(String::as_str).collect();
            client.command(&parts).unwrap();
        }
        let (store, fred, redis) = runtime.block_on(connect(&server));
        Self {
            runtime,
            slice,
            server,
            write,
            read,
            store,
            fred,
            redis,
        }
    }

    /// Operations a second of some tasks that repeat one operation.
    fn rate<F, Fut>(&self, callers: usize, operation: F) -> f64
    where
        F: Fn(usize) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let slice = self.slice;
        self.runtime.block_on(async move {
            let (mut count, start) = (0.0, now());
            for _ in 0..SLICES {
                let begin = now();
                let mut tasks = JoinSet::new();
                for caller in 0..callers {
                    let operation = operation.clone();
                    tasks.spawn(async move {
                        let mut count = 0_u32;
                        while begin.elapsed() < slice {
                            operation(caller).await;
                            count += 1;
                        }
                        f64::from(count)
                    });
                }
                count += tasks.join_all().await.into_iter().sum::<f64>();
            }
            count / start.elapsed().as_secs_f64()
        })
    }

    fn ours(&self, callers: usize) -> f64 {
        let store = self.store.clone();
        self.rate(callers, move |caller| {
            let (store, request) = (store.clone(), request(caller));
            async move { assert!(store.write(request).await.unwrap().applied().is_some()) }
        })
    }

    fn our_read(&self) -> f64 {
        let store = self.store.clone();
        self.rate(1, move |caller| {
            let store = store.clone();
            async move {
                let read = store.read(&our_key(caller)).await;
                assert!(read.unwrap().found().is_some());
            }
        })
    }

    fn bare_fred(&self, callers: usize) -> f64 {
        self.fred_call(callers, &self.write, arguments)
    }

    fn bare_read(&self) -> f64 {
        let room = "4194304".to_owned();
        self.fred_call(1, &self.read, move |caller| {
            vec!["1".to_owned(), record(caller), room.clone()]
        })
    }

    fn fred_call<A>(&self, callers: usize, script: &str, arguments: A) -> f64
    where
        A: Fn(usize) -> Vec<String> + Clone + Send + 'static,
    {
        let (client, script) = (self.fred.clone(), script.to_owned());
        self.rate(callers, move |caller| {
            let mut parts = vec![Value::from(script.as_str())];
            parts.extend(arguments(caller).into_iter().map(Value::from));
            let client = client.clone();
            async move {
                let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
                let answer: Value = client.custom(command, parts).await.unwrap();
                assert!(answer.is_array());
            }
        })
    }

    fn bare_redis(&self, callers: usize) -> f64 {
        let (client, script) = (self.redis.clone(), self.write.clone());
        self.rate(callers, move |caller| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(&script).arg(arguments(caller));
            let mut client = client.clone();
            async move {
                let answer: redis::Value = command.query_async(&mut client).await.unwrap();
                assert!(matches!(answer, redis::Value::Array(_)));
            }
        })
    }

    /// `redis-benchmark` with this many commands under way; nothing where it is not installed.
    fn benchmark(&self, depth: usize) -> f64 {
        let port = self.server.address().port().to_string();
        let depth = depth.to_string();
        let count = if depth == "1" { "3000" } else { "30000" };
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", &port, "-c", "1", "-P", &depth, "-n", count, "--csv"]);
        command.args(["evalsha", &self.write]).args(arguments(0));
        let Ok(output) = command.output() else {
            return f64::NAN;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().last().unwrap_or_default();
        let figure = line.rsplit("\",\"").nth(6).unwrap_or_default();
        figure.parse().unwrap_or(f64::NAN)
    }
}

/// Our store with its records, and the bare clients.
async fn connect(
    server: &Server,
) -> (
    RedisStore,
    fred::clients::Client,
    redis::aio::MultiplexedConnection,
) {
    let store = RedisStore::open(&RedisOptions::new(server.url(), "app1")).unwrap();
    for caller in 0..CALLERS {
        let (_, mutations) = request(caller).into_parts();
        let create = WriteRequest::new(vec![], mutations).unwrap();
        assert!(store.write(create).await.unwrap().applied().is_some());
    }
    let config = fred::types::config::Config::from_url(&server.url()).unwrap();
    let mut builder = fred::types::Builder::from_config(config);
    builder.with_connection_config(|connection| connection.tcp.nodelay = Some(true));
    let fred = builder.build().unwrap();
    drop(fred.init().await.unwrap());
    let redis = redis::Client::open(server.url()).unwrap();
    let redis = redis.get_multiplexed_async_connection().await.unwrap();
    (store, fred, redis)
}
