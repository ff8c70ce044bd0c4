//! Memory of `istioctl kube-inject` for a `List`: no more than for the same workloads as documents
//! of their own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::System;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use istioctl::{Streams, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Layouts of the same workloads.
const FORMS: [(&str, Form); 3] =
    [("documents", documents), ("YAML list", yaml_list), ("JSON list", json_list)];

/// A function that returns the text of this number of pods.
type Form = fn(usize) -> String;

/// One test, because the allocations of a parallel test would be counted too.
#[test]
fn list_uses_no_more_memory_than_documents() {
    a_list_allocates_as_much_as_documents();
    a_list_is_in_memory_as_documents_are();
}

fn a_list_allocates_as_much_as_documents() {
    // The built-in settings and other data that is created once.
    allocated("");
    for (form, text) in FORMS {
        let least = allocated(&documents(50));
        let (some, twice) = (allocated(&text(50)), allocated(&text(100)));
        assert!(some < least * 3 / 2, "{form}: {some} bytes, as documents {least}");
        assert!(twice < some * 21 / 10, "{form}: {some} bytes for 50 pods, {twice} for 100");
    }
}

fn a_list_is_in_memory_as_documents_are() {
    let folder = tempfile::tempdir().unwrap();
    let peaks = FORMS.map(|(form, text)| {
        let file = folder.path().join(form);
        fs::write(&file, text(200)).unwrap();
        (form, peak(&file))
    });
    let least = peaks[0].1;
    for (form, peak) in peaks {
        assert!(peak < least * 3 / 2, "{form}: {peak} KiB, as documents {least} KiB");
    }
}

/// Returns the bytes allocated from the arguments to the injected text.
fn allocated(text: &str) -> usize {
    let (mut input, mut output) = (text.as_bytes(), std::io::sink());
    let mut messages = std::io::sink();
    let mut streams = Streams::new(&mut input, &mut output, &mut messages);
    let region = Region::new(ALLOCATOR);
    let code = run(["istioctl", "kube-inject", "-f", "-"].map(OsString::from), &mut streams);
    assert_eq!(code, ExitCode::SUCCESS);
    region.change().bytes_allocated
}

/// Returns the peak memory of the program at the start of its output, in KiB.
fn peak(file: &Path) -> usize {
    let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
    command.args(["kube-inject", "-f"]).arg(file).env_clear();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    // The program waits, because its output does not fit into the pipe.
    output.read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

fn documents(count: usize) -> String {
    let documents: Vec<_> = (0..count).map(|n| pod(n, "")).collect();
    documents.join("---\n")
}

fn yaml_list(count: usize) -> String {
    let items: Vec<_> = (0..count).map(|n| pod(n, "  ").trim_start().to_owned()).collect();
    format!("apiVersion: v1\nitems:\n- {}kind: List\n", items.join("- "))
}

fn json_list(count: usize) -> String {
    let items: Vec<_> = (0..count).map(|n| documents::yaml::parse(&pod(n, "")).unwrap()).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    format!("{list:#}\n")
}

fn pod(number: usize, indent: &str) -> String {
    let lines = [
        "apiVersion: v1".to_owned(),
        "kind: Pod".to_owned(),
        "metadata:".to_owned(),
        format!("  name: web-{number}"),
        "  labels: # of all".to_owned(),
        "    app: web".to_owned(),
        "spec:".to_owned(),
        "  containers:".to_owned(),
        "  - name: web".to_owned(),
        "    image: web:1".to_owned(),
        "    ports:".to_owned(),
        "    - containerPort: 80".to_owned(),
    ];
    lines.map(|line| format!("{indent}{line}\n")).concat()
}
