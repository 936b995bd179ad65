//! How many files and sockets this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many descriptors as the system gives without asking anybody: raises the soft limit to the hard one. Each client
/// and each neighbor is a socket, and the soft limit is often 1,024.
///
/// A system that refuses leaves the limit as it was, and whoever then finds no descriptor says so.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    if setrlimit(Resource::Nofile, all).is_err() {
        tracing::debug!(target: "spotlane::cli", ?current, ?maximum, "the limit of descriptors stays");
    }
}

/// The limit as it is, in words.
pub(crate) fn limit() -> String {
    match getrlimit(Resource::Nofile).current {
        Some(limit) => limit.to_string(),
        None => "any number of".to_owned(),
    }
}
