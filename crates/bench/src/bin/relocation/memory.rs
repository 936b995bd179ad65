//! The resident memory of this process, as the kernel counts it.

use std::fs;

/// What it is now.
pub fn resident() -> usize {
    of("VmRSS:")
}

/// The most since [`mark`].
pub fn peak() -> usize {
    of("VmHWM:")
}

/// Lets the peak begin anew, and says what there is now.
pub fn mark() -> usize {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    resident()
}

fn of(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes: usize = line
        .and_then(|line| line.split_whitespace().next())
        .and_then(|word| word.parse().ok())
        .expect("a line of /proc/self/status");
    kilobytes * 1024
}
