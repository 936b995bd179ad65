//! Makes sure that a Redis or Valkey server is installed, and says where: `cargo xtask test` runs it
//! once, so that tests that start together do not install it together.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool"
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match spotlane_redis_testkit::ensure_installed() {
        Ok(program) => {
            println!("servers for tests: {}", program.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
