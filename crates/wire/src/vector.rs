//! What all vectors of the contract share: a bounded count, and order and uniqueness of elements.

use core::cmp::Ordering;

use crate::error::{EncodeError, Reason};
use crate::layout::Layout;
use crate::reader::{Read, Reader};
use crate::width::wide;
use crate::writer::{Writer, Written};

const OUT_OF_ORDER: &str = "not above the element before it";

pub(crate) fn read<T: Layout>(
    r: &mut Reader<'_>,
    at: usize,
    count: usize,
    count_max: usize,
    order: impl Fn(&T, &T) -> Ordering,
) -> Read<Vec<T>> {
    if count > count_max {
        let reason = Reason::Above {
            bound: wide(count_max),
            actual: wide(count),
        };
        return Err(Reader::invalid(at, reason));
    }
    r.count(at, count, T::MIN)?;
    // WR-4: the count was compared with what is there, so this is a small multiple of the input; a
    // growing vector would take twice as much.
    let mut elements: Vec<T> = Vec::with_capacity(count);
    for index in 0..count {
        let at = r.offset();
        let element = T::read(r).map_err(|e| e.at_element(index))?;
        if elements
            .last()
            .is_some_and(|last| order(last, &element) != Ordering::Less)
        {
            return Err(Reader::invalid(at, Reason::Text(OUT_OF_ORDER)).at_element(index));
        }
        elements.push(element);
    }
    Ok(elements)
}

pub(crate) fn write<T: Layout>(w: &mut Writer<'_>, elements: &[T]) -> Written {
    elements
        .iter()
        .enumerate()
        .try_for_each(|(index, element)| element.write(w).map_err(|e| e.at_element(index)))
}

pub(crate) fn check<T>(
    elements: &[T],
    count_max: usize,
    order: impl Fn(&T, &T) -> Ordering,
) -> Result<(), EncodeError> {
    if elements.len() > count_max {
        let reason = Reason::Above {
            bound: wide(count_max),
            actual: wide(elements.len()),
        };
        return Err(EncodeError::new(reason));
    }
    for (index, pair) in elements.windows(2).enumerate() {
        if let [before, after] = pair
            && order(before, after) != Ordering::Less
        {
            let error = EncodeError::new(Reason::Text(OUT_OF_ORDER));
            return Err(error.at_element(index.saturating_add(1)));
        }
    }
    Ok(())
}
