//! The command line of Spotlane: the demo, one node, a cluster, and commands to running nodes.
//!
//! Layer 7, a program and no library. It wires the facade and the sample application together and decides nothing
//! about messages or moves itself. `docs/cli.md` has all commands, the file of a node and the admin endpoint.
//!
//! It ends with 0 when all went well, with 1 when something failed or a promise broke, and with 2 when it was called
//! wrongly or a file is wrong.

mod admin;
mod args;
mod client;
mod cluster;
mod config;
mod demo;
mod descriptors;
mod node;
mod signal;
mod stores;
mod term;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
use client::CallError;
use term::{complain, say};

/// What went wrong, in words, and the code to end with.
struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    fn new(code: u8, error: impl ToString) -> Self {
        Self {
            text: error.to_string(),
            code,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.command.serves() {
        descriptors::raise();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("error: no threads or timers to be had: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(run(arguments.command));
    // A thread that reads standard input would be waited for without end.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&format!("error: {}", failure.text));
            ExitCode::from(failure.code)
        }
    }
}

async fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo(args).await,
        Command::Node(args) => node::run(&args).await.map_err(|error| {
            let code = if error.is_misuse() { 2 } else { 1 };
            Failure::new(code, error)
        }),
        Command::Cluster(args) => cluster::run(&args)
            .await
            .map_err(|error| Failure::new(1, error)),
        Command::Status(args) => told(client::status(&args).await),
        Command::Find(args) => told(client::find(&args).await),
        Command::Relocate(args) => told(client::relocate(&args).await),
        Command::Drain(args) => {
            let drain = client::drain(&args).await.map_err(refused)?;
            say(&drain.text);
            if drain.left == 0 {
                return Ok(());
            }
            Err(Failure::new(
                1,
                format!("{} objects are still there: {}", drain.left, drain.reason),
            ))
        }
    }
}

async fn demo(args: demo::DemoArgs) -> Result<(), Failure> {
    let json = args.json;
    let verdict = demo::run(args)
        .await
        .map_err(|error| Failure::new(1, error))?;
    say(&if json {
        client::json(&verdict)
    } else {
        verdict.table()
    });
    if verdict.holds {
        return Ok(());
    }
    Err(Failure::new(
        1,
        "a promise broke; please report the table above with the options of the run",
    ))
}

fn told(answer: Result<String, CallError>) -> Result<(), Failure> {
    say(&answer.map_err(refused)?);
    Ok(())
}

fn refused(error: CallError) -> Failure {
    let code = if matches!(error, CallError::Url { .. } | CallError::Token) {
        2
    } else {
        1
    };
    Failure::new(code, error)
}
