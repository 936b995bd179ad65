//! The resident memory of this process, as the kernel counts it.

use std::fs;
use std::time::Duration;

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

/// How long a system may keep memory that was freed before it gives it to the host of its virtual machine: Linux gives
/// it away two seconds after the first of it was freed, and with it whatever was freed since.
pub const GIVEN_AWAY_WITHIN: Duration = Duration::from_millis(2500);

/// Touches as much memory once and gives it back, in large pages.
///
/// A virtual machine gets memory that it has given away from its host again, at a tenth of the speed; that is not what is
/// measured here. So this comes after a pause of [`GIVEN_AWAY_WITHIN`] in which nothing large was freed: then the next two
/// seconds are free of it.
pub fn warm(bytes: usize) {
    large(bytes).fill(1);
}

/// Fresh memory in large pages.
pub fn large(bytes: usize) -> memmap2::MmapMut {
    let mapping = memmap2::MmapMut::map_anon(bytes).unwrap();
    #[cfg(target_os = "linux")]
    mapping.advise(memmap2::Advice::HugePage).ok();
    mapping
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
