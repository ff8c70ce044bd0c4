//! Progress of long work, on a line that is overwritten.

use std::io::Write;

use crate::Streams;

/// Number of objects read, shown while more are read.
pub(super) struct Progress<'a> {
    /// Destination of the line; `None` if no person sees it.
    messages: Option<&'a mut dyn Write>,
    objects: &'static str,
    read: usize,
}

impl<'a> Progress<'a> {
    /// Starts to count objects, such as `pods`.
    pub(super) fn new(streams: &'a mut Streams<'_>, objects: &'static str) -> Self {
        let shown = streams.terminal.progress && !streams.quiet;
        let messages: Option<&'a mut dyn Write> = if shown { Some(streams.messages) } else { None };
        Self { messages, objects, read: 0 }
    }

    /// Counts an object.
    pub(super) fn count(&mut self) {
        self.read += 1;
        if self.read.is_multiple_of(STEP) {
            let (read, objects) = (grouped(self.read), self.objects);
            self.write(&format!("\r{read} {objects} read"));
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(messages) = &mut self.messages {
            // A line that cannot be written is no loss.
            let _ = messages.write_all(text.as_bytes()).and_then(|()| messages.flush());
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if self.read >= STEP {
            self.write(ERASED);
        }
    }
}

/// Returns a number with commas between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Number of objects from one line to the next.
const STEP: usize = 500;

/// Erases the line.
const ERASED: &str = "\r\u{1b}[K";

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(count: usize, progress: bool, quiet: bool) -> String {
        let (mut input, mut output, mut messages) = (std::io::empty(), Vec::new(), Vec::new());
        let mut streams = Streams::new(&mut input, &mut output, &mut messages);
        streams.terminal.progress = progress;
        streams.quiet = quiet;
        let mut progress = Progress::new(&mut streams, "pods");
        (0..count).for_each(|_| progress.count());
        drop(progress);
        String::from_utf8(messages).unwrap()
    }

    #[test]
    fn line_is_overwritten_and_erased() {
        assert_eq!(shown(1_100, true, false), "\r500 pods read\r1,000 pods read\r\u{1b}[K");
        assert_eq!(shown(499, true, false), "");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn nothing_is_shown_without_a_terminal_or_with_quiet() {
        assert_eq!(shown(1_100, false, false), "");
        assert_eq!(shown(1_100, true, true), "");
    }
}
