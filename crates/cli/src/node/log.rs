//! The log: lines on standard error.

use clap::ValueEnum;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::demo::{Figures, POINTS};

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

/// Writes the log from here on, and lets the figures of a demo listen. The first call in a process decides.
pub(crate) fn write_log(level: LogLevel, figures: Option<Figures>) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(std::io::stderr);
    let points = Targets::new().with_target(POINTS, LevelFilter::TRACE);
    let log = tracing_subscriber::registry()
        .with(lines.with_filter(level))
        .with(figures.map(|figures| figures.with_filter(points)));
    // A second log in one process has nowhere to go.
    drop(log.try_init());
}
