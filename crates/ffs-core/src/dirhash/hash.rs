//! Hash functions of names.
//!
//! FNV-1 as the BSDs use it mixes the last byte in last, so names that differ only in their last
//! byte get neighbouring hashes. A salt behind the name prevents that, and makes it harder to
//! choose names that collide. With a secret key users cannot choose them.
//!
//! Reference: `spec/directories-and-caches.md` §3.4.

use crate::tunables::DirHashFunction;
use siphasher::sip::SipHasher24;

/// BSD's start value, which differs from the usual one.
const FNV_START: u32 = 0x0200_0023;
const FNV_PRIME: u32 = 0x0100_0193;

fn fnv1(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |h, &b| h.wrapping_mul(FNV_PRIME) ^ u32::from(b))
}

/// The hash function of one index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameHasher {
    /// The name alone.
    Fnv1,
    /// The name, then the little-endian bytes of the salt.
    Fnv1Salted(u64),
    /// SipHash-2-4.
    Sip(SipHasher24),
}

impl NameHasher {
    /// The function `which`. `nonce` differs for each index; `secret` is the key of the mount.
    pub(super) fn new(which: DirHashFunction, secret: u64, nonce: u64) -> NameHasher {
        match which {
            DirHashFunction::Fnv1 => NameHasher::Fnv1,
            DirHashFunction::Fnv1Salted => NameHasher::Fnv1Salted(nonce),
            DirHashFunction::SipHash => NameHasher::Sip(SipHasher24::new_with_keys(secret, nonce)),
        }
    }

    /// The hash of `name`.
    pub(crate) fn hash(&self, name: &[u8]) -> u32 {
        match self {
            NameHasher::Fnv1 => fnv1(FNV_START, name),
            NameHasher::Fnv1Salted(salt) => fnv1(fnv1(FNV_START, name), &salt.to_le_bytes()),
            NameHasher::Sip(keyed) => keyed.hash(name) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let plain = NameHasher::new(DirHashFunction::Fnv1, 0, 0);
        let salted = NameHasher::new(DirHashFunction::Fnv1Salted, 0, 1);
        for (name, want) in [
            ("", 0x0200_0023),
            ("a", 0x4900_3778),
            ("foo0", 0x67ef_1c5b),
            ("foo1", 0x67ef_1c5a),
            ("hello.c", 0x0657_f8f8),
        ] {
            assert_eq!(plain.hash(name.as_bytes()), want, "{name}");
        }
        for (name, want) in [
            ("a", 0x4e6a_0b73),
            ("foo0", 0xba7e_0fc0),
            ("foo1", 0xc5c7_6a95),
            ("hello.c", 0x1908_7cf3),
        ] {
            assert_eq!(salted.hash(name.as_bytes()), want, "{name}");
        }
    }

    /// The first and the ninth published vector: key 00 01 .. 0f, messages empty and 00 .. 07.
    #[test]
    fn siphash_vectors() {
        let keys = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let h = NameHasher::new(DirHashFunction::SipHash, keys[0], keys[1]);
        assert_eq!(h.hash(b""), 0x726f_db47_dd0e_0e31_u64 as u32);
        assert_eq!(h.hash(&[0, 1, 2, 3, 4, 5, 6, 7]), 0x93f5_f579_9a93_2462_u64 as u32);
    }
}
