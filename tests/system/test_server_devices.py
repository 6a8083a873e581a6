"""`ashlar server` over block devices without file systems: loop devices over files, which need root, and namespaces of an
enclosure, which do not.

Kills under load, a device that is replaced by a blank one under the server, names that change between two starts, and devices of others,
which are refused and stay as they are.
"""

import json
import os
import random
import signal
import subprocess
import time

import pytest

from conftest import ACCESS, SECRET, Server, one_server, until
from histories import Writer, check, client, content
from signing import admin
from test_array_devices import WHY_NOT, digest, is_free, loops  # noqa: F401
from test_crash import drive_ids, healed
from test_fabric import fabric  # noqa: F401  a fixture

pytestmark = one_server
needs_loops = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MIB = 1 << 20


def link(home, devices):
    """The devices under the names that a server is started with."""
    for n, device in enumerate(devices, 1):
        name = home / f"drive{n}"
        name.unlink(missing_ok=True)
        name.symlink_to(device)


@pytest.fixture
def start(loops, tmp_path):  # noqa: F811
    """Servers before their devices: those are detached when no process has them any more."""
    started = []

    def run(devices):
        link(tmp_path, devices)
        started.append(Server(tmp_path, len(devices)))
        return started[-1]

    yield run
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@needs_loops
def test_kills_under_load_lose_nothing_on_devices(start, loops):  # noqa: F811
    devices = loops.devices(4, size=640 * MIB)
    server = start(devices)
    client(server).create_bucket(Bucket="crash")
    state, rng = {}, random.Random(os.environ.get("ASHLAR_SEED", "devices"))
    for _ in range(int(os.environ.get("ASHLAR_KILL_CYCLES", "5"))):
        writers = [Writer(client(server), "crash", f"w{i}", state) for i in range(4)]
        [w.start() for w in writers]
        time.sleep(rng.uniform(0.2, 1.5))
        assert not any(is_free(device) for device in devices)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        for w in writers:
            w.going = False
        [w.join() for w in writers]
        # Devices may have other names after a start of the machine.
        rng.shuffle(devices)
        link(server.home, devices)
        server.start()
        check(client(server, 3), "crash", state)
    assert state
    # After an orderly end too, and with three of the four.
    assert server.stop() == 0
    assert all(is_free(device) for device in devices)
    loops.detach(devices[0])
    (server.home / "drive1").unlink()
    server.start()
    check(client(server, 3), "crash", state)


@needs_loops
def test_a_blank_device_replaces_another(start, loops):  # noqa: F811
    devices = loops.devices(4, size=640 * MIB)
    server = start(devices)
    s3 = client(server, 3)
    s3.create_bucket(Bucket="bkt")
    sizes = [1, 5000, 300_000, 6_000_000]
    for i in range(24):
        s3.put_object(Bucket="bkt", Key=f"k{i}", Body=content(f"k{i}", i, sizes[i % 4]))
    before = drive_ids(server)
    assert server.stop() == 0
    # Another drive in the slot of the first one.
    loops.detach(devices[0])
    link(server.home, [loops.attach(loops.file("new", size=640 * MIB)), *devices[1:]])
    server.start()
    until(lambda: len(drive_ids(server) - before) == 1 and healed(server), 120)
    # What is on the new one is whole: one of the others is not needed.
    assert server.stop() == 0
    loops.detach(devices[2])
    (server.home / "drive3").unlink()
    server.start()
    for i in range(24):
        got = client(server, 3).get_object(Bucket="bkt", Key=f"k{i}")["Body"].read()
        assert got == content(f"k{i}", i, sizes[i % 4]), i


