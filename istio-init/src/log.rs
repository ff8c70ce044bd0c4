//! Messages on stderr: text, or with `--log_as_json` JSON lines with the field names of Istio's
//! logs.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use reason::hint::on_lines;

use crate::json::Json;

/// Switches to JSON lines.
pub(crate) fn write_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Logs an error.
pub(crate) fn error(message: &str) {
    write_line("error", message);
}

/// Logs a warning.
pub(crate) fn warning(message: &str) {
    write_line("warning", message);
}

/// Logs information.
pub(crate) fn info(message: &str) {
    write_line("info", message);
}

fn write_line(level: &'static str, message: &str) {
    let line = if IS_JSON.load(Ordering::Relaxed) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Istio's name of the level.
        let level = if level == "warning" { "warn" } else { level };
        let line = Json::Object(vec![
            ("level", Json::text(level)),
            ("time", Json::text(timestamp(now.as_secs(), now.subsec_micros()))),
            ("scope", Json::text("istio-init")),
            ("msg", Json::text(message)),
        ]);
        format!("{line}\n")
    } else if level == "info" {
        format!("{}\n", on_lines(message))
    } else {
        format!("{level}: {}\n", on_lines(message))
    };
    // A closed stderr cannot be reported anywhere.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Formats seconds since 1970 as RFC 3339. Days are counted from 1 March of the year 0, so that a
/// leap day ends its year.
fn timestamp(seconds: u64, micros: u32) -> String {
    let (days, second) = (seconds / DAY + DAYS_TO_1970, seconds % DAY);
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    let year = year + era * 400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

static IS_JSON: AtomicBool = AtomicBool::new(false);
const DAY: u64 = 86_400;
const DAYS_TO_1970: u64 = 719_468;
const DAYS_OF_ERA: u64 = 146_097;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_rfc_3339_format() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(timestamp(951_782_400, 5), "2000-02-29T00:00:00.000005Z");
        assert_eq!(timestamp(1_798_761_599, 0), "2026-12-31T23:59:59.000000Z");
        assert_eq!(timestamp(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }
}
