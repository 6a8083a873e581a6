"""`ashlar fabric serve`: a virtual enclosure, used by the NVMe/TCP host of Debian's kernel in a virtual machine.

The host sees what its zone has and no more, writes over two paths while a port goes down, meets a drive that is pulled, damage that
a fault makes, and SMART data; a rate is not exceeded. Only upper bounds of rates are checked: a busy machine is slower.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import dashboards
from conftest import free_port, until
from guest import Guest

ASHLAR = os.environ["ASHLAR_BIN"]
ID = "24000000-0000-4000-8000-00000000000{}"
HOST = "nqn.2014-08.org.nvmexpress:uuid:" + ID


class Fabric:
    """A process that is an enclosure."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.socket = folder / "f.sock"
        self.ports = [free_port() for _ in range(2)]

    def set_up(self, rest):
        ports = ", ".join(f'"127.0.0.1:{p}"' for p in self.ports)
        text = f'name = "shelf"\nmodel = "data24"\nports = [{ports}]\n{rest}'
        (self.folder / "shelf.toml").write_text(text)
        return self

    def run(self, *arguments, code=0):
        command = [ASHLAR, "--json", "fabric", "--socket", self.socket, *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def text(self, *arguments):
        command = [ASHLAR, "fabric", "--socket", self.socket, *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=True).stdout

    def start(self):
        command = [ASHLAR, "--json", "fabric", "--socket", self.socket, "serve", self.folder / "shelf.toml"]
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline()
        assert line, (self.folder / "log").read_text()
        self.said = json.loads(line)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, (self.folder / "log").read_text()

    def state(self):
        return self.run("status")[0]

    def nqn(self, bay):
        return self.state()["drives"][bay - 1]["nqn"]


@pytest.fixture
def fabric():
    # The path of a Unix socket is short.
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/fabric-XXXXXX"], text=True).strip())
    one = Fabric(folder)
    yield one
    if one.process and one.process.poll() is None:
        one.process.kill()
        one.process.wait(60)
    shutil.rmtree(folder)


@pytest.fixture
def guest(tmp_path):
    machine = Guest(tmp_path, ["/usr/sbin/nvme"])
    yield machine
    machine.stop()


def connect(guest, port, nqn, host, options=""):
    text = (f"transport=tcp,traddr=10.0.2.2,trsvcid={port},nqn={nqn},hostnqn={HOST.format(host)},hostid={ID.format(host)},"
            f"keep_alive_tmo=5,reconnect_delay=1{options}")
    guest.run(f"echo '{text}' > /dev/nvme-fabrics")


def device(guest, uuid):
    """The block device of a namespace, when it is there."""
    find = f"grep -l {uuid} /sys/class/block/nvme[0-9]n*/uuid 2>/dev/null"
    guest.run(f"while ! {find} | grep -q .; do sleep 1; done")
    return "/dev/" + guest.run(find).split()[0].split("/")[4]


def disconnect(guest):
    guest.run("for c in /sys/class/nvme/nvme*; do [ -e $c/delete_controller ] && echo 1 > $c/delete_controller; done; true")


ZONES = f"""
scale = 1000
seed = 3
bays = 4
data = "data"

[drive]
capacity = "64GB"
hours = 4321

[[zones]]
name = "one"
hosts = ["{HOST.format(1)}"]
namespaces = ["1", "2/1", "3"]

[[zones]]
name = "two"
hosts = ["{HOST.format(2)}"]
namespaces = ["4"]
ports = ["A2"]
"""


def test_set_ups(fabric):
    names = [line["name"] for line in fabric.run("setup")]
    assert names == ["data24-minio", "data24-supremeraid", "data60-minio-1", "data60-minio-2"]
    for name in names:
        text = fabric.text("setup", name)
        (fabric.folder / "x.toml").write_text(text)
        checked = fabric.run("check", fabric.folder / "x.toml")[0]
        assert checked["name"] == name and len(checked["zones"]) in (3, 6)
    fabric.run("setup", "data25", code=3)
    fabric.run("check", fabric.folder / "missing.toml", code=3)
    (fabric.folder / "x.toml").write_text('name = "x"\nmodel = "data24"\nports = ["127.0.0.1:4420"]\nscale = 0\n')
    said = fabric.run("check", fabric.folder / "x.toml", code=2)[0]
    assert "scale" in said["error"]["cause"]["message"]
    fabric.run("status", code=5)
    (fabric.folder / "shelf.toml").write_text('name = "x"\nmodel = "data24"\nports = ["0.0.0.0:4420"]\n')
    assert "allow anyone" in fabric.run("serve", fabric.folder / "shelf.toml", code=2)[0]["error"]["cause"]["message"]


def test_the_host_of_the_linux_kernel(fabric, guest):
    fabric.set_up(ZONES).start()
    a, b = fabric.ports
    drives = fabric.state()["drives"]
    uuid = [[n["uuid"] for n in d["namespaces"]] for d in drives]

    # A host sees the drives of its zone, at the ports of its zone, wherever it asks.
    found = guest.run(f"nvme discover -t tcp -a 10.0.2.2 -s {a} --hostnqn {HOST.format(1)} --hostid {ID.format(1)}")
    assert [d["nqn"] in found for d in drives] == [True, True, True, False], found
    assert f"trsvcid: {a}" in found and f"trsvcid: {b}" in found
    found = guest.run(f"nvme discover -t tcp -a 10.0.2.2 -s {a} --hostnqn {HOST.format(2)} --hostid {ID.format(2)}")
    assert [d["nqn"] in found for d in drives] == [False, False, False, True], found
    text = (f"transport=tcp,traddr=10.0.2.2,trsvcid={a},nqn={drives[3]['nqn']},hostnqn={HOST.format(1)},"
            f"hostid={ID.format(1)}")
    assert "guest" not in guest.run(f"echo '{text}' > /dev/nvme-fabrics && echo guest-saw-it", check=False)

    listed = fabric.run("list", f"127.0.0.1:{a}", "--host-nqn", HOST.format(1))
    assert [n["identity"].removeprefix("uuid.") for n in listed] == [
        u.replace("-", "") for u in uuid[0] + uuid[1][:1] + uuid[2]], listed
    listed = fabric.run("list", f"127.0.0.1:{a}", "--host-nqn", HOST.format(2))
    assert [n["identity"].removeprefix("uuid.") for n in listed] == [u.replace("-", "") for u in uuid[3]]
    told = fabric.run("discover", f"127.0.0.1:{a}", "--host-nqn", HOST.format(2))
    assert [(e["nqn"], e["address"]) for e in told if not e["discovery"]] == [(drives[3]["nqn"], f"127.0.0.1:{b}")]
    fabric.run("list", f"127.0.0.1:{a}", "--subsystem", drives[3]["nqn"], "--host-nqn", HOST.format(2), code=3)
    fabric.run("discover", f"127.0.0.1:{free_port()}", code=5)

    # Two paths to the first drive are one device each for its two namespaces; of the second drive it has one namespace.
    connect(guest, a, drives[0]["nqn"], 1)
    connect(guest, b, drives[0]["nqn"], 1)
    connect(guest, a, drives[1]["nqn"], 1)
    first, second = device(guest, uuid[0][0]), device(guest, uuid[0][1])
    other = device(guest, uuid[1][0])
    assert len({first, second, other}) == 3
    guest.run("[ $(ls -d /sys/class/nvme-subsystem/*/nvme*n* | wc -l) = 3 ]")
    system = guest.run(f"dirname $(readlink -f /sys/class/block/{first[5:]})").strip()
    until(lambda: fabric.state()["ports"][1]["controllers"] == 1, 60)
    guest.run(f"while [ $(grep -l live {system}/nvme*/state | wc -l) != 2 ]; do sleep 1; done", seconds=60)
    assert guest.run(f"cat {system}/serial").strip() == drives[0]["serial"]
    eui = guest.run(f"cat /sys/class/block/{first[5:]}/eui").replace(" ", "").strip()
    assert eui == drives[0]["namespaces"][0]["eui64"]
    smart = guest.run(f"nvme smart-log {first[:-2]}")
    assert re.search(r"power_on_hours\s*: 4,?321", smart) and re.search(r"available_spare\s*: 100%", smart), smart
    assert re.search(r"temperature\s*: 3[5-9]", smart), smart

    # What is written over two paths is there when one of them goes down during the writes, and when it is back.
    guest.run("dd if=/dev/urandom of=/tmp/data bs=64k count=40 2>/dev/null")
    guest.begin(f"i=0; while [ $i -lt 40 ]; do dd if=/tmp/data of={first} bs=64k count=1 skip=$i seek=$i "
                "oflag=direct 2>/dev/null || break; i=$((i+1)); echo wrote-$i-; done; [ $i = 40 ]")
    guest.wait(rb"wrote-5-", 240)
    down = fabric.run("fault", "port-down", "A1")[0]
    assert [p["state"] for p in fabric.state()["ports"]] == ["DOWN", "UP"]
    guest.wait(rb"wrote-20-", 240)
    fabric.run("fault", "clear", down["id"])
    guest.finish()
    guest.run(f"dd if={first} bs=64k count=40 iflag=direct 2>/dev/null | cmp - /tmp/data")
    assert fabric.state()["faults"] == []

    # A pulled drive gives errors, and the others work.
    guest.run("dd if=/tmp/data of=/tmp/part bs=64k count=1 2>/dev/null")
    guest.run(f"dd if=/tmp/part of={other} bs=64k count=1 oflag=direct 2>/dev/null")
    disconnect(guest)
    connect(guest, a, drives[1]["nqn"], 1, ",ctrl_loss_tmo=2")
    connect(guest, a, drives[0]["nqn"], 1)
    other = device(guest, uuid[1][0])
    fabric.run("fault", "drive-gone", 2)
    guest.run(f"while dd if={other} of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null; do sleep 1; done")
    assert fabric.state()["drives"][1]["state"] == "GONE"
    # The host gives the controller up.
    guest.run(f"while grep -q {drives[1]['nqn']} /sys/class/nvme/nvme*/subsysnqn; do sleep 1; done")
    first = device(guest, uuid[0][0])
    guest.run(f"dd if={first} bs=64k count=40 iflag=direct 2>/dev/null | cmp - /tmp/data")
    fabric.run("fault", "clear", "--all")
    connect(guest, a, drives[1]["nqn"], 1)
    other = device(guest, uuid[1][0])
    guest.run(f"dd if={other} bs=64k count=1 iflag=direct 2>/dev/null | cmp - /tmp/part")

    # A lost write is the block that the seed chooses; a namespace that is lost disappears.
    fabric.run("fault", "lost-write", "1/1", "--blocks", "3-3")
    guest.run("dd if=/dev/urandom of=/tmp/new bs=4k count=8 2>/dev/null")
    guest.run(f"dd if=/tmp/new of={first} bs=4k count=8 oflag=direct 2>/dev/null")
    guest.run(f"dd if={first} of=/tmp/back bs=4k count=8 iflag=direct 2>/dev/null")
    for block in range(8):
        same = "/tmp/data" if block == 3 else "/tmp/new"
        guest.run(f"dd if=/tmp/back bs=4k skip={block} count=1 2>/dev/null > /tmp/x; "
                  f"dd if={same} bs=4k skip={block} count=1 2>/dev/null | cmp - /tmp/x")
    assert fabric.run("fault", "list")[0]["blocks_hit"] == [3]
    second = device(guest, uuid[0][1])
    fabric.run("fault", "namespace-lost", "1/2")
    guest.run(f"while [ -e /sys/class/block/{second[5:]} ]; do sleep 1; done")
    guest.run(f"dd if={first} of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null")
    table = fabric.text("status")
    assert "namespace-lost" in table and "1 of 2" in table and "lost-write" in table, table

    # No more is read than the drive has: 3.37 MB/s.
    before = fabric.state()["drives"][2]["bytes_read"]
    connect(guest, a, drives[2]["nqn"], 1)
    third = device(guest, uuid[2][0])
    begin = time.monotonic()
    guest.run(f"dd if={third} of=/dev/null bs=256k count=40 iflag=direct 2>/dev/null")
    took, amount = time.monotonic() - begin, 40 * 256 * 1024
    assert fabric.state()["drives"][2]["bytes_read"] - before >= amount
    assert amount <= 3.374e6 * (took + 0.005), took

    # Data and identities stay over a restart.
    disconnect(guest)
    fabric.run("fault", "clear", "--all")
    fabric.stop()
    fabric.start()
    assert [[n["uuid"] for n in d["namespaces"]] for d in fabric.state()["drives"]] == uuid
    connect(guest, b, drives[0]["nqn"], 1)
    first = device(guest, uuid[0][0])
    guest.run(f"dd if={first} bs=4k count=8 iflag=direct 2>/dev/null | cmp - /tmp/back")
    disconnect(guest)
    until(lambda: all(p["controllers"] == 0 for p in fabric.state()["ports"]), 60)
    fabric.stop()


def test_the_dashboard_uses_only_exported_metrics(fabric):
    fabric.set_up("").start()
    used = dashboards.used(dashboards.FABRIC)
    assert len(used) > 8 and sorted(used - dashboards.metrics_at(fabric.socket)) == []
    fabric.stop()


def test_unknown_parts_are_refused(fabric):
    fabric.set_up('scale = 1000\nbays = 2\n[drive]\ncapacity = "8GB"\n').start()
    fabric.run("fault", "drive-gone", 3, code=3)
    fabric.run("fault", "port-down", "B1", code=3)
    fabric.run("fault", "namespace-lost", "1/3", code=3)
    fabric.run("fault", "lost-write", "1/1", "--rate", "2", code=2)
    fabric.run("fault", "clear", "7", code=3)
    fabric.run("describe", "drive", 9, code=3)
    assert fabric.state()["faults"] == []
    fabric.run("fault", "slow-drive", 1, "--factor", 5)
    assert fabric.run("describe", "drive", 1)[0]["state"] == "SLOW"
    other = Fabric(fabric.folder)
    other.socket = fabric.folder / "other.sock"
    other.run("serve", fabric.folder / "shelf.toml", code=1)
    fabric.run("fault", "enclosure-down")
    assert fabric.state()["state"] == "DOWN"
    fabric.run("fault", "clear", "--all")
    assert fabric.state()["state"] == "ONLINE"
    fabric.stop()
