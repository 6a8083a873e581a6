//! A virtual enclosure and the arrays on it, as child processes: what an operator would start, of the same program.
//!
//! The set-up is that of a file; its scale, ports, data and the size of its drives are this run's. Each zone is a server: a process
//! `array serve` that has the name of the zone's first host and a drive group of the zone's namespaces.
//!
//! Invariants: everything is in a folder of the run, which is removed at the end; children end with the rig, also after an error.
//!
//! Must not depend on: loads.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toml::Table;

use super::Rebuild;
use crate::error::{Error, Result};

/// Time between two looks at a state.
pub const LOOK: Duration = Duration::from_millis(100);
/// Time within which a drive that was pulled is out of service, and one that is put back is in it.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a member needs beside its data: superblocks, journal, checksums.
const OVERHEAD: u64 = 16 << 20;
/// Bytes of a member's journal.
const JOURNAL: u64 = 4 << 20;
/// Bytes of a member's block.
const ROW: u64 = 4096;

/// What arrays are made of, and how.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program whose commands `fabric serve` and `array serve` are.
    pub program: PathBuf,
    /// The set-up of the enclosure.
    pub enclosure: Table,
    /// N of the scale 1:N.
    pub scale: f64,
    /// Where the run makes its folder.
    pub parent: PathBuf,
    /// Level of the groups: `5`, `6`, `K+M`.
    pub level: String,
    /// Bytes of a strip.
    pub strip: u64,
    /// Policy of the groups.
    pub policy: String,
    /// Bytes of each member that hold data.
    pub member: u64,
}

/// Where a load goes, and as which host.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    /// `nvme-tcp://...`
    pub address: String,
    /// The host that sees it; none: any.
    pub host: Option<String>,
}

/// A child that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A zone: a server with a group.
struct Zone {
    host: Option<String>,
    /// Bays of its members, in order.
    bays: Vec<u64>,
    members: Vec<String>,
    socket: PathBuf,
    array: Option<Process>,
}

/// The enclosure and its arrays.
pub struct Rig {
    setup: Setup,
    folder: PathBuf,
    fabric: Option<Process>,
    zones: Vec<Zone>,
    /// Bays that were pulled.
    pulled: Vec<u64>,
    began: Option<Instant>,
    ended_s: Option<f64>,
}

/// Parity members of a set.
///
/// # Errors
/// [`Error::Usage`].
pub fn parity(level: &str) -> Result<u64> {
    let coded = level.split_once('+').and_then(|(k, m)| Some((k.parse::<u64>().ok()?, m.parse().ok()?)));
    match (level, coded) {
        ("5", _) => Ok(1),
        ("6", _) => Ok(2),
        (_, Some((k, m))) if k > 0 && m > 0 => Ok(m),
        _ => Err(Error::usage(format!("{level:?} is no level of this process: 5, 6 or K+M"))),
    }
}

fn free_port() -> Result<u16> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map(|a| a.port());
    port.map_err(Error::io("cannot find a free port"))
}

/// Asks a management socket: HTTP over a Unix socket.
fn ask(socket: &Path, call: Option<&Value>) -> Result<Value> {
    let shown = socket.display().to_string();
    let io = || Error::io(shown.clone());
    let mut stream = UnixStream::connect(socket).map_err(io())?;
    let body = call.map(Value::to_string).unwrap_or_default();
    let line = if call.is_some() { "POST /v1/call" } else { "GET /v1/state" };
    let head =
        format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).map_err(io())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(io())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    if head.split(' ').nth(1) == Some("200") {
        return Ok(value);
    }
    let why = value["message"].as_str().unwrap_or(head.lines().next().unwrap_or("no answer"));
    Err(Error::setup(format!("{line}: {why}")))
}

impl Rig {
    /// Starts the enclosure; no array is made yet.
    ///
    /// # Errors
    /// [`Error`]: then nothing is left.
    pub fn start(setup: Setup) -> Result<Rig> {
        let name = format!("ashlar-bench-{}-{}", std::process::id(), free_port()?);
        let folder = setup.parent.join(name);
        fs::create_dir(&folder).map_err(Error::io(folder.display().to_string()))?;
        let mut rig = Rig {
            setup,
            folder,
            fabric: None,
            zones: Vec::new(),
            pulled: Vec::new(),
            began: None,
            ended_s: None,
        };
        rig.start_enclosure()?;
        Ok(rig)
    }

