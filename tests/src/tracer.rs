//! Runs a program under ptrace(2) from stop to stop, and kills it at a chosen stop.
#![expect(clippy::expect_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Processes to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The program. Its children continue, and the tracer waits for them.
    Program,
    /// One of its children: the first that reaches the stop or a later one.
    Child,
    /// The program and all its children.
    All,
}

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program exited by itself, after this number of stops.
    Exited {
        /// Its exit code.
        code: i32,
        /// Number of stops.
        stops: usize,
        /// Its output on stderr.
        stderr: String,
    },
    /// The program was killed.
    Killed,
}

/// A traced program with the stop at which to kill it.
struct Traced {
    program: Pid,
    /// The process of each thread.
    processes: BTreeMap<Pid, Pid>,
    stops: usize,
    death: Option<(usize, Victims)>,
    is_doomed: bool,
    code: Option<i32>,
}

/// Runs a command to its end, or kills it at the stop of that number. A stop is the entry or the
/// exit of a system call of the program or of one of its children.
///
/// The calling thread must have no other children.
pub fn run(command: &Command, death: Option<(usize, Victims)>) -> End {
    // ptrace(2) attaches to a running process: this one waits for a line until then.
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
    // The pipe has one line, and is closed immediately.
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("a line");
    let processes = BTreeMap::from([(program, program)]);
    let traced = Traced { program, processes, stops: 0, death, is_doomed: false, code: None };
    let (code, stops) = traced.follow();
    // The tracer has reaped the process already.
    let _ = child.wait();
    let mut text = String::new();
    stderr.rewind().and_then(|()| stderr.read_to_string(&mut text)).expect("what it said");
    code.map_or(End::Killed, |code| End::Exited { code, stops, stderr: text })
}

impl Traced {
    fn follow(mut self) -> (Option<i32>, usize) {
        // Before its exec, the process is the shell.
        let mut is_begun = false;
        // Other tests have children too, but on other threads.
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

    /// Records the new process or thread of an event.
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

    /// Kills the victims if the stop is reached.
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
            // A process that was just created.
            end(thread);
        }
        let resumed =
            if is_begun { ptrace::syscall(thread, signal) } else { ptrace::cont(thread, signal) };
        // A dead process cannot be resumed.
        assert!(matches!(resumed, Ok(()) | Err(Errno::ESRCH)), "{resumed:?}");
    }
}

/// Kills a process; a process that is gone already is no error.
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
