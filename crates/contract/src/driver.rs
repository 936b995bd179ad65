//! Runs many cases against both codecs.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::codec::{Agreement, Case, Codec, Difference, compare};
use crate::generate::Generator;
use crate::model::Contract;
use crate::mutate::{mutate_bytes, mutate_frames};
use crate::mutate_value::mutate_value;
use crate::refusal::Kind;
use crate::rng::Rng;
use crate::standalone::{is_durable, reseal};

/// Differences that are kept in full; further ones are only counted.
const DIFFERENCES_KEPT: usize = 20;

/// What a [`run`] found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Questions asked.
    pub cases: usize,
    /// Both accepted.
    pub accepted: usize,
    /// Both refused, by kind.
    pub refused: BTreeMap<Kind, usize>,
    /// They disagreed.
    pub differing: usize,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// Same kind of refusal, but at another frame or offset. No failure, but worth a look (WR-5).
    pub displaced: usize,
    /// The first case of that sort.
    pub displaced_sample: Option<String>,
}

impl Report {
    /// Whether both codecs always agreed.
    pub fn is_clean(&self) -> bool {
        self.differing == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cases, {} accepted by both",
            self.cases, self.accepted
        )?;
        for (kind, count) in &self.refused {
            writeln!(f, "  {count} refused as {kind}")?;
        }
        writeln!(f, "  {} refused alike but at another place", self.displaced)?;
        if let Some(sample) = &self.displaced_sample {
            writeln!(f, "    such as {sample}")?;
        }
        writeln!(f, "{} differences", self.differing)?;
        for difference in &self.differences {
            writeln!(f, "\n{difference}")?;
        }
        Ok(())
    }
}

/// Asks both codecs at least `cases` questions: valid values of every command and standalone type
/// in turn, mutants of their bytes and of their JSON form. One seed asks the same questions.
pub fn run(judge: &Contract, other: &impl Codec, seed: u64, cases: usize) -> Report {
    let mut driver = Driver {
        judge,
        other,
        generator: Generator::new(judge, seed),
        rng: Rng::new(!seed),
        report: Report::default(),
        last_frames: vec![Vec::new()],
        last_bytes: Vec::new(),
    };
    let commands: Vec<u8> = judge.command_ids().collect();
    let names: Vec<String> = judge
        .standalone_names()
        .into_iter()
        .filter(|name| other.supports(name))
        .collect();
    while driver.report.cases < cases && !(commands.is_empty() && names.is_empty()) {
        for id in &commands {
            driver.ask_about_command(*id);
        }
        for name in &names {
            driver.ask_about_type(name);
        }
    }
    driver.report
}

/// Mutants of each valid value of a command.
const RECORD_MUTANTS: usize = 12;
/// Mutants of each valid standalone value; most types are part of a command as well.
const TYPE_MUTANTS: usize = 4;

struct Driver<'a, C> {
    judge: &'a Contract,
    other: &'a C,
    generator: Generator<'a>,
    rng: Rng,
    report: Report,
    /// What splices are cut from: the value before this one.
    last_frames: Vec<Vec<u8>>,
    last_bytes: Vec<u8>,
}

impl<C: Codec> Driver<'_, C> {
    fn ask_about_command(&mut self, id: u8) {
        let Some(record) = self.generator.record(id) else {
            return;
        };
        let pending = record.pending;
        self.ask(&Case::RecordValue {
            value: record.value.clone(),
            pending: pending.clone(),
        });
        // A generated value that the judge refuses shows as a difference of the case above only if
        // the other codec accepts it; that it never happens is a test of this crate.
        let Ok(frames) = self.judge.encode_record(&record.value, pending.as_deref()) else {
            return;
        };
        self.ask(&Case::Record {
            frames: frames.clone(),
            pending: pending.clone(),
        });
        for _ in 0..RECORD_MUTANTS {
            let mutant = mutate_frames(&mut self.rng, &frames, &self.last_frames);
            self.ask(&Case::Record {
                frames: mutant,
                pending: pending.clone(),
            });
        }
        let value = self.damaged(record.value);
        self.ask(&Case::RecordValue { value, pending });
        self.last_frames = frames;
    }

    fn ask_about_type(&mut self, name: &str) {
        let Some(value) = self.generator.standalone(name) else {
            return;
        };
        self.ask(&Case::TypeValue {
            name: name.to_owned(),
            value: value.clone(),
        });
        let Ok(bytes) = self.judge.encode_type(name, &value) else {
            return;
        };
        self.ask(&Case::Type {
            name: name.to_owned(),
            bytes: bytes.clone(),
        });
        for _ in 0..TYPE_MUTANTS {
            let mut mutant = mutate_bytes(&mut self.rng, &bytes, &self.last_bytes);
            if is_durable(name) && !self.rng.one_in(4) {
                reseal(&mut mutant);
            }
            self.ask(&Case::Type {
                name: name.to_owned(),
                bytes: mutant,
            });
        }
        let value = self.damaged(value);
        self.ask(&Case::TypeValue {
            name: name.to_owned(),
            value,
        });
        self.last_bytes = bytes;
    }

    fn damaged(&mut self, mut value: Value) -> Value {
        mutate_value(&mut self.rng, &mut value);
        value
    }

    fn ask(&mut self, case: &Case) {
        self.report.cases += 1;
        match compare(self.judge, self.other, case) {
            Ok(Agreement::Accepted) => self.report.accepted += 1,
            Ok(Agreement::Refused { judge, other }) => {
                *self.report.refused.entry(judge.kind).or_default() += 1;
                let is_decode = matches!(case, Case::Record { .. } | Case::Type { .. });
                if is_decode && (judge.frame, judge.offset) != (other.frame, other.offset) {
                    self.report.displaced += 1;
                    self.report
                        .displaced_sample
                        .get_or_insert_with(|| format!("judge: {judge}; other: {other}"));
                }
            }
            Err(difference) => {
                self.report.differing += 1;
                if self.report.differences.len() < DIFFERENCES_KEPT {
                    self.report.differences.push(*difference);
                }
            }
        }
    }
}