@needs_loops
def test_devices_of_others_are_refused_and_stay_as_they_are(start, loops, tmp_path):  # noqa: F811
    devices = loops.devices(4, size=640 * MIB)
    foreign = loops.file("foreign", size=640 * MIB)
    subprocess.run(["mkfs.ext4", "-q", foreign], check=True, timeout=60)
    was = digest(foreign)

    def refused(*four, why):
        (tmp_path / "server.log").unlink(missing_ok=True)
        with pytest.raises(RuntimeError) as failed:
            start(four)
        assert why in str(failed.value), failed.value

    device = loops.attach(foreign)
    refused(device, *devices[1:], why="something is on the device")
    assert digest(foreign) == was
    # Mounted: somebody else has it.
    mount = tmp_path / "mount"
    mount.mkdir()
    blank = loops.file("mounted", size=640 * MIB)
    subprocess.run(["mkfs.ext4", "-q", blank], check=True, timeout=60)
    mounted = loops.attach(blank)
    subprocess.run(["mount", mounted, mount], check=True, timeout=60)
    try:
        refused(mounted, *devices[1:], why="in use")
    finally:
        subprocess.run(["umount", mount], check=True, timeout=60)
    done = subprocess.run([os.environ["ASHLAR_BIN"], "server", "/dev/no-such-device", *devices[1:], "--address", "127.0.0.1:0"], capture_output=True,
                          text=True, timeout=60, env={**os.environ, "ASHLAR_STATE_DIR": str(tmp_path / "state")})
    assert done.returncode != 0 and "there is no such device" in done.stderr + done.stdout, done
    assert not os.path.exists("/dev/no-such-device")
    refused(loops.attach(loops.file("small", size=100 * MIB)), *devices[1:], why="a drive needs 512")
    # None of this wrote to the others: they are still blank.
    server = start(devices)
    client(server).create_bucket(Bucket="bkt")


class OnNamespaces(Server):
    """A server whose drives have these addresses."""

    def __init__(self, home, addresses):
        self.addresses = addresses
        super().__init__(home)

    def launch(self):
        self.drives, *self.arguments = self.addresses
        super().launch()


def test_namespaces_of_an_enclosure_are_drives(fabric, tmp_path):  # noqa: F811
    """NVMe/TCP without the kernel: kills of the server, of the enclosure, and a drive that is pulled."""
    fabric.set_up('bays = 5\ndata = "data"\nscale = 100\n\n[drive]\ncapacity = "160GB"\n').start()
    portals = ",".join(f"127.0.0.1:{p}" for p in fabric.ports)
    address = [f"nvme-tcp://{portals}/{fabric.nqn(bay)}/1" for bay in range(1, 6)]
    server = OnNamespaces(tmp_path, address[:4])
    try:
        client(server).create_bucket(Bucket="crash")
        state, rng = {}, random.Random(os.environ.get("ASHLAR_SEED", "namespaces"))
        for cycle in range(4):
            writers = [Writer(client(server), "crash", f"w{i}", state) for i in range(3)]
            [w.start() for w in writers]
            time.sleep(rng.uniform(0.5, 2))
            if cycle == 1:
                # The enclosure is gone for a moment: requests wait for it.
                fabric.process.kill()
                fabric.process.wait()
                fabric.start()
                time.sleep(2)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            for w in writers:
                w.going = False
            [w.join() for w in writers]
            server.start()
            check(client(server, 3), "crash", state)
        assert state
        # A namespace is one drive, whatever addresses lead to it: that of the fourth drive is named, but is the first one's.
        assert server.stop() == 0
        twice = f"nvme-tcp://127.0.0.1:{fabric.ports[0]}/{fabric.nqn(1)}/1"
        server.addresses = [*address[:3], twice]
        server.start()
        drives = admin(server, "GET", "/ashlar/admin/v1/info")["drives"]
        assert sorted(d["state"] == "online" for d in drives) == [False, True, True, True], drives
        assert "is another drive of this process already" in json.dumps(drives), drives
        check(client(server, 3), "crash", state)
        assert server.stop() == 0
        server.addresses = address[:4]
        # A drive is pulled while the server runs: it goes on without.
        server.start()
        fabric.run("fault", "drive-gone", 2)
        s3 = client(server, 5)
        s3.create_bucket(Bucket="without")
        for i in range(8):
            s3.put_object(Bucket="without", Key=f"k{i}", Body=content(f"k{i}", i, 100_000))
        check(s3, "crash", state)
        for fault in fabric.run("fault", "list"):
            fabric.run("fault", "clear", fault["id"])
        until(lambda: healed(server), 180)
        for i in range(8):
            assert s3.get_object(Bucket="without", Key=f"k{i}")["Body"].read() == content(f"k{i}", i, 100_000)
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def both_namespaces(fabric):  # noqa: F811
    """Four drives with two namespaces each: their addresses."""
    fabric.set_up('bays = 4\ndata = "data"\nscale = 100\n\n[drive]\ncapacity = "160GB"\nnamespaces = 2\n').start()
    portals = ",".join(f"127.0.0.1:{p}" for p in fabric.ports)
    return [f"nvme-tcp://{portals}/{fabric.nqn(bay)}/{n}" for bay in range(1, 5) for n in (1, 2)]


