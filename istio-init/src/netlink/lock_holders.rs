//! Processes that hold the lock of a network namespace, as far as /proc shows them.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::types::input_error::Escaped;

/// Processes that hold the lock; empty if /proc shows none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHolders(Vec<Process>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    command: String,
}

/// Returns the processes whose socket holds the log group. Child processes inherit the socket, so
/// its creator may have ended.
pub(crate) fn lock_holders(group: u16) -> LockHolders {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let port = port_of_group(&read("/proc/net/netfilter/nfnetlink_log"), group);
    let inode = port.and_then(|port| inode_of_port(&read("/proc/net/netlink"), &port));
    LockHolders(inode.map(|inode| processes_with(&inode)).unwrap_or_default())
}

/// Finds the netlink port of the group's socket: the second column.
fn port_of_group(log: &str, group: u16) -> Option<String> {
    log.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_it = words.next()?.parse() == Ok(group);
        words.next().filter(|_| is_it).map(str::to_owned)
    })
}

/// Finds the inode, which is the last column; the first are address, protocol and port.
fn inode_of_port(sockets: &str, port: &str) -> Option<String> {
    sockets.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = words.get(1) == Some(&NETFILTER) && words.get(2) == Some(&port);
        words.last().filter(|_| is_it).map(|inode| (*inode).to_owned())
    })
}

fn processes_with(inode: &str) -> Vec<Process> {
    let socket = format!("socket:[{inode}]");
    let has_it = |folder: &Path| {
        let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| {
            fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == socket.as_str())
        })
    };
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<Process> = folders
        .filter_map(|folder| {
            let id = folder.file_name().to_str()?.parse().ok()?;
            let path = folder.path();
            let command = || fs::read_to_string(path.join("comm")).unwrap_or_default();
            has_it(&path).then(|| Process { id, command: command().trim_end().to_owned() })
        })
        .collect();
    processes.sort_unstable_by_key(|process| process.id);
    processes
}

impl fmt::Display for LockHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a process that /proc does not show");
        }
        for (index, Process { id, command }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}process {id} ({})", Escaped(command))?;
        }
        Ok(())
    }
}

/// `NETLINK_NETFILTER`.
const NETFILTER: &str = "12";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_of_a_log_group_is_found_in_proc() {
        let log = "    1    77     0 2 65531    100  1\n15006   6090     0 2 65531    100  1\n";
        assert_eq!(port_of_group(log, 15_006).as_deref(), Some("6090"));
        assert_eq!(port_of_group(log, 2), None);
        let sockets = "sk               Eth Pid        Groups   Rmem     Inode\n\
                       00000000c22f1612 0   6090       00000000 0        57627\n\
                       000000003f37b33b 12  6090       00000000 0        58534\n";
        assert_eq!(inode_of_port(sockets, "6090").as_deref(), Some("58534"));
        assert_eq!(inode_of_port(sockets, "77"), None);
    }

    #[test]
    fn lock_holders_are_named_and_escaped() {
        let process = |id, command: &str| Process { id, command: command.to_owned() };
        let holders = LockHolders(vec![process(7, "sh"), process(9, "a\nb")]);
        assert_eq!(holders.to_string(), "process 7 (sh), process 9 (a\\nb)");
        let unseen = LockHolders::default().to_string();
        assert_eq!(unseen, "a process that /proc does not show");
    }
}
