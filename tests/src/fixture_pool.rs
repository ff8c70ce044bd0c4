//! Tests side by side, each with a fixture of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

/// Threads with a fixture each. A thread starts its fixture with its first test, and drops it at
/// the end, so the programs of fixture and tests live as long as they need.
#[derive(Debug)]
pub struct FixturePool<F> {
    tests: Option<Sender<Test<F>>>,
    threads: Vec<JoinHandle<()>>,
}

type Test<F> = Box<dyn FnOnce(Result<&F, &anyhow::Error>) + Send>;

impl<F: 'static> FixturePool<F> {
    /// Starts `count` threads that use `start` for their fixtures.
    pub fn new(count: usize, start: impl Fn() -> Result<F> + Send + Sync + 'static) -> Self {
        let (tests, queue) = channel();
        let (queue, start) = (Arc::new(Mutex::new(queue)), Arc::new(start));
        let work = |_| {
            let (queue, start) = (Arc::clone(&queue), Arc::clone(&start));
            thread::spawn(move || run_tests(&queue, &*start))
        };
        Self { tests: Some(tests), threads: (0..count).map(work).collect() }
    }

    /// Runs a test on the next free thread, and waits for its end.
    pub fn run<T: Send + 'static>(
        &self,
        test: impl FnOnce(&F) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (result, results) = channel();
        let test: Test<F> = Box::new(move |fixture| {
            let outcome = match fixture {
                Ok(fixture) => catch_unwind(AssertUnwindSafe(|| test(fixture))),
                Err(error) => Ok(Err(anyhow::anyhow!("starting the fixture: {error:#}"))),
            };
            // The receiver waits.
            let _ = result.send(outcome);
        });
        let tests = self.tests.as_ref().context("the threads have ended")?;
        tests.send(test).ok().context("no thread takes tests")?;
        results
            .recv()
            .context("the thread of a test has ended")?
            .unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<F> Drop for FixturePool<F> {
    fn drop(&mut self) {
        self.tests = None;
        for thread in self.threads.drain(..) {
            // A panic has failed a test already.
            let _ = thread.join();
        }
    }
}

fn run_tests<F>(queue: &Mutex<Receiver<Test<F>>>, start: &impl Fn() -> Result<F>) {
    let mut fixture = None;
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(test) = next else { return };
        test(fixture.get_or_insert_with(start).as_ref());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread::ThreadId;

    use anyhow::bail;

    use super::*;

    #[test]
    fn tests_run_side_by_side_with_fixtures_of_their_threads() {
        let pool = FixturePool::new(2, || Ok(thread::current().id()));
        let both = Arc::new(Barrier::new(2));
        let run = |both: Arc<Barrier>| {
            pool.run(move |fixture: &ThreadId| {
                both.wait();
                assert_eq!(*fixture, thread::current().id());
                Ok(*fixture)
            })
        };
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| run(Arc::clone(&both)));
            (run(Arc::clone(&both)).unwrap(), other.join().unwrap().unwrap())
        });
        assert_ne!(one, other);
    }

    #[test]
    fn fixture_is_dropped_with_the_pool() {
        let fixture = Arc::new(());
        let held = Arc::clone(&fixture);
        let pool = FixturePool::new(1, move || Ok(Arc::clone(&held)));
        pool.run(|_| Ok(())).unwrap();
        drop(pool);
        assert_eq!(Arc::strong_count(&fixture), 1);
    }

    #[test]
    fn failed_start_fails_each_test() {
        let pool = FixturePool::<()>::new(1, || bail!("no server"));
        for _ in 0..2 {
            let error = pool.run(|()| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "starting the fixture: no server");
        }
    }
}
