//! Durations as Go writes them: `10s`, `1m30s`, `500ms`. Every flag of the programs, and the API
//! server's `?timeout=`, has this one grammar.

use std::time::Duration;

/// Parses a duration as Go's `time.ParseDuration` does: decimal numbers with a unit of `h`, `m`,
/// `s`, `ms`, `us`, `µs` or `ns`, one after the other; `0` needs no unit, and what is less than a
/// nanosecond is cut off. One before now is an error here, as is more than Go can hold, 292 years.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError::Text { value: text.to_owned() };
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = 0_u128;
    while !rest.is_empty() {
        let (number, tail) = split_before(rest, |c| !is_of_number(c));
        let (unit, tail) = split_before(tail, is_of_number);
        let nanoseconds = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        let part = multiplied(number, nanoseconds).ok_or_else(wrong)?;
        total = total.saturating_add(part);
        rest = tail;
    }
    match u64::try_from(total) {
        Ok(total) if total <= MOST => Ok(Duration::from_nanos(total)),
        _ => Err(DurationError::TooLong { value: text.to_owned() }),
    }
}

/// Parses a duration of more than nothing, for flags that have no use for `0`.
pub fn positive(text: &str) -> Result<Duration, String> {
    match parse(text) {
        Ok(Duration::ZERO) => Err("want more than 0".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// Text that stands for no duration.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DurationError {
    /// It has another form.
    #[error("{value:?} is not a duration such as 10s, 500ms or 1m30s; the longest unit is h")]
    Text {
        /// The text as it was given.
        value: String,
    },
    /// It is more than Go can hold.
    #[error("{value:?} is too long: want at most {}h, which is 292 years", MOST / UNITS[0].1)]
    TooLong {
        /// The text as it was given.
        value: String,
    },
}

fn split_before(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// A decimal number of units, in whole nanoseconds; what is too much for them is the most.
fn multiplied(number: &str, unit: u64) -> Option<u128> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && decimals.is_empty() || decimals.contains('.') {
        return None;
    }
    let decimals = &decimals[..decimals.len().min(DECIMALS)];
    let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    // Digits alone stand in both, so nothing but their number can be wrong.
    let read =
        |digits: &str| if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u128::MAX) };
    let (whole, decimals) = (read(whole), read(decimals));
    let unit = u128::from(unit);
    Some(whole.saturating_mul(unit).saturating_add(decimals * unit / scale))
}

const UNITS: [(&str, u64); 8] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    // The micro sign and the Greek letter.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ns", 1),
];
/// Go counts nanoseconds in 63 bits.
const MOST: u64 = i64::MAX.cast_unsigned();
/// What further decimals say of an hour is less than a nanosecond.
const DECIMALS: usize = 18;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_go_writes() {
        let table = [
            ("0", 0),
            ("+0", 0),
            ("0s", 0),
            ("10s", 10_000_000_000),
            ("+10s", 10_000_000_000),
            ("1m30s", 90_000_000_000),
            ("500ms", 500_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1s1h1s", 3_602_000_000_000),
            ("1us2\u{b5}s3\u{3bc}s4ns", 6_004),
            ("1.9ns", 1),
            ("8760h", 31_536_000_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000 - 1),
            ("9223372036854775807ns", MOST),
        ];
        for (text, nanoseconds) in table {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        let long = "9".repeat(60) + "h";
        for text in [
            "",
            "10",
            "s",
            "+",
            ".s",
            "-1s",
            "10 s",
            "1..5s",
            "1.5.5s",
            "1d",
            "PT5M",
            "5 minutes",
            "1S",
            "9999999h1d",
        ] {
            assert!(matches!(parse(text), Err(DurationError::Text { .. })), "{text}");
        }
        for text in ["9999999h", "9223372036854775808ns", "9223372036854775807ns1ns", &long] {
            let error = parse(text).unwrap_err().to_string();
            assert!(
                error.ends_with("is too long: want at most 2562047h, which is 292 years"),
                "{error}"
            );
        }
    }

    #[test]
    fn nothing_is_no_positive_duration() {
        assert!(positive("0").is_err() && positive("0.1ns").is_err() && positive("1d").is_err());
        assert_eq!(positive("1ns"), Ok(Duration::from_nanos(1)));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9.hmsun\u{b5}]{0,40}|\\PC{0,12}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_in_units_is_read(nanoseconds in 0..=MOST) {
            let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            let text = format!("{}h{}.{rest:09}s", seconds / 3600, seconds % 3600);
            prop_assert_eq!(parse(&text), Ok(Duration::from_nanos(nanoseconds)));
        }
    }
}
