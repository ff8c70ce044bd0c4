//! Immediate output of test failures.

use anyhow::Error;

/// Prints the name of a failed test and the first lines of its error, and returns the whole error.
///
/// A test runner lists the errors only at the end. A killed run never gets there, and in a
/// truncated log the output of later runners displaces them.
#[expect(clippy::print_stderr, reason = "a failure is for people")]
pub fn tell(test: &str, error: &Error) -> String {
    let reason = format!("{error:#}");
    eprintln!("{}", short(test, &reason));
    reason
}

fn short(test: &str, reason: &str) -> String {
    let cut = |line: &str| line.chars().take(LONGEST).collect::<String>();
    let lines: Vec<_> = reason.lines().take(MOST).map(cut).collect();
    format!("FAILED {test}: {}", lines.join("\n    "))
}

const MOST: usize = 5;
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_summary_has_name_and_first_lines() {
        let reason = format!("no pod\n{}\n3\n4\n5\n6", "x".repeat(400));
        let expected = format!("FAILED a: no pod\n    {}\n    3\n    4\n    5", "x".repeat(300));
        assert_eq!(short("a", &reason), expected);
    }
}
