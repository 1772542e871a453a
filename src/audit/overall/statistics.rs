//! The few statistics that a run is summed up with (docs/audit.md, "Over all").
//!
//! By hand, and why: `statrs` has no interval for a proportion, no rank correlation, and a Fisher test
//! that takes the split as given, where the split here is chosen by the data; `stats-ci` has the
//! interval and brings nalgebra, rand and another statrs with it. What is left is three formulas.

use crate::model::analysis::Proportion;

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The share of `part` in `of` with its Wilson score interval (Wilson, 1927) at 95 %: honest for few
/// and for none, where the usual one has no width. `None` of nothing.
#[must_use]
pub(super) fn wilson(part: u32, of: u32) -> Option<Proportion> {
    if of == 0 {
        return None;
    }
    let n = f64::from(of);
    let share = f64::from(part.min(of)) / n;
    let spread = Z * Z / n;
    let middle = (share + spread / 2.0) / (1.0 + spread);
    let half = Z * (share * (1.0 - share) / n + spread / (4.0 * n)).sqrt() / (1.0 + spread);
    Some(Proportion {
        share,
        // It holds the share; rounding must not take that away at 0 and 1.
        low: (middle - half).clamp(0.0, share),
        high: (middle + half).clamp(share, 1.0),
    })
}

/// The chance that `below` values of one kind and `above` of another, in any order with equal chance,
/// can be split so that at most `misfits` are on the wrong side, wherever the best split is.
///
/// It counts the choice of the split in. Walk along the values, a step up for each of the first kind
/// and a step down for each of the other: a split has `below` misfits less the height reached there, so
/// the best one is where the walk is highest, and by the reflection principle C(n, misfits) of the
/// C(n, below) walks come that high. With ties fewer splits are possible, and the chance is smaller.
#[must_use]
pub(super) fn chance_of_split(below: u32, above: u32, misfits: u32) -> f64 {
    let (n, smaller) = (f64::from(below) + f64::from(above), below.min(above));
    // C(n, k) = C(n, k - 1) (n - k + 1) / k, from `misfits` up to the smaller side.
    (misfits.saturating_add(1)..=smaller)
        .map(|k| f64::from(k) / (n - f64::from(k) + 1.0))
        .product()
}

