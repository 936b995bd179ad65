//! Deterministic damage to bytes and frames.

use crate::rng::Rng;

/// Damages a copy of `bytes` in one place or a few; `other` is what splices are cut from.
pub fn mutate_bytes(rng: &mut Rng, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut mutant = bytes.to_vec();
    mutate_once(rng, &mut mutant, other);
    // Most mutants have one fault; with more, the order of the checks matters.
    while rng.one_in(4) {
        mutate_once(rng, &mut mutant, other);
    }
    mutant
}

/// Damages a copy of a record: mostly one of its frames, sometimes their number or order.
pub fn mutate_frames(rng: &mut Rng, frames: &[Vec<u8>], other: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if frames.is_empty() {
        return other.to_vec();
    }
    let mut mutant = frames.to_vec();
    let (index, partner) = (rng.below(frames.len()), rng.below(other.len()));
    let foreign = other.get(partner).map_or(&[][..], Vec::as_slice);
    match rng.below(20) {
        0 => {
            let with = rng.below(mutant.len());
            mutant.swap(index, with);
        }
        1 => mutant.insert(index, mutant[index].clone()),
        2 => {
            mutant.remove(index);
        }
        3 => mutant.push(foreign.to_vec()),
        4 => mutant[index] = foreign.to_vec(),
        // The head: command and flags are two bytes of many, and each value has a check.
        5 => set(&mut mutant[0], 4, rng.byte() & 0x0f),
        6 => set(&mut mutant[0], 3, rng.byte() & 0x3f),
        _ => mutant[index] = mutate_bytes(rng, &frames[index], foreign),
    }
    mutant
}

fn set(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

fn mutate_once(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = rng.below(bytes.len());
    match rng.below(10) {
        0 | 1 => {
            let bit = 1 << rng.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= bit;
            }
        }
        2 | 3 => {
            let value = *rng.pick(&[0, 1, 2, 3, 4, 0x20, 0x7f, 0x80, 0xc3, 0xff]);
            set(bytes, at, value);
        }
        4 => bytes.truncate(at),
        5 => {
            let count = 1 + rng.below(9);
            bytes.extend((0..count).map(|_| rng.byte()));
        }
        6 | 7 => change_window(rng, bytes, at),
        8 => {
            // The front of one record and the back of another.
            let from = rng.below(other.len());
            bytes.truncate(at);
            bytes.extend(other.get(from..).unwrap_or_default());
        }
        _ if rng.one_in(2) => bytes.insert(at, rng.byte()),
        _ => {
            if at < bytes.len() {
                bytes.remove(at);
            }
        }
    }
}

/// Takes a few bytes for a length or a number: nothing, everything, or one more or less.
fn change_window(rng: &mut Rng, bytes: &mut [u8], at: usize) {
    let size = *rng.pick(&[1, 2, 4, 8]);
    let Some(window) = bytes.get_mut(at..at + size) else {
        return;
    };
    let value = window
        .iter()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let value = match rng.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX >> 1,
        3 => 1,
        4 => value.wrapping_add(1),
        _ => value.wrapping_sub(1),
    };
    window.copy_from_slice(&value.to_be_bytes()[8 - size..]);
}
