//! Finds a server program, or installs one where that is allowed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::KitError;

/// The programs that will do, the preferred one first.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The path of `redis-server` or `valkey-server`.
///
/// When neither is on the path, and this is Debian or Ubuntu and we are root, it is installed with the system's package
/// manager; the service that the package brings is not started.
///
/// # Errors
/// [`KitError::NotInstalled`], whose text says what to install.
pub fn ensure_installed() -> Result<PathBuf, KitError> {
    if let Some(found) = find() {
        return Ok(found);
    }
    if !is_debian() {
        return Err(not_installed("this is not Debian or Ubuntu"));
    }
    if !is_root() {
        return Err(not_installed("only root may install it"));
    }
    apt(&["update"])?;
    apt(&[
        "install",
        "--yes",
        "--no-install-recommends",
        "redis-server",
    ])?;
    find().ok_or_else(|| not_installed("the package brought no server"))
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders: Vec<_> = env::split_paths(&path).collect();
    let candidates = PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    candidates.into_iter().find(|program| program.is_file())
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists()
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // Real, effective, saved and file system id; the effective one counts.
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

fn apt(arguments: &[&str]) -> Result<(), KitError> {
    let output = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // invoke-rc.d starts no service in run level 1.
        .env("RUNLEVEL", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| not_installed(&format!("apt-get did not start: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Err(not_installed(&format!(
        "apt-get {} failed: {last}",
        arguments.join(" ")
    )))
}

fn not_installed(reason: &str) -> KitError {
    KitError::NotInstalled {
        reason: reason.to_owned(),
    }
}
