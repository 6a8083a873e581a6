//! Starts the measured server on blank folders, and stops it.
//!
//! Invariants: folders with content are refused; the server is stopped by its own process id however the
//! benchmark ends; only folders that were blank before are emptied.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::options::Options;
use crate::{outcome::Outcome, shell};

/// A server that this process started.
pub struct Server {
    child: Child,
    folders: Vec<PathBuf>,
    /// Its address.
    pub endpoint: String,
}

impl Server {
    /// Starts `program server DRIVES --address 127.0.0.1:PORT` and waits until it is ready.
    pub fn start(program: &str, drives: &str, options: &Options) -> Outcome<Server> {
        let folders: Vec<PathBuf> = expand(drives)?.into_iter().map(PathBuf::from).collect();
        for folder in &folders {
            fs::create_dir_all(folder)?;
            let mut entries = fs::read_dir(folder)?.flatten();
            if let Some(entry) = entries.find(|e| e.file_name() != "lost+found") {
                return Err(format!("{} is not blank: {:?}", folder.display(), entry.file_name()).into());
            }
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let log = std::env::temp_dir().join(format!("ashlar-bench-{port}.log"));
        let output = fs::File::create(&log)?;
        let child = Command::new(find(program)?)
            .args(["server", drives, "--address", &address])
            .args(&options.server_args)
            .env("ASHLAR_ROOT_USER", &options.access_key)
            .env("ASHLAR_ROOT_PASSWORD", &options.secret_key)
            .env("MINIO_ROOT_USER", &options.access_key)
            .env("MINIO_ROOT_PASSWORD", &options.secret_key)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let mut server = Server { child, folders, endpoint: format!("http://{address}") };
        let begin = Instant::now();
        while !server.ready(&address) {
            if let Some(status) = server.child.try_wait()? {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("{program} ended ({status}):\n{said}").into());
            }
            if begin.elapsed() > Duration::from_secs(60) {
                server.end()?;
                return Err(format!("{program} was not ready after 60 s; see {}", log.display()).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{program} ready after {} ms, log in {}", begin.elapsed().as_millis(), log.display());
        // Let it finish deferred work of the first start, so that idle memory is measured correctly.
        std::thread::sleep(Duration::from_secs(2));
        Ok(server)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn ready(&self, address: &str) -> bool {
        use std::io::{Read, Write};
        let mut answer = String::new();
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            write!(
                stream,
                "GET /minio/health/ready HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
            )?;
            stream.take(512).read_to_string(&mut answer)
        });
        asked.is_ok() && answer.starts_with("HTTP/1.1 200")
    }

    /// Stops it and, unless told to keep them, empties its folders.
    pub fn stop(mut self, keep: bool) -> Outcome {
        self.end()?;
        if !keep {
            for folder in &self.folders {
                for entry in fs::read_dir(folder)?.flatten() {
                    let removed = match entry.file_type()?.is_dir() {
                        true => fs::remove_dir_all(entry.path()),
                        false => fs::remove_file(entry.path()),
                    };
                    if entry.file_name() != "lost+found" {
                        removed?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends SIGTERM, waits thirty seconds, then sends SIGKILL.
    fn end(&mut self) -> Outcome {
        shell::read(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begin.elapsed() > Duration::from_secs(30) {
                self.child.kill()?;
                self.child.wait()?;
                return Err("the server did not end within 30 s of SIGTERM".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The program itself if it is a path, otherwise the one built here, otherwise the one in the PATH.
fn find(program: &str) -> Outcome<PathBuf> {
    if program.contains('/') {
        return Ok(program.into());
    }
    let built = shell::root().join("target/release").join(program);
    Ok(if built.exists() { built } else { program.into() })
}

/// Expands one `{first...last}`.
fn expand(pattern: &str) -> Outcome<Vec<String>> {
    let Some((head, rest)) = pattern.split_once('{') else { return Ok(vec![pattern.into()]) };
    let bad = || format!("{pattern:?}: expected one {{1...n}}");
    let (range, tail) = rest.split_once('}').ok_or_else(bad)?;
    let (first, last) = range.split_once("...").ok_or_else(bad)?;
    let (first, last): (u32, u32) = (first.parse()?, last.parse()?);
    if first > last || last - first > 1000 || tail.contains('{') {
        return Err(bad().into());
    }
    Ok((first..=last).map(|n| format!("{head}{n}{tail}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_patterns_are_expanded() {
        assert_eq!(expand("/a/d{2...4}/x").unwrap(), ["/a/d2/x", "/a/d3/x", "/a/d4/x"]);
        assert_eq!(expand("/a").unwrap(), ["/a"]);
        for bad in ["{1..4}", "{4...1}", "{1...2}{1...2}", "{1...", "{a...b}"] {
            assert!(expand(bad).is_err(), "{bad}");
        }
    }
}
