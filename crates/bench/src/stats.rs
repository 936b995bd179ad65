//! Medians and ratios.

/// The middle value; the mean of the two middle ones for an even count. NaN for no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(low), Some(high)) if sorted.len().is_multiple_of(2) => f64::midpoint(*low, *high),
        (_, Some(value)) => *value,
        _ => f64::NAN,
    }
}

/// The median of the ratios of each round, above 1 where ours is better.
pub(crate) fn ratio(unit: &str, ours: &[f64], peer: &[f64]) -> f64 {
    let more_is_better = unit.ends_with("/s");
    let rounds = ours.iter().zip(peer);
    let ratios = rounds.map(|(ours, peer)| {
        if more_is_better {
            ours / peer
        } else {
            peer / ours
        }
    });
    median(&ratios.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert!(same(median(&[3.0, 1.0, 2.0]), 2.0));
        assert!(same(median(&[4.0, 1.0, 2.0, 3.0]), 2.5));
        assert!(same(median(&[7.0]), 7.0));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_ratio_is_taken_inside_each_round_and_above_one_is_better() {
        // Round 2 was slow for both: the ratio of the medians would be 1.5.
        assert!(same(ratio("MB/s", &[4.0, 2.0, 6.0], &[2.0, 1.0, 3.0]), 2.0));
        assert!(same(ratio("ns", &[4.0, 4.0, 4.0], &[2.0, 8.0, 8.0]), 2.0));
    }
}
