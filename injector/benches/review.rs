//! Duration of a review from request bytes to response bytes.

#![allow(missing_docs, reason = "the macros of criterion make public functions")]

mod cases;

use std::hint::black_box;

use cases::{Overlay, Review};
use criterion::{Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;

/// The allocator of the released programs.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn reviews(criterion: &mut Criterion) {
    for (title, overlay) in [("built-in", Overlay::BuiltIn), ("template", Overlay::Template)] {
        let mut group = criterion.benchmark_group(format!("review/{title}"));
        for pod in cases::PODS {
            let Some(review) = Review::new(pod, overlay) else {
                cases::say_left_out(&format!("review/{title}/{pod}"));
                continue;
            };
            group.bench_function(pod, |bencher| bencher.iter(|| black_box(review.answer())));
        }
        group.finish();
    }
}

criterion_group!(benches, reviews);
criterion_main!(benches);
