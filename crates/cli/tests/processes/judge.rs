//! Judges what callers of one actor saw across a kill. Pure: it is told what happened and says what is wrong with it.
//!
//! Every call adds one, so the actor's total after a call is the place of its tag in the log. That leaves two owners no
//! way to hide: whatever both of them handle ends at the same places.

use std::collections::BTreeMap;

use spotlane::ErrorKind;

/// How a call ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// With the total, and the node that handled it.
    Answered(i64, String),
    /// With an error.
    Failed(ErrorKind),
    /// Not at all, long after its timeout.
    Never,
}

/// What one caller of one actor saw, in the order of its calls; the tag of a call is `CALLER.INDEX`.
pub(crate) type Seen = Vec<Ended>;

/// The actor has one home before the move and one after it.
const OWNERS_MAX: usize = 2;

/// What callers saw of an actor, and its log at the end if it survived.
///
/// # Errors
/// Which promise was broken.
pub(crate) fn judge(seen: &[Seen], log: Option<&[String]>) -> Result<(), String> {
    each_call_has_one_fitting_end(seen)?;
    one_owner_at_a_time(seen)?;
    log.map_or(Ok(()), |log| handled_once_and_as_answered(seen, log))
}

/// Unavailable rather than wrong: an actor that exists is never said to be missing, and nothing else is made up either.
fn each_call_has_one_fitting_end(seen: &[Seen]) -> Result<(), String> {
    for (caller, calls) in seen.iter().enumerate() {
        let mut last = 0;
        for (index, ended) in calls.iter().enumerate() {
            let tag = format!("{caller}.{index}");
            match ended {
                Ended::Never => return Err(format!("{tag} has no result")),
                Ended::Failed(ErrorKind::Unavailable | ErrorKind::DeadlineExceeded) => {}
                Ended::Failed(kind) => return Err(format!("{tag} failed with {kind}")),
                Ended::Answered(total, _) if *total <= last => {
                    return Err(format!("{tag}: the total fell from {last} to {total}"));
                }
                Ended::Answered(total, _) => last = *total,
            }
        }
    }
    Ok(())
}

/// Never two owners: what one handled continues what the other handled.
fn one_owner_at_a_time(seen: &[Seen]) -> Result<(), String> {
    let mut by_total: BTreeMap<i64, &str> = BTreeMap::new();
    for ended in seen.iter().flatten() {
        if let Ended::Answered(total, node) = ended
            && let Some(other) = by_total.insert(*total, node)
        {
            return Err(format!("{other} and {node} both answered with {total}"));
        }
    }
    let mut owners: Vec<&str> = by_total.into_values().collect();
    owners.dedup();
    if owners.len() > OWNERS_MAX {
        return Err(format!("owners took turns: {owners:?}"));
    }
    Ok(())
}

fn handled_once_and_as_answered(seen: &[Seen], log: &[String]) -> Result<(), String> {
    let mut places = BTreeMap::new();
    for (place, tag) in (1_i64..).zip(log) {
        if places.insert(tag.as_str(), place).is_some() {
            return Err(format!("{tag} was handled twice"));
        }
    }
    let mut sent = 0;
    for (caller, calls) in seen.iter().enumerate() {
        let mut last = 0;
        for (index, ended) in calls.iter().enumerate() {
            let tag = format!("{caller}.{index}");
            let place = places.get(tag.as_str()).copied();
            sent += usize::from(place.is_some());
            match (ended, place) {
                (Ended::Answered(total, _), place) if place != Some(*total) => {
                    return Err(format!(
                        "{tag} was answered with {total} and is at {place:?}"
                    ));
                }
                (_, Some(place)) if place < last => {
                    return Err(format!("{tag} was handled before the call before it"));
                }
                _ => last = place.unwrap_or(last),
            }
        }
    }
    if sent != log.len() {
        return Err(format!("{} tags were sent by nobody", log.len() - sent));
    }
    Ok(())
}

mod planted {
    use super::*;

    fn answered(total: i64, node: &str) -> Ended {
        Ended::Answered(total, node.to_owned())
    }

    fn tags(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    /// Two callers across a move from a to b, with one call whose answer was lost on the way.
    fn right() -> (Vec<Seen>, Vec<String>) {
        let lost = Ended::Failed(ErrorKind::Unavailable);
        let first = vec![answered(1, "a"), lost, answered(5, "b")];
        let second = vec![answered(2, "a"), answered(4, "b")];
        let log = tags(&["0.0", "1.0", "0.1", "1.1", "0.2"]);
        (vec![first, second], log)
    }

    #[test]
    fn what_is_right_passes() {
        let (seen, log) = right();
        assert_eq!(judge(&seen, Some(&log)), Ok(()));
        assert_eq!(judge(&seen, None), Ok(()));
    }

    /// Each defect is put into a history that is right, and found by its own rule.
    #[test]
    fn each_planted_defect_is_found() {
        let seen = |caller: usize, index: usize, ended: Ended| {
            let (mut seen, log) = right();
            seen[caller][index] = ended;
            (seen, log)
        };
        let log = |log: &[&str]| (right().0, tags(log));
        let defects = [
            ("both answered with 4", seen(0, 2, answered(4, "a"))),
            ("the total fell", seen(0, 2, answered(1, "b"))),
            ("took turns", seen(0, 2, answered(5, "a"))),
            ("has no result", seen(1, 1, Ended::Never)),
            (
                "failed with",
                seen(0, 1, Ended::Failed(ErrorKind::NotFound)),
            ),
            ("is at Some(4)", seen(1, 1, answered(3, "b"))),
            (
                "handled twice",
                log(&["0.0", "1.0", "0.1", "1.1", "0.2", "0.1"]),
            ),
            ("is at None", log(&["0.0", "1.0", "0.1", "1.1"])),
            (
                "by nobody",
                log(&["0.0", "1.0", "0.1", "1.1", "0.2", "2.0"]),
            ),
        ];
        for (finding, (seen, log)) in defects {
            let found = judge(&seen, Some(&log)).unwrap_err();
            assert!(found.contains(finding), "{finding}: {found}");
        }
        let (mut seen, _) = right();
        seen[0][2] = Ended::Failed(ErrorKind::DeadlineExceeded);
        let log = tags(&["0.0", "1.0", "0.2", "1.1", "0.1"]);
        let found = judge(&seen, Some(&log)).unwrap_err();
        assert!(found.contains("before the call before it"), "{found}");
    }
}
