//! Standard error of an Envoy that starts: passed on to the container's log, with its last error
//! kept.

use std::io::Write;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::watch;

/// Copies Envoy's standard error to `log` until its end, and keeps the last part in `tail`.
pub(super) async fn pass_on(
    mut stderr: impl AsyncRead + Unpin,
    mut log: impl Write,
    tail: watch::Sender<Vec<u8>>,
) {
    let mut chunk = vec![0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        // Envoy keeps running where the agent's log cannot be written.
        let _ = log.write_all(&chunk[..length]);
        tail.send_modify(|tail| {
            tail.extend_from_slice(&chunk[..length]);
            tail.drain(..tail.len().saturating_sub(TAIL));
        });
    }
}

/// Returns the reason in Envoy's output: its last line that is an error, without the log's prefix,
/// cut to [`LENGTH`] characters.
pub(super) fn reason(output: &[u8]) -> Option<String> {
    let output = String::from_utf8_lossy(output);
    // The level of a cut line is lost.
    let lines = output.split_once('\n').filter(|_| output.len() >= TAIL);
    let output = lines.map_or(&*output, |(_, lines)| lines);
    let line = output.lines().rfind(|line| !line.trim().is_empty() && is_error(line))?;
    let mut fields = line.split('\t').skip(3);
    let message = match fields.next() {
        Some(message) => message,
        None => line.rsplit_once("] ").map_or(line, |(_, message)| message),
    };
    Some(message.trim().chars().take(LENGTH).collect())
}

/// Decides by the level. Envoy also writes errors without a prefix.
fn is_error(line: &str) -> bool {
    let no_reason = ["trace", "debug", "info", "warning", "warn", "backtrace"];
    let mut words = line.split(['\t', '[', ']', ' ']).take(WORDS);
    !words.any(|word| no_reason.contains(&word))
}

/// Words of the prefix `[date time][process][level][logger] `, and empty ones between them.
const WORDS: usize = 9;
const TAIL: usize = 8192;
const LENGTH: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_the_last_error() {
        let output = "[2026-11-23][1][critical][main] [a.cc:2] error initializing: no such field\n\
                      [2026-11-23][1][info][main] [a.cc:1] exiting\n\n";
        assert_eq!(reason(output.as_bytes()).unwrap(), "error initializing: no such field");
        let output = "2026-11-23T08:00:00Z\tcritical\tenvoy main a.cc:2\tno [such] field\t\
                      thread=7\n\
                      2026-11-23T08:00:00Z\tinfo\tenvoy main a.cc:3\texiting\tthread=7\n";
        assert_eq!(reason(output.as_bytes()).unwrap(), "no [such] field");
        let output = format!("{output}cannot bind '127.0.0.1:15000': Address already in use\n");
        assert!(reason(output.as_bytes()).unwrap().starts_with("cannot bind '127.0.0.1:15000'"));
        let backtrace = "2026-11-23T08:00:00Z\tcritical\tenvoy backtrace a.h:1\t#0: x\tthread=7\n";
        assert_eq!(reason(backtrace.as_bytes()), None);
        let output = "[2026-11-23 22:14:40.362][1][critical][main] [a.cc:2] no such field\n\
                      [2026-11-23 22:14:40.362][1][critical][backtrace] [a.h:1] Caught Bus error\n\
                      [2026-11-23 22:14:40.362][1][critical][backtrace] [a.h:1] #0: [0x7fd80518]\n";
        assert_eq!(reason(output.as_bytes()).unwrap(), "no such field");
        assert_eq!(reason(b"\n"), None);
    }

    #[test]
    fn line_that_is_cut_is_no_reason() {
        let line = "2026-11-23T08:00:00Z\twarning\tenvoy config a.cc:2\tno connection\n";
        let output = line.repeat(TAIL / line.len() + 1).into_bytes();
        assert_eq!(reason(&output[output.len() - TAIL..]), None);
    }

    #[test]
    fn reason_is_bounded() {
        assert_eq!(reason("ä".repeat(9000).as_bytes()).unwrap().chars().count(), LENGTH);
    }

    #[tokio::test]
    async fn output_reaches_the_log_and_its_end_is_kept() {
        let (tail, kept) = watch::channel(Vec::new());
        let output = [b"first\n".repeat(3000), b"last\n".to_vec()].concat();
        let mut log = Vec::new();
        pass_on(output.as_slice(), &mut log, tail).await;
        assert_eq!(log, output);
        assert_eq!(kept.borrow().len(), TAIL);
        assert!(kept.borrow().ends_with(b"last\n"));
    }
}
