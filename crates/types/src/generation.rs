//! One type per generation.
//!
//! Generations are compared for equality only (WR-8), so none of them has an order. The two that the
//! contract orders in one place each have a method for it that says where.
//!
//! ```compile_fail
//! use spotlane_types::generation::ObjectGeneration;
//! fn newest(a: ObjectGeneration, b: ObjectGeneration) -> bool { a > b }
//! ```
//!
//! ```compile_fail
//! use spotlane_types::generation::{NodeGeneration, ObjectGeneration};
//! fn mixed(a: ObjectGeneration) -> NodeGeneration { a }
//! ```

use crate::bound::GENERATION_MAX;
use crate::number::number_type;

number_type! {
    /// Tells incarnations of one object apart when they reuse an id. Kept across moves (RL-3).
    ObjectGeneration: u64, 1, GENERATION_MAX;
    /// Names one run of a node.
    NodeGeneration: u64, 1, GENERATION_MAX;
    /// Rises with every change of owner inside one incarnation (RL-3).
    AuthorityOwnerGeneration: u64, 1, GENERATION_MAX;
    /// Names one claim of an owner lease: one run of a host.
    OwnerLeaseGeneration: u64, 1, GENERATION_MAX;
    /// Names one binding of a client session to an Actor at its session owner.
    BindingGeneration: u64, 1, GENERATION_MAX;
    /// Names one attempt to prepare a target under one relocation id. Equality only (RL-5).
    TargetAttemptGeneration: u64, 1, GENERATION_MAX;
    /// The revision of a node descriptor; ordered within one run of its node (WR-8).
    DescriptorRevision: u64, 1, GENERATION_MAX;
    /// The authority owner generation of an Actor when it joined. Equality only (WR-57).
    MembershipEpoch: u64, 1, GENERATION_MAX;
    /// Counts the changes of a whole aggregate.
    AggregateGeneration: u64, 1, GENERATION_MAX;
}

impl AuthorityOwnerGeneration {
    /// Whether `self` was issued after `other` for the same object.
    ///
    /// Meaningful only inside one [`ObjectGeneration`]: along the hops of Message Follow and across a
    /// change of membership (WR-8).
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.get() > other.get()
    }
}

impl DescriptorRevision {
    /// Whether `self` is a later revision than `other` of one node run (WR-8).
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.get() > other.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WR-8
    #[test]
    fn a_generation_is_one_to_the_largest_signed_number() {
        assert!(ObjectGeneration::new(0).is_err());
        assert!(ObjectGeneration::new(1).is_ok());
        assert!(ObjectGeneration::new(GENERATION_MAX).is_ok());
        assert_eq!(
            ObjectGeneration::new(GENERATION_MAX + 1)
                .unwrap_err()
                .to_string(),
            "ObjectGeneration: 9223372036854775808 is outside 1 to 9223372036854775807"
        );
    }

    /// WR-8
    #[test]
    fn owner_generations_are_ordered_by_a_method_that_says_where() {
        let old = AuthorityOwnerGeneration::new(4).unwrap();
        let new = AuthorityOwnerGeneration::new(5).unwrap();
        assert!(new.is_after(old));
        assert!(!old.is_after(old));
    }
}
