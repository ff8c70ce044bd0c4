//! Removal of a node's remains on the machine, whether it was stopped or killed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{UnmountFlags, unmount};

use crate::run_folder::RunFolder;
use crate::{bridge, containerd, kube_proxy, kubelet, process, wait};

/// Restores the machine's state from before the node whose state is in `folder`.
///
/// Everything that it ends or removes has the node's mark: a recorded process, a shim with our
/// containerd's socket, the node's cgroup, a mount below the folder, the bridge by its name.
pub(crate) fn clear(folder: &RunFolder) -> Result<()> {
    let node = folder.node();
    if !node.exists() {
        return refuse_foreign_tables();
    }
    process::kill_recorded(&node)?;
    end_pods(folder)?;
    remove_links_to_logs(folder);
    bridge::remove(&node)?;
    kube_proxy::delete_tables()?;
    folder.end()
}

/// Kills the pods whose runtime is gone, and removes their cgroups, mounts and sockets.
pub(crate) fn end_pods(folder: &RunFolder) -> Result<()> {
    let node = folder.node();
    kill_shims(&node)?;
    clear_cgroups()?;
    unmount_below(&node)?;
    remove_shim_sockets(&node);
    Ok(())
}

/// Returns an error if another kube-proxy has tables here, because the cleanup would delete them.
fn refuse_foreign_tables() -> Result<()> {
    if !kube_proxy::tables()?.is_empty() {
        bail!(
            "this machine has a kube-proxy table already; hint: do not run these tests on a node of a cluster"
        );
    }
    Ok(())
}

fn kill_shims(node: &Path) -> Result<()> {
    let socket = containerd::socket(node);
    let is_ours = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|arg| arg == socket.as_os_str().as_encoded_bytes())
    };
    for pid in all_processes()?.iter().filter(|pid| is_ours(pid)) {
        process::kill(*pid)?;
    }
    Ok(())
}

fn all_processes() -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").context("listing processes")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Kills the containers, and removes their cgroups from every hierarchy.
fn clear_cgroups() -> Result<()> {
    let tops: Vec<PathBuf> = cgroup_tops()?.into_iter().filter(|top| top.exists()).collect();
    wait::until("the node's containers have ended", || {
        let mut left = 0;
        for top in &tops {
            for pid in processes_below(top) {
                process::kill(pid)?;
                left += 1;
            }
            if left == 0 {
                remove_cgroups(top)?;
            }
        }
        ensure!(left == 0, "{left} processes are left");
        Ok(())
    })
}

/// Returns the node's cgroup in each hierarchy of the machine.
pub(crate) fn cgroup_tops() -> Result<Vec<PathBuf>> {
    let name = kubelet::CGROUP.trim_start_matches('/');
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.join(name)]);
    }
    let hierarchies = fs::read_dir(root).context("listing /sys/fs/cgroup")?;
    Ok(hierarchies
        .flatten()
        .filter(|entry| entry.path().join("cgroup.procs").exists())
        .map(|entry| entry.path().join(name))
        .collect())
}

fn processes_below(cgroup: &Path) -> Vec<u32> {
    let own = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<u32> = own.lines().filter_map(|line| line.parse().ok()).collect();
    for below in folders_in(cgroup) {
        found.extend(processes_below(&below));
    }
    found
}

fn remove_cgroups(cgroup: &Path) -> Result<()> {
    for below in folders_in(cgroup) {
        remove_cgroups(&below)?;
    }
    match fs::remove_dir(cgroup) {
        Err(error) if cgroup.exists() => {
            Err(error).with_context(|| format!("removing {}", cgroup.display()))
        }
        _ => Ok(()),
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn unmount_below(node: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("listing mounts")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(MOUNT_POINT));
    // A later mount may cover an earlier one.
    for point in points.map(Path::new).filter(|point| point.starts_with(node)).rev() {
        unmount(point, UnmountFlags::DETACH)
            .with_context(|| format!("unmounting {}", point.display()))?;
    }
    Ok(())
}

/// Removes the shims' sockets, which containerd keeps in a folder of the machine.
fn remove_shim_sockets(node: &Path) {
    let tasks = containerd::state(node).join("io.containerd.runtime.v2.task/k8s.io");
    for task in folders_in(&tasks) {
        let address = fs::read_to_string(task.join("address")).unwrap_or_default();
        if let Some(socket) = address.trim().strip_prefix("unix://") {
            // A shim that ended properly has removed it itself.
            let _ = fs::remove_file(socket);
        }
    }
}

/// Removes the kubelet's links to logs in a folder of the machine for log collectors.
fn remove_links_to_logs(folder: &RunFolder) {
    let entries = fs::read_dir("/var/log/containers").into_iter().flatten().flatten();
    for link in entries.map(|entry| entry.path()) {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(folder.logs())) {
            let _ = fs::remove_file(link);
        }
    }
}

/// Index of the mount point in a line of proc(5)'s `mountinfo`.
const MOUNT_POINT: usize = 4;
