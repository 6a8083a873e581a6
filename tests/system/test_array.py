"""`ashlar array` with real programs: fio, qemu-img, qemu-io, nbdinfo and nbdcopy on virtual drives of drive groups.

A group is made, served over a Unix socket and TCP with TLS, written and verified while drives fail, are replaced and rebuilt;
the process is killed in the middle of writes, and every acknowledged write is there afterwards.
"""

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

import dashboards
from conftest import free_port, until

ASHLAR = os.environ["ASHLAR_BIN"]
MIB = 1 << 20


class Array:
    """A process that owns groups, over files of a folder."""

    def __init__(self, folder, *options):
        self.folder, self.options, self.process = folder, options, None
        self.socket, self.nbd = folder / "array.sock", folder / "nbd.sock"
        self.members = folder / "members"
        self.members.mkdir(exist_ok=True)

    def run(self, *arguments, check=True, env=None):
        command = [ASHLAR, "--json", "array", "--socket", self.socket, *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})
        assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done

    def ask(self, *arguments):
        return [json.loads(line) for line in self.run(*arguments).stdout.splitlines()]

    def make(self, count, size="40MiB", first=0):
        files = [self.members / f"m{i:02}" for i in range(first, first + count)]
        self.run("create", "pd", *files, "--size", size)
        return files

    def start(self):
        drives = [self.members] if self.has_members() else []
        command = [ASHLAR, "--json", "array", "--socket", self.socket, "serve", *drives, "--nbd", f"unix:{self.nbd}",
                   *self.options]
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline()
        assert line, (self.folder / "log").read_text()
        self.said = json.loads(line)
        return self

    def has_members(self):
        found = subprocess.run([ASHLAR, "--json", "array", "ls", "dg", self.members], capture_output=True, text=True)
        return found.returncode == 0 and found.stdout

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(60) == 0, (self.folder / "log").read_text()

    def kill(self):
        self.process.kill()
        self.process.wait(60)

    def uri(self, export):
        return f"nbd+unix:///{export}?socket={self.nbd}"

    def group(self, name="dg0"):
        return self.ask("describe", "dg", name)[0]

    def wait(self, *states, name="dg0"):
        until(lambda: self.group(name)["state"] in states, 240)
        return self.group(name)


@pytest.fixture
def array(tmp_path):
    arrays = []

    def make(*options):
        # The path of a Unix socket is short.
        folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/array-XXXXXX"], text=True).strip())
        arrays.append(Array(folder, *options))
        return arrays[-1]

    yield make
    for one in arrays:
        if one.process and one.process.poll() is None:
            one.kill()
        shutil.rmtree(one.folder)


def program(*arguments, **more):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def fio(uri, *options):
    """Random reads and writes with verification: fails if a byte is wrong."""
    out = program("fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", "--iodepth=16", "--bs=4k,4k",
                  "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--output-format=json", *options)
    job = json.loads(out[out.index("{"):])["jobs"][0]
    assert job["error"] == 0
    return job


