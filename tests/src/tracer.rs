//! Runs a program under ptrace(2), stop by stop, and kills it where a test says.
#![expect(clippy::expect_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The program; what it started goes on, and is waited for.
    Program,
    /// One of those that it started, whichever comes to the stop or to one after it.
    Child,
    /// The program and all that it started.
    All,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, after so many stops.
    Exited {
        /// Its exit code.
        code: i32,
        /// Number of stops.
        stops: usize,
        /// Its output on stderr.
        stderr: String,
    },
    /// It was killed.
    Killed,
}

/// A program that is told when to die.
struct Traced {
    program: Pid,
    /// The process that each thread belongs to.
    processes: BTreeMap<Pid, Pid>,
    stops: usize,
    death: Option<(usize, Victims)>,
    is_doomed: bool,
    code: Option<i32>,
}

/// Runs a command to its end or to its death: at the stop of that number, where a stop is the
/// begin or the end of a system call of the program or of one that it started.
///
/// The thread that calls this must have no other children.
pub fn run(command: &Command, death: Option<(usize, Victims)>) -> End {
    // ptrace(2) stops a process that runs already: this one waits for a line until then.
    let mut gate = Command::new("/bin/sh");
    gate.args(["-c", "read line && exec \"$0\" \"$@\""]);
    gate.arg(command.get_program()).args(command.get_args()).env_clear();
    gate.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut stderr = tempfile::tempfile().expect("a file");
    let of_program = stderr.try_clone().expect("the same file");
    gate.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(of_program);
    let mut child = gate.spawn().expect("a shell");
    let program = Pid::from_raw(child.id().try_into().expect("a number of a process"));
    ptrace::seize(program, options()).expect("ptrace");
    // Closed at once, the line is there, and nothing after it.
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("a line");
    let processes = BTreeMap::from([(program, program)]);
    let traced = Traced { program, processes, stops: 0, death, is_doomed: false, code: None };
    let (code, stops) = traced.follow();
    // The tracer has seen its end; this finds nobody.
    let _ = child.wait();
    let mut text = String::new();
    stderr.rewind().and_then(|()| stderr.read_to_string(&mut text)).expect("what it said");
    code.map_or(End::Killed, |code| End::Exited { code, stops, stderr: text })
}

impl Traced {
    fn follow(mut self) -> (Option<i32>, usize) {
        // Until its exec, it is the shell.
        let mut is_begun = false;
        // Other tests have children too; they belong to other threads.
        let mine = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(None, Some(mine)) {
                Ok(WaitStatus::PtraceEvent(thread, _, event)) => {
                    is_begun |= event == Event::PTRACE_EVENT_EXEC as i32;
                    self.learn(thread, event);
                    self.resume(thread, is_begun, None);
                }
                Ok(WaitStatus::PtraceSyscall(thread)) => {
                    self.stops += 1;
                    self.judge(thread);
                    self.resume(thread, is_begun, None);
                }
                Ok(WaitStatus::Stopped(thread, signal)) => {
                    self.resume(thread, is_begun, Some(signal));
                }
                Ok(WaitStatus::Exited(thread, code)) if thread == self.program => {
                    self.code = Some(code);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return (self.code, self.stops),
                Err(errno) => panic!("waiting for the traced program: {errno}"),
            }
        }
    }

    /// Remembers whom a process starts.
    fn learn(&mut self, thread: Pid, event: i32) {
        let is = |known: Event| event == known as i32;
        let is_thread = is(Event::PTRACE_EVENT_CLONE);
        if is_thread || is(Event::PTRACE_EVENT_FORK) || is(Event::PTRACE_EVENT_VFORK) {
            let Ok(number) = ptrace::getevent(thread) else { return };
            let new = Pid::from_raw(number.try_into().expect("a number of a process"));
            let process = if is_thread { self.process(thread) } else { new };
            self.processes.insert(new, process);
        }
    }

    /// Kills whom the time has come for.
    fn judge(&mut self, thread: Pid) {
        let process = self.process(thread);
        let Some((_, victims)) = self.death.filter(|(stop, _)| self.stops >= *stop) else {
            return;
        };
        let is_child = process != self.program;
        match victims {
            Victims::Child if !is_child => return,
            Victims::Child => end(process),
            Victims::Program => end(self.program),
            Victims::All => {
                self.is_doomed = true;
                self.processes.values().copied().for_each(end);
            }
        }
        self.death = None;
    }

    fn process(&self, thread: Pid) -> Pid {
        self.processes.get(&thread).copied().unwrap_or(thread)
    }

    fn resume(&self, thread: Pid, is_begun: bool, signal: Option<Signal>) {
        if self.is_doomed {
            // One that was only just born.
            end(thread);
        }
        let resumed =
            if is_begun { ptrace::syscall(thread, signal) } else { ptrace::cont(thread, signal) };
        // Who is dead cannot go on.
        assert!(matches!(resumed, Ok(()) | Err(Errno::ESRCH)), "{resumed:?}");
    }
}

/// One that is gone already needs no more.
fn end(process: Pid) {
    let _ = kill(process, Signal::SIGKILL);
}

fn options() -> Options {
    Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_EXITKILL
}
