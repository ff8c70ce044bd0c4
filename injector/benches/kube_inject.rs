//! `istioctl kube-inject` as a whole process: one document, a thousand, and ten thousand small
//! ones, whose ratio tells whether the cost of a document grows with the file.

#![expect(clippy::expect_used, reason = "a benchmark fails by panic")]
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

mod cases;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("left out: only `make bench` has a release program");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    println!("| fastest of {RUNS} | in KB | out KB | wall ms | CPU ms |");
    println!("| --- | --- | --- | --- | --- |");
    for (title, file, overlay) in [
        ("1 Deployment", cases::deployments(1), false),
        ("1,000 Deployments", cases::deployments(1_000), false),
        ("1 Deployment, Istio's template", cases::deployments(1), true),
        ("1,000 Deployments, Istio's template", cases::deployments(1_000), true),
        ("1,000 small Deployments", cases::small_deployments(1_000), false),
        ("10,000 small Deployments", cases::small_deployments(10_000), false),
    ] {
        let config = overlay.then(cases::config_path);
        if config == Some(None) {
            cases::say_left_out(title);
            continue;
        }
        let input = folder.path().join("in.yaml");
        let output = folder.path().join("out.yaml");
        fs::write(&input, &file).expect("a file");
        let times: Vec<_> =
            (0..RUNS).map(|_| run(&input, &output, config.clone().flatten().as_deref())).collect();
        let least = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).fold(f64::MAX, f64::min);
        let written = fs::metadata(&output).expect("what it wrote").len();
        println!(
            "| {title} | {} | {} | {:.1} | {:.1} |",
            file.len() / 1_000,
            written / 1_000,
            least(|(wall, _)| *wall),
            least(|(_, cpu)| *cpu),
        );
    }
}

/// Milliseconds of the clock, and of all its threads.
fn run(input: &Path, output: &Path, config: Option<&Path>) -> (f64, f64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
    command.args(["kube-inject", "-f"]).arg(input).arg("-o").arg(output);
    if let Some(config) = config {
        command.arg("--injectConfigFile").arg(config);
    }
    let start = Instant::now();
    let mut child = command.stderr(Stdio::null()).spawn().expect("istioctl starts");
    // It ends but stays, so that its times can be read.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), ended).expect("istioctl ends");
    let wall = start.elapsed().as_secs_f64() * 1_000.0;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("its times");
    assert!(child.wait().expect("its status").success(), "istioctl failed");
    let (_, fields) = stat.rsplit_once(')').expect("proc(5)");
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|n| n.parse().ok());
    // User and system time, in hundredths of a second.
    let used: f64 = ticks(11).unwrap_or(0.0_f64) + ticks(12).unwrap_or(0.0_f64);
    (wall, used * 10.0)
}

const RUNS: u32 = 5;