@pytest.mark.parametrize("policy", ["bitmap", "none"])
def test_parity_is_made_anew_while_the_group_is_in_service(array, policy):
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4), "--policy", policy, "--journal", "4MiB")
    a.run("create", "vd", "dg0", "64MiB")
    fio(a.uri("dg0/vd0"), "--rw=write", "--bs=64k", "--size=64m", "--end_fsync=1")
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    # Killed among writes: parity of some rows may be wrong.
    writer = subprocess.Popen(["fio", "--name=x", "--ioengine=nbd", f"--uri={a.uri('dg0/vd0')}", "--iodepth=16", "--bs=4k", "--rw=randwrite", "--offset=48m",
                               "--size=16m", "--time_based", "--runtime=60", "--output-format=json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: a.ask("describe", "vd", "dg0/vd0")[0]["writes"] > 2000, 60)
    a.kill()
    writer.kill()
    writer.wait(60)
    a.start()
    state = a.group()
    if state["state"] == "RESYNC":
        refused = a.run("edit", "pd", "dg0/0", "marker", "offline", check=False)
        if refused.returncode:
            assert "parity is being made anew" in refused.stdout, refused.stdout
        else:
            # It had ended meanwhile.
            a.run("edit", "pd", "dg0/0", "marker", "online")
    # In service from the start on.
    fio(a.uri("dg0/vd0"), "--rw=randrw", "--size=8m")
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    a.run("progress", "dg0", "--watch")
    assert a.group()["counters"]["resynced"] > 0
    check = a.run("start", "consistency_check", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["state"] == "DONE"
    a.stop()


def test_controllers_are_shown(array):
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(3), "--journal", "4MiB")
    found = a.ask("list", "cx")
    assert [(c["name"], c["kind"], c["state"], c["requests"]) for c in found] == [("cx0", "CPU", "ONLINE", ["dg0"])]
    assert "CPU (" in found[0]["engine"] and a.ask("describe", "controller", "cx0") == found
    assert a.run("describe", "cx", "cx7", check=False).returncode == 3
    a.stop()


def test_a_virtual_drive_is_a_file_through_fuse(array, tmp_path):
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "24MiB")
    file = tmp_path / "mount" / "disk.img"
    file.parent.mkdir()
    fuse = subprocess.Popen(["nbdfuse", str(file), a.uri("dg0/vd0")])
    try:
        until(lambda: os.path.ismount(file.parent), 60)
        assert file.stat().st_size == 24 * MIB
        program("mkfs.ext4", "-q", "-F", file)
        content = random.Random(1).randbytes(3 * MIB)
        (tmp_path / "content").write_bytes(content)
        program("debugfs", "-w", "-R", f"write {tmp_path / 'content'} content", file)
        program("e2fsck", "-f", "-n", file)
        with file.open("rb+") as f:
            os.fsync(f.fileno())
    finally:
        if os.path.ismount(file.parent):
            program("fusermount", "-u", file.parent)
        else:
            fuse.kill()
        fuse.wait(60)
    # What was flushed is there after a kill, with a drive less.
    a.kill()
    a.start()
    a.run("edit", "pd", "dg0/2", "marker", "offline")
    program("nbdcopy", a.uri("dg0/vd0"), tmp_path / "image")
    program("debugfs", "-R", f"dump content {tmp_path / 'back'}", tmp_path / "image")
    assert (tmp_path / "back").read_bytes() == content
    a.stop()


@pytest.mark.parametrize("level, drives", [("raid5", 4), ("raid6", 5), ("3+3", 6), ("raid10", 4)])
def test_fio_verifies_what_it_wrote(array, level, drives):
    a = array().start()
    a.run("create", "dg", level, *a.make(drives), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "24MiB")
    fio(a.uri("dg0/vd0"), "--rw=randwrite", "--size=12m")
    # Unaligned blocks too, over what is there.
    fio(a.uri("vd0"), "--rw=randrw", "--size=12m", "--bs=512-64k", "--bs_unaligned", "--fsync=16")
    check = a.run("start", "consistency_check", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["state"] == "DONE"
    a.stop()


def test_the_dashboard_uses_only_exported_metrics(array):
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(3), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "8MiB")
    a.run("start", "consistency_check", "dg0", "--mode", "stop_on_error", "--wait")
    used, found = dashboards.used(dashboards.ARRAY), dashboards.metrics_at(a.socket)
    missing = used - found
    assert len(used) > 20 and sorted(missing - dashboards.sometimes()) == []
    # This group has no rebuild, and no drive that is a namespace.
    parts = ("rebuild_", "path_", "drive_health_", "drive_life_", "drive_media_", "drive_temperature_")
    assert [n for n in missing if not n.removeprefix(dashboards.ARRAY).startswith(parts)] == []
    source = (dashboards.ROOT / "crates/array/src/metrics.rs").read_text()
    assert [n for n in missing if f'"{n}"' not in source] == []
    a.stop()


def test_qemu_and_libnbd_programs(array, tmp_path):
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4), "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "64MiB", "--name", "disk")
    uri = a.uri("tank/disk")
    told = json.loads(program("nbdinfo", "--json", "--list", uri.replace("tank/disk", "")))
    assert [e["export-name"] for e in told["exports"]] == ["tank/disk"]
    one = json.loads(program("nbdinfo", "--json", uri))["exports"][0]
    assert one["export-size"] == 64 * MIB and one["can_multi_conn"] and one["can_fua"] and one["can_trim"]
    assert one["can_zero"] and not one["is_read_only"] and "base:allocation" in one["contexts"]
    assert (one["block_size_minimum"], one["block_size_preferred"], one["block_size_maximum"]) == (1, 4096, 32 * MIB)
    # An image goes in and comes back, holes and all.
    image, back = tmp_path / "image", tmp_path / "back"
    noise = random.Random(5)
    with open(image, "wb") as f:
        f.truncate(64 * MIB)
        for at in (0, 5 * MIB + 3, 40 * MIB):
            f.seek(at)
            f.write(noise.randbytes(2 * MIB))
    program("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, uri)
    assert program("qemu-img", "compare", "-f", "raw", "-F", "raw", image, uri).strip() == "Images are identical."
    extents = json.loads(program("nbdinfo", "--json", "--map", uri))
    assert sum(e["length"] for e in extents) == 64 * MIB
    holes = sum(e["length"] for e in extents if e["type"] == 3)
    assert 56 * MIB <= holes <= 58 * MIB, extents
    program("nbdcopy", "--connections=4", uri, back)
    assert back.read_bytes() == image.read_bytes()
    program("nbdcopy", "--flush", "--destination-is-zero", image, uri)
    # qemu-io: writes, zeros, discards, flush.
    program("qemu-io", "-f", "raw", uri, "-c", "write -P 0x11 1M 128k", "-c", "write -z 1M 64k", "-c", "discard 2M 1M",
            "-c", "write -f -P 0x22 4097 3", "-c", "flush", "-c", "read -P 0 1M 64k", "-c", "read -P 0x11 1088k 64k",
            "-c", "read -P 0 2M 1M", "-c", "read -P 0x22 4097 3")
    a.stop()


def test_a_drive_fails_and_a_spare_is_rebuilt_while_fio_verifies(array):
    a = array().start()
    files = a.make(5)
    a.run("create", "dg", "raid5", *files[:4], "--spare", files[4], "--journal", "4MiB")
    a.run("create", "vd", "dg0")
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    uri, failures = a.uri("dg0/vd0"), []

    def load():
        try:
            fio(uri, "--rw=randrw", "--size=64m", "--io_size=48m")
        except BaseException as e:
            failures.append(e)

    fio(uri, "--rw=write", "--size=64m", "--bs=64k")
    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(0.2)
    a.run("edit", "pd", "dg0/1", "marker", "offline")
    until(lambda: a.group()["state"] == "RECOVERY", 60)
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    a.wait("OPTIMAL")
    thread.join(240)
    assert not thread.is_alive() and not failures, failures
    group = a.group()
    assert group["drives"][1]["path"] == str(files[4]) and group["spares"] == []
    # What was made anew is right: without another drive it is needed for every row.
    a.run("edit", "pd", "dg0/0", "marker", "offline")
    assert a.group()["state"] == "DEGRADED"
    fio(uri, "--rw=randrw", "--size=16m")
    a.run("edit", "pd", "dg0/0", "marker", "online")
    a.run("progress", "dg0", "--watch")
    assert a.group()["state"] == "OPTIMAL"
    a.run("start", "cc", "dg0", "--mode", "stop_on_error", "--wait")
    a.stop()


class Client:
    """A client of NBD with simple replies; requests are answered one by one."""

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.receive(18)
        name = export.encode()
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self.size, _ = struct.unpack(">QH", self.receive(10))

    def receive(self, count):
        out = b""
        while len(out) < count:
            part = self.socket.recv(count - len(out))
            if not part:
                raise ConnectionError("the server is gone")
            out += part
        return out

    def request(self, command, at, length, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 1, at, length) + data)
        _, error, _ = struct.unpack(">IIQ", self.receive(16))
        if error:
            raise OSError(error, "the request failed")
        return self.receive(length) if command == 0 else b""

    def read(self, at, length):
        return self.request(0, at, length)

    def write(self, at, data):
        self.request(1, at, len(data), data)


