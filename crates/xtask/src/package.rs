//! `cargo xtask package`: builds a release from the tree: a static binary, a Debian package, an archive, and
//! their bill of materials (`sbom`).
//!
//! `cargo-zigbuild` and the `ziglang` compiler, both installed from the Python package index into
//! `target/packaging`, link the static binary with musl; it runs on every Linux of its processor. `--binary`
//! packs an existing program instead. The program for the processor of this machine is built by a profile (`guided`), which takes
//! twice the time and some minutes of loads.
//!
//! Invariants: everything is written below `target/packaging`; a package is always built from scratch.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use clap::{Arg, ArgMatches, value_parser};

use crate::guided;
use crate::shell::{Outcome, cargo, read, root, show};

/// The versions of tools that were tested.
const TOOLS: [&str; 2] = ["cargo-zigbuild==0.20.1", "ziglang==0.14.1"];

/// What to build.
pub struct Options {
    processor: Vec<String>,
    binary: Option<PathBuf>,
}

impl Options {
    /// Describes the options on the command line.
    pub fn describe(command: clap::Command) -> clap::Command {
        let processor = Arg::new("processor").long("processor").value_name("PROCESSOR");
        let binary = Arg::new("binary").long("binary").value_name("BINARY");
        command
            .arg(
                processor
                    .num_args(1)
                    .action(clap::ArgAction::Append)
                    .value_delimiter(',')
                    .default_value("x86_64,aarch64")
                    .help("For which processors"),
            )
            .arg(
                binary.value_parser(value_parser!(PathBuf)).help(
                    "Pack this program instead of building one; it must be for the only processor named",
                ),
            )
    }

    /// The options on the command line.
    pub fn of(given: &ArgMatches) -> Options {
        Options {
            processor: given.get_many::<String>("processor").into_iter().flatten().cloned().collect(),
            binary: given.get_one::<PathBuf>("binary").cloned(),
        }
    }
}

/// The names of a processor.
struct Processor {
    target: String,
    debian: &'static str,
    name: String,
}

impl Processor {
    fn of(name: &str) -> Outcome<Processor> {
        let debian = match name {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => return Err(format!("processor {other}: expected x86_64 or aarch64").into()),
        };
        Ok(Processor { target: format!("{name}-unknown-linux-musl"), debian, name: name.to_owned() })
    }
}

/// Builds all packages and prints their paths.
pub fn run(options: &Options) -> Outcome {
    let processors = options.processor.iter().map(|p| Processor::of(p)).collect::<Outcome<Vec<_>>>()?;
    if options.binary.is_some() && processors.len() != 1 {
        return Err("--binary needs one --processor".into());
    }
    let out = root().join("target/packaging");
    fs::create_dir_all(&out)?;
    let mut built = Vec::new();
    for processor in processors {
        let binary = match &options.binary {
            Some(binary) => binary.clone(),
            None => build(&out, &processor)?,
        };
        built.push((processor, binary));
    }
    let native = native(&built)?;
    for (processor, binary) in &built {
        let deb = debian(&out, processor, binary, &native)?;
        let archive = archive(&out, processor, binary)?;
        let sbom = out.join(format!("ashlar-{}-linux-{}.cdx.json", version(), processor.name));
        crate::sbom::write(&sbom, &processor.target)?;
        for file in [binary, &deb, &archive, &sbom] {
            println!("{:>10} KiB  {}", fs::metadata(file)?.len() / 1024, file.display());
        }
    }
    Ok(())
}

/// The version of the workspace.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn build(out: &Path, processor: &Processor) -> Outcome<PathBuf> {
    let tools = out.join("tools");
    if !tools.join("bin/cargo-zigbuild").exists() {
        show(Command::new("python3").args(["-m", "venv"]).arg(&tools))?;
        show(Command::new(tools.join("bin/pip")).args(["install", "--quiet"]).args(TOOLS))?;
    }
    show(Command::new("rustup").current_dir(root()).args(["target", "add", &processor.target]))?;
    let path = format!("{}:{}", tools.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    // Not through the cargo that runs this: it finds subcommands on the path given here.
    let zig = || {
        let mut command = Command::new("cargo");
        command.current_dir(root()).env("PATH", &path);
        command
    };
    guided::build(zig, "zigbuild", &processor.target, processor.name == std::env::consts::ARCH)
}