@pytest.mark.parametrize("code", ["6+2", "4+4", "3+1"])
def test_loss_of_a_drive_with_two_namespaces_is_survived(fabric, tmp_path, code):  # noqa: F811
    """Placement groups know that both are lost together: those of 3+1 have one of them at most."""
    server = OnNamespaces(tmp_path, [*both_namespaces(fabric), "--code", code])
    try:
        s3 = client(server, 5)
        s3.create_bucket(Bucket="bkt")
        sizes = [1, 5000, 300_000, 3_000_000]
        for i in range(24):
            s3.put_object(Bucket="bkt", Key=f"k{i}", Body=content(f"k{i}", i, sizes[i % 4]))
        fabric.run("fault", "drive-gone", 3)
        for i in range(24):
            got = s3.get_object(Bucket="bkt", Key=f"k{i}")["Body"].read()
            assert got == content(f"k{i}", i, sizes[i % 4]), i

        def states():
            return sorted(d["state"] for d in admin(server, "GET", "/ashlar/admin/v1/info")["drives"])

        until(lambda: states().count("online") == 6, 120)
        for i in range(24):
            got = client(server, 5).get_object(Bucket="bkt", Key=f"k{i}")["Body"].read()
            assert got == content(f"k{i}", i, sizes[i % 4]), i
    finally:
        server.process.kill()
        server.process.wait()


def test_a_blank_drive_on_a_disk_that_others_are_on_replaces_none(fabric, tmp_path):  # noqa: F811
    """Four drives, the first namespace of each; then the second namespace of the first instead of the fourth."""
    address = both_namespaces(fabric)
    first, second = address[0::2], address[1::2]
    server = OnNamespaces(tmp_path, [*first, "--code", "3+1"])

    def drives():
        return admin(server, "GET", "/ashlar/admin/v1/info")["drives"]

    def again(*arguments):
        assert server.stop() == 0
        server.addresses = list(arguments)
        server.start()

    try:
        client(server, 5).create_bucket(Bucket="bkt")
        before = drive_ids(server)
        again(*first[:3], second[0])
        until(lambda: "is a part of the same drive (the subsystem " in json.dumps(drives()), 60)
        time.sleep(3)
        refused = next(d for d in drives() if d["state"] != "online")
        assert "--allow-shared-drive" in json.dumps(refused) and first[0] in json.dumps(refused), refused
        assert not drive_ids(server) - before - {""}
        # It was not formatted: the operator's order is refused at once.
        done = subprocess.run([os.environ["ASHLAR_BIN"], "drive", "replace", "it", second[0]], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60,
                              env={**os.environ, "ASHLAR_HOST_it": server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")})
        assert done.returncode != 0 and "is a part of the same drive" in done.stdout + done.stderr, done
        # On another drive it is blank still, and is used there: that one has no other namespace here.
        again(*first[:3], second[3])
        until(lambda: len(drive_ids(server) - before) == 1 and healed(server), 120)
        before = drive_ids(server)
        again(*first[:3], second[0], "--allow-shared-drive")
        until(lambda: len(drive_ids(server) - before) == 1 and healed(server), 120)
    finally:
        server.process.kill()
        server.process.wait()


def test_layout_that_the_loss_of_one_drive_breaks_is_refused(fabric, tmp_path):  # noqa: F811
    address = both_namespaces(fabric)
    with pytest.raises(RuntimeError) as failed:
        OnNamespaces(tmp_path, [*address, "--code", "7+1"])
    why = str(failed.value)
    assert "are parts of one drive (the subsystem " in why and "--allow-shared-drive" in why and address[0] in why, why
    (tmp_path / "server.log").unlink()
    server = OnNamespaces(tmp_path, [*address, "--code", "7+1", "--allow-shared-drive"])
    try:
        client(server, 5).create_bucket(Bucket="bkt")
    finally:
        server.process.kill()
        server.process.wait()