    fn start_enclosure(&mut self) -> Result<()> {
        let mut table = self.setup.enclosure.clone();
        let named = table.get("ports").and_then(|p| p.as_array()).map_or(6, Vec::len);
        // `{1...6}` is six of them; the design says how many there may be.
        let ranges = table.get("ports").is_some_and(|p| p.to_string().contains("..."));
        let count = if ranges { 6 } else { named };
        let ports =
            (0..count).map(|_| Ok(format!("127.0.0.1:{}", free_port()?))).collect::<Result<Vec<_>>>()?;
        let namespaces = table
            .get("drive")
            .and_then(|d| d.get("namespaces"))
            .and_then(toml::Value::as_integer)
            .unwrap_or(2);
        let drive = table.entry("drive").or_insert_with(|| Table::new().into());
        if let Some(drive) = drive.as_table_mut() {
            let bytes = (self.setup.member + OVERHEAD) as f64 * namespaces as f64 * self.setup.scale;
            drive.insert("capacity".into(), format!("{:.0}B", bytes * 1.001).into());
        }
        table.insert("ports".into(), ports.into());
        table.insert("scale".into(), self.setup.scale.into());
        table.insert("data".into(), "data".into());
        // The disk of this machine is not what is measured.
        table.insert("sync".into(), false.into());
        let file = self.folder.join("enclosure.toml");
        fs::write(&file, table.to_string()).map_err(Error::io(file.display().to_string()))?;
        let socket = self.fabric_socket();
        let arguments = ["fabric".into(), "--socket".into(), socket, "serve".into(), file];
        let (process, said) = self.spawn("fabric", &arguments)?;
        self.fabric = Some(process);
        self.zones = self.zones_of(&said["state"])?;
        Ok(())
    }

    fn fabric_socket(&self) -> PathBuf {
        self.folder.join("fabric.sock")
    }

