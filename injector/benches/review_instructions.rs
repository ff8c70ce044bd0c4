//! Instructions of a review from request bytes to response bytes, counted by valgrind. The count is
//! the same on a busy machine.
//!
//! The benchmark runs itself twice under valgrind with different numbers of reviews. The difference
//! is the cost of a review without that of the process, and needs no symbols.

#![expect(clippy::expect_used, reason = "a benchmark fails by panic")]
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

mod cases;

use std::hint::black_box;
use std::process::Command;

use cases::{Overlay, Review};
use mimalloc::MiMalloc;

/// The allocator of the released programs.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [ANSWER, pod, overlay, times] =
        &*arguments.iter().map(String::as_str).collect::<Vec<_>>()
    {
        let overlay = match *overlay {
            TEMPLATE => Overlay::Template,
            UNRECORDED => Overlay::Unrecorded,
            _ => Overlay::BuiltIn,
        };
        let review = Review::new(pod, overlay).expect("the parent has seen Istio's cases");
        for _ in 0..times.parse().expect("a number") {
            black_box(review.answer());
        }
        return;
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("left out: valgrind counts only in `make bench`");
        return;
    }
    println!("| review | thousands of instructions |");
    println!("| --- | --- |");
    for overlay in ["built-in", UNRECORDED, TEMPLATE] {
        for pod in cases::PODS {
            if overlay == TEMPLATE && cases::config_path().is_none() {
                cases::say_left_out(&format!("{overlay}/{pod}"));
                continue;
            }
            let count = |times| instructions(pod, overlay, times);
            let each = (count(1 + REVIEWS) - count(1)) / REVIEWS;
            println!("| {overlay}/{pod} | {} |", each / 1_000);
        }
    }
}

/// Returns the instructions of a process that answers this number of reviews.
fn instructions(pod: &str, overlay: &str, reviews: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("this program"))
        .args([ANSWER, pod, overlay, &reviews.to_string()])
        .output()
        .expect("valgrind starts");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let count = report.lines().find_map(|line| line.split_once("Collected : "));
    count.expect("valgrind tells the count").1.trim().parse().expect("a number")
}

/// Number of reviews; more would not change the result.
const REVIEWS: u64 = 4;
const ANSWER: &str = "--answer";
const TEMPLATE: &str = "template";
const UNRECORDED: &str = "unrecorded";
