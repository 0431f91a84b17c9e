//! Integers in the volume's byte order, and [`layout!`](crate::layout): one table per on-disk
//! structure.
//!
//! The table is the only definition of a field's offset and type. The native struct, its decoder
//! and encoder, and the list of [`Field`]s are generated from it; `dumpfs`, error messages and the
//! tests that damage each field use the list.
//!
//! # Invariants
//! 1. A read past the end of the buffer returns zeros, and a write past it does nothing. Callers
//!    that need an error check the length first (every `decode` does, with [`need`]).
//! 2. `encode(decode(bytes)) == bytes` for the bytes the table covers.

use crate::error::{Error, Structure};

/// The byte order of a volume: that of the machine that created it (`spec/on-disk-format.md` §1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Endian {
    /// Least significant byte first (x86, arm).
    Little,
    /// Most significant byte first (sparc64, powerpc).
    Big,
}

/// One field of an on-disk structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name, without the C prefix.
    pub name: &'static str,
    /// Byte offset in the structure.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
    /// Length of one element in bytes; differs from `size` in arrays.
    pub elem: usize,
    /// Whether the elements are signed.
    pub signed: bool,
}

impl Field {
    /// Number of elements: 1 except in arrays.
    #[must_use]
    pub fn count(&self) -> usize {
        self.size / self.elem.max(1)
    }

    /// Element `n` of the field in the structure at the start of `b`.
    ///
    /// `i128` holds every signed and unsigned element.
    #[must_use]
    pub fn value(&self, b: &[u8], n: usize, e: Endian) -> i128 {
        let off = self.offset + n * self.elem;
        match (self.elem, self.signed) {
            (1, false) => get::<u8>(b, off, e).into(),
            (1, true) => get::<i8>(b, off, e).into(),
            (2, false) => get::<u16>(b, off, e).into(),
            (2, true) => get::<i16>(b, off, e).into(),
            (4, false) => get::<u32>(b, off, e).into(),
            (4, true) => get::<i32>(b, off, e).into(),
            (_, false) => get::<u64>(b, off, e).into(),
            (_, true) => get::<i64>(b, off, e).into(),
        }
    }

    /// Sets element `n` of the field to the low bits of `v`.
    pub fn set(&self, b: &mut [u8], n: usize, e: Endian, v: i128) {
        let off = self.offset + n * self.elem;
        match self.elem {
            1 => put(b, off, e, v as u8),
            2 => put(b, off, e, v as u16),
            4 => put(b, off, e, v as u32),
            _ => put(b, off, e, v as u64),
        }
    }
}

/// A value that can be read from and written to disk in either byte order.
pub trait Wire: Sized {
    /// Bytes on disk.
    const SIZE: usize;
    /// Bytes of one element; [`Self::SIZE`] except in arrays.
    const ELEM: usize;
    /// Whether the elements are signed.
    const SIGNED: bool;
    /// Reads the value at the start of `b`.
    fn get(b: &[u8], e: Endian) -> Self;
    /// Writes the value at the start of `b`.
    fn put(&self, b: &mut [u8], e: Endian);
}

macro_rules! wire_int {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            const SIZE: usize = size_of::<$t>();
            const ELEM: usize = size_of::<$t>();
            const SIGNED: bool = <$t>::MIN != 0;
            #[inline]
            fn get(b: &[u8], e: Endian) -> Self {
                let mut a = [0u8; size_of::<$t>()];
                if let Some(src) = b.get(..Self::SIZE) {
                    a.copy_from_slice(src);
                }
                match e {
                    Endian::Little => Self::from_le_bytes(a),
                    Endian::Big => Self::from_be_bytes(a),
                }
            }
            #[inline]
            fn put(&self, b: &mut [u8], e: Endian) {
                if let Some(dst) = b.get_mut(..Self::SIZE) {
                    dst.copy_from_slice(&match e {
                        Endian::Little => self.to_le_bytes(),
                        Endian::Big => self.to_be_bytes(),
                    });
                }
            }
        }
    )*};
}
wire_int!(u8, i8, u16, i16, u32, i32, u64, i64);

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    const SIZE: usize = T::SIZE * N;
    const ELEM: usize = T::ELEM;
    const SIGNED: bool = T::SIGNED;
    #[inline]
    fn get(b: &[u8], e: Endian) -> Self {
        let mut out = [T::default(); N];
        for (slot, chunk) in out.iter_mut().zip(b.chunks_exact(T::SIZE)) {
            *slot = T::get(chunk, e);
        }
        out
    }
    #[inline]
    fn put(&self, b: &mut [u8], e: Endian) {
        for (v, chunk) in self.iter().zip(b.chunks_exact_mut(T::SIZE)) {
            v.put(chunk, e);
        }
    }
}