    /// Starts a child and waits for what it says first.
    fn spawn(&self, name: &str, arguments: &[PathBuf]) -> Result<(Process, Value)> {
        let log = self.folder.join(format!("{name}.log"));
        let file = File::create(&log).map_err(Error::io(log.display().to_string()))?;
        let mut command = Command::new(&self.setup.program);
        command.arg("--json").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut process = Process(command.spawn().map_err(Error::io(format!("cannot start `{name}`")))?);
        let mut line = String::new();
        if let Some(out) = process.0.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(Error::io(name.to_owned()))?;
        }
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        if said["state"].is_null() {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let why = said["error"]["cause"]["message"].as_str().map(str::to_owned);
            let why = why.or_else(|| log.lines().last().map(str::to_owned)).unwrap_or_default();
            return Err(Error::setup(format!("`{name} serve` did not start: {why}")));
        }
        Ok((process, said))
    }

    /// The servers of an enclosure: its zones; without zones one, with the first namespace of every drive.
    fn zones_of(&self, state: &Value) -> Result<Vec<Zone>> {
        let all = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let port =
            |name: &str| all(&state["ports"]).iter().find(|p| p["name"] == name).map(|p| text(&p["address"]));
        let nqn = |bay: u64| {
            all(&state["drives"])
                .iter()
                .find(|d| d["bay"] == bay)
                .map(|d| text(&d["nqn"]))
                .unwrap_or_default()
        };
        let zone = |number: usize, host: Option<String>, places: Vec<(u64, u64)>, ports: Vec<String>| {
            let ports = ports.join(",");
            Zone {
                host,
                bays: places.iter().map(|(bay, _)| *bay).collect(),
                members: places
                    .iter()
                    .map(|(bay, namespace)| format!("nvme-tcp://{ports}/{}/{namespace}", nqn(*bay)))
                    .collect(),
                socket: self.folder.join(format!("array-{number}.sock")),
                array: None,
            }
        };
        let zones: Vec<Zone> = match state["zones"].as_array() {
            None => {
                let bays =
                    all(&state["drives"]).iter().filter_map(|d| Some((d["bay"].as_u64()?, 1))).collect();
                let ports = all(&state["ports"]).iter().map(|p| text(&p["address"])).collect();
                vec![zone(0, None, bays, ports)]
            }
            Some(zones) => {
                let of = |(number, z): (usize, &Value)| {
                    let place = |t: &Value| {
                        let (bay, namespace) = t.as_str()?.split_once('/')?;
                        Some((bay.parse().ok()?, namespace.parse().ok()?))
                    };
                    let host = z["hosts"][0].as_str().filter(|h| *h != "*").map(str::to_owned);
                    let ports = all(&z["ports"]).iter().filter_map(|p| port(p.as_str()?)).collect();
                    zone(number, host, all(&z["namespaces"]).iter().filter_map(place).collect(), ports)
                };
                zones.iter().enumerate().map(of).collect()
            }
        };
        let parity = parity(&self.setup.level)?;
        match zones.iter().find(|z| z.members.len() as u64 <= parity) {
            Some(zone) => Err(Error::usage(format!(
                "level {} needs more than the {} namespaces of a zone",
                self.setup.level,
                zone.members.len()
            ))),
            None => Ok(zones),
        }
    }

    /// Every namespace that becomes a member.
    #[must_use]
    pub fn members(&self) -> Vec<Reach> {
        let of = |z: &Zone| {
            let host = z.host.clone();
            z.members.iter().map(|m| Reach { address: m.clone(), host: host.clone() }).collect::<Vec<_>>()
        };
        self.zones.iter().flat_map(of).collect()
    }

    /// Groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.zones.len()
    }

    /// Ports of the enclosure.
    #[must_use]
    pub fn ports(&self) -> usize {
        let state = ask(&self.fabric_socket(), None).unwrap_or_default();
        state["ports"].as_array().map_or(0, Vec::len)
    }

    /// Drives, and members of the first group.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        let mut bays: Vec<u64> = self.zones.iter().flat_map(|z| z.bays.clone()).collect();
        bays.sort_unstable();
        bays.dedup();
        (bays.len(), self.zones.first().map_or(0, |z| z.members.len()))
    }

    /// Makes the groups, each in a process of its own, with one virtual drive each: where they are.
    ///
    /// # Errors
    /// [`Error`].
    pub fn assemble(&mut self) -> Result<Vec<Reach>> {
        let parity = parity(&self.setup.level)?;
        let mut made = Vec::new();
        for number in 0..self.zones.len() {
            let (socket, host) = (self.zones[number].socket.clone(), self.zones[number].host.clone());
            let mut arguments: Vec<PathBuf> = ["array", "--socket"].map(PathBuf::from).to_vec();
            arguments.extend([socket.clone(), "serve".into(), "--nvme".into()]);
            arguments.push(format!("127.0.0.1:{}", free_port()?).into());
            // A drive that is pulled is to be out of service before hosts give up.
            arguments.extend(["--fast-io-fail-timeout", "2"].map(PathBuf::from));
            if let Some(host) = host {
                arguments.extend(["--host-nqn".into(), host.into()]);
            }
            let (process, said) = self.spawn(&format!("array-{number}"), &arguments)?;
            let zone = &mut self.zones[number];
            zone.array = Some(process);
            let k = zone.members.len() as u64 - parity;
            ask(
                &socket,
                Some(&json!({
                    "call": "create_group", "name": "g", "level": self.setup.level, "strip": self.setup.strip,
                    "policy": self.setup.policy, "journal": JOURNAL, "drives": zone.members, "spares": [], "force": true,
                })),
            )?;
            let volume = json!({ "call": "create_volume", "group": "g", "name": "data", "size": k * self.setup.member });
            let answer = ask(&socket, Some(&volume))?;
            let (nqn, nsid) = (&answer["groups"][0]["nqn"], &answer["volume"]["nsid"]);
            let portal = said["state"]["nvme"]["endpoints"][0].as_str().unwrap_or_default();
            let address = format!("nvme-tcp://{portal}/{}/{nsid}", nqn.as_str().unwrap_or_default());
            made.push(Reach { address, host: None });
        }
        Ok(made)
    }

    /// Process numbers of the arrays.
    #[must_use]
    pub fn arrays(&self) -> Vec<u32> {
        self.zones.iter().filter_map(|z| Some(z.array.as_ref()?.0.id())).collect()
    }

    /// Read and write commands that the drives have executed.
    #[must_use]
    pub fn commands(&self) -> Option<(u64, u64)> {
        let state = ask(&self.fabric_socket(), None).ok()?;
        let sum =
            |what: &str| state["drives"].as_array().map(|d| d.iter().filter_map(|d| d[what].as_u64()).sum());
        Some((sum("reads")?, sum("writes")?))
    }

    fn group(&self, zone: &Zone) -> Result<Value> {
        Ok(ask(&zone.socket, None)?["groups"][0].clone())
    }

    /// Waits until every group is like this.
    fn until(&self, what: &str, is: impl Fn(&Zone, &Value) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        for zone in &self.zones {
            while !is(zone, &self.group(zone)?) {
                if Instant::now() >= end {
                    return Err(Error::setup(format!("not within {} s: {what}", PATIENCE.as_secs())));
                }
                thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Pulls the first drive of each group, which other groups may have a namespace of, and waits until the groups go on without.
    ///
    /// # Errors
    /// [`Error`].
    pub fn take_down(&mut self) -> Result<()> {
        for number in 0..self.zones.len() {
            // One that another group has lost a member with is enough.
            if self.zones[number].bays.iter().any(|b| self.pulled.contains(b)) {
                continue;
            }
            let bay = self.zones[number].bays[0];
            let fault = json!({ "call": "inject", "fault": { "fault": "drive-gone", "bay": bay } });
            ask(&self.fabric_socket(), Some(&fault))?;
            self.pulled.push(bay);
        }
        let pulled = self.pulled.clone();
        self.until("drives that were pulled are out of service", move |zone, group| {
            lost(zone, &pulled).all(|at| group["drives"][at]["state"] == "FAILED")
        })
    }

    /// Puts the drives back, as if they were blank: everything on them is made anew.
    ///
    /// # Errors
    /// [`Error`].
    pub fn start_rebuild(&mut self) -> Result<()> {
        ask(&self.fabric_socket(), Some(&json!({ "call": "clear", "ids": [] })))?;
        let pulled = std::mem::take(&mut self.pulled);
        let back = pulled.clone();
        self.until("drives that were put back are reached", move |zone, group| {
            lost(zone, &back).all(|at| {
                group["drives"][at]["paths"]
                    .as_array()
                    .is_some_and(|p| p.iter().any(|p| p["state"] == "live"))
            })
        })?;
        self.began = Some(Instant::now());
        for zone in &self.zones {
            for at in lost(zone, &pulled) {
                let call = json!({ "call": "mark", "drive": format!("g/{at}"), "marker": "online", "group": null, "force": false });
                ask(&zone.socket, Some(&call))?;
            }
        }
        Ok(())
    }

    /// How far the rebuilds are.
    ///
    /// # Errors
    /// [`Error`].
    pub fn rebuild(&mut self) -> Result<Rebuild> {
        let Some(began) = self.began else { return Err(Error::setup("no rebuild was started")) };
        let (mut done, mut bytes) = (true, 0);
        for zone in &self.zones {
            let group = self.group(zone)?;
            if let Some(why) = group["rebuild"]["why"].as_str() {
                return Err(Error::setup(format!("a rebuild does not go on: {why}")));
            }
            let whole = group["state"] == "OPTIMAL";
            done &= whole;
            // Rows that hold no data are passed over: they are no work.
            let (at, of) =
                (group["rebuild"]["done"].as_u64().unwrap_or(0), group["rebuild"]["rows"].as_u64());
            bytes +=
                if whole { self.setup.member } else { (at * ROW).min(of.map_or(0, |_| self.setup.member)) };
        }
        let mut seconds = began.elapsed().as_secs_f64();
        if done {
            seconds = *self.ended_s.get_or_insert(seconds);
        }
        Ok(Rebuild { done, seconds, bytes: Some(bytes), items: None })
    }
}

/// Positions of a group whose drive was pulled.
fn lost<'a>(zone: &'a Zone, pulled: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
    zone.bays.iter().enumerate().filter(|(_, bay)| pulled.contains(bay)).map(|(at, _)| at)
}

impl Drop for Rig {
    fn drop(&mut self) {
        // First the arrays, which would else wait for the enclosure.
        self.zones.clear();
        self.fabric = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}
