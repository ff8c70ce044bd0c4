//! `istioctl kube-inject` as a process and as a function: one document, a thousand in one file and
//! in as many, and ten thousand small ones. The ratio shows if the cost of a document grows with the
//! file.

#![expect(clippy::expect_used, reason = "a benchmark fails by panic")]
#![expect(clippy::print_stdout, reason = "figures are what it is for")]

#[path = "../../injector/benches/cases/mod.rs"]
mod cases;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use injector::manifest::Document;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("left out: only `make bench` has a release program");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    println!("| fastest of {ROUNDS} | in KB | out KB | wall ms | CPU ms | wall ms as a function |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (title, file, layout, overlay, runs) in [
        ("1 Deployment", cases::deployments(1), Layout::OneFile, false, 50),
        ("1,000 Deployments", cases::deployments(1_000), Layout::OneFile, false, 1),
        ("the same in 1,000 files", cases::deployments(1_000), Layout::Directory, false, 1),
        ("1 Deployment, Istio's template", cases::deployments(1), Layout::OneFile, true, 50),
        (
            "1,000 Deployments, Istio's template",
            cases::deployments(1_000),
            Layout::OneFile,
            true,
            1,
        ),
        ("1,000 small Deployments", cases::small_deployments(1_000), Layout::OneFile, false, 1),
        ("10,000 small Deployments", cases::small_deployments(10_000), Layout::OneFile, false, 1),
    ] {
        let config = overlay.then(cases::config_path);
        if config == Some(None) {
            cases::say_left_out(title);
            continue;
        }
        let input = layout.write(folder.path(), &file);
        let output = folder.path().join("out.yaml");
        let arguments = arguments(&input, &output, config.flatten().as_deref());
        let mut least = Times { wall: f64::MAX, cpu: f64::MAX };
        let mut function = f64::MAX;
        for _ in 0..ROUNDS {
            let times = processes(&arguments, runs);
            least = Times { wall: least.wall.min(times.wall), cpu: least.cpu.min(times.cpu) };
            function = function.min(call(&arguments));
        }
        let written = fs::metadata(&output).expect("what it wrote").len();
        println!(
            "| {title} | {} | {} | {:.1} | {:.1} | {function:.1} |",
            file.len() / 1_000,
            written / 1_000,
            least.wall,
            least.cpu,
        );
    }
}

/// Layout of the documents.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// One file for each document.
    Directory,
    OneFile,
}

impl Layout {
    /// Writes the documents. Returns the file or the directory.
    fn write(self, folder: &Path, text: &str) -> PathBuf {
        match self {
            Self::Directory => {
                let directory = folder.join("in");
                fs::create_dir(&directory).expect("a new directory");
                for document in Document::split(text) {
                    let file = directory.join(format!("{:04}.yaml", document.number));
                    fs::write(file, document.text).expect("a file");
                }
                directory
            }
            Self::OneFile => {
                let file = folder.join("in.yaml");
                fs::write(&file, text).expect("a file");
                file
            }
        }
    }
}

fn arguments(input: &Path, output: &Path, config: Option<&Path>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        vec!["kube-inject".into(), "-f".into(), input.into(), "-o".into(), output.into()];
    if let Some(config) = config {
        arguments.extend(["--injectConfigFile".into(), config.into()]);
    }
    arguments
}

/// Times in milliseconds.
struct Times {
    wall: f64,
    /// CPU time of all threads, in user space and in the kernel.
    cpu: f64,
}

/// Returns the times of one process, averaged over `runs`. The kernel counts CPU time in hundredths
/// of a second, so a short process is measured over many runs.
fn processes(arguments: &[OsString], runs: u32) -> Times {
    let before = cpu_of_children();
    let mut wall = f64::MAX;
    for _ in 0..runs {
        let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
        command.args(arguments).stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().expect("istioctl starts");
        wall = wall.min(milliseconds(start));
        assert!(status.success(), "istioctl failed");
    }
    Times { wall, cpu: (cpu_of_children() - before) / f64::from(runs) }
}

fn cpu_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("own times");
    let (_, fields) = stat.rsplit_once(')').expect("proc(5)");
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|n| n.parse().ok());
    let used: f64 = ticks(13).unwrap_or(0.0_f64) + ticks(14).unwrap_or(0.0_f64);
    used * 10.0
}

/// Returns the time of a call without a process, from the arguments to the file.
fn call(arguments: &[OsString]) -> f64 {
    let start = Instant::now();
    let (mut input, mut output) = (std::io::empty(), std::io::sink());
    let mut messages = std::io::sink();
    let mut streams = istioctl::Streams::new(&mut input, &mut output, &mut messages);
    let program = OsString::from("istioctl");
    istioctl::run([program].into_iter().chain(arguments.iter().cloned()), &mut streams);
    milliseconds(start)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1_000.0
}

const ROUNDS: u32 = 5;
