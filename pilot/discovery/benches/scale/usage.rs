//! CPU time and memory of a process.

use std::time::Duration;

/// CPU time so far, of user and kernel.
pub(crate) fn cpu(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let mut fields = fields.split(' ').skip(11).map(|field| field.parse::<u64>().unwrap());
    // Linux counts in hundredths of a second on every architecture that it runs on today.
    Duration::from_millis(10 * (fields.next().unwrap() + fields.next().unwrap()))
}

/// Resident memory in MB.
pub(crate) fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
