//! `webhook-certs issue` in directories that others write in, and killed at every system call.
#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::skipped_tests;
use e2e::tracer::{self, End, Victims};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::geteuid;
use webhook_certs::authority::Authority;
use webhook_certs::bundle::Bundle;
use webhook_certs::certificate_files::{CertificateFiles, FilesError};
use webhook_certs::cluster::csr;
use webhook_certs::server_names::ServerNames;
use webhook_certs::serving::Identity;

/// Plants something at the first path; the second path is a file that must not change.
type Plant = fn(&Path, &Path);

const FILES: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];
const OTHER_USER: u32 = 65_432;
/// System calls by which two runs of a call may differ.
const MARGIN: usize = 24;
/// Syncing files is free there.
const MEMORY: &str = "/dev/shm";

fn command(out: &Path, more: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
    program.args(["issue", "--dns", "a.b.svc", "--out"]).arg(out).args(more);
    program
}

fn issue(out: &Path, more: &[&str]) -> Output {
    command(out, more).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Readable files, by name.
fn read(out: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    FILES.into_iter().filter_map(|name| Some((name, fs::read(out.join(name)).ok()?))).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Asserts that CA and key, leaf and key, and CA and leaf belong together.
fn assert_is_set(files: &BTreeMap<&str, Vec<u8>>) {
    let authority = Authority::from_pem(&files["ca.crt"], &files["ca.key"]).unwrap();
    let leaf = Identity::from_pem(&files["tls.crt"], &files["tls.key"]).unwrap();
    let bundle = Bundle::new(authority.ca().clone(), None);
    let names = ServerNames::parse(["a.b.svc"]).unwrap();
    assert_eq!(csr::verify(&leaf, &bundle, &names, jiff::Timestamp::now()), Ok(()));
}

#[test]
fn planted_files_get_no_key_and_lead_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    let plants: [Plant; 4] = [
        |at, victim| symlink(victim, at).unwrap(),
        |at, victim| fs::hard_link(victim, at).unwrap(),
        |at, _| mkfifoat(CWD, at, Mode::from_raw_mode(0o666)).unwrap(),
        |at, _| {
            fs::write(at, "").unwrap();
            fs::set_permissions(at, Permissions::from_mode(0o666)).unwrap();
        },
    ];
    for (number, plant) in plants.into_iter().enumerate() {
        let out = directory.path().join(number.to_string());
        fs::create_dir(&out).unwrap();
        fs::set_permissions(&out, Permissions::from_mode(0o1777)).unwrap();
        for name in FILES {
            plant(&out.join(name), &victim);
            plant(&out.join(format!("{name}.new")), &victim);
        }
        // Kept open by the attacker; opening a pipe would wait for a writer.
        let key = out.join("ca.key.new");
        let open = fs::metadata(&key).unwrap().is_file().then(|| File::open(key).unwrap());
        let output = issue(&out, &["--new-ca"]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("any user may write in"), "{}", said(&output));
        assert_is_set(&read(&out));
        let mut leaked = String::new();
        open.map(|mut open| open.read_to_string(&mut leaked).unwrap());
        assert!(!leaked.contains("PRIVATE KEY"), "{number}: the key is in a planted file");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept", "{number}");
        assert_eq!(FILES.map(|name| mode(&out.join(name))), [0o644, 0o600, 0o644, 0o600]);
    }
}

#[test]
fn ca_of_another_user_signs_nothing() {
    if !geteuid().is_root() {
        skipped_tests::record("CA files of another user", "not root").unwrap();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    assert!(issue(directory.path(), &[]).status.success());
    let planted = tempfile::tempdir().unwrap();
    for name in ["ca.crt", "ca.key"] {
        fs::copy(directory.path().join(name), planted.path().join(name)).unwrap();
        chown(planted.path().join(name), Some(OTHER_USER), None).unwrap();
    }
    let output = issue(planted.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let belongs = format!("it belongs to the user {OTHER_USER}");
    assert!(said(&output).contains(&belongs), "{}", said(&output));
    // A pipe of another user must not block.
    fs::remove_file(planted.path().join("ca.crt")).unwrap();
    mkfifoat(CWD, planted.path().join("ca.crt"), Mode::from_raw_mode(0o666)).unwrap();
    let output = issue(planted.path(), &[]);
    assert!(said(&output).contains("not a regular file"), "{}", said(&output));
    // A link of another user is replaced, and its target is not.
    fs::remove_file(planted.path().join("ca.crt")).unwrap();
    symlink(directory.path().join("ca.crt"), planted.path().join("ca.crt")).unwrap();
    lchown(planted.path().join("ca.crt"), Some(OTHER_USER), None).unwrap();
    let before = read(directory.path());
    assert!(issue(planted.path(), &["--new-ca"]).status.success());
    assert_is_set(&read(planted.path()));
    assert_eq!(read(directory.path()), before);
}

#[test]
fn umask_does_not_change_permissions() {
    // Only root can use a directory that was created under the last one.
    let count = if geteuid().is_root() { 3 } else { 2 };
    for umask in &["000", "077", "777"][..count] {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]);
        let issue = command(&out, &[]);
        shell.arg(issue.get_program()).args(issue.get_args());
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{umask}: {}", said(&output));
        assert_eq!(FILES.map(|name| mode(&out.join(name))), [0o644, 0o600, 0o644, 0o600]);
    }
}

#[test]
fn one_call_at_a_time_writes_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let lock = File::open(directory.path()).unwrap();
    lock.lock().unwrap();
    let output = issue(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("another process is writing there"), "{}", said(&output));
    drop(lock);
    assert!(issue(directory.path(), &[]).status.success());
}

