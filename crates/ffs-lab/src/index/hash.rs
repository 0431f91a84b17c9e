//! The hashes of names in an ext2 directory index.
//!
//! Reference: `docs/spec/directories-and-caches.md` §8.2.

/// The hash versions whose characters are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HashVersion {
    /// The first one.
    Legacy = 0,
    /// Half of MD4's rounds: the default.
    HalfMd4 = 1,
    /// The Tiny Encryption Algorithm.
    Tea = 2,
    /// Few values, so that most names collide.
    #[cfg(test)]
    Weak = 255,
}

/// The most that a hash may be: the values above mark the end of a listing.
const END_OF_DIRECTORY: u32 = 0xffff_fffe;
/// The state at the start, without a seed.
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

impl HashVersion {
    /// The version with this number.
    pub(super) fn of(number: u8) -> Option<HashVersion> {
        match number {
            0 => Some(HashVersion::Legacy),
            1 => Some(HashVersion::HalfMd4),
            2 => Some(HashVersion::Tea),
            #[cfg(test)]
            255 => Some(HashVersion::Weak),
            _ => None,
        }
    }

    /// The hash of a name, and the minor hash, which orders equal ones in a listing.
    pub(super) fn hash(self, name: &[u8], seed: [u32; 4]) -> (u32, u32) {
        let state = if seed == [0; 4] { START } else { seed };
        let (major, minor) = match self {
            HashVersion::Legacy => (legacy(name), 0),
            HashVersion::HalfMd4 => {
                let state = groups::<8>(name, state, half_md4);
                (state[1], state[2])
            }
            HashVersion::Tea => {
                let state = groups::<4>(name, state, tea);
                (state[0], state[1])
            }
            #[cfg(test)]
            HashVersion::Weak => {
                let state = groups::<8>(name, state, half_md4);
                (state[1] & 0x7000_0000, state[2])
            }
        };
        let major = major & !1;
        (if major == END_OF_DIRECTORY { major - 2 } else { major }, minor)
    }
}

/// A character as a signed number, extended to 32 bits.
fn signed(byte: u8) -> u32 {
    i32::from(byte as i8) as u32
}

fn legacy(name: &[u8]) -> u32 {
    let (mut h0, mut h1) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
    for byte in name {
        let mut h = h1.wrapping_add(h0 ^ signed(*byte).wrapping_mul(7_152_373));
        if h & 0x8000_0000 != 0 {
            h = h.wrapping_sub(0x7fff_ffff);
        }
        (h1, h0) = (h0, h);
    }
    h0 << 1
}

/// Applies `mix` to each group of `N` words, four characters in each.
fn groups<const N: usize>(
    name: &[u8],
    mut state: [u32; 4],
    mix: fn(&mut [u32; 4], &[u32; N]),
) -> [u32; 4] {
    let mut rest = name;
    loop {
        mix(&mut state, &words(rest));
        if rest.len() <= N * 4 {
            return state;
        }
        rest = &rest[N * 4..];
    }
}

/// The first `N` words of the name, filled with its length.
fn words<const N: usize>(name: &[u8]) -> [u32; N] {
    let pad = (name.len() as u32 & 0xff).wrapping_mul(0x0101_0101);
    std::array::from_fn(|at| {
        let piece = name.get(at * 4..name.len().min(at * 4 + 4)).unwrap_or(&[]);
        piece.iter().fold(pad, |word, byte| (word << 8).wrapping_add(signed(*byte)))
    })
}

fn half_md4(state: &mut [u32; 4], w: &[u32; 8]) {
    let [mut a, mut b, mut c, mut d] = *state;
    let select = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
    let majority = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let parity = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let mut round = |f: &dyn Fn(u32, u32, u32) -> u32, k: u32, order: [usize; 8], s: [u32; 4]| {
        for (step, word) in order.into_iter().enumerate() {
            let sum = a.wrapping_add(f(b, c, d)).wrapping_add(w[word]).wrapping_add(k);
            let turned = sum.rotate_left(s[step % 4]);
            (a, d, c, b) = (d, c, b, turned);
        }
    };
    round(&select, 0, [0, 1, 2, 3, 4, 5, 6, 7], [3, 7, 11, 19]);
    round(&majority, 0x5a82_7999, [1, 3, 5, 7, 0, 2, 4, 6], [3, 5, 9, 13]);
    round(&parity, 0x6ed9_eba1, [3, 7, 2, 6, 1, 5, 0, 4], [3, 9, 11, 15]);
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

fn tea(state: &mut [u32; 4], w: &[u32; 4]) {
    let (mut b0, mut b1, mut sum) = (state[0], state[1], 0_u32);
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        b0 = b0.wrapping_add(
            (b1 << 4).wrapping_add(w[0]) ^ b1.wrapping_add(sum) ^ (b1 >> 5).wrapping_add(w[1]),
        );
        b1 = b1.wrapping_add(
            (b0 << 4).wrapping_add(w[2]) ^ b0.wrapping_add(sum) ^ (b0 >> 5).wrapping_add(w[3]),
        );
    }
    state[0] = state[0].wrapping_add(b0);
    state[1] = state[1].wrapping_add(b1);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the specification, which e2fsprogs computed. Legacy hashes have one number.
    #[test]
    fn the_hashes_are_those_of_ext2() {
        let long = "a_rather_longer_file_name_for_testing_the_hash.txt";
        for (name, legacy, half, tea) in [
            ("a", 0xe74b_53e2, (0xd5fa_7d7a, 0xacb4_8187), (0x6d0e_a4c0, 0xc189_22df)),
            ("foo0", 0x9aa6_9a42, (0x5ea8_0d76, 0x665b_af43), (0x594c_96ee, 0x6148_767e)),
            ("foo123456", 0x7279_c392, (0x03a2_9480, 0xa1c8_e649), (0x9d16_0b3a, 0x14ac_d124)),
            ("hello.c", 0xf1e6_5f9a, (0x8ceb_c3c0, 0xab3f_9850), (0x773c_1884, 0xa321_40de)),
            (long, 0xded8_d6fa, (0xce1f_4246, 0x4b29_5257), (0xbf19_1b70, 0x25bc_5e35)),
        ] {
            let of = |version: HashVersion| version.hash(name.as_bytes(), [0; 4]);
            assert_eq!(of(HashVersion::Legacy), (legacy, 0), "{name}");
            assert_eq!(of(HashVersion::HalfMd4), half, "{name}");
            assert_eq!(of(HashVersion::Tea), tea, "{name}");
        }
        let seed = [0x3322_1100, 0x7766_5544, 0xbbaa_9988, 0xffee_ddcc];
        let seeded = HashVersion::HalfMd4.hash(b"foo0", seed);
        assert_eq!(seeded, (0x5c75_1e7a, 0xa4b8_c476));
    }
}
