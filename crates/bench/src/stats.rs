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

/// The range of the middle half of the values, as a share of their median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let last = sorted.len().saturating_sub(1).saturating_sub(quarter);
    match (sorted.get(quarter), sorted.get(last)) {
        (Some(low), Some(high)) => (high - low) / median(values),
        _ => f64::NAN,
    }
}

/// The ratio of each round, above 1 where ours is better.
pub(crate) fn ratios(unit: &str, ours: &[f64], peer: &[f64]) -> Vec<f64> {
    let more_is_better = unit.ends_with("/s");
    let rounds = ours.iter().zip(peer);
    let ratio = |(ours, peer): (&f64, &f64)| {
        if more_is_better {
            ours / peer
        } else {
            peer / ours
        }
    };
    rounds.map(ratio).collect()
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
    fn the_spread_leaves_the_outer_quarters_out() {
        assert!(same(spread(&[1.0, 9.0, 10.0, 11.0, 90.0]), 0.2));
        assert!(same(spread(&[5.0]), 0.0));
        assert!(spread(&[]).is_nan());
    }

    #[test]
    fn a_ratio_is_taken_inside_each_round_and_above_one_is_better() {
        let ratio = |unit, ours: &[f64], peer: &[f64]| median(&ratios(unit, ours, peer));
        // Round 2 was slow for both: the ratio of the medians would be 1.5.
        assert!(same(ratio("MB/s", &[4.0, 2.0, 6.0], &[2.0, 1.0, 3.0]), 2.0));
        assert!(same(ratio("ns", &[4.0, 4.0, 4.0], &[2.0, 8.0, 8.0]), 2.0));
    }
}
