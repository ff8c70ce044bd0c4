//! Durations in Go's syntax.

/// Parses a duration as Go's `time.ParseDuration` does (`1h15m30.918s`, `500ms`). Returns
/// nanoseconds.
pub fn nanoseconds(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    if unsigned == "0" {
        return Some(0);
    }
    if unsigned.is_empty() {
        return None;
    }
    let mut rest = unsigned;
    let mut nanoseconds = 0_i64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, from_unit) = rest.split_at(end);
        let end = from_unit.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = from_unit.split_at(end.unwrap_or(from_unit.len()));
        let unit = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
        let part = if fraction.is_empty() {
            0
        } else {
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            let part = (format!("0.{fraction}").parse::<f64>().ok()? * unit as f64) as i64;
            part
        };
        nanoseconds = nanoseconds.checked_add(whole.checked_mul(unit)?)?.checked_add(part)?;
        rest = after;
    }
    Some(sign * nanoseconds)
}

/// The nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;
/// The nanoseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// The nanoseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
