//! The log: lines on standard error.

use clap::ValueEnum;
use tracing_subscriber::filter::LevelFilter;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Broken promises only.
    Error,
    /// Also fallbacks that were taken.
    Warn,
    /// Also what begins and ends: hosts, links, moves.
    Info,
    /// Also each control record.
    Debug,
    /// Everything.
    Trace,
}

/// Writes the log from here on. The first call decides.
pub(crate) fn write_log(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(std::io::stderr);
    // A second log in one process has nowhere to go.
    drop(log.try_init());
}
