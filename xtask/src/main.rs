//! The project's own commands: `cargo xtask NAME`.
//!
//! One file per command; this file only dispatches. A command returns an error that says in one
//! sentence what is wrong and what to do next, after it has printed its findings.

mod bench;
mod ci;
mod codec;
mod conformance;
mod fix;
mod fixtures;
mod layers;
mod loom;
mod report;
mod rules;
mod run;
mod sim;
mod test;
mod testcode;
mod tidy;
mod tree;
mod wire;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::report::say;

/// What a command is called, what it does, and where it starts.
struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    start: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        usage: "test [-- ARGS]",
        about: "every test, doc tests included; ARGS go to `cargo test`",
        start: test::command,
    },
    Command {
        name: "ci",
        usage: "ci",
        about: "every check and every test, exactly as CI runs them; writes nothing",
        start: ci::command,
    },
    Command {
        name: "fix",
        usage: "fix",
        about: "formats, and applies what clippy can apply by itself",
        start: fix::command,
    },
    Command {
        name: "layers",
        usage: "layers",
        about: "dependencies between crates point to lower layers only",
        start: layers::command,
    },
    Command {
        name: "tidy",
        usage: "tidy",
        about: "file sizes, module docs, manifests, pages, stray entries, dead references",
        start: tidy::command,
    },
    Command {
        name: "fixtures",
        usage: "fixtures [--generate] [--write]",
        about: "fixtures are well-formed, unchanged and complete; --generate writes our vectors, --write the checksums",
        start: fixtures::command,
    },
    Command {
        name: "rules",
        usage: "rules [--all]",
        about: "every rule id is cited by code and by a test; --all lists all ids",
        start: rules::command,
    },
    Command {
        name: "conformance",
        usage: "conformance [FOLDER…]",
        about: "runs every vector of fixtures/ and of the folders against the codec",
        start: conformance::command,
    },
    Command {
        name: "wire",
        usage: "wire",
        about: "the codec as a filter: a JSON request per line in, an answer per line out",
        start: wire::command,
    },
    Command {
        name: "loom",
        usage: "loom [--long]",
        about: "the concurrency models of the lane engine, under loom and shuttle",
        start: loom::command,
    },
    Command {
        name: "bench",
        usage: "bench [NAME…] [--quick] [--json] [--ours] [--only TEXT]… [--rounds N] [--seconds N]",
        about: "runs benches beside their peers; --list names them",
        start: bench::command,
    },
    Command {
        name: "sim",
        usage: "sim --seed N | --seeds A..B [--mutant NAME] | --mutants",
        about: "deterministic worlds of the real machines; replays what failed",
        start: sim::command,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some((name, rest)) = args.split_first() else {
        say(&help());
        return Ok(());
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        say(&help());
        return Ok(());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let known: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        bail!(
            "there is no command `{name}`; the commands are {}",
            known.join(", ")
        );
    };
    (command.start)(rest)
}

fn help() -> String {
    let mut table = report::Table::new(["cargo xtask …", ""]);
    for command in COMMANDS {
        table.row([command.usage, command.about]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_unknown_command_is_refused_with_the_list_of_commands() {
        let error = dispatch(&words("tset")).unwrap_err().to_string();
        assert!(
            error.contains("`tset`") && error.contains("fixtures"),
            "{error}"
        );
    }

    #[test]
    fn every_command_refuses_an_argument_it_does_not_know() {
        // The simulator judges its own, and would be built with optimization for this.
        for command in COMMANDS.iter().filter(|command| command.name != "sim") {
            let error = dispatch(&words(&format!("{} --bogus", command.name))).unwrap_err();
            assert!(
                error.to_string().contains("--bogus"),
                "{}: {error}",
                command.name
            );
        }
    }
}
