"""Packages, made from the tree of the program under test: their content, and that the unpacked program works."""

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*args, **more):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=900, **more)
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def made():
    """Folder of the packages."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("a Debian package needs dpkg-deb")
    processor = os.uname().machine
    run("cargo", "xtask", "package", "--processor", processor, "--binary", Path(os.environ["ASHLAR_BIN"]).resolve(), cwd=ROOT)
    return ROOT / "target/packaging"


def test_the_debian_package_is_complete(made, tmp_path):
    [deb] = made.glob("ashlar_*.deb")
    fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", deb).splitlines() if ": " in line)
    assert fields["Package"] == "ashlar" and int(fields["Installed-Size"]) > 10_000
    run("dpkg-deb", "--raw-extract", deb, tmp_path)
    program = tmp_path / "usr/bin/ashlar"
    assert run(program, "--version").startswith(f"ashlar {fields['Version']}")
    pages = list((tmp_path / "usr/share/man/man1").glob("*.gz"))
    assert len(pages) > 100 and (tmp_path / "usr/share/man/man1/ashlar-server.1.gz") in pages
    assert (tmp_path / "usr/share/bash-completion/completions/ashlar").stat().st_size > 1000
    # The settings may hold a password.
    settings = tmp_path / "etc/default/ashlar"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert "/etc/default/ashlar" in (tmp_path / "DEBIAN/conffiles").read_text()
    for script in ("postinst", "prerm"):
        run("sh", "-n", tmp_path / "DEBIAN" / script)
    unit = tmp_path / "usr/lib/systemd/system/ashlar.service"
    if shutil.which("systemd-analyze"):
        there = tmp_path / "ashlar.service"
        there.write_text(unit.read_text().replace("/usr/bin/ashlar", str(program)))
        run("systemd-analyze", "verify", "--man=no", there)


def test_the_archive_and_the_bill_of_materials(made, tmp_path):
    [archive] = made.glob("ashlar-*.tar.gz")
    run("tar", "-xzf", archive, "-C", tmp_path)
    [folder] = tmp_path.iterdir()
    assert {p.name for p in folder.iterdir()} == {"ashlar", "LICENSE", "ashlar.service", "ashlar.default"}
    assert run(folder / "ashlar", "--version").startswith("ashlar ")
    [bill] = made.glob("ashlar-*.cdx.json")
    bill = json.loads(bill.read_text())
    names = {c["name"] for c in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX" and {"tokio", "rustls", "ashlar-drive"} <= names, sorted(names)
    assert all(c.get("licenses") for c in bill["components"])
