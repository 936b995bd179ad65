//! What a demo run does, and how it is typed.

use std::ops::RangeInclusive;

use clap::Args;

use crate::config::{read_bytes, store_url};

/// So often every actor of a client moves.
pub(crate) const ROUNDS: u32 = 2;
/// The most moves per second.
const MOVES_MAX: u64 = 2_000;
/// Moves per second when nobody is connected and nothing is said.
const MOVES: u64 = 50;
/// The largest payload of a message.
const PAYLOAD_BYTES: RangeInclusive<u64> = 0..=1 << 20;
/// The largest state of an actor.
const STATE_BYTES: RangeInclusive<u64> = 0..=1 << 30;

/// Options of `demo`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// How long traffic flows
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Messages per second, of all senders together
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub(crate) rate: u64,
    /// Moves per second, of all actors together; 0 is none [default: 50; with clients so many that every actor moves twice]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=MOVES_MAX))]
    pub(crate) moves: Option<u64>,
    /// Filler in each message, for example 1KiB
    #[arg(long, default_value = "64", value_name = "SIZE", value_parser = payload)]
    pub(crate) payload: u64,
    /// State of each actor, for example 64KiB
    #[arg(long, default_value = "64KiB", value_name = "SIZE", value_parser = state)]
    pub(crate) state: u64,
    /// How many actors
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) actors: u32,
    /// How many senders, spread over the hosts
    #[arg(long, default_value_t = 48, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) senders: u32,
    /// How many clients connect, each with an actor of its own; each asks, at the rate of all together and whenever its
    /// actor begins to move, and waits for the answer. Every actor moves twice, if it takes longer
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub(crate) clients: u32,
    /// With clients: what 99 of 100 requests that cross a move may take, in milliseconds
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) crossing_ms: u64,
    /// `memory`, or the URL of a Redis
    #[arg(long, default_value = "memory", value_name = "URL", value_parser = store_url)]
    pub(crate) store: String,
    /// Chooses who sends what to whom and what moves where
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Print the verdict as one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

impl DemoArgs {
    /// Moves per second.
    pub(crate) fn moves_each_second(&self) -> u64 {
        match self.moves {
            Some(moves) => moves,
            None if self.clients == 0 => MOVES,
            None => {
                // In the time but for a tenth, so that the last ones end in it.
                let moves = u64::from(self.actors) * u64::from(ROUNDS) * 10;
                moves.div_ceil(self.seconds * 9).clamp(MOVES, MOVES_MAX)
            }
        }
    }

    /// So often every actor has to move.
    pub(crate) fn rounds(&self) -> u32 {
        match (self.clients, self.moves_each_second()) {
            (0, _) | (_, 0) => 0,
            _ => ROUNDS,
        }
    }
}

fn payload(text: &str) -> Result<u64, String> {
    within(text, &PAYLOAD_BYTES, "1MiB")
}

fn state(text: &str) -> Result<u64, String> {
    within(text, &STATE_BYTES, "1GiB")
}

fn within(text: &str, bounds: &RangeInclusive<u64>, most: &str) -> Result<u64, String> {
    let bytes = read_bytes(text)?;
    if bounds.contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("must be 0 to {most}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        demo: DemoArgs,
    }

    fn typed(options: &[&str]) -> Result<DemoArgs, String> {
        let parsed = Typed::try_parse_from([&["demo"], options].concat());
        parsed
            .map(|typed| typed.demo)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        let demo = typed(&["--payload", "1KiB", "--state", "1GiB"]).unwrap();
        assert_eq!((demo.payload, demo.state), (1 << 10, 1 << 30));
        assert!(
            typed(&["--state", "2GiB"])
                .unwrap_err()
                .contains("0 to 1GiB")
        );
        assert!(typed(&["--payload", "x"]).unwrap_err().contains("64KiB"));
    }

    #[test]
    fn with_clients_every_actor_moves_twice() {
        let demo = typed(&[]).unwrap();
        assert_eq!((demo.moves_each_second(), demo.rounds()), (50, 0));
        let demo = typed(&["--clients", "2000", "--actors", "2000"]).unwrap();
        assert_eq!((demo.moves_each_second(), demo.rounds()), (445, 2));
        let demo = typed(&["--clients", "8", "--moves", "0"]).unwrap();
        assert_eq!((demo.moves_each_second(), demo.rounds()), (0, 0));
    }

    #[test]
    fn a_store_is_memory_or_a_redis() {
        assert!(typed(&["--store", "redis://localhost"]).is_ok());
        assert!(
            typed(&["--store", "disk"])
                .unwrap_err()
                .contains("redis://HOST:PORT")
        );
    }
}