def content(block, number):
    return struct.pack(">QQ", block, number) * 256


@pytest.mark.parametrize("degraded", [False, True])
def test_kill_during_writes_loses_nothing_that_was_answered(array, degraded):
    """Each thread has its own blocks; a block reads its last answered content, or that of the write that was under way."""
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "32MiB")
    if degraded:
        a.run("edit", "pd", "dg0/2", "marker", "offline")
    threads, blocks = 4, 24
    answered = [[0] * blocks for _ in range(threads)]
    under_way = [None] * threads
    first = Client(a.nbd, "dg0/vd0")
    for at in range(threads * blocks):
        first.write(at * 4096, content(at, 0))
    for round in range(3):
        stop = threading.Event()
        count = [0] * threads

        def work(me):
            chance = random.Random(f"{round} {me}")
            try:
                client = Client(a.nbd, "dg0/vd0")
                while not stop.is_set():
                    # Neighbours in a row belong to different threads.
                    mine = chance.randrange(blocks)
                    block, number = mine * threads + me, answered[me][mine] + 1
                    under_way[me] = (mine, number)
                    client.write(block * 4096, content(block, number))
                    answered[me][mine], under_way[me] = number, None
                    count[me] += 1
            except OSError:
                pass

        workers = [threading.Thread(target=work, args=(me,)) for me in range(threads)]
        [w.start() for w in workers]
        until(lambda: min(count) > 40, 120)
        a.kill()
        stop.set()
        [w.join(120) for w in workers]
        a.start()
        group = a.group()
        assert group["state"] == ("DEGRADED" if degraded else "OPTIMAL"), group
        client = Client(a.nbd, "dg0/vd0")
        for me in range(threads):
            for mine in range(blocks):
                block = mine * threads + me
                found = client.read(block * 4096, 4096)
                allowed = {answered[me][mine]}
                if under_way[me] and under_way[me][0] == mine:
                    allowed.add(under_way[me][1])
                number = struct.unpack(">Q", found[8:16])[0]
                assert number in allowed and found == content(block, number), (block, number, allowed)
                answered[me][mine] = number
            under_way[me] = None
    check = a.run("start", "cc", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["mismatches"] == 0
    a.stop()


def test_a_group_grows_while_fio_verifies(array):
    """RAID 5 of four drives gets a fifth one, then RAID 6 of six, killed twice on the way, and the second time goes on elsewhere."""
    a = array().start()
    files = a.make(6)
    a.run("create", "dg", "raid5", *files[:4], "--journal", "4MiB", "--strip", "16KiB")
    a.run("create", "vd", "dg0", "64MiB")
    uri, before = a.uri("dg0/vd0"), a.group()
    fio(uri, "--rw=write", "--size=64m", "--bs=64k")
    pattern = random.Random(7).randbytes(2 * MIB)
    Client(a.nbd, "dg0/vd0").write(60 * MIB, pattern)
    refused = a.run("grow", "dg", "dg0", files[4], "--level", "raid0", check=False)
    assert refused.returncode == 2 and "less parity" in refused.stdout, refused.stdout
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    begun = json.loads(a.run("grow", "dg", "dg0", files[4]).stdout)["groups"][0]
    assert begun["growth"]["size"] > begun["size"] == before["size"] and len(begun["drives"]) == 5
    assert a.run("grow", "dg", "dg0", files[5], check=False).returncode == 1, "one at a time"
    until(lambda: a.group()["growth"]["progress"]["done"] > 0, 60)
    a.kill()
    listed = a.ask("describe", "dg", "dg0", a.members)[0]
    assert listed["growth"]["level"] == "5" and listed["growth"]["progress"]["rows"] > 0, listed
    a.start()
    assert Client(a.nbd, "dg0/vd0").read(60 * MIB, 2 * MIB) == pattern
    assert a.group()["growth"]["progress"]["done"] < a.group()["growth"]["progress"]["rows"]
    text = subprocess.run([ASHLAR, "array", "--socket", a.socket, "describe", "dg", "dg0"], capture_output=True, text=True)
    assert "growth to RAID 5 of" in text.stdout, text.stdout
    # Writes and reads of the client while rows move under them.
    fio(uri, "--rw=randrw", "--size=48m", "--io_size=24m")
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    fio(uri, "--rw=randrw", "--size=48m", "--io_size=24m", "--bs=512-64k", "--bs_unaligned")
    a.run("progress", "dg0", "--watch")
    grown = a.group()
    assert (grown["state"], grown["growth"], grown["data"], grown["parity"]) == ("OPTIMAL", None, 4, 1)
    assert grown["size"] == begun["growth"]["size"] and 3 * grown["size"] == 4 * before["size"]
    assert Client(a.nbd, "dg0/vd0").read(60 * MIB, 2 * MIB) == pattern
    a.run("create", "vd", "dg0", "24MiB")
    fio(a.uri("dg0/vd1"), "--rw=randrw", "--size=24m")
    # More parity; what was a hot spare becomes a drive. A drive is taken out on the way.
    a.run("edit", "pd", files[5], "marker", "hotspare")
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    a.run("grow", "dg", "dg0", files[5], "--level", "raid6")
    until(lambda: not (growth := a.group()["growth"]) or growth["progress"]["done"] > 0, 60)
    a.run("edit", "pd", "dg0/1", "marker", "offline")
    # On a busy machine the growth may have ended before.
    now = a.group()
    assert now["state"] == ("DEGRADED" if now["growth"] else "PARTIALLY_DEGRADED"), now
    fio(uri, "--rw=randrw", "--size=48m", "--io_size=8m")
    a.kill()
    elsewhere = array().start()
    elsewhere.run("import", "dg", *files)
    growth = elsewhere.group()["growth"]
    assert growth is None or growth["level"] == "6", growth
    elsewhere.run("edit", "dg", "dg0", "rebuild_speed", "high")
    fio(elsewhere.uri("dg0/vd0"), "--rw=randrw", "--size=48m", "--io_size=16m")
    elsewhere.run("progress", "dg0", "--watch")
    assert [elsewhere.group()[key] for key in ("level", "data", "parity", "growth")] == ["6", 4, 2, None]
    assert Client(elsewhere.nbd, "dg0/vd0").read(60 * MIB, 2 * MIB) == pattern
    # It tolerates two now: without two of them everything is read; then it is whole again.
    elsewhere.run("edit", "pd", "dg0/4", "marker", "offline")
    assert Client(elsewhere.nbd, "dg0/vd0").read(60 * MIB, 2 * MIB) == pattern
    for drive in ("dg0/1", "dg0/4"):
        elsewhere.run("edit", "pd", drive, "marker", "online")
    elsewhere.wait("OPTIMAL")
    check = elsewhere.run("start", "cc", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["mismatches"] == 0
    elsewhere.stop()


def test_kills_during_growth_lose_nothing_that_was_answered(array):
    """As above, each thread with blocks of its own, killed again and again until the group has grown."""
    a = array().start()
    files = a.make(5, "24MiB")
    a.run("create", "dg", "raid5", *files[:4], "--journal", "1MiB", "--strip", "4KiB")
    a.run("create", "vd", "dg0", "32MiB")
    threads, blocks, kills = 4, 256, 6
    answered = [{} for _ in range(threads)]
    under_way = [None] * threads
    first = Client(a.nbd, "dg0/vd0")
    for at in range(0, blocks * 32, 256):
        first.write(at * 4096, b"".join(content(block, 0) for block in range(at, at + 256)))
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    a.run("grow", "dg", "dg0", files[4])

    def load(me):
        numbers = random.Random(me * 100 + len(answered[me]))
        try:
            client = Client(a.nbd, "dg0/vd0")
            while True:
                block = numbers.randrange(blocks) * 32 + me
                number = answered[me].get(block, 0) + 1
                under_way[me] = (block, number)
                client.write(block * 4096, content(block, number))
                answered[me][block], under_way[me] = number, None
        except OSError:
            pass

    for turn in range(kills):
        workers = [threading.Thread(target=load, args=(me,)) for me in range(threads)]
        [w.start() for w in workers]
        time.sleep(0.5)
        a.kill()
        [w.join(60) for w in workers]
        a.start()
        client = Client(a.nbd, "dg0/vd0")
        for me in range(threads):
            for block in range(me, blocks * 32, 32):
                found = client.read(block * 4096, 4096)
                allowed = {answered[me].get(block, 0)}
                if under_way[me] and under_way[me][0] == block:
                    allowed.add(under_way[me][1])
                number = struct.unpack(">Q", found[8:16])[0]
                assert number in allowed and found == content(block, number), (turn, block, number, allowed)
                answered[me][block] = number
            under_way[me] = None
        assert turn > 0 or a.group()["growth"], "it still grows after the first of the kills"
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    a.run("progress", "dg0", "--watch")
    assert (a.group()["growth"], a.group()["data"]) == (None, 4)
    assert sum(len(x) for x in answered) == threads * blocks
    check = a.run("start", "cc", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["mismatches"] == 0
    a.stop()


def test_tls_with_client_certificates(array, tmp_path):
    keys = tmp_path / "pki"
    keys.mkdir()
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    program(*openssl, "-keyout", keys / "ca-key.pem", "-out", keys / "ca-cert.pem", "-subj", "/CN=authority")
    for name, use in (("server", "serverAuth"), ("client", "clientAuth")):
        program(*openssl, "-keyout", keys / f"{name}-key.pem", "-out", keys / f"{name}-cert.pem", "-subj", f"/CN={name}",
                "-CA", keys / "ca-cert.pem", "-CAkey", keys / "ca-key.pem", "-addext", "subjectAltName=DNS:localhost",
                "-addext", f"extendedKeyUsage={use}", "-addext", "basicConstraints=critical,CA:FALSE")
    certs = tmp_path / "certs"
    certs.mkdir()
    shutil.copy(keys / "server-cert.pem", certs / "public.crt")
    shutil.copy(keys / "server-key.pem", certs / "private.key")
    port = free_port()
    a = array("--nbd", f"127.0.0.1:{port}", "--certs", certs, "--client-ca", keys / "ca-cert.pem").start()
    a.run("create", "dg", "raid5", *a.make(3), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "16MiB")
    with_key = f"nbds://localhost:{port}/dg0/vd0?tls-certificates={keys}"
    assert json.loads(program("nbdinfo", "--json", with_key))["TLS"]
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(random.Random(3).randbytes(16 * MIB))
    program("nbdcopy", source, with_key)
    program("nbdcopy", with_key, back)
    assert back.read_bytes() == source.read_bytes()
    # Without TLS, and without a certificate, nothing is told.
    for uri in (f"nbd://localhost:{port}/dg0/vd0", a.uri("dg0/vd0"), f"nbds://localhost:{port}/dg0/vd0"):
        refused = subprocess.run(["nbdinfo", "--size", uri], capture_output=True, text=True)
        assert refused.returncode != 0 and str(16 * MIB) not in refused.stdout, uri
    a.stop()


def test_commands_and_their_exit_codes(array):
    a = array()
    files = a.make(4)
    # Without a process: groups are made and looked at.
    offline = a.run("create", "drive_group", "raid5", *files, "--journal", "4MiB", "--name", "tank")
    assert json.loads(offline.stdout)["groups"][0]["state"] == "INACTIVE"
    assert a.run("list", "dg", check=False).returncode == 5
    listed = a.ask("ls", "physical_drive", a.members)
    assert [(d["group"], d["position"], d["state"]) for d in listed] == [("tank", i, "ONLINE") for i in range(4)]
    assert a.ask("desc", "pd", files[2])[0]["position"] == 2
    assert a.run("create", "dg", "raid5", *files, check=False).returncode == 1, "they have a signature"
    assert a.run("create", "dg", "raid7", *files, "--force", check=False).returncode == 2
    assert a.run("create", "pd", files[0], "--size", "1MiB", check=False).returncode == 1
    a.start()
    assert a.run("describe", "dg", "none", check=False).returncode == 3
    assert a.run("create", "dg", "raid5", "/dev/null", "/dev/zero", "/dev/full", check=False).returncode == 2
    a.run("create", "vd", "tank", "8MiB")
    text = subprocess.run([ASHLAR, "array", "--socket", a.socket, "describe", "dg", "tank"], capture_output=True, text=True)
    for part in ("tank  OPTIMAL", "RAID 5: 3 data and 1 parity drives", "journal", "tank/vd0", str(files[3])):
        assert part in text.stdout, text.stdout
    as_json = [ASHLAR, "array", "--format", "json", "list", "vd", "--socket", str(a.socket)]
    assert json.loads(program(*as_json))["export"] == "tank/vd0"
    # A moved group: out of service here, imported by another process.
    b = array().start()
    assert b.run("import", "dg", a.members, check=False).returncode == 1, "its drives are in use"
    a.run("stop", "dg", "tank")
    b.run("import", "dg", a.members)
    assert b.group("tank")["state"] == "OPTIMAL"
    assert b.run("delete", "dg", "tank", check=False).returncode == 1, "it has a virtual drive"
    b.run("del", "vd", "vd0")
    b.run("del", "dg", "tank")
    assert all(d["state"] == "" for d in b.ask("ls", "pd", *files))
    b.stop()
    a.stop()