/// Reads a `T` at byte `off` of `b`; zeros beyond the end.
#[inline]
#[must_use]
pub fn get<T: Wire>(b: &[u8], off: usize, e: Endian) -> T {
    T::get(b.get(off..).unwrap_or(&[]), e)
}

/// Writes a `T` at byte `off` of `b`; nothing beyond the end.
#[inline]
pub fn put<T: Wire>(b: &mut [u8], off: usize, e: Endian, v: T) {
    if let Some(dst) = b.get_mut(off..) {
        v.put(dst, e);
    }
}

/// Fails unless `b` has at least `size` bytes.
///
/// # Errors
/// [`Error::Short`] naming the structure.
pub fn need(b: &[u8], size: usize, what: Structure) -> Result<(), Error> {
    if b.len() < size {
        return Err(Error::Short { structure: what, need: size, have: b.len() });
    }
    Ok(())
}

/// Declares an on-disk structure: `offset => name: type, "meaning"`.
///
/// Generates the native struct with `decode`, `encode` and `FIELDS`.
///
/// ```
/// ffs_ondisk::layout! {
///     /// A pair.
///     pub struct Pair[8] {
///         0 => tag: u16, "What it is.";
///         4 => value: i32, "How much.";
///     }
/// }
/// let pair = Pair::decode(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], ffs_ondisk::Endian::Little);
/// assert_eq!(pair, Pair { tag: 1, value: -1 });
/// assert_eq!(Pair::FIELDS[1].name, "value");
/// ```
#[macro_export]
macro_rules! layout {
    ($(#[$doc:meta])* pub struct $name:ident[$size:expr] {
        $($off:literal => $f:ident: $t:ty, $what:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct $name {
            $(#[doc = $what] pub $f: $t,)*
        }

        impl $name {
            /// Bytes the structure covers on disk.
            pub const SIZE: usize = $size;
            /// Every field with its location, in disk order.
            pub const FIELDS: &'static [$crate::wire::Field] = &[
                $($crate::wire::Field {
                    name: stringify!($f),
                    offset: $off,
                    size: <$t as $crate::wire::Wire>::SIZE,
                    elem: <$t as $crate::wire::Wire>::ELEM,
                    signed: <$t as $crate::wire::Wire>::SIGNED,
                },)*
            ];

            /// Reads the structure from the start of `b`.
            #[must_use]
            pub fn decode(b: &[u8], e: $crate::wire::Endian) -> Self {
                // With constant length and byte order the compiler removes the tests for each
                // field.
                match (b.first_chunk::<{ $size }>(), e) {
                    (Some(b), $crate::wire::Endian::Little) => {
                        Self::fields_of(b, $crate::wire::Endian::Little)
                    }
                    (Some(b), $crate::wire::Endian::Big) => {
                        Self::fields_of(b, $crate::wire::Endian::Big)
                    }
                    (None, e) => Self::fields_of(b, e),
                }
            }

            #[inline(always)]
            fn fields_of(b: &[u8], e: $crate::wire::Endian) -> Self {
                Self { $($f: $crate::wire::get(b, $off, e),)* }
            }

            /// Writes the known fields to the start of `b`; other bytes stay as they are.
            pub fn encode(&self, b: &mut [u8], e: $crate::wire::Endian) {
                match e {
                    $crate::wire::Endian::Little => {
                        self.fields_into(b, $crate::wire::Endian::Little);
                    }
                    $crate::wire::Endian::Big => self.fields_into(b, $crate::wire::Endian::Big),
                }
            }

            #[inline(always)]
            fn fields_into(&self, b: &mut [u8], e: $crate::wire::Endian) {
                if let Some(b) = b.first_chunk_mut::<{ $size }>() {
                    $($crate::wire::put(b, $off, e, self.$f);)*
                } else {
                    $($crate::wire::put(b, $off, e, self.$f);)*
                }
            }
        }

        const _: () = { $(assert!($off + <$t as $crate::wire::Wire>::SIZE <= $size);)* };
    };
}
