//! A13: a machine with a wrong clock, while that of the API server is right.
//!
//! The programs are static, so a library cannot replace their system calls. They all call the
//! kernel's `vdso` in their own memory, so the test overwrites it there, for one process.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use e2e::wait;
use jiff::SignedDuration;

use crate::fixture::Fixture;
use crate::replica::Replica;

/// A13, first and second part
pub(crate) async fn clock_half_an_hour_off_fails_no_admission(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(2).await?;
    fixture.until_published().await?;
    let load = fixture.load();
    load.until_admitted(50).await?;
    for ahead in [HALF_AN_HOUR, -HALF_AN_HOUR] {
        for replica in &fixture.replicas {
            set_clock(replica, ahead)?;
            until_skew(replica, ahead)?;
        }
        // Leaves with the shifted time are served, and a CA with the shifted time replaces the old
        // one.
        let renewed = Instant::now() + fixture.pace().leaf_lifetime;
        let before = fixture.until_published().await?;
        fixture.ask_for_rotation().await?;
        fixture.until_phase("activated").await?;
        let after = fixture.until_phase("steady").await?;
        ensure!(after.active != before.active, "the CA is the same");
        load.until_admitted(100).await?;
        ensure!(Instant::now() > renewed, "no leaf was renewed meanwhile");
        for replica in &fixture.replicas {
            ensure!(replica.ready().is_ok(), "a replica is not ready");
        }
    }
    let tally = load.stop().await?;
    fixture.tell(&tally, "a rotation with each clock")?;
    tally.expect_no_failure()
}

/// A13, third part
pub(crate) async fn clock_two_hours_off_creates_no_ca(fixture: &mut Fixture<'_>) -> Result<()> {
    fixture.install(1).await?;
    let before = fixture.until_published().await?;
    let load = fixture.load();
    for ahead in [-TWO_HOURS, TWO_HOURS] {
        set_clock(&fixture.replicas[0], ahead)?;
        until_skew(&fixture.replicas[0], ahead)?;
        fixture.ask_for_rotation().await?;
        let direction = if ahead.is_negative() { "behind" } else { "ahead of" };
        let complaint =
            format!("clock is 2h {direction} the API server's; this replica makes no CA");
        wait::until("it says why", || {
            let said = fixture.replicas[0].process.said()?;
            ensure!(said.contains(&complaint), "`{complaint}` is not said");
            Ok(())
        })?;
        load.until_admitted(100).await?;
        let state = fixture.state().await?;
        ensure!(state == before, "a CA was made: {:?}", state.phase);
    }
    // It rotates as requested as soon as its clock is right.
    set_clock(&fixture.replicas[0], SignedDuration::ZERO)?;
    fixture.until_phase("prepared").await?;
    let tally = load.stop().await?;
    fixture.tell(&tally, "no CA was made until the clock was right")?;
    tally.expect_no_failure()
}

/// Waits until the replica has measured its clock skew, up to the duration of a request.
fn until_skew(replica: &Replica, ahead: SignedDuration) -> Result<()> {
    replica.until_metric("sidecar_injector_clock_skew_seconds", |measured| {
        (measured - ahead.as_secs()).abs() <= 5
    })
}

/// Sets the process's time of day from now on.
fn set_clock(replica: &Replica, ahead: SignedDuration) -> Result<()> {
    let id = replica.process.id();
    replica.pause()?;
    let written = wait::until("it stands still", || stands_still(id)).and_then(|()| {
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{id}/mem"))?;
        let code = clock_gettime(ahead.as_secs());
        memory.write_all_at(&code, vdso_function(id, &memory)?).context("writing to the vdso")
    });
    replica.resume()?;
    written
}

fn stands_still(id: u32) -> Result<()> {
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        let state = stat.rsplit_once(") ").context("a task without a state")?.1;
        ensure!(state.starts_with('T'), "a thread runs");
    }
    Ok(())
}

/// Returns code for the start of `clock_gettime`: it makes the system call, and adds to
/// `CLOCK_REALTIME`.
///
/// The kernel's own code is much longer, and its remainder stays unchanged for a thread that was
/// stopped in it.
fn clock_gettime(ahead_seconds: i64) -> Vec<u8> {
    let mut code = vec![
        0xb8, 228, 0, 0, 0, // mov eax, __NR_clock_gettime
        0x0f, 0x05, // syscall
        0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
        0x75, 0x0d, // jne to the ret
        0x48, 0xb9, // mov rcx, seconds
    ];
    code.extend(ahead_seconds.to_le_bytes());
    code.extend([
        0x48, 0x01, 0x0e, // add [rsi], rcx
        0xc3, // ret
    ]);
    code
}

/// Finds `__vdso_clock_gettime` in the memory of a process by the vdso's ELF symbols.
fn vdso_function(id: u32, memory: &File) -> Result<u64> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the code that fakes a clock is written for x86-64");
    }
    let maps = std::fs::read_to_string(format!("/proc/{id}/maps"))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).context("it has no vdso")?;
    let (range, _) = line.split_once(' ').context("a mapping without a range")?;
    let (start, end) = range.split_once('-').context("a range without an end")?;
    let start = u64::from_str_radix(start, 16)?;
    let mut image = vec![0; usize::try_from(u64::from_str_radix(end, 16)? - start)?];
    memory.read_exact_at(&mut image, start).context("reading the vdso")?;
    let sections = number(&image, 0x28, 8)?;
    let header = |index: usize| sections + index * 64;
    for index in 0..number(&image, 0x3c, 2)? {
        if number(&image, header(index) + 4, 4)? != SHT_DYNSYM {
            continue;
        }
        let symbols = number(&image, header(index) + 0x18, 8)?;
        let size = number(&image, header(index) + 0x20, 8)?;
        let names_at = header(number(&image, header(index) + 0x28, 4)?);
        let names = number(&image, names_at + 0x18, 8)?;
        for symbol in (symbols..symbols + size).step_by(24) {
            let name = names + number(&image, symbol, 4)?;
            if image.get(name..).is_some_and(|text| text.starts_with(b"__vdso_clock_gettime\0")) {
                return Ok(start + number(&image, symbol + 8, 8)? as u64);
            }
        }
    }
    bail!("the vdso has no __vdso_clock_gettime")
}

/// Reads a little-endian number of the ELF image.
fn number(image: &[u8], at: usize, width: usize) -> Result<usize> {
    let bytes = image.get(at..at + width).context("the vdso ends early")?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

const SHT_DYNSYM: usize = 11;
const HALF_AN_HOUR: SignedDuration = SignedDuration::from_mins(30);
const TWO_HOURS: SignedDuration = SignedDuration::from_hours(2);
