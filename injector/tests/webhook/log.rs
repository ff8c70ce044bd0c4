//! The log is talk: whether somebody listens changes nothing.

use serde_json::json;

use crate::program::Program;

#[test]
fn goes_on_when_nobody_reads_its_log() {
    let mut program = Program::start(&[]);
    program.stop_reading();
    let skipped = json!({"uid": "u", "operation": "UPDATE", "object": {}});
    for _ in 0..50 {
        assert_eq!(program.connect().review("/inject", &skipped)["allowed"], true);
    }
    program.metric_becomes("sidecar_injection_skip_total", 50.0);
}
