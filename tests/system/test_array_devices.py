"""`ashlar array` over block devices: loop devices over files, which need root.

Drives are pulled and come back, names change between two starts, and devices of others are refused and stay as they are.
"""

import errno
import fcntl
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conftest import until
from test_array import MIB, Client, array, content, fio, program  # noqa: F401

# Of linux/loop.h: the structure loop_info64 and its requests.
GET_STATUS, SET_STATUS, SIZE_LIMIT = 0x4C05, 0x4C04, 32


def losetup(*arguments):
    return subprocess.run(["losetup", *map(str, arguments)], capture_output=True, text=True, timeout=60)


class Loops:
    """Loop devices of one test, by the files that are behind them."""

    def __init__(self, folder):
        self.folder, self.attached = folder, []

    def file(self, name, size=40 * MIB):
        path = self.folder / name
        with open(path, "wb") as f:
            f.truncate(size)
        return path

    def attach(self, file, *options, at=None):
        """A device for the file; another test may take the free one first."""
        for _ in range(20):
            done = losetup(*([at] if at else ["--find", "--show"]), *options, file)
            if done.returncode == 0:
                device = at or done.stdout.strip()
                self.attached.append(device)
                until(lambda: os.path.exists(device), 10)
                return device
            time.sleep(0.1)
        raise AssertionError(done.stderr)

    def devices(self, count, **more):
        return [self.attach(self.file(f"disk{i}", **more)) for i in range(count)]

    def detach(self, device):
        done = losetup("--detach", device)
        assert done.returncode == 0, done.stderr
        self.attached.remove(device)

    def backing(self, device):
        return open(f"/sys/block/{os.path.basename(device)}/loop/backing_file").read().strip()

    def resize(self, device, limit):
        """Makes the device end after so many bytes: all beyond is as if it was pulled out. 0: it is whole again."""
        handle = os.open(device, os.O_RDONLY)
        try:
            info = bytearray(fcntl.ioctl(handle, GET_STATUS, bytes(232)))
            info[SIZE_LIMIT:SIZE_LIMIT + 8] = struct.pack("<Q", limit)
            fcntl.ioctl(handle, SET_STATUS, bytes(info))
        finally:
            os.close(handle)

    def pull(self, device):
        self.resize(device, 4096)

    def end(self):
        for device in self.attached:
            losetup("--detach", device)


def why_not():
    if os.geteuid() != 0:
        return "loop devices need root"
    done = losetup("--find")
    if done.returncode != 0:
        return f"no loop device can be made here: {done.stderr.strip()}"
    return None


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")


@pytest.fixture
def loops(tmp_path):
    # In memory, where it is large enough: each flush of a loop device is one of its file.
    memory = Path("/dev/shm")
    there = memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30
    folder = Path(tempfile.mkdtemp(prefix="loops-", dir=memory if there else tmp_path))
    made = Loops(folder)
    yield made
    made.end()
    shutil.rmtree(folder)


@pytest.fixture
def devices(array, loops):  # noqa: F811
    """Arrays before loop devices: those are detached when no process has them any more."""
    return array, loops


