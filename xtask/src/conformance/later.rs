//! Behavior files, which describe what a later part of the project does. Their cases are counted
//! and not run, so that what is left to do shows in the table.

use serde_json::Value;

use super::members::Members;
use super::sheet::{Check, Sheet, same};

/// One kind of behavior file.
#[derive(Debug)]
pub(super) struct Behavior {
    /// What the file says it is.
    pub(super) name: &'static str,
    /// Members that hold the cases: an array of them, or one. All have to be there.
    cases: &'static [&'static str],
    /// Members that explain.
    about: &'static [&'static str],
}

/// All that are known.
pub(super) const BEHAVIORS: [Behavior; 3] = [
    Behavior {
        name: "zlink.framework.relocation-behavior",
        cases: &[
            "commonLifecycle",
            "optionalBranches",
            "profiles",
            "trafficScenarios",
            "journeyScenarios",
            "routeCacheCompareAndRemoveScenarios",
            "idempotencyScenarios",
            "terminalScenarios",
            "statePolicies",
        ],
        about: &[
            "contractSources",
            "modelBoundary",
            "eventVocabulary",
            "actorCapabilities",
            "spotCapabilities",
            "adapterContract",
        ],
    },
    Behavior {
        name: "zlink.framework.serial-execution",
        cases: &[
            "accountingScenarios",
            "arbitrationScenarios",
            "sameOwnerCalls",
        ],
        about: &["limits", "admissionInvariants", "dispatchInvariants"],
    },
    Behavior {
        name: "zlink.framework.message-follow-suppression",
        cases: &["scenarios", "independentKeyMutations"],
        about: &["routeFenceFields", "registryInvariants", "keys"],
    },
];

/// Counts the cases of a file.
pub(super) fn count(behavior: &Behavior, file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    same("version", 1, file.number("version")?)?;
    file.skip(behavior.about);
    for name in behavior.cases {
        let cases = match file.need(name)? {
            Value::Array(cases) => &cases[..],
            case => std::slice::from_ref(case),
        };
        let is_case = |case: &Value| case.as_object().is_some_and(|case| !case.is_empty());
        if cases.is_empty() || !cases.iter().all(is_case) {
            return Err(format!("member `{name}` does not hold cases"));
        }
        sheet.later(cases.len());
    }
    sheet.note("behavior of a later part: not run");
    Ok(())
}
