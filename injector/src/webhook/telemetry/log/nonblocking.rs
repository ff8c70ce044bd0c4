//! Queue of log lines for a stream that may block.
//!
//! The reader of a container's log may stop for a while: a pipe is full, or a disk hangs. A write
//! then blocks, and a blocked webhook fails admissions. The lines therefore go through a queue, and
//! a separate thread writes them. Lines are dropped and counted when the queue is full, and when
//! the stream rejects them, as on a full disk.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Queue of log lines. On drop it waits for a moment until the queued lines are written.
pub(super) struct Lines {
    writer: LineWriter,
    /// In a lock because a receiver cannot be shared without one; only `drop` uses it.
    ended: Mutex<Receiver<()>>,
}

impl Lines {
    /// Starts the thread that writes to `stream`. If the thread cannot start, every line is lost.
    pub(super) fn to(stream: impl Write + Send + 'static) -> Self {
        let (sender, queue) = sync_channel(LINES);
        let (end, ended) = sync_channel(1);
        let waiting = Arc::<AtomicUsize>::default();
        let taken = Arc::clone(&waiting);
        let lost = Counter::default();
        let dropped = lost.clone();
        let writing = move || {
            write(&queue, &taken, &dropped, stream);
            let _ = end.send(());
        };
        // Without the thread the queue has no receiver, and each line counts as lost.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(writing);
        let writer = LineWriter { sender, waiting, lost };
        Self { writer, ended: Mutex::new(ended) }
    }

    /// Returns a writer into the queue.
    pub(super) fn writer(&self) -> LineWriter {
        self.writer.clone()
    }

    /// Returns the counter of lost lines.
    pub(super) fn lost(&self) -> Counter {
        self.writer.lost.clone()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST_WORDS;
        while let Err(TrySendError::Full(_)) = self.writer.sender.try_send(Entry::End) {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(GATHERING);
        }
        if let Ok(ended) = self.ended.get_mut() {
            let _ = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

enum Entry {
    Line(Vec<u8>),
    End,
}

/// Writer of lines into the queue.
#[derive(Clone)]
pub(super) struct LineWriter {
    sender: SyncSender<Entry>,
    /// Bytes in the queue.
    waiting: Arc<AtomicUsize>,
    lost: Counter,
}

impl Write for LineWriter {
    /// Queues a whole line, or drops and counts it. Never fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let before = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        let fits = before + line.len() <= BYTES;
        if !fits || self.sender.try_send(Entry::Line(line.to_vec())).is_err() {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            self.lost.inc();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Writes lines until the end of the queue, as many at once as have arrived in the meantime.
fn write(queue: &Receiver<Entry>, waiting: &AtomicUsize, lost: &Counter, mut stream: impl Write) {
    let mut text = Vec::new();
    while let Ok(Entry::Line(first)) = queue.recv() {
        text.extend(first);
        // A wake-up for each line would cost a review more than its line does.
        std::thread::sleep(GATHERING);
        let mut is_end = false;
        while text.len() < CHUNK {
            match queue.try_recv() {
                Ok(Entry::Line(line)) => text.extend(line),
                Ok(Entry::End) => {
                    is_end = true;
                    break;
                }
                Err(_) => break,
            }
        }
        waiting.fetch_sub(text.len(), Ordering::Relaxed);
        lost.inc_by(write_text(&text, &mut stream));
        if is_end {
            return;
        }
        text.clear();
    }
}

/// Writes lines. Returns the number of lines that the stream did not accept completely.
fn write_text(text: &[u8], stream: &mut impl Write) -> u64 {
    let mut rest = text;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => break,
            Ok(length) => rest = rest.get(length..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = stream.flush();
    rest.split_inclusive(|byte| *byte == b'\n').count() as u64
}

/// Capacity of the queue in lines: some seconds of a webhook under load.
const LINES: usize = 4096;
/// Capacity of the queue in bytes, which limits long lines.
const BYTES: usize = 4 << 20;
const CHUNK: usize = 64 << 10;
/// Time for which lines are collected before a write.
const GATHERING: Duration = Duration::from_millis(10);
/// Longest wait for the last lines on drop.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    /// Stream that accepts nothing before it is opened.
    struct Gate {
        open: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.open.recv();
            self.taken.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocked_stderr_delays_no_caller() {
        let (open, closed) = channel();
        let taken = Arc::default();
        let lines = Lines::to(Gate { open: closed, taken: Arc::clone(&taken) });
        let mut writer = lines.writer();
        let line = format!("{}\n", "x".repeat(63));
        for _ in 0..3 * LINES {
            writer.write_all(line.as_bytes()).unwrap();
        }
        // The blocked write has a chunk, which the thread may have gathered while lines came.
        let lost = lines.lost().get();
        assert!(lost >= (2 * LINES - CHUNK / line.len() - 1) as u64, "{lost}");
        drop(open);
        // On a busy machine the drop may end before all lines are written.
        let written = || String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while written().lines().count() as u64 + lost < 3 * LINES as u64 {
            assert!(Instant::now() < deadline, "lines are neither written nor counted as lost");
            std::thread::yield_now();
        }
        drop(lines);
        let text = written();
        assert!(text.lines().all(|written| written == line.trim_end()));
        assert_eq!(text.lines().count() as u64 + lost, 3 * LINES as u64);
    }

    #[test]
    fn queued_log_bytes_are_limited() {
        let (open, closed) = channel();
        let lines = Lines::to(Gate { open: closed, taken: Arc::default() });
        for _ in 0..10 {
            lines.writer().write_all(&vec![b'x'; BYTES / 2]).unwrap();
        }
        // One of them may have left the queue already.
        assert!((7..=8).contains(&lines.lost().get()), "{}", lines.lost().get());
        drop(open);
    }

    #[test]
    fn queued_lines_are_written_at_exit() {
        let (open, closed) = channel();
        let taken = Arc::default();
        drop(open);
        let lines = Lines::to(Gate { open: closed, taken: Arc::clone(&taken) });
        for number in 0..100 {
            lines.writer().write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        drop(lines);
        assert!(taken.lock().unwrap().ends_with(b"\n99\n"));
    }
}
