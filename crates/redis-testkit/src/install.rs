//! Finds a server program, or installs one where that is allowed.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::KitError;

/// The programs that will do, the preferred one first.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// The packages that bring one, in the order in which they are tried: newer systems may have the second only.
const PACKAGES: [&str; 2] = ["redis-server", "valkey-server"];

/// Names the program to use instead of looking for one: to run the tests on another server than the installed one.
const CHOICE: &str = "SPOTLANE_REDIS_SERVER";

/// The path of `redis-server` or `valkey-server`, or of the program that `SPOTLANE_REDIS_SERVER` names.
///
/// When neither is on the path, and this is Debian or Ubuntu and we are root, it is installed with the system's package
/// manager; the service that the package brings is not started.
///
/// # Errors
/// [`KitError::NotInstalled`], whose text says what to install.
pub fn ensure_installed() -> Result<PathBuf, KitError> {
    if let Some(chosen) = env::var_os(CHOICE) {
        return chosen_program(chosen.into());
    }
    let find = || find(&env::var_os("PATH").unwrap_or_default());
    let system = System {
        is_debian: is_debian(),
        is_root: is_root(),
    };
    match decide(find(), system) {
        Step::Use(program) => Ok(program),
        Step::Refuse(reason) => Err(not_installed(reason)),
        Step::Install => install(apt, find),
    }
}

/// A choice that does not run is an error, and never replaced by what happens to be there.
fn chosen_program(program: PathBuf) -> Result<PathBuf, KitError> {
    if is_program(&program) {
        return Ok(program);
    }
    let reason = format!("{CHOICE} names {}, which is no program", program.display());
    Err(not_installed(&reason))
}

