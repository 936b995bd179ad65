//! Compare and set through our SPI beside bare clients, on one server and in one run.
//!
//! `cargo bench -p spotlane-store-redis`. Rounds are interleaved: each runs every peer once, and only ratios within a round
//! are compared, so a noisy neighbor hits all alike. All peers send the same script with the same kind of arguments.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use spotlane_redis_testkit::Server;
use spotlane_store::{Condition, Mutation, StoreKey, StoreProvider, StoreValue, WriteRequest};
use spotlane_store_redis::{RedisOptions, RedisStore};
use tokio::task::JoinSet;
use tokio::time::Instant;

const ROUND: Duration = Duration::from_millis(300);
const CALLERS: usize = 64;
const VALUE: &str = "node-7f3a9c21:00000000000000000042:10.0.0.17:7001:epoch-000000001";
const DOMAIN: &str = "app1:{zlink-location-v3}";

/// The arguments after EVALSHA and the digest, as our provider would send them for one write.
fn call(caller: usize, entries: &[&str], records: usize) -> Vec<String> {
    let mut all = vec![(5 + records).to_string(), format!("{DOMAIN}:fence:bench")];
    all.extend(["sequence", "index", "scans", "due"].map(|part| format!("{DOMAIN}:{part}")));
    all.extend(vec![format!("{DOMAIN}:opaque:{caller:064x}"); records]);
    all.extend([DOMAIN, "30000", "1"].map(ToOwned::to_owned));
    all.extend(entries.iter().map(|entry| (*entry).to_owned()));
    all
}

/// One compare and set.
fn arguments(caller: usize) -> Vec<String> {
    let key = format!("bench {caller}");
    call(
        caller,
        &["1", "1", "7", "x", &key, VALUE, "p", &key, VALUE, "0"],
        2,
    )
}

/// One put, to make the record.
fn creation(caller: usize) -> Vec<String> {
    let key = format!("bench {caller}");
    call(caller, &["0", "1", "4", "p", &key, VALUE, "0"], 1)
}

fn request(name: &str) -> WriteRequest {
    let key = StoreKey::new(name).unwrap();
    let value = StoreValue::new(VALUE.as_bytes()).unwrap();
    let condition = Condition::Value(key.clone(), value);
    let put = Mutation::put(key, VALUE.as_bytes(), None).unwrap();
    WriteRequest::new(vec![condition], vec![put]).unwrap()
}

/// Operations a second of some tasks that repeat one operation for a round.
async fn rate<F, Fut>(callers: usize, operation: F) -> f64
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let operation = operation.clone();
        tasks.spawn(async move {
            let mut count = 0_u32;
            while begin.elapsed() < ROUND {
                operation(caller).await;
                count += 1;
            }
            count
        });
    }
    let mut total = 0.0;
    while let Some(count) = tasks.join_next().await {
        total += f64::from(count.unwrap());
    }
    total / begin.elapsed().as_secs_f64()
}

struct Peers {
    server: Server,
    sha: Arc<str>,
    store: RedisStore,
    fred: fred::clients::Client,
    redis: redis::aio::MultiplexedConnection,
}

impl Peers {
    async fn start() -> Self {
        let server = Server::start().unwrap();
        let common = include_str!("../src/scripts/common.lua");
        let script = format!("{common}{}", include_str!("../src/scripts/write.lua"));
        let mut client = server.client().unwrap();
        let sha = client.command(&["SCRIPT", "LOAD", &script]).unwrap().text();
        client
            .command(&["SET", &format!("{DOMAIN}:fence:bench"), "1"])
            .unwrap();
        for caller in 0..CALLERS {
            let mut parts = vec!["EVALSHA".to_owned(), sha.clone()];
            parts.extend(creation(caller));
            let parts: Vec<_> = parts.iter().map(String::as_str).collect();
            client.command(&parts).unwrap();
        }
        let store = RedisStore::open(&RedisOptions::new(server.url(), "app1")).unwrap();
        for caller in 0..CALLERS {
            let (_, mutations) = request(&format!("ours {caller}")).into_parts();
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
        Self {
            server,
            sha: sha.into(),
            store,
            fred,
            redis,
        }
    }

    async fn ours(&self, callers: usize) -> f64 {
        let store = self.store.clone();
        rate(callers, move |caller| {
            let (store, request) = (store.clone(), request(&format!("ours {caller}")));
            async move { assert!(store.write(request).await.unwrap().applied().is_some()) }
        })
        .await
    }

    async fn bare_fred(&self, callers: usize) -> f64 {
        let (client, sha) = (self.fred.clone(), Arc::clone(&self.sha));
        rate(callers, move |caller| {
            let (client, sha) = (client.clone(), Arc::clone(&sha));
            async move {
                let mut parts = vec![Value::from(sha.as_ref())];
                parts.extend(arguments(caller).into_iter().map(Value::from));
                let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
                let answer: Value = client.custom(command, parts).await.unwrap();
                assert!(answer.is_array());
            }
        })
        .await
    }

    async fn bare_redis(&self, callers: usize) -> f64 {
        let (client, sha) = (self.redis.clone(), Arc::clone(&self.sha));
        rate(callers, move |caller| {
            let (mut client, sha) = (client.clone(), Arc::clone(&sha));
            async move {
                let mut command = redis::cmd("EVALSHA");
                command.arg(sha.as_ref());
                for argument in arguments(caller) {
                    command.arg(argument);
                }
                let answer: redis::Value = command.query_async(&mut client).await.unwrap();
                assert!(matches!(answer, redis::Value::Array(_)));
            }
        })
        .await
    }

    /// `redis-benchmark` with this many commands under way; nothing where it is not installed.
    fn benchmark(&self, depth: usize) -> f64 {
        let port = self.server.address().port().to_string();
        let depth = depth.to_string();
        let count = if depth == "1" { "5000" } else { "40000" };
        let mut command = Command::new("redis-benchmark");
        command.args([
            "-p", &port, "-c", "1", "-P", &depth, "-n", count, "--csv", "evalsha",
        ]);
        command.arg(self.sha.as_ref()).args(arguments(0));
        let Ok(output) = command.output() else {
            return f64::NAN;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().last().unwrap_or_default();
        let figure = line.rsplit("\",\"").nth(6).unwrap_or_default();
        figure.parse().unwrap_or(f64::NAN)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn show(title: &str, names: &[&str], rounds: &[Vec<f64>]) {
    println!("{title}");
    for (n, name) in names.iter().enumerate() {
        let rates = median(rounds.iter().map(|round| round[n]).collect());
        let ratio = median(rounds.iter().map(|round| round[0] / round[n]).collect());
        println!("  {name:<28} {rates:>10.0} op/s   ours is {ratio:.2} of it");
    }
}

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let rounds = if std::env::args().any(|argument| argument == "--bench") {
        9
    } else {
        1
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let peers = Peers::start().await;
        let (mut many, mut single) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let at_once = vec![
                peers.ours(CALLERS).await,
                peers.bare_fred(CALLERS).await,
                peers.bare_redis(CALLERS).await,
                peers.benchmark(CALLERS),
            ];
            let alone = vec![
                peers.ours(1).await,
                peers.bare_fred(1).await,
                peers.bare_redis(1).await,
                peers.benchmark(1),
            ];
            // The first round warms up.
            if round > 0 {
                many.push(at_once);
                single.push(alone);
            }
        }
        let names = [
            "ours",
            "fred, one call each",
            "redis, one call each",
            "redis-benchmark",
        ];
        show("compare and set, 64 callers", &names, &many);
        show("compare and set, one caller", &names, &single);
    });
}
