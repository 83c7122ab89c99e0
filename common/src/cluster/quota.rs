//! How many shards each member is due, by weight.

use super::map::MemberId;
use std::collections::BTreeMap;

/// Whole numbers in proportion to `weights` whose sum is `total`, none above `most`: largest remainder, ties to the
/// smaller id. What a member may not take goes to the others; the sum is less only when all are full.
#[must_use]
pub fn quotas(weights: &BTreeMap<MemberId, u32>, total: u32, most: u32) -> BTreeMap<MemberId, u32> {
    let mut quotas = BTreeMap::new();
    let mut open = weights.clone();
    let mut left = total;
    // Each round fills at least one member or ends.
    while !open.is_empty() {
        let round = largest_remainder(&open, left);
        let full: Vec<MemberId> = round.iter().filter(|(_, quota)| **quota > most).map(|(&id, _)| id).collect();
        if full.is_empty() {
            quotas.extend(round);
            break;
        }
        for id in full {
            open.remove(&id);
            quotas.insert(id, most);
            left -= most;
        }
    }
    quotas
}

fn largest_remainder(weights: &BTreeMap<MemberId, u32>, total: u32) -> BTreeMap<MemberId, u32> {
    let sum: u64 = weights.values().map(|&weight| u64::from(weight)).sum();
    if sum == 0 {
        return weights.keys().map(|&id| (id, 0)).collect();
    }
    let share = |weight: u32| u64::from(weight) * u64::from(total);
    let mut quotas: BTreeMap<MemberId, u32> = weights.iter().map(|(&id, &w)| (id, (share(w) / sum) as u32)).collect();
    let mut remainders: Vec<(u64, MemberId)> = weights.iter().map(|(&id, &w)| (sum - share(w) % sum, id)).collect();
    remainders.sort_unstable();
    let missing = total - quotas.values().sum::<u32>();
    for (_, id) in remainders.into_iter().take(missing as usize) {
        *quotas.entry(id).or_default() += 1;
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(weights: &[u32], total: u32, most: u32) -> Vec<u32> {
        let weights = (1..).map(MemberId).zip(weights.iter().copied()).collect();
        quotas(&weights, total, most).into_values().collect()
    }

    #[test]
    fn shares_are_pinned() {
        assert_eq!(of(&[100, 100, 100], 256, 256), [86, 85, 85]);
        assert_eq!(of(&[100, 100, 100], 512, 256), [171, 171, 170]);
        assert_eq!(of(&[1, 2, 3, 1], 256, 256), [37, 73, 110, 36]);
        assert_eq!(of(&[1000, 1, 1], 512, 256), [256, 128, 128]);
        assert_eq!(of(&[1000, 999, 1], 512, 256), [256, 256, 0]);
        assert_eq!(of(&[5], 256, 256), [256]);
        assert_eq!(of(&[], 256, 256), [0; 0]);
    }

    proptest! {
        #[test]
        fn the_sum_is_exact_and_shares_are_fair(weights in proptest::collection::vec(1u32..=1000, 1..40), copies in 1u32..=3) {
            let copies = copies.min(weights.len() as u32);
            let quotas = of(&weights, 256 * copies, 256);
            prop_assert_eq!(quotas.iter().sum::<u32>(), 256 * copies);
            prop_assert!(quotas.iter().all(|&quota| quota <= 256));
            let sum: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            for (weight, quota) in weights.iter().zip(&quotas).filter(|_| copies == 1) {
                let ideal = u64::from(*weight) * 256;
                prop_assert!(u64::from(*quota) * sum < ideal + sum && ideal < (u64::from(*quota) + 1) * sum);
            }
        }
    }
}
