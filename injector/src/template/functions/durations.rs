//! sprig's functions on durations.

use go_duration::{HOUR, MINUTE, SECOND};
use gtmpl_ng::{NumberKind, Value as TemplateValue};

use super::arguments::exactly;
use super::{FunctionResult, Table, table};

pub(super) const TABLE: Table = table![
    ("duration", |a| {
        let [seconds] = exactly("duration", a)?;
        let seconds = match seconds {
            TemplateValue::String(text) => text.parse().unwrap_or_default(),
            number => whole(number),
        };
        Ok(written(seconds.wrapping_mul(SECOND)).into())
    }),
    ("durationRound", duration_round),
];

/// Returns an integer; anything else is 0.
fn whole(value: &TemplateValue) -> i64 {
    let TemplateValue::Number(number) = value else { return 0 };
    match number.kind() {
        NumberKind::Signed(number) => number,
        NumberKind::Unsigned(number) => i64::try_from(number).unwrap_or_default(),
        NumberKind::Float(_) => 0,
    }
}

fn duration_round(arguments: &[TemplateValue]) -> FunctionResult {
    let [duration] = exactly("durationRound", arguments)?;
    let nanoseconds = match duration {
        TemplateValue::String(text) => go_duration::parse(text).unwrap_or_default(),
        number => whole(number),
    };
    let size = nanoseconds.unsigned_abs();
    let rounded = UNITS.iter().find_map(|(name, unit)| {
        let unit = unit.unsigned_abs();
        (size > unit).then(|| format!("{}{name}", size / unit))
    });
    Ok(rounded.unwrap_or_else(|| "0s".to_owned()).into())
}

/// Returns a duration in Go's notation, in whole seconds.
fn written(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let seconds = nanoseconds.unsigned_abs() / SECOND.unsigned_abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

const DAY: i64 = 24 * HOUR;

const UNITS: [(&str, i64); 6] =
    [("y", 365 * DAY), ("mo", 30 * DAY), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)];

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("duration `95`", "1m35s"),
            ("duration `-3700`", "-1h1m40s"),
            ("duration `x`", "0s"),
            ("durationRound `2h10m5s`", "2h"),
            ("durationRound `-2400h10m5s`", "3mo"),
            ("durationRound `1.5s`", "1s"),
            ("durationRound `1s`", "0s"),
            ("durationRound `x`", "0s"),
        ]);
    }
}
