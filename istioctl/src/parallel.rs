//! Work on all cores.

use std::num::NonZero;
use std::thread;

/// Maps the items on all cores, in runs of neighbours. The results are in the order of the items.
pub(super) fn in_order<'a, T: Sync, R: Send>(
    items: &'a [T],
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(cores).max(WORTH_A_THREAD);
    let (work, mut runs) = (&work, items.chunks(share));
    let first = runs.next().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> =
            runs.map(|run| scope.spawn(move || run.iter().map(work).collect::<Vec<_>>())).collect();
        let mut results: Vec<_> = first.iter().map(work).collect();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    })
}

/// Fewer documents are finished before another thread has started.
const WORTH_A_THREAD: usize = 16;