def is_free(device):
    """Whether a process can have the device alone."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))
        return True
    except OSError as e:
        assert e.errno == errno.EBUSY, e
        return False


def digest(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def refused(a, *arguments):
    """The exit code, and what was said."""
    done = a.run(*arguments, check=False)
    assert done.returncode != 0, done.stdout
    return done.returncode, done.stdout + done.stderr


def checked(a):
    done = a.run("start", "cc", "dg0", "--mode", "stop_on_error", "--wait")
    check = json.loads(done.stdout)["check"]
    assert (check["state"], check["mismatches"]) == ("DONE", 0), check


def test_a_drive_is_pulled_while_fio_verifies_and_a_spare_is_rebuilt(devices):
    make, loops = devices
    a = make().start()
    names = loops.devices(5)
    a.run("create", "dg", "raid5", *names[:4], "--spare", names[4], "--journal", "4MiB")
    listed = a.ask("list", "pd")
    assert [(d["path"], d["state"]) for d in listed] == [(n, "ONLINE") for n in names[:4]] + [(names[4], "HOTSPARE")]
    assert a.ask("list", "pd", *names[:4])[2]["position"] == 2, "they can be looked at while they are in service"
    assert a.ask("describe", "pd", "dg0/0")[0]["failure_domain"] == f"the disk {os.path.basename(names[0])}"
    assert not any(is_free(n) for n in names)
    a.run("create", "vd", "dg0")
    uri, failures = a.uri("dg0/vd0"), []

    def load():
        try:
            fio(uri, "--rw=randrw", "--size=32m", "--io_size=24m", "--fsync=32")
        except BaseException as e:
            failures.append(e)

    fio(uri, "--rw=write", "--size=32m", "--bs=64k")
    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(0.2)
    loops.pull(names[1])
    until(lambda: a.group()["state"] in ("RECOVERY", "OPTIMAL") and not a.group()["spares"], 60)
    a.wait("OPTIMAL")
    thread.join(240)
    assert not thread.is_alive() and not failures, failures
    assert a.group()["drives"][1]["path"] == names[4]
    checked(a)
    # What was pulled is nobody's any more, and comes back as another drive.
    until(lambda: is_free(names[1]), 60)
    loops.resize(names[1], 0)
    _, said = refused(a, "replace", "pd", "dg0/0", names[1])
    assert "an Ashlar drive group" in said, said
    a.run("replace", "pd", "dg0/0", names[1], "--force")
    a.wait("OPTIMAL")
    assert is_free(names[0])
    fio(uri, "--rw=randrw", "--size=16m")
    checked(a)
    a.stop()
    assert all(is_free(n) for n in names)


def test_a_group_without_requests_loses_a_drive_that_comes_back(devices):
    make, loops = devices
    a = make().start()
    names = loops.devices(3)
    a.run("create", "dg", "raid5", *names, "--journal", "4MiB")
    a.run("create", "vd", "dg0", "16MiB")
    noise = random.Random(3).randbytes(4 * MIB)
    Client(a.nbd, "dg0/vd0").write(0, noise)
    loops.pull(names[1])
    group = a.wait("DEGRADED")
    assert (group["drives"][1]["state"], group["drives"][1]["path"]) == ("FAILED", names[1])
    assert "has 4096" in group["drives"][1]["why"], group["drives"][1]
    client = Client(a.nbd, "dg0/vd0")
    assert client.read(0, 4 * MIB) == noise
    client.write(MIB, noise[:MIB])
    loops.resize(names[1], 0)
    a.run("edit", "pd", "dg0/1", "marker", "online")
    a.wait("OPTIMAL")
    checked(a)
    # Another device has its name: it stays as it is.
    loops.pull(names[1])
    a.wait("DEGRADED")
    until(lambda: is_free(names[1]), 60)
    right = loops.backing(names[1])
    loops.detach(names[1])
    other = loops.file("other")
    other.write_bytes(random.Random(4).randbytes(40 * MIB))
    before = digest(other)
    loops.attach(other, at=names[1])
    _, said = refused(a, "edit", "pd", "dg0/1", "marker", "online")
    assert "is not the device that was dg0/1" in said, said
    assert digest(other) == before and is_free(names[1])
    # The drive itself under another name needs no force, as nothing else is overwritten.
    back = loops.attach(right)
    assert back != names[1]
    a.run("replace", "pd", "dg0/1", back)
    a.wait("OPTIMAL")
    assert a.group()["drives"][1]["path"] == back
    assert client.read(0, 4 * MIB) == noise[:MIB] + noise[:MIB] + noise[2 * MIB:]
    checked(a)
    a.stop()


def test_kill_and_restart_under_other_names(devices, tmp_path):
    make, loops = devices
    a = make().start()
    files = [loops.file(f"disk{i}") for i in range(4)]
    names = [loops.attach(f) for f in files]
    a.run("create", "dg", "raid5", *names, "--journal", "4MiB")
    a.run("create", "vd", "dg0", "16MiB")
    answered, blocks = [0] * 32, 32
    first = Client(a.nbd, "dg0/vd0")
    for block in range(blocks):
        first.write(block * 4096, content(block, 0))
    a.options = ()
    for round in range(3):
        stop, under_way, count = threading.Event(), [None], [0]

        def work():
            chance = random.Random(round)
            try:
                client = Client(a.nbd, "dg0/vd0")
                while not stop.is_set():
                    block = chance.randrange(blocks)
                    under_way[0] = (block, answered[block] + 1)
                    client.write(block * 4096, content(block, answered[block] + 1))
                    answered[block], under_way[0] = answered[block] + 1, None
                    count[0] += 1
            except OSError:
                pass

        worker = threading.Thread(target=work)
        worker.start()
        until(lambda: count[0] > 60, 120)
        a.kill()
        stop.set()
        worker.join(120)
        until(lambda: all(is_free(n) for n in names), 60)
        [loops.detach(n) for n in names]
        # The other way round; links to them are in a folder, twice, as udev makes them.
        names = [loops.attach(f) for f in reversed(files)][::-1]
        files = files[1:] + files[:1]
        for at, name in enumerate(names):
            for link in (a.members / f"scsi-{at}", a.members / f"wwn-{at}"):
                link.unlink(missing_ok=True)
                link.symlink_to(name)
        names = sorted(names)
        a.start()
        group = a.group()
        assert group["state"] == "OPTIMAL", group
        assert sorted(d["path"] for d in group["drives"]) == names
        client = Client(a.nbd, "dg0/vd0")
        for block in range(blocks):
            found = client.read(block * 4096, 4096)
            number = struct.unpack(">Q", found[8:16])[0]
            allowed = {answered[block]} | ({under_way[0][1]} if under_way[0] and under_way[0][0] == block else set())
            assert number in allowed and found == content(block, number), (block, number, allowed)
            answered[block] = number
    checked(a)
    a.stop()


def test_kills_while_whole_stripes_are_written_once(devices):
    """Over drives with blocks of 4 KiB whole rows are not written to the journals before."""
    make, loops = devices
    a = make().start()
    names = [loops.attach(loops.file(f"disk{i}"), "--sector-size", 4096) for i in range(4)]
    a.run("create", "dg", "raid5", *names, "--journal", "4MiB")
    assert "whole rows are written once" in a.group()["policy_note"]
    a.run("create", "vd", "dg0", "24MiB")
    for at, name in enumerate(names):
        (a.members / f"wwn-{at}").symlink_to(name)
    # Four stripes of three strips of 64 KiB.
    piece, pieces = 192, 16
    answered = [0] * pieces
    a.options = ()

    def filled(at, generation):
        return b"".join(content(block, generation) for block in range(at * piece, (at + 1) * piece))

    for round in range(3):
        stop, under_way, count = threading.Event(), {}, [0, 0]

        def work(worker):
            chance = random.Random(10 * round + worker)
            try:
                client = Client(a.nbd, "dg0/vd0")
                while not stop.is_set():
                    at = chance.randrange(pieces // 2) * 2 + worker
                    under_way[at] = answered[at] + 1
                    client.write(at * piece * 4096, filled(at, answered[at] + 1))
                    answered[at] += 1
                    del under_way[at]
                    count[worker] += 1
            except OSError:
                pass

        workers = [threading.Thread(target=work, args=[n]) for n in range(2)]
        [w.start() for w in workers]
        until(lambda: min(count) > 6, 120)
        a.kill()
        stop.set()
        [w.join(120) for w in workers]
        until(lambda: all(is_free(n) for n in names), 60)
        a.start()
        assert a.group()["state"] == "OPTIMAL", a.group()
        client = Client(a.nbd, "dg0/vd0")
        for at in range(pieces):
            found = client.read(at * piece * 4096, piece * 4096)
            for i in range(piece):
                block = found[i * 4096:(i + 1) * 4096]
                allowed = {answered[at], under_way.get(at, answered[at])}
                same = [g for g in allowed if block == (content(at * piece + i, g) if g else bytes(4096))]
                assert same, (round, at, i, allowed)
            # What comes next is told from what was found.
            answered[at] = max(answered[at], under_way.get(at, 0))
            if answered[at]:
                client.write(at * piece * 4096, filled(at, answered[at]))
        checked(a)
    a.stop()


def test_devices_that_something_else_has_are_refused_and_stay_as_they_are(devices, tmp_path):
    make, loops = devices
    a = make().start()
    good = loops.devices(2)
    ext4, xfs, small, locked = (loops.attach(loops.file(n, size)) for n, size in
                                (("ext4", 40 * MIB), ("xfs", 320 * MIB), ("small", MIB), ("locked", 40 * MIB)))
    program("mkfs.ext4", "-q", ext4)
    program("mkfs.xfs", "-q", xfs)
    create = ("create", "dg", "raid5", *good)
    for device, owner in ((ext4, "an ext file system"), (xfs, "an XFS file system")):
        code, said = refused(a, *create, device)
        assert code == 1 and owner in said and device in said, said
    mounted = tmp_path / "mounted at"
    mounted.mkdir()
    program("mount", ext4, mounted)
    try:
        (mounted / "file").write_bytes(b"kept")
        # Even by force.
        code, said = refused(a, *create, ext4, "--force")
        assert code == 1 and f"{os.path.basename(ext4)} is mounted at {mounted}" in said, said
        assert (mounted / "file").read_bytes() == b"kept"
    finally:
        program("umount", mounted)
    assert refused(a, *create, ext4)[0] == 1
    program("e2fsck", "-fn", ext4)
    code, said = refused(a, *create, small)
    assert code == 2, said
    handle = os.open(locked, os.O_RDWR | os.O_EXCL)
    code, said = refused(a, *create, locked)
    assert code == 1 and "another process has it" in said, said
    os.close(handle)
    code, said = refused(a, *create, good[0])
    assert code == 2 and "named twice" in said, said
    read_only = loops.attach(loops.file("read_only"), "--read-only")
    assert refused(a, *create, read_only)[0] != 0
    code, said = refused(a, "create", "pd", locked, "--size", "40MiB")
    assert code == 1 and "is a block device" in said, said
    assert a.ask("list", "dg") == []
    # Nothing was left locked or written.
    a.run(*create, locked, "--journal", "4MiB")
    assert not any(map(is_free, [*good, locked]))
    # A process does not get what another one has; a group without a process is free.
    b = make().start()
    code, said = refused(b, "import", "dg", *good, locked)
    assert code == 1 and "in use" in said, said
    b.stop()
    # By force a file system becomes a member.
    a.run("replace", "pd", "dg0/2", ext4, "--force")
    a.wait("OPTIMAL")
    a.run("del", "dg", "dg0")
    assert all(map(is_free, [*good, locked, ext4]))
    a.stop()


def partitions(loops, file, count=2):
    """A device with partitions, from a table of the master boot record."""
    size = os.path.getsize(file) // 512
    each = (size - 2048) // count // 2048 * 2048
    with open(file, "r+b") as f:
        for at in range(count):
            f.seek(446 + 16 * at)
            f.write(struct.pack("<B3sB3sII", 0, bytes(3), 0x83, bytes(3), 2048 + at * each, each))
        f.seek(510)
        f.write(b"\x55\xaa")
    device = loops.attach(file, "--partscan")
    names = [f"{device}p{at + 1}" for at in range(count)]
    for at, name in enumerate(names):
        # A kernel that does not know the table is told.
        if not os.path.exists(name):
            program("addpart", device, at + 1, 2048 + at * each, each)
    until(lambda: all(map(os.path.exists, names)), 10)
    return device, names


def test_partitions_of_one_disk_fail_together(devices, tmp_path):
    make, loops = devices
    a = make().start()
    disk, (one, two) = partitions(loops, loops.file("parts", 100 * MIB))
    others = loops.devices(3)
    domain = f"the disk {os.path.basename(disk)}"
    code, said = refused(a, "create", "dg", "raid5", one, two, others[0])
    assert code == 1 and domain in said, said
    # The whole disk has a partition table; by force too it is not taken while a partition is in use.
    code, said = refused(a, "create", "dg", "raid5", disk, *others[:2])
    assert code == 1 and "partition table" in said, said
    program("mkfs.ext4", "-q", two)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    program("mount", two, mounted)
    try:
        code, said = refused(a, "create", "dg", "raid5", disk, *others[:2], "--force")
        assert code == 1 and f"{os.path.basename(two)} is mounted at {mounted}" in said, said
        # The other partition is free.
        a.run("create", "dg", "raid5", one, *others[:2], "--journal", "4MiB")
    finally:
        program("umount", mounted)
    assert a.ask("describe", "pd", "dg0/0")[0]["failure_domain"] == domain
    code, said = refused(a, "replace", "pd", "dg0/1", two, "--force")
    assert code == 1 and domain in said, said
    a.run("replace", "pd", "dg0/1", two, "--force", "--allow-shared-drive")
    a.wait("OPTIMAL")
    a.run("replace", "pd", "dg0/1", others[2])
    a.wait("OPTIMAL")
    a.stop()


def test_blocks_of_4096_bytes_and_discards(devices):
    make, loops = devices
    a = make().start()
    names = [loops.attach(loops.file(f"disk{i}"), "--sector-size", 4096 if i else 512) for i in range(3)]
    a.run("create", "dg", "raid5", *names, "--journal", "4MiB")
    a.run("create", "vd", "dg0", "48MiB")
    uri = a.uri("dg0/vd0")
    fio(uri, "--rw=randrw", "--size=24m", "--bs=512-64k", "--bs_unaligned", "--fsync=16")
    program("qemu-io", "-f", "raw", uri, "-c", "write -P 0x11 0 40M", "-c", "flush")
    used = [os.stat(loops.folder / f"disk{i}").st_blocks * 512 for i in range(3)]
    program("qemu-io", "-f", "raw", uri, "-c", "discard 0 40M", "-c", "flush", "-c", "read -P 0 0 40M")
    after = [os.stat(loops.folder / f"disk{i}").st_blocks * 512 for i in range(3)]
    assert all(b - a > 15 * MIB for a, b in zip(after, used)), (used, after)
    checked(a)
    a.stop()
    # Larger blocks, where the kernel makes them.
    large = losetup("--find", "--show", "--sector-size", 8192, loops.file("large"))
    if large.returncode == 0:
        loops.attached.append(large.stdout.strip())
        code, said = refused(a, "create", "dg", "raid5", *names[:2], large.stdout.strip(), "--force")
        assert code == 2 and "blocks of 8192 bytes" in said, said