/// A program that this machine can run; it writes the manual pages and completions of all packages.
fn native(built: &[(Processor, PathBuf)]) -> Outcome<PathBuf> {
    if let Some((_, binary)) = built.iter().find(|(p, _)| p.name == std::env::consts::ARCH) {
        return Ok(binary.clone());
    }
    show(cargo().args(["build", "--release", "--locked", "--package", "ashlar"]))?;
    Ok(root().join("target/release/ashlar"))
}

/// Copies a file with its mode into a tree, and creates folders.
fn place(tree: &Path, at: &str, from: &Path, mode: u32) -> Outcome {
    let target = tree.join(at);
    fs::create_dir_all(target.parent().ok_or("no folder")?)?;
    fs::copy(from, &target).map_err(|e| format!("{}: {e}", from.display()))?;
    fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// A Debian package: program, unit, settings, manual pages and completions. `native` is the same program for
/// the processor of this machine.
fn debian(out: &Path, processor: &Processor, binary: &Path, native: &Path) -> Outcome<PathBuf> {
    let root = root();
    let tree = out.join(format!("deb-{}", processor.debian));
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    place(&tree, "usr/bin/ashlar", binary, 0o755)?;
    place(
        &tree,
        "usr/lib/systemd/system/ashlar.service",
        &root.join("deploy/systemd/ashlar.service"),
        0o644,
    )?;
    place(&tree, "etc/default/ashlar", &root.join("deploy/systemd/ashlar.default"), 0o640)?;
    place(&tree, "usr/share/doc/ashlar/copyright", &root.join("LICENSE"), 0o644)?;
    let pages = tree.join("usr/share/man/man1");
    show(Command::new(native).arg("man").arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        show(Command::new("gzip").args(["-9", "-n"]).arg(page?.path()))?;
    }
    for (shell, at) in
        [("bash", "bash-completion/completions/ashlar"), ("zsh", "zsh/vendor-completions/_ashlar")]
    {
        let text = read(Command::new(native).args(["completion", shell]))?;
        let file = tree.join("usr/share").join(at);
        fs::create_dir_all(file.parent().ok_or("no folder")?)?;
        fs::write(&file, text + "\n")?;
    }
    let size = read(Command::new("du").args(["-sk", "--apparent-size"]).arg(&tree))?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let control = fs::read_to_string(root.join("deploy/debian/control"))?;
    let control = control
        .replace("@VERSION@", version())
        .replace("@ARCHITECTURE@", processor.debian)
        .replace("@SIZE@", &size);
    fs::create_dir_all(tree.join("DEBIAN"))?;
    fs::write(tree.join("DEBIAN/control"), control)?;
    for (name, mode) in [("postinst", 0o755), ("prerm", 0o755), ("conffiles", 0o644)] {
        place(&tree, &format!("DEBIAN/{name}"), &root.join("deploy/debian").join(name), mode)?;
    }
    let deb = out.join(format!("ashlar_{}_{}.deb", version(), processor.debian));
    show(
        Command::new("dpkg-deb").args(["--root-owner-group", "--build", "-Zxz", "-z1"]).arg(&tree).arg(&deb),
    )?;
    Ok(deb)
}

/// An archive with the program, its licence and the unit.
fn archive(out: &Path, processor: &Processor, binary: &Path) -> Outcome<PathBuf> {
    let name = format!("ashlar-{}-linux-{}", version(), processor.name);
    let tree = out.join(&name);
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    let root = root();
    place(&tree, "ashlar", binary, 0o755)?;
    place(&tree, "LICENSE", &root.join("LICENSE"), 0o644)?;
    place(&tree, "ashlar.service", &root.join("deploy/systemd/ashlar.service"), 0o644)?;
    place(&tree, "ashlar.default", &root.join("deploy/systemd/ashlar.default"), 0o644)?;
    let archive = out.join(format!("{name}.tar.gz"));
    show(
        Command::new("tar")
            .args(["--owner=0", "--group=0", "--sort=name", "-czf"])
            .arg(&archive)
            .arg("-C")
            .arg(out)
            .arg(&name),
    )?;
    Ok(archive)
}
