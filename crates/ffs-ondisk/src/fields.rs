//! The field tables of all structures: for `dumpfs`, for messages, and for tests that damage each
//! field.
//!
//! ```
//! use ffs_ondisk::fields::TABLES;
//!
//! let cg = TABLES.iter().find(|t| t.name == "cylinder group").ok_or("no such table")?;
//! assert!(cg.fields.iter().any(|f| f.name == "rotor" && f.offset == 40));
//! # Ok::<(), &str>(())
//! ```

use crate::cg::CgFields;
use crate::dinode::{Dinode1, Dinode2};
use crate::growth;
use crate::journal::{Blk, Move, Ref, SegHeader, Trunc};
use crate::quota::{Dqblk, Dqblk32, QuotaHeader};
use crate::sbfields::SbFields;
use crate::sbsearch::FsRecovery;
use crate::wire::Field;

/// The fields of one structure.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The name of the structure.
    pub name: &'static str,
    /// Its size on disk, bytes.
    pub size: usize,
    /// Its fields in disk order.
    pub fields: &'static [Field],
}

/// Every structure of the format with fixed fields.
pub const TABLES: &[Table] = &[
    Table { name: "superblock", size: SbFields::SIZE, fields: SbFields::FIELDS },
    Table { name: "superblock text", size: SbFields::SIZE, fields: SB_TEXT },
    Table { name: "recovery record", size: FsRecovery::SIZE, fields: FsRecovery::FIELDS },
    Table { name: "growth record", size: growth::Fields::SIZE, fields: growth::Fields::FIELDS },
    Table { name: "cylinder group", size: CgFields::SIZE, fields: CgFields::FIELDS },
    Table { name: "summary record", size: 16, fields: CSUM },
    Table { name: "UFS1 inode", size: Dinode1::SIZE, fields: Dinode1::FIELDS },
    Table { name: "UFS2 inode", size: Dinode2::SIZE, fields: Dinode2::FIELDS },
    Table { name: "directory record", size: 8, fields: DIRECT },
    Table { name: "attribute record", size: 7, fields: EXTATTR },
    Table { name: "journal segment", size: SegHeader::SIZE, fields: SegHeader::FIELDS },
    Table { name: "journal reference", size: Ref::SIZE, fields: Ref::FIELDS },
    Table { name: "journal move", size: Move::SIZE, fields: Move::FIELDS },
    Table { name: "journal block", size: Blk::SIZE, fields: Blk::FIELDS },
    Table { name: "journal truncation", size: Trunc::SIZE, fields: Trunc::FIELDS },
    Table { name: "quota header", size: QuotaHeader::SIZE, fields: QuotaHeader::FIELDS },
    Table { name: "quota record", size: Dqblk::SIZE, fields: Dqblk::FIELDS },
    Table { name: "old quota record", size: Dqblk32::SIZE, fields: Dqblk32::FIELDS },
];

const fn field(name: &'static str, offset: usize, elem: usize, count: usize) -> Field {
    Field { name, offset, size: elem * count, elem, signed: false }
}

const fn signed(name: &'static str, offset: usize, elem: usize) -> Field {
    Field { name, offset, size: elem, elem, signed: true }
}

/// The parts of the superblock that are not in [`SbFields`].
const SB_TEXT: &[Field] = &[
    field("fsmnt", 212, 1, 468),
    field("volname", 680, 1, 32),
    field("swuid", 712, 8, 1),
    field("pad", 720, 4, 1),
    field("pointers", 728, 8, 16),
    field("sparecon64", 888, 8, 13),
    field("sparecon32", 1220, 4, 21),
];

const CSUM: &[Field] = &[
    signed("ndir", 0, 4),
    signed("nbfree", 4, 4),
    signed("nifree", 8, 4),
    signed("nffree", 12, 4),
];

const DIRECT: &[Field] = &[
    field("ino", 0, 4, 1),
    field("reclen", 4, 2, 1),
    field("type", 6, 1, 1),
    field("namlen", 7, 1, 1),
];

const EXTATTR: &[Field] = &[
    field("length", 0, 4, 1),
    field("namespace", 4, 1, 1),
    field("contentpadlen", 5, 1, 1),
    field("namelength", 6, 1, 1),
];
