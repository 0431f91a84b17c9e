//! The tests of newfs and fsck. One program for all of them is quicker to build than one for each
//! file.

mod fsck_damage;
mod fsck_defects;
mod fsck_fixtures;
mod fsck_fuzzed;
mod fsck_many_files;
mod fsck_options;
mod fsck_preen;
mod fsck_progress;
mod fsck_questions;
mod fsck_readahead;
mod fsck_superblock;
mod fsck_util;
mod journal;
mod journal_forged;
mod newfs_fsck;
