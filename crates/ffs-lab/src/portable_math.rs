//! Logarithms and powers with the same bits on every computer.
//!
//! The functions of the platform differ in the last bit from one platform to another. The numbers
//! of a report come from these functions, so that the report has the same bytes everywhere. (`sqrt`
//! and the four operations are exactly rounded on all platforms.)

/// Natural logarithm.
pub(crate) fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// `e` to the power `x`.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `x` to the power `y`.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// The exponent of the largest power of ten that is not above `x`; below -300 if `x` is not above
/// 0.
pub(crate) fn decade(x: f64) -> i32 {
    let near = libm::log10(x.max(0.0)).clamp(-300.0, 300.0).floor() as i32;
    // The logarithm of a power of ten may have a rounding error.
    [near + 1, near].into_iter().find(|exponent| ten_to(*exponent) <= x).unwrap_or(near - 1)
}

/// The floating-point number nearest to a power of ten.
pub(crate) fn ten_to(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_exact_and_found_again() {
        for exponent in -200..=200 {
            assert_eq!(decade(ten_to(exponent)), exponent);
            assert_eq!(decade(ten_to(exponent) * 9.99), exponent);
        }
        assert_eq!([-7, 0, 3, 22].map(ten_to), [1e-7, 1.0, 1e3, 1e22]);
        assert_eq!(decade(0.000_999_999_999), -4);
        assert!([0.0, -1.0, f64::NAN].map(decade).iter().all(|exponent| *exponent < -300));
    }

    /// Compares bits: another implementation would differ.
    #[test]
    fn the_bits_are_known() {
        let found = [ln(1.1), exp(0.3), pow(7.3, 0.04), ln(1e-7)];
        let wanted =
            ["3fb8663f793c46cc", "3ff599058c8c1a96", "3ff152fe022b03d8", "c0301e3b843eaa73"];
        assert_eq!(found.map(|x| format!("{:016x}", x.to_bits())), wanted);
    }
}
