//! The counters that issue generations (ST-52, RL-4).

use bytes::Bytes;
use spotlane_store::{Condition, Mutation, ReadOutcome, StoreKey, StoreValue};
use spotlane_types::bound::GENERATION_MAX;

use crate::error::LocationError;
use crate::json::canonical_decimal;
use crate::key;
use crate::record::RecordError;

/// One of the three counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-52")]
pub enum Counter {
    /// Issues owner lease generations.
    Owner,
    /// Issues object generations.
    Object,
    /// Issues authority owner generations.
    AuthorityOwner,
}

impl Counter {
    /// Its key.
    pub fn key(self) -> StoreKey {
        key::counter(match self {
            Self::Owner => key::OWNER_COUNTER,
            Self::Object => key::OBJECT_COUNTER,
            Self::AuthorityOwner => key::AUTHORITY_OWNER_COUNTER,
        })
    }
}

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Owner => "owner lease generation",
            Self::Object => "object generation",
            Self::AuthorityOwner => "authority owner generation",
        })
    }
}

/// What a counter says: the next number to issue, or that there is none left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    counter: Counter,
    /// 1 to 2^63 - 1; the last of them marks an exhausted counter.
    next: u64,
    /// Whether the row exists; without one the next number is 1.
    stored: bool,
}

/// A number that a batch issues: the row that uses it must be in the same batch (ST-52).
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) number: u64,
    pub(crate) condition: Condition,
    pub(crate) mutation: Mutation,
}

impl Reading {
    /// Reads a counter.
    pub(crate) fn of(counter: Counter, outcome: ReadOutcome) -> Result<Self, RecordError> {
        let Some(found) = outcome.found() else {
            return Ok(Self {
                counter,
                next: 1,
                stored: false,
            });
        };
        let key = counter.key();
        if found.expires_at.is_some() {
            return Err(RecordError::expiry(&key, "a counter never expires"));
        }
        let next = std::str::from_utf8(found.value.as_bytes())
            .ok()
            .and_then(canonical_decimal)
            .filter(|next| (1..=GENERATION_MAX).contains(next));
        let rule = "a counter is a decimal number of 1 to 2^63 - 1";
        Ok(Self {
            counter,
            next: next.ok_or_else(|| RecordError::contradiction(&key, rule))?,
            stored: true,
        })
    }

    pub(crate) fn counter(self) -> Counter {
        self.counter
    }

    /// Issues the next number.
    ///
    /// The condition compares the counter's value, not its version: a value that only rises never comes back, so the two
    /// say the same, and a value can be known without a read of its own.
    pub(crate) fn issue(self) -> Result<Issue, LocationError> {
        if self.next >= GENERATION_MAX {
            return Err(LocationError::GenerationExhausted {
                counter: self.counter,
            });
        }
        let key = self.counter.key();
        let condition = if self.stored {
            Condition::Value(key.clone(), decimal(self.next)?)
        } else {
            Condition::Missing(key.clone())
        };
        let mutation = Mutation::Put {
            key,
            value: decimal(self.after().next)?,
            ttl: None,
        };
        Ok(Issue {
            number: self.next,
            condition,
            mutation,
        })
    }

    /// What the counter says once the number has been issued; an exhausted one stays as it is.
    pub(crate) fn after(self) -> Self {
        Self {
            next: self.next.saturating_add(1).min(GENERATION_MAX),
            stored: true,
            ..self
        }
    }
}

/// The next numbers as this repository expects them, so that an operation need not read a counter first, and operations
/// that run side by side do not all ask for the same number (ST-90).
///
/// An expectation is a hint: the batch compares the counter. One that was wrong, because another host took a number or
/// an operation of this host took none, is given up once for all who relied on it: they share an epoch.
#[derive(Debug, Default)]
pub(crate) struct Expected([Option<(Reading, u64)>; 2]);

/// A reading to build a batch from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) reading: Reading,
    epoch: u64,
}

impl Expected {
    fn slot(&mut self, counter: Counter) -> &mut Option<(Reading, u64)> {
        let [object, owner] = &mut self.0;
        match counter {
            // Leases are claimed without expectation.
            Counter::Owner | Counter::Object => object,
            Counter::AuthorityOwner => owner,
        }
    }

    /// The next number, when there is an expectation.
    pub(crate) fn take(&mut self, counter: Counter) -> Option<Taken> {
        let (next, epoch) = self.slot(counter).as_mut()?;
        let reading = std::mem::replace(next, next.after());
        Some(Taken {
            reading,
            epoch: *epoch,
        })
    }

    /// The next number after the counter was read, because there was no expectation or `wrong` was one.
    pub(crate) fn begin(&mut self, read: Reading, wrong: Option<Taken>) -> Taken {
        let slot = self.slot(read.counter);
        let epoch = slot.map(|(_, epoch)| epoch);
        // Somebody else has begun anew already, from a reading as good as ours.
        let stands = wrong.is_some_and(|wrong| epoch.is_some_and(|now| now != wrong.epoch));
        if !stands {
            *slot = Some((read, epoch.map_or(0, |epoch| epoch.wrapping_add(1))));
        }
        self.take(read.counter).unwrap_or(Taken {
            reading: read,
            epoch: 0,
        })
    }
}

fn decimal(number: u64) -> Result<StoreValue, LocationError> {
    Ok(StoreValue::new(Bytes::from(number.to_string()))?)
}

#[cfg(test)]
mod tests {
    use spotlane_store::{Found, StoreTime, StoreVersion};

    use super::*;

    fn found(text: &str) -> ReadOutcome {
        ReadOutcome::Found(Found {
            value: StoreValue::new(text.to_owned()).unwrap(),
            version: StoreVersion::new("1").unwrap(),
            expires_at: None,
            store_now: StoreTime::from_unix_millis(1),
        })
    }

    /// ST-52
    #[test]
    fn an_absent_counter_issues_one() {
        let missing = ReadOutcome::Missing {
            store_now: StoreTime::from_unix_millis(1),
        };
        let issue = Reading::of(Counter::Object, missing)
            .unwrap()
            .issue()
            .unwrap();
        assert_eq!(issue.number, 1);
        assert_eq!(issue.condition, Condition::Missing(Counter::Object.key()));
        let Mutation::Put { value, .. } = issue.mutation else {
            panic!("a counter is put")
        };
        assert_eq!(value.as_bytes(), "2");
    }

    /// ST-52, RL-4
    #[test]
    fn the_largest_number_is_issued_and_the_sentinel_is_not() {
        let last = Reading::of(Counter::Owner, found("9223372036854775806")).unwrap();
        let issue = last.issue().unwrap();
        assert_eq!(issue.number, GENERATION_MAX - 1);
        assert!(matches!(
            last.after().issue(),
            Err(LocationError::GenerationExhausted {
                counter: Counter::Owner
            })
        ));
        let spent = Reading::of(Counter::Owner, found("9223372036854775807")).unwrap();
        for _ in 0..2 {
            assert!(matches!(
                spent.issue(),
                Err(LocationError::GenerationExhausted { .. })
            ));
        }
    }

    /// ST-52
    #[test]
    fn nothing_but_a_canonical_number_is_a_counter() {
        for text in [
            "",
            "0",
            "01",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1.0",
            "x",
            "9223372036854775808",
        ] {
            assert!(Reading::of(Counter::Owner, found(text)).is_err(), "{text}");
        }
    }
}
