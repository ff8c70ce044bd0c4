//! Number and bytes of allocations for one review, from request bytes to response bytes.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

mod cases;

use std::alloc::System;
use std::hint::black_box;

use cases::{Overlay, Review};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    println!("| review | bytes in | bytes out | allocations | reallocations | bytes allocated |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (title, overlay) in [("built-in", Overlay::BuiltIn), ("template", Overlay::Template)] {
        for pod in cases::PODS {
            let Some(review) = Review::new(pod, overlay) else {
                cases::say_left_out(&format!("{title}/{pod}"));
                continue;
            };
            let region = Region::new(ALLOCATOR);
            let answer = black_box(review.answer());
            let of = region.change();
            println!(
                "| {title}/{pod} | {} | {} | {} | {} | {} |",
                review.body.len(),
                answer.len(),
                of.allocations,
                of.reallocations,
                of.bytes_allocated,
            );
        }
    }
}