/// Spearman's rank correlation of pairs, equal values sharing the mean of their ranks. `None` for fewer
/// than three pairs, or when one side does not vary.
#[must_use]
pub(super) fn rank_correlation(pairs: &[(i64, i64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let x = doubled_ranks(pairs.iter().map(|pair| pair.0));
    let y = doubled_ranks(pairs.iter().map(|pair| pair.1));
    // The mean of n ranks is (n + 1) / 2; all is doubled, so that ranks stay whole numbers.
    let mean = i128::try_from(pairs.len()).ok()? + 1;
    let sum = |of: &mut dyn Iterator<Item = i128>| of.sum::<i128>();
    let covariance = sum(&mut x.iter().zip(&y).map(|(x, y)| (x - mean) * (y - mean)));
    let variance_x = sum(&mut x.iter().map(|x| (x - mean) * (x - mean)));
    let variance_y = sum(&mut y.iter().map(|y| (y - mean) * (y - mean)));
    if variance_x == 0 || variance_y == 0 {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "shown with four decimals")]
    let correlation = covariance as f64 / (variance_x as f64 * variance_y as f64).sqrt();
    Some(correlation.clamp(-1.0, 1.0))
}

/// Twice the rank of each value, from 1; equal ones share the mean.
fn doubled_ranks(values: impl Iterator<Item = i64>) -> Vec<i128> {
    let mut sorted: Vec<(i64, usize)> = values.enumerate().map(|(at, value)| (value, at)).collect();
    sorted.sort_unstable();
    let mut ranks = vec![0; sorted.len()];
    let mut first: i128 = 1;
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let next = first + i128::try_from(equal.len()).unwrap_or(0);
        for &(_, at) in equal {
            if let Some(rank) = ranks.get_mut(at) {
                *rank = first + next - 1;
            }
        }
        first = next;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn intervals_are_those_of_the_books() {
        // Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (part, of, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let got = wilson(part, of).unwrap();
            assert!((got.low - low).abs() < 1e-4, "{part} of {of}: {got:?}");
            assert!((got.high - high).abs() < 1e-4, "{part} of {of}: {got:?}");
        }
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(7, 7).unwrap().high, 1.0);
        assert_eq!(wilson(0, 7).unwrap().low, 0.0);
    }

    #[test]
    fn correlations_are_those_of_the_books() {
        assert_eq!(rank_correlation(&[(1, 10), (2, 200), (3, 201)]), Some(1.0));
        assert_eq!(rank_correlation(&[(1, 3), (2, 2), (3, 1)]), Some(-1.0));
        // The classic ten pairs of IQ and hours of television: -29/165.
        let pairs = [
            (106, 7),
            (100, 27),
            (86, 2),
            (101, 50),
            (99, 28),
            (103, 29),
            (97, 20),
            (113, 12),
            (112, 6),
            (110, 17),
        ];
        assert!(near(rank_correlation(&pairs).unwrap(), -29.0 / 165.0));
        // With ties it is Pearson's of mean ranks: 1, 2.5, 2.5, 4 with 1, 3.5, 2, 3.5.
        let tied = [(1, 0), (2, 9), (2, 4), (3, 9)];
        assert!(near(rank_correlation(&tied).unwrap(), 3.75 / 4.5));
        assert_eq!(rank_correlation(&[(1, 5), (2, 5), (3, 5)]), None);
        assert_eq!(rank_correlation(&[(1, 5), (2, 6)]), None);
    }

    /// Every order of the two kinds, one by one.
    fn counted(below: u32, above: u32, misfits: u32) -> f64 {
        let n = below + above;
        let (mut all, mut good) = (0_u32, 0_u32);
        for order in 0_u32..1 << n {
            if order.count_ones() != below {
                continue;
            }
            let first = |k: u32| (order & ((1 << k) - 1)).count_ones();
            let best = (0..=n)
                .map(|k| (k - first(k)) + (below - first(k)))
                .min()
                .unwrap();
            all += 1;
            good += u32::from(best <= misfits);
        }
        f64::from(good) / f64::from(all)
    }

    #[test]
    fn the_chance_of_a_split_is_the_share_of_orders_that_have_one() {
        for below in 0..=6 {
            for above in 0..=6 {
                for misfits in 0..=below.min(above) {
                    let (got, want) = (
                        chance_of_split(below, above, misfits),
                        counted(below, above, misfits),
                    );
                    assert!(
                        near(got, want),
                        "{below} {above} {misfits}: {got}, want {want}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_share(of in 1_u32..5_000, part in 0_u32..5_000) {
            let part = part.min(of);
            let got = wilson(part, of).unwrap();
            prop_assert!(0.0 <= got.low && got.low <= got.share);
            prop_assert!(got.share <= got.high && got.high <= 1.0);
            // The share of the rest is the mirror image.
            let rest = wilson(of - part, of).unwrap();
            prop_assert!(near(got.low, 1.0 - rest.high) && near(got.high, 1.0 - rest.low));
        }

        #[test]
        fn a_correlation_knows_ranks_only(
            pairs in prop::collection::vec((-9_i64..9, -9_i64..9), 3..40),
        ) {
            let got = rank_correlation(&pairs);
            let stretched: Vec<_> = pairs.iter().map(|&(x, y)| (x * x * x, y * 7 + 1)).collect();
            prop_assert_eq!(rank_correlation(&stretched), got);
            let mut reversed = pairs.clone();
            reversed.reverse();
            prop_assert_eq!(rank_correlation(&reversed), got);
            let swapped: Vec<_> = pairs.iter().map(|&(x, y)| (y, x)).collect();
            match (rank_correlation(&swapped), got) {
                (Some(a), Some(b)) => prop_assert!(near(a, b) && (-1.0..=1.0).contains(&b)),
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }
}
