//! Random histories against a model that is as simple as the rules: two lists, a burst count and a debt.

#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "helpers of tests are not covered by the lints' test settings"
)]

mod support;

use std::collections::VecDeque;

use proptest::prelude::*;
use spotlane_lane::{FifoLimits, GateUse, LaneLimits};
use support::{Bench, Step, settle};

/// What a history does while one item runs and while nothing does.
#[derive(Clone, Copy, Debug)]
enum Action {
    Application(u64),
    Lifecycle,
    Barrier,
    /// Lets everything run that can.
    Run,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0u64..400).prop_map(Action::Application),
        4 => Just(Action::Lifecycle),
        1 => Just(Action::Barrier),
        2 => Just(Action::Run),
    ]
}

#[derive(Default)]
struct Model {
    application: VecDeque<(&'static str, u64)>,
    lifecycle: VecDeque<&'static str>,
    barriers: VecDeque<&'static str>,
    burst: u8,
    debt: bool,
    ran: Vec<&'static str>,
}

const ITEMS_MAX: u64 = 6;
const BYTES_MAX: u64 = 2000;
const FIXED: u64 = 100;
const BURST: u8 = 3;

impl Model {
    fn accepts(&self, payload: u64) -> bool {
        let items = self.application.len() as u64;
        let bytes: u64 = self
            .application
            .iter()
            .map(|(_, payload)| payload + FIXED)
            .sum();
        items == 0 || (items < ITEMS_MAX && bytes + payload + FIXED <= BYTES_MAX)
    }

    /// EX-61, EX-62, EX-67, EX-68, EX-69, written down once more.
    fn run_all(&mut self) {
        loop {
            if let Some(barrier) = self.barriers.pop_front() {
                self.ran.push(barrier);
            } else if self.debt && !self.application.is_empty() {
                self.debt = false;
                self.burst = 0;
                self.ran
                    .extend(self.application.pop_front().map(|(name, _)| name));
            } else if let Some(name) = self.lifecycle.pop_front() {
                if !self.debt {
                    self.burst += 1;
                    if self.burst == BURST {
                        self.burst = 0;
                        self.debt = true;
                    }
                }
                self.ran.push(name);
            } else if let Some((name, _)) = self.application.pop_front() {
                self.burst = 0;
                self.ran.push(name);
            } else {
                return;
            }
        }
    }
}

async fn replay(actions: Vec<Action>) {
    let bench = Bench::new();
    let limits = LaneLimits::DEFAULT
        .application(FifoLimits::new(ITEMS_MAX, BYTES_MAX))
        .fixed_work_byte_cost(FIXED)
        .lifecycle_burst_limit(BURST);
    let spot = bench.spot_with(limits, GateUse::Own);
    let mut model = Model::default();
    for (at, action) in actions.into_iter().enumerate() {
        let name: &'static str = format!("{action:?}#{at}").leak();
        match action {
            Action::Application(payload) => {
                let before = spot.application_usage();
                let accepted = spot
                    .enqueue_with_payload_bytes(Step::Note(name), payload)
                    .is_ok();
                assert_eq!(accepted, model.accepts(payload), "{action:?}");
                if accepted {
                    model.application.push_back((name, payload));
                } else {
                    assert_eq!(spot.application_usage(), before);
                }
            }
            Action::Lifecycle => {
                spot.enqueue_lifecycle(Step::Note(name)).unwrap();
                model.lifecycle.push_back(name);
            }
            Action::Barrier => {
                spot.enqueue_barrier_next(Step::Note(name)).unwrap();
                model.barriers.push_back(name);
            }
            Action::Run => {
                settle().await;
                model.run_all();
                assert_eq!(bench.log.all(), model.ran);
            }
        }
    }
    spot.await_quiescence().await;
    model.run_all();
    assert_eq!(bench.log.all(), model.ran);
    assert_eq!(
        (
            spot.application_usage().items,
            spot.application_usage().bytes
        ),
        (0, 0)
    );
    assert_eq!(spot.lifecycle_usage().items, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// EX-60, EX-61, EX-62, EX-67, EX-68, EX-69, EX-71, EX-93, EX-96, EX-103: every history runs as the
    /// model says, and every refusal is one of the model.
    #[test]
    fn histories_run_as_the_model_says(actions in prop::collection::vec(action(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(replay(actions));
    }
}
