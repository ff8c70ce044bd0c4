//! Durations as Go writes them: `10s`, `1m30s`, `500ms`.

use std::time::Duration;

/// Parses a duration, as the API server writes it into `?timeout=` and as Istio's flags take it:
/// decimal numbers with a unit of `h`, `m`, `s`, `ms`, `us` or `µs`, one after the other; `0`
/// needs no unit.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError { value: text.to_owned() };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(wrong());
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        total += number.parse::<f64>().map_err(|_| wrong())? * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong())
}

/// Text that is not a duration.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{value:?} is not a duration such as 10s, 500ms or 1m30s")]
pub struct DurationError {
    /// The text as it was given.
    pub value: String,
}

const UNITS: [(&str, f64); 6] =
    [("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6)];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_go_writes() {
        let table = [
            ("0", 0),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5s", 1500),
            ("2h", 7_200_000),
        ];
        for (text, milliseconds) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "10", "s", "-1s", "10 s", "1..5s", "1d", "99999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[0-9.hmsuµ]{0,12}|\\PC{0,12}") {
            let _ = parse(&text);
        }
    }
}
