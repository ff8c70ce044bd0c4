//! Durations as Go's `time.ParseDuration` reads them: `10s`, `1m30s`, `500ms`, `-1.5h`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Nanoseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// Parses a duration and returns its nanoseconds.
///
/// A duration is a sign, which may be left out, and decimal numbers, each with a unit of `h`, `m`,
/// `s`, `ms`, `us`, `µs` or `ns`. `0` needs no unit. Fractions of a nanosecond are cut off.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid { value: text.to_owned() };
    let too_long = || DurationError::TooLong { value: text.to_owned() };
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    let mut overflows = false;
    while !rest.is_empty() {
        let (whole, after_whole) = split_before(rest, |c| !c.is_ascii_digit());
        let (fraction, from_unit) = match after_whole.strip_prefix('.') {
            Some(after_point) => split_before(after_point, |c| !c.is_ascii_digit()),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let (unit, tail) = split_before(from_unit, |c| c.is_ascii_digit() || c == '.');
        let unit = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?.1;
        let part = nanoseconds(whole, fraction, unit);
        match part.and_then(|part| total.checked_add(part)).filter(|total| *total <= LIMIT) {
            Some(sum) => total = sum,
            // A later unit may still be invalid, which is the better message.
            None => overflows = true,
        }
        rest = tail;
    }
    let total = if text.starts_with('-') { -i128::from(total) } else { i128::from(total) };
    i64::try_from(total).ok().filter(|_| !overflows).ok_or_else(too_long)
}

/// Parses a duration that is not negative.
pub fn non_negative(text: &str) -> Result<Duration, DurationError> {
    u64::try_from(parse(text)?)
        .map(Duration::from_nanos)
        .map_err(|_| DurationError::Negative { value: text.to_owned() })
}

/// Parses a duration of at least one nanosecond.
pub fn positive(text: &str) -> Result<Duration, DurationError> {
    match non_negative(text)? {
        Duration::ZERO => Err(DurationError::Zero),
        duration => Ok(duration),
    }
}

/// Reason for rejecting a text as a duration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DurationError {
    /// The text does not have the form of a duration.
    Invalid {
        /// The rejected text.
        value: String,
    },
    /// The duration exceeds 63 bits of nanoseconds.
    TooLong {
        /// The rejected text.
        value: String,
    },
    /// The duration is negative where none may be.
    Negative {
        /// The rejected text.
        value: String,
    },
    /// The duration is zero where none may be.
    Zero,
}

impl fmt::Display for DurationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { value } => write!(
                formatter,
                "{value:?} is not a duration such as 10s, 500ms or 1m30s; the longest unit is h"
            ),
            Self::TooLong { value } => write!(
                formatter,
                "{value:?} is too long: want at most {}h, which is 292 years",
                i64::MAX / HOUR
            ),
            Self::Negative { value } => write!(formatter, "{value:?} is negative: want 0 or more"),
            Self::Zero => formatter.write_str("want more than 0"),
        }
    }
}

impl Error for DurationError {}

fn split_before(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// Returns the nanoseconds of a decimal number of units; `None` if they overflow.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Go computes the fraction in floating point, and so must this"
)]
fn nanoseconds(whole: &str, fraction: &str, unit: i64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let (mut digits, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        // Go ignores the digits that do not fit in 63 bits.
        let Some(next) = digits
            .checked_mul(10)
            .and_then(|digits| digits.checked_add(u64::from(digit - b'0')))
            .filter(|next| *next <= LIMIT)
        else {
            break;
        };
        digits = next;
        scale *= 10.0;
    }
    let fraction = (digits as f64 * (unit as f64 / scale)) as u64;
    whole.checked_mul(unit.unsigned_abs())?.checked_add(fraction).filter(|sum| *sum <= LIMIT)
}

const UNITS: [(&str, i64); 8] = [
    ("h", HOUR),
    ("m", MINUTE),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    // The micro sign and the Greek letter.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];
/// Magnitude of the most negative duration.
const LIMIT: u64 = i64::MIN.unsigned_abs();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_durations_have_their_nanoseconds() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("0s", 0),
            ("10s", 10 * SECOND),
            ("+10s", 10 * SECOND),
            ("-10s", -10 * SECOND),
            ("1m30s", 90 * SECOND),
            ("500ms", SECOND / 2),
            ("1.5s", 3 * SECOND / 2),
            ("-1.5h", -90 * MINUTE),
            (".5s", SECOND / 2),
            ("-.5s", -SECOND / 2),
            ("1.s", SECOND),
            ("1s1h1s", HOUR + 2 * SECOND),
            ("1us2\u{b5}s3\u{3bc}s4ns", 6_004),
            ("1.9ns", 1),
            ("1h15m30.918s", HOUR + 15 * MINUTE + 30_918_000_000),
            ("8760h", 365 * 24 * HOUR),
            // Digits beyond 63 bits are ignored, and the rest is rounded as a float.
            ("0.3333333333333333333h", 20 * MINUTE),
            ("0.500000000000000000000h", 30 * MINUTE),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-9223372036854775807ns1ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(nanoseconds), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            "10",
            "s",
            "+",
            "-",
            ".",
            ".s",
            "--1s",
            "+-1s",
            " 1s",
            "10 s",
            "1..5s",
            "1.5.5s",
            "1d",
            "PT5M",
            "5 minutes",
            "1S",
            "9999999h1d",
            "1s-1s",
        ] {
            assert!(matches!(parse(text), Err(DurationError::Invalid { .. })), "{text}");
        }
    }

    #[test]
    fn durations_beyond_63_bits_are_rejected() {
        let long = "9".repeat(60) + "h";
        for text in [
            "9999999h",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "9223372036854775807ns1ns",
            "9223372036854775807ns9223372036854775807ns9223372036854775807ns",
            &long,
        ] {
            let error = parse(text).unwrap_err().to_string();
            let end = "is too long: want at most 2562047h, which is 292 years";
            assert!(error.ends_with(end), "{error}");
        }
    }

    #[test]
    fn bounds_exclude_negative_and_zero() {
        assert_eq!(non_negative("-0"), Ok(Duration::ZERO));
        assert_eq!(non_negative("1ms"), Ok(Duration::from_millis(1)));
        let error = non_negative("-1s").unwrap_err().to_string();
        assert_eq!(error, "\"-1s\" is negative: want 0 or more");
        assert_eq!(positive("1ns"), Ok(Duration::from_nanos(1)));
        for zero in ["0", "-0", "0.1ns"] {
            assert_eq!(positive(zero), Err(DurationError::Zero), "{zero}");
        }
        assert!(positive("1d").is_err() && positive("-1s").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-+]?[0-9.hmsun\u{b5}]{0,40}|\\PC{0,12}") {
            let _ = parse(&text);
        }

        #[test]
        fn written_units_are_parsed_exactly(nanoseconds in any::<i64>()) {
            let sign = if nanoseconds < 0 { "-" } else { "" };
            let size = nanoseconds.unsigned_abs();
            let (seconds, rest) = (size / 1_000_000_000, size % 1_000_000_000);
            let text = format!("{sign}{}h{}s{rest}ns", seconds / 3600, seconds % 3600);
            prop_assert_eq!(parse(&text), Ok(nanoseconds));
        }
    }
}