#[test]
fn readers_meanwhile_never_see_half_a_pair() {
    let directory = tempfile::tempdir().unwrap();
    assert!(issue(directory.path(), &[]).status.success());
    let files = CertificateFiles {
        certificate: directory.path().join("tls.crt"),
        key: directory.path().join("tls.key"),
    };
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                match files.load() {
                    // The generation was just removed; the next read finds the next one.
                    Ok(_) | Err(FilesError::Read { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for _ in 0..20 {
            let output = issue(directory.path(), &["--new-ca"]);
            is_done.store(!output.status.success(), Ordering::Relaxed);
            assert!(output.status.success(), "{}", said(&output));
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_first_call_killed_anywhere_leaves_no_set_or_a_whole_one() {
    killed_everywhere(|_| {});
}

#[test]
fn a_later_call_killed_anywhere_leaves_the_old_set_or_the_new() {
    killed_everywhere(|out| assert!(issue(out, &[]).status.success()));
}

#[test]
fn plain_files_stay_a_set_wherever_a_call_is_killed() {
    killed_everywhere(|out| {
        let other = tempfile::tempdir_in(MEMORY).unwrap();
        assert!(issue(other.path(), &[]).status.success());
        for (name, content) in read(other.path()) {
            fs::write(out.join(name), content).unwrap();
        }
    });
}

/// Kills a call at begin and end of each system call, from shortly before the first that changes
/// something. The number of earlier system calls differs between runs: one may end where another was
/// killed before its change, so the last stops are tried again until a call was killed after its own.
fn killed_everywhere(prepare: impl Fn(&Path)) {
    let (mut begun, mut replaced, mut ended) = (0, 0, 0);
    let mut stop = first_change(&prepare).saturating_sub(MARGIN);
    while replaced == 0 || ended == 0 {
        let directory = tempfile::tempdir_in(MEMORY).unwrap();
        prepare(directory.path());
        let (before, entries_before) = (read(directory.path()), entries(directory.path()));
        let end = killed(directory.path(), stop);
        let after = read(directory.path());
        let is_replaced = after != before;
        if is_replaced {
            assert_ne!(after.get("tls.key"), before.get("tls.key"), "stop {stop}");
            assert_is_set(&after);
        } else if entries(directory.path()) != entries_before {
            begun += 1;
        }
        assert_recovers(directory.path(), stop);
        stop += 1;
        if let End::Exited { code, stderr, .. } = end {
            assert_eq!(code, 0, "{stderr}");
            ended += 1;
            stop = stop.saturating_sub(MARGIN);
            assert!(ended < 20, "killed {begun} times before, never after");
        } else if is_replaced {
            replaced += 1;
        }
    }
    assert!(begun > 5, "killed {begun} times before");
}

/// Finds, by bisection, the first stop at which the directory has changed.
fn first_change(prepare: &impl Fn(&Path)) -> usize {
    let (mut before, mut after) = (0, 1 << 13);
    while before + 1 < after {
        let middle = usize::midpoint(before, after);
        let directory = tempfile::tempdir_in(MEMORY).unwrap();
        prepare(directory.path());
        let entries = entries(directory.path());
        killed(directory.path(), middle);
        let is_changed = self::entries(directory.path()) != entries;
        *(if is_changed { &mut after } else { &mut before }) = middle;
    }
    after
}

fn killed(out: &Path, stop: usize) -> End {
    tracer::run(&command(out, &["--new-ca"]), Some((stop, Victims::All)))
}

fn entries(out: &Path) -> BTreeSet<OsString> {
    fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Asserts that the next call makes a whole set and removes the leftovers of the killed one.
fn assert_recovers(out: &Path, stop: usize) {
    let output = issue(out, &[]);
    assert!(output.status.success(), "stop {stop}: {}", said(&output));
    assert_is_set(&read(out));
    let entries = entries(out).len();
    assert_eq!(entries, FILES.len() + 2, "stop {stop}: `..data` and its generation, no more");
}
