//! Patches of single workloads, in lines of JSON.

use injector::kubernetes::workload::Workload;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation};
use serde::Serialize;

use crate::files::{EditedFile, each_finding};
use crate::finding::{Finding, FindingResult};

/// A patch and the workload that it changes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadPatch<'a> {
    file: String,
    document: usize,
    line: usize,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    patch: Patch,
}

/// Returns a line of JSON for each pod template that changes.
pub(super) fn patch_lines(files: &[EditedFile<'_>]) -> Vec<String> {
    let changed = each_finding(files).filter(|(_, it)| it.result == FindingResult::Changed);
    changed.filter_map(|(file, finding)| line(file.to_string(), finding)).collect()
}

fn line(file: String, finding: &Finding) -> Option<String> {
    let Workload { api_version, kind, name, namespace } = &finding.object;
    let path = PointerBuf::from_tokens(finding.template.as_deref()?);
    let patch = WorkloadPatch {
        file,
        document: finding.document,
        line: finding.line,
        api_version,
        kind,
        namespace,
        name,
        patch: within(&path, finding.patch.clone()?),
    };
    #[expect(clippy::expect_used, reason = "its keys are strings")]
    let json = serde_json::to_string(&patch).expect("a patch is JSON");
    Some(json + "\n")
}

/// Returns a patch of the value at `path` as a patch of the whole value.
fn within(path: &PointerBuf, mut patch: Patch) -> Patch {
    for operation in &mut patch.0 {
        let inner = match operation {
            PatchOperation::Add(add) => [Some(&mut add.path), None],
            PatchOperation::Copy(copy) => [Some(&mut copy.path), Some(&mut copy.from)],
            PatchOperation::Move(change) => [Some(&mut change.path), Some(&mut change.from)],
            PatchOperation::Remove(remove) => [Some(&mut remove.path), None],
            PatchOperation::Replace(replace) => [Some(&mut replace.path), None],
            PatchOperation::Test(test) => [Some(&mut test.path), None],
        };
        for pointer in inner.into_iter().flatten() {
            *pointer = path.concat(pointer);
        }
    }
    patch
}
