//! What can be typed: the commands and their options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::demo::DemoArgs;
use crate::node::LogLevel;

/// Everything that was typed.
#[derive(Debug, Parser)]
#[command(
    name = "spotlane",
    version,
    about = "Stateful objects that move live between machines",
    after_help = "First steps:\n  spotlane demo               see actors move under load, and what it costs\n  \
                  spotlane cluster --nodes 3  run real nodes on this machine\n  \
                  spotlane status             ask a running node",
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One command each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run three hosts in this process, drive traffic, move actors around, and judge every message
    Demo(DemoArgs),
    /// Run one node with the sample application
    Node(NodeArgs),
    /// Start several nodes on this machine with a throw-away Redis; Ctrl-C stops them
    Cluster(ClusterArgs),
    /// Show what a node is and does
    Status(RemoteArgs),
    /// Show where an object lives
    Find(FindArgs),
    /// Move an object to another node
    Relocate(RelocateArgs),
    /// Move everything away from a node, so that it can be stopped
    Drain(DrainArgs),
}

impl Command {
    /// Whether it has hosts in this process or in its children, which need a descriptor for each connection.
    pub(crate) const fn serves(&self) -> bool {
        match self {
            Self::Demo(_) | Self::Node(_) | Self::Cluster(_) => true,
            Self::Status(_) | Self::Find(_) | Self::Relocate(_) | Self::Drain(_) => false,
        }
    }
}

/// Options of `node`.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The file with its settings; docs/cli.md has a commented one
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the file and stop
    #[arg(long)]
    pub(crate) check: bool,
    /// How much is logged to standard error
    #[arg(
        long,
        value_enum,
        default_value = "warn",
        env = "SPOTLANE_LOG",
        value_name = "LEVEL"
    )]
    pub(crate) log: LogLevel,
    /// Shut down when standard input ends; `cluster` starts its nodes so
    #[arg(long, hide = true)]
    pub(crate) leash: bool,
}

/// Options of `cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) nodes: u16,
    /// A store that runs already, instead of a throw-away Redis
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Where the first node's admin endpoint listens; the others take the ports after it. 0: free ports
    #[arg(long, default_value_t = 7700, value_name = "PORT")]
    pub(crate) admin_port: u16,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which node to talk to, and how to print its answer.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// The node's admin endpoint
    #[arg(
        long,
        env = "SPOTLANE_ADMIN",
        default_value = "http://127.0.0.1:7700",
        value_name = "URL"
    )]
    pub(crate) admin: String,
    /// Its token; better in the environment than in the shell's history
    #[arg(
        long,
        env = "SPOTLANE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) token: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `find`.
#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// What kind of object
    #[arg(value_enum)]
    pub(crate) kind: KindArg,
    /// Its id
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Options of `relocate`.
#[derive(Debug, Args)]
pub(crate) struct RelocateArgs {
    /// What kind of object
    #[arg(value_enum)]
    pub(crate) kind: KindArg,
    /// Its id
    pub(crate) id: String,
    /// The node that shall own it, as `status` names it
    #[arg(long, value_name = "NODE")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// Options of `drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// How long it may take, in seconds
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// The kinds of objects that have an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// An Actor
    Actor,
    /// A Spot
    Spot,
}

impl KindArg {
    /// As the admin endpoint writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Actor => "actor",
            Self::Spot => "spot",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_misspelled_command_is_answered_with_the_right_one() {
        let error = Arguments::try_parse_from(["spotlane", "dmeo"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("demo"), "{error}");
    }

    #[test]
    fn every_help_text_fits_on_a_screen() {
        let mut command = Arguments::command();
        let mut texts = vec![("spotlane".to_owned(), command.render_help().to_string())];
        for inner in command.get_subcommands_mut() {
            texts.push((inner.get_name().to_owned(), inner.render_help().to_string()));
        }
        for (name, text) in texts {
            let lines = text.lines().count();
            assert!(lines <= 40, "{name} has {lines} lines:\n{text}");
        }
    }

    #[test]
    fn a_token_of_the_environment_is_not_printed_by_help() {
        let mut command = Arguments::command();
        let status = command.find_subcommand_mut("status").unwrap();
        let text = status.render_help().to_string();
        assert!(text.contains("SPOTLANE_TOKEN"), "{text}");
        assert!(!text.contains("SPOTLANE_TOKEN="), "{text}");
    }
}
