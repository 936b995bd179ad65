//! How many Actors live here, and that this has changed (RL-328, RL-340).

const ACTORS: &str = "zlink.actor.count";

/// An Actor was created here, or has come.
pub(crate) fn came() {
    metrics::gauge!(ACTORS).increment(1.0);
    changed();
}

/// An Actor has ended here, or has left.
pub(crate) fn went() {
    metrics::gauge!(ACTORS).decrement(1.0);
    changed();
}

fn changed() {
    tracing::info!(target: "spotlane::runtime::placement", "zlink.runtime.object.placement_changed");
}
