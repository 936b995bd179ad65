//! How a counter is written down when it moves, and read back.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use spotlane::{Adapter, Error, ErrorKind};

use crate::counter::Counter;

/// The version of the form below; a form that older nodes cannot read gets another one.
const VERSION: u32 = 1;

/// Writes a [`Counter`] as version, length of the head, head in JSON, filler.
///
/// The filler is outside of the JSON, so that restoring a large state takes a slice and copies nothing.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has no state and never will")]
pub struct CounterAdapter;

#[derive(Serialize, Deserialize)]
struct Head<Tags> {
    total: i64,
    first: u64,
    ticks: u64,
    log: Tags,
}

impl Adapter<Counter> for CounterAdapter {
    async fn capture(&self, counter: &mut Counter) -> Result<Bytes, Error> {
        write(counter)
    }

    async fn restore(&self, counter: &mut Counter, state: Bytes) -> Result<(), Error> {
        *counter = read(state)?;
        counter.arrived = true;
        Ok(())
    }
}

fn write(counter: &Counter) -> Result<Bytes, Error> {
    let head = Head {
        total: counter.total,
        first: counter.first,
        ticks: counter.ticks,
        log: &counter.log,
    };
    let head = serde_json::to_vec(&head)
        .map_err(|error| Error::internal("the state has no JSON form").with_source(error))?;
    let length = u32::try_from(head.len())
        .map_err(|error| Error::internal("the log is too long").with_source(error))?;
    let mut state = BytesMut::with_capacity(8 + head.len() + counter.blob.len());
    state.put_u32(VERSION);
    state.put_u32(length);
    state.put_slice(&head);
    state.put_slice(&counter.blob);
    Ok(state.freeze())
}

fn read(mut state: Bytes) -> Result<Counter, Error> {
    let broken = |what: &str| {
        Error::new(
            ErrorKind::DataLost,
            format!("the state of a counter is broken: {what}"),
        )
    };
    let number = |state: &mut Bytes| {
        let bytes: [u8; 4] = state.get(..4)?.try_into().ok()?;
        drop(state.split_to(4));
        Some(u32::from_be_bytes(bytes))
    };
    let version = number(&mut state).ok_or_else(|| broken("it ends in the version"))?;
    if version != VERSION {
        return Err(broken(&format!(
            "it has version {version}, this program reads {VERSION}"
        )));
    }
    let length = number(&mut state).and_then(|length| usize::try_from(length).ok());
    let length = length
        .filter(|length| *length <= state.len())
        .ok_or_else(|| broken("it ends in the head"))?;
    let head: Head<VecDeque<String>> = serde_json::from_slice(&state.split_to(length))
        .map_err(|error| broken("its head is no JSON").with_source(error))?;
    Ok(Counter {
        total: head.total,
        first: head.first,
        ticks: head.ticks,
        log: head.log,
        arrived: false,
        blob: state,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counters() -> impl Strategy<Value = Counter> {
        let log = proptest::collection::vec_deque(".{0,20}", 0..20);
        let blob = proptest::collection::vec(any::<u8>(), 0..200);
        (any::<i64>(), any::<u64>(), any::<u64>(), log, blob).prop_map(
            |(total, first, ticks, log, blob)| Counter {
                total,
                first,
                log,
                arrived: false,
                ticks,
                blob: blob.into(),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(counter in counters()) {
            prop_assert_eq!(read(write(&counter).unwrap()).unwrap(), counter);
        }

        #[test]
        fn a_state_that_was_cut_in_its_head_is_refused(counter in counters(), keep in 0_usize..1000) {
            let state = write(&counter).unwrap();
            let head = state.len() - counter.blob.len();
            let error = read(state.slice(..keep % head)).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::DataLost);
        }
    }

    #[test]
    fn another_version_is_refused() {
        let error = read(Bytes::from_static(&[0, 0, 0, 2, 0, 0, 0, 0])).unwrap_err();
        assert!(error.message().contains("version 2"), "{error}");
    }

    #[test]
    fn restoring_copies_no_filler() {
        let counter = Counter {
            blob: vec![7; 1000].into(),
            ..Counter::default()
        };
        let state = write(&counter).unwrap();
        let end = state.as_ptr_range().end;
        assert_eq!(read(state).unwrap().blob.as_ptr_range().end, end);
    }
}
