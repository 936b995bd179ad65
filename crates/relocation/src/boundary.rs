//! What a cutover promises: how many records were relayed before it, and their checksum (WR-50).

use spotlane_types::count::BoundaryRecordCount;
use spotlane_wire::EncodeError;
use spotlane_wire::checksum::Crc32c;
use spotlane_wire::command::relocation::RelocationCutover;
use spotlane_wire::frozen::FrozenRecord;

/// Count and checksum of the records of one batch, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boundary {
    count: u64,
    checksum: Crc32c,
}

impl Boundary {
    /// Takes the next record.
    ///
    /// # Errors
    /// The record is not legal. Nothing was counted.
    pub fn push(&mut self, record: &FrozenRecord) -> Result<(), EncodeError> {
        let bytes = spotlane_wire::encode(record)?;
        self.checksum.update(&bytes);
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// How many records there were.
    pub fn count(&self) -> BoundaryRecordCount {
        BoundaryRecordCount::new(self.count).unwrap_or(BoundaryRecordCount::MAX)
    }

    /// CRC-32C of their encoded forms one after another; 0 for none.
    pub fn checksum(&self) -> u32 {
        self.checksum.value()
    }

    /// Whether a cutover closes exactly these records.
    pub fn fits(&self, cutover: &RelocationCutover) -> bool {
        self.count() == cutover.boundary_record_count
            && self.checksum() == cutover.boundary_checksum_crc32c
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::sample::note;

    /// WR-50
    #[test]
    fn a_batch_without_records_has_count_and_checksum_zero() {
        let none = Boundary::default();
        assert_eq!((none.count().get(), none.checksum()), (0, 0));
    }

    /// WR-50
    #[test]
    fn the_checksum_covers_the_encoded_records_one_after_another() {
        let mut boundary = Boundary::default();
        let mut bytes = Vec::new();
        for text in ["a", "bb", ""] {
            boundary.push(&note(text)).unwrap();
            bytes.extend_from_slice(&spotlane_wire::encode(&note(text)).unwrap());
        }
        assert_eq!(boundary.count().get(), 3);
        assert_eq!(boundary.checksum(), spotlane_wire::checksum::crc32c(&bytes));
    }
}