/// What matters of this machine.
#[derive(Clone, Copy, Debug)]
struct System {
    is_debian: bool,
    is_root: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Use(PathBuf),
    Install,
    Refuse(&'static str),
}

fn decide(found: Option<PathBuf>, system: System) -> Step {
    match (found, system) {
        (Some(program), _) => Step::Use(program),
        (
            None,
            System {
                is_debian: false, ..
            },
        ) => Step::Refuse("this is not Debian or Ubuntu"),
        (None, System { is_root: false, .. }) => Step::Refuse("only root may install it"),
        (None, _) => Step::Install,
    }
}

/// Installs the first package that there is.
fn install(
    mut apt: impl FnMut(&[&str]) -> Result<(), String>,
    find: impl Fn() -> Option<PathBuf>,
) -> Result<PathBuf, KitError> {
    // Without a network the lists of packages that are there may still do.
    let mut reasons: Vec<String> = apt(&["update"]).err().into_iter().collect();
    for package in PACKAGES {
        match apt(&["install", "--yes", "--no-install-recommends", package]) {
            Ok(()) => match find() {
                Some(program) => return Ok(program),
                None => reasons.push(format!("the package {package} brought no server")),
            },
            Err(reason) => reasons.push(reason),
        }
    }
    Err(not_installed(&reasons.join("; ")))
}

fn find(path: &OsStr) -> Option<PathBuf> {
    let folders: Vec<_> = env::split_paths(path).collect();
    let candidates = PROGRAMS
        .iter()
        .flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    candidates.into_iter().find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
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

fn apt(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // invoke-rc.d starts no service in run level 1.
        .env("RUNLEVEL", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("apt-get did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Err(format!("apt-get {} failed: {last}", arguments.join(" ")))
}

fn not_installed(reason: &str) -> KitError {
    KitError::NotInstalled {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of its own that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                env::temp_dir().join(format!("spotlane-install-{}-{name}", std::process::id()));
            drop(fs::remove_dir_all(&folder));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let file = self.0.join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn path(folders: &[&Folder]) -> std::ffi::OsString {
        env::join_paths(folders.iter().map(|folder| &folder.0)).unwrap()
    }

    #[test]
    fn what_is_on_the_path_is_used_and_redis_comes_first() {
        let (first, second) = (Folder::new("first"), Folder::new("second"));
        assert_eq!(find(OsStr::new("")), None);
        assert_eq!(find(&path(&[&first, &second])), None);
        let valkey = first.file("valkey-server", 0o755);
        assert_eq!(find(&path(&[&first, &second])), Some(valkey));
        let redis = second.file("redis-server", 0o755);
        assert_eq!(find(&path(&[&first, &second])), Some(redis));
    }

    #[test]
    fn a_chosen_program_is_used_or_refused() {
        let folder = Folder::new("chosen");
        let program = folder.file("any-server", 0o755);
        assert_eq!(chosen_program(program.clone()).unwrap(), program);
        let error = chosen_program(folder.0.join("none")).unwrap_err();
        assert!(error.to_string().contains(CHOICE), "{error}");
    }

    #[test]
    fn what_cannot_be_run_is_no_program() {
        let folder = Folder::new("not-a-program");
        folder.file("redis-server", 0o644);
        fs::create_dir(folder.0.join("valkey-server")).unwrap();
        assert_eq!(find(&path(&[&folder])), None);
        let other = Folder::new("linked");
        symlink("/nowhere/redis-server", other.0.join("redis-server")).unwrap();
        assert_eq!(find(&path(&[&other])), None);
        let real = folder.file("real", 0o700);
        symlink(real, other.0.join("valkey-server")).unwrap();
        assert_eq!(find(&path(&[&other])), Some(other.0.join("valkey-server")));
    }

    #[test]
    fn it_is_installed_only_where_that_is_allowed() {
        let program = PathBuf::from("/usr/bin/redis-server");
        let yes_no = [true, false];
        for is_debian in yes_no {
            for is_root in yes_no {
                let system = System { is_debian, is_root };
                let used = Step::Use(program.clone());
                assert_eq!(decide(Some(program.clone()), system), used, "{system:?}");
                let step = decide(None, system);
                match (is_debian, is_root) {
                    (true, true) => assert_eq!(step, Step::Install),
                    (true, false) => assert_eq!(step, Step::Refuse("only root may install it")),
                    (false, _) => assert_eq!(step, Step::Refuse("this is not Debian or Ubuntu")),
                }
            }
        }
    }

    /// Which calls are made when those that name one of these words fail.
    fn calls(failing: &[&str], brings: Option<&str>) -> (Result<PathBuf, String>, Vec<String>) {
        let log = RefCell::new(Vec::new());
        let apt = |arguments: &[&str]| {
            let call = arguments.join(" ");
            log.borrow_mut().push(call.clone());
            if failing.iter().any(|word| call.ends_with(word)) {
                return Err(format!("{call} failed"));
            }
            Ok(())
        };
        let there = || {
            let log = log.borrow();
            let last = log.last()?;
            brings
                .filter(|name| last.ends_with(name))
                .map(PathBuf::from)
        };
        let outcome = install(apt, there).map_err(|error| error.to_string());
        (outcome, log.into_inner())
    }

    #[test]
    fn the_first_package_that_there_is_will_do() {
        let (found, log) = calls(&[], Some("redis-server"));
        assert_eq!(
            (found.unwrap(), log.len()),
            (PathBuf::from("redis-server"), 2)
        );
        let (found, log) = calls(&["redis-server"], Some("valkey-server"));
        assert_eq!(
            (found.unwrap(), log.len()),
            (PathBuf::from("valkey-server"), 3)
        );
        // Without a network the lists may be old, and the package still there.
        let (found, _) = calls(&["update"], Some("redis-server"));
        assert_eq!(found.unwrap(), PathBuf::from("redis-server"));
    }

    #[test]
    fn a_failure_says_what_to_install_and_why_it_was_not() {
        let (found, log) = calls(&["update", "redis-server", "valkey-server"], None);
        let text = found.unwrap_err();
        assert_eq!(log.len(), 3);
        for part in [
            "install redis-server or valkey-server",
            "update failed",
            "valkey-server failed",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let (found, _) = calls(&[], None);
        let text = found.unwrap_err();
        assert!(text.contains("brought no server"), "{text}");
    }
}
