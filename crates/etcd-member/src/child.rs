//! A child process that ends with this one, also when this one is killed.
//!
//! A shell stands between the two. It waits for the end of its standard input, a pipe of which only this process has the
//! other end: the system closes that end however this process ends. Unlike a signal at the death of the parent
//! (`prctl`), this needs no code between fork and exec, and does not depend on which thread started the child.
//!
//! Invariant: when the pipe closes, the child is told to end, and killed [`GRACE`] seconds later; also a stopped one.
//!
//! Must not depend on: what the child does.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child as Inner, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::program;

/// Seconds between the order to end and the kill.
pub const GRACE: u32 = 5;

/// Runs a program until it ends or the standard input does. A shell gives a background command no standard input, so the
/// one that waits gets a copy.
const GUARD: &str = r#"
exec 3<&0
"$@" 3<&- &
child=$!
(cat <&3; kill "$child"; sleep "$0"; kill -9 "$child") >/dev/null 2>&1 &
waiting=$!
exec 3<&-
wait "$child"
code=$?
kill "$waiting" 2>/dev/null
exit "$code"
"#;

/// A command that runs a program under the guard, without the variables that concern etcd or this program. Its standard
/// input must be a pipe that this process keeps open.
#[must_use]
pub fn guarded(program: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", GUARD, &GRACE.to_string()]).arg(program);
    program::clean(&mut command);
    command
}

/// A running child.
pub struct Child {
    inner: Inner,
    input: Option<ChildStdin>,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Starts a command of [`guarded`]; also returns what the child writes to its standard error.
    ///
    /// # Errors
    /// Of the system.
    pub fn start(mut command: Command) -> io::Result<(Child, ChildStderr)> {
        // A group of its own: Ctrl-C on a terminal reaches only this process.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut inner = command.spawn()?;
        let input = inner.stdin.take();
        let errors = inner.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((Child { inner, input, ended: None }, errors))
    }

    /// Its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.inner.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Tells it to end.
    pub fn end(&mut self) {
        self.input = None;
    }

    /// Kills it and its shell, and waits for their end.
    pub fn kill(&mut self) {
        if self.ended().is_some() {
            return;
        }
        // The group has the number of its first process, which was not waited for yet.
        if let Some(group) = i32::try_from(self.inner.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.ended = self.inner.wait().ok();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::time::{Duration, Instant};

    /// Starts a shell that prints the number of its process first.
    fn shell(script: &str) -> (Child, BufReader<ChildStderr>, u32) {
        let mut command = guarded(Path::new("/bin/sh"));
        command.args(["-c", &format!("exec >&2; echo $$; {script}")]);
        let (child, errors) = Child::start(command).unwrap();
        let (mut lines, mut pid) = (BufReader::new(errors), String::new());
        lines.read_line(&mut pid).unwrap();
        (child, lines, pid.trim().parse().unwrap())
    }

    fn status(child: &mut Child) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = child.ended() {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_death(pid: u32) {
        let began = Instant::now();
        while std::fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(60), "{pid} goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn exit_code_and_output_of_the_child_arrive() {
        let (mut child, mut lines, _) = shell("echo said; exit 3");
        assert_eq!(status(&mut child).code(), Some(3));
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "said\n");
    }

    #[test]
    fn an_order_ends_the_child() {
        let (mut child, _lines, pid) = shell("exec sleep 1000");
        assert!(child.ended().is_none());
        child.end();
        status(&mut child);
        wait_for_death(pid);
    }

    #[test]
    fn a_child_that_does_not_obey_is_killed_after_a_while() {
        let (mut child, _lines, pid) = shell("trap '' TERM; while :; do sleep 0.1; done");
        child.end();
        status(&mut child);
        wait_for_death(pid);
    }

    #[test]
    fn drop_kills_the_child() {
        let (child, _lines, pid) = shell("trap '' TERM; while :; do sleep 0.1; done");
        drop(child);
        wait_for_death(pid);
    }
}
