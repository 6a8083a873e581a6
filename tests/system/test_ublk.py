"""`ashlar array serve --ublk`, which runs in a virtual machine with the ublk driver of Debian's kernel.

Virtual drives are block devices there: with a file system and with fio, which verifies what it wrote, while the process is killed and
started again during writes. The guest has the kernel of Debian's backports (or of Debian 13): that of Debian 12 has no driver.
"""

import json
import os
import time

import pytest

from guest import GUEST_AUTH, Guest

ASHLAR = os.environ["ASHLAR_BIN"]
PROGRAMS = [ASHLAR, "/usr/bin/fio", "/usr/sbin/mkfs.ext4", "/usr/sbin/e2fsck", "/usr/sbin/fstrim"]
MIB = 1 << 20
# How often the process is killed during writes.
KILLS = 3
FIO = ("fio --name=x --ioengine=libaio --direct=1 --iodepth=300 --rw=randwrite --bs=4k --verify=crc32c --verify_fatal=1 "
       "--verify_state_save=0 --output=/tmp/fio.txt --thread")


class Served:
    """An `ashlar array serve` in the guest."""

    def __init__(self, guest, name, drives):
        self.guest, self.name, self.drives, self.folder = guest, name, drives, f"/dev/{name}"

    def command(self, line):
        return f"ashlar --json array --socket /run/{self.name}.sock {line}"

    def run(self, line, check=True):
        return self.guest.run(self.command(line), check=check)

    def ask(self, line):
        return [json.loads(one) for one in self.run(line).splitlines() if one.startswith("{")]

    def start(self):
        """Starts it and waits until it says what it serves; that."""
        out, log, pid = (f"/tmp/{self.name}.{part}" for part in ("out", "log", "pid"))
        serve = self.command(f"serve {self.drives} --ublk {self.folder}")
        self.guest.run(f"rm -f {out}; {serve} > {out} 2>> {log} & echo $! > {pid}")
        self.guest.run(f"while [ ! -s {out} ]; do kill -0 $(cat {pid}) || break; sleep 0.1; done; [ -s {out} ] || cat {log}; [ -s {out} ]")
        return json.loads(self.guest.run(f"cat {out}"))["state"]

    def end(self, how):
        self.guest.run(f"kill -{how} $(cat /tmp/{self.name}.pid); wait $(cat /tmp/{self.name}.pid); true")

    def state(self):
        """What it says about its devices."""
        volumes = {v["export"]: v for v in self.ask("ls vd")}
        return {name: v.get("block_device") for name, v in volumes.items()}

    def wait(self, name):
        """The device of a virtual drive, when there is one."""
        self.guest.run(f"while [ ! -b {self.folder}/{name} ]; do sleep 0.1; done")
        return self.guest.run(f"readlink {self.folder}/{name}").strip()


@pytest.fixture
def guest(tmp_path):
    machines = []

    def make(**more):
        files = [tmp_path / f"disk{n}" for n in range(4)]
        for file in files:
            with open(file, "wb") as out:
                out.truncate(48 * MIB)
        machines.append(Guest(tmp_path, PROGRAMS, home=GUEST_AUTH, memory=1024, cpus=2, files=files, later=["ublk_drv"], **more))
        # What the shell says first belongs to no command.
        machines[-1].run("mkdir -p /run /m /by; mount -t tmpfs none /m; echo nobody:x:65534:65534::/:/bin/sh > /etc/passwd")
        return machines[-1]

    yield make
    for machine in machines:
        machine.stop()


def load(guest):
    """Loads the driver, and what it needs."""
    guest.run("insmod /modules/ublk_drv.ko && [ -c /dev/ublk-control ]")


def test_a_machine_that_cannot_says_so(guest):
    g = guest()
    refused = "ashlar array --socket /m/a.sock serve --ublk /dev/ashlar 2>&1"
    as_nobody = f"su -s /bin/sh nobody -c '{refused}'"

    def why(line):
        said = g.run(f"! {line}")
        # Nothing is there that was not there before.
        g.run("[ ! -e /dev/ashlar ] && [ ! -e /m/a.sock ] && ! ls /dev/ublkc* 2>/dev/null")
        return said

    said = why(refused)
    assert "/dev/ublk-control" in said and "modprobe ublk_drv" in said, said
    load(g)
    g.run("chmod 777 /m")
    said = why(as_nobody)
    assert "not permitted" in said and "root" in said, said
    g.run("chmod 666 /dev/ublk-control")
    said = why(as_nobody)
    assert "CAP_SYS_ADMIN" in said, said
    g.run("echo 2 > /proc/sys/kernel/io_uring_disabled")
    said = why(refused)
    assert "io_uring" in said and "kernel.io_uring_disabled" in said, said
    # Without the option the process needs none of it.
    g.run("ashlar array --socket /m/a.sock serve --nbd unix:/m/nbd > /tmp/out 2>&1 & echo $! > /tmp/pid; "
          "while [ ! -S /m/nbd ]; do sleep 0.1; done; kill $(cat /tmp/pid); wait $(cat /tmp/pid)")


def test_the_ublk_driver_of_the_linux_kernel(guest):
    g = guest()
    load(g)
    # A folder with the drives, and with a device of ublk, which nobody may read while its process is away.
    g.run("for d in vda vdb vdc vdd ublkb0 ublkb1 ublkb2; do ln -s /dev/$d /by/$d; done")
    a = Served(g, "ashlar", "/by")
    g.run(a.command("create dg raid5 /dev/vda /dev/vdb /dev/vdc /dev/vdd --journal 4MiB --name tank"))
    a.start()
    a.run("create vd tank 64MiB --name data")
    a.run("create vd tank 24MiB --name raw")
    device, raw = a.wait("tank/data"), a.wait("tank/raw")
    assert a.state() == {"tank/data": device, "tank/raw": raw}
    assert a.ask("describe vd tank/data")[0]["block_device"] == device
    name = device.removeprefix("/dev/")
    say = g.run(f"cd /sys/block/{name}; cat size ro queue/logical_block_size queue/physical_block_size queue/write_cache queue/fua "
                "queue/discard_max_bytes queue/write_zeroes_max_bytes queue/discard_granularity; ls mq | wc -l; cd /").strip().split("\n")
    assert say[:9] == [str(64 << 11), "0", "512", "4096", "write back", "1", str(256 * MIB), str(256 * MIB), "4096"], say
    assert say[9] == "2", "a queue for each processor"

    # Another process over other drives, which is killed at once: its device waits, and is not touched by the first one.
    b = Served(g, "other", "/m")
    g.run(f"{b.command('create pd /m/m1 /m/m2 /m/m3 --size 16MiB')} && "
          f"{b.command('create dg raid5 /m/m1 /m/m2 /m/m3 --journal 1MiB --name pool')}")
    b.start()
    b.run("create vd pool 8MiB --name kept")
    kept = b.wait("pool/kept")
    g.run(f"head -c 3000000 /dev/urandom > /tmp/kept; dd if=/tmp/kept of={kept} conv=fsync 2>/dev/null")
    b.end(9)

    g.run(f"mkfs.ext4 -q -F {a.folder}/tank/data && mount -t ext4 {a.folder}/tank/data /mnt")
    g.run("dd if=/dev/urandom of=/mnt/f bs=100k count=100 conv=fsync 2>/dev/null; sha256sum /mnt/f > /tmp/sums")
    g.run("echo 0 > /tmp/progress; (i=0; while [ $i -lt 50 ]; do i=$((i+1)); head -c 70000 /dev/urandom > /tmp/w; "
          "dd if=/tmp/w of=/mnt/w$i bs=70000 conv=fsync 2>/dev/null || break; "
          "(cd /tmp; sha256sum w | sed s/w$/w$i/ >> /tmp/written); echo $i > /tmp/progress; done; [ $i = 50 ]; echo $? > /tmp/writer) &")
    # More requests than there are in the queues of the device, so that all are under way when the process is killed.
    g.run(f"({FIO} --filename={raw} --size=8m --loops=4 > /dev/null 2>&1; echo $? > /tmp/fio) &")
    for kill in range(1, KILLS + 1):
        g.run(f"while [ $(cat /tmp/progress) -lt {10 * kill} ] && [ ! -e /tmp/writer ]; do sleep 0.1; done", seconds=900)
        a.end(9)
        since = time.monotonic()
        state = a.start()
        g.run(f"n=$(cat /tmp/progress); while [ $(cat /tmp/progress) = $n ] && [ ! -e /tmp/writer ]; do sleep 0.1; done", seconds=900)
        print("writes went on after", round(time.monotonic() - since, 1), "s")
        assert state["ublk"]["devices"] <= 2 and state["groups"][0]["state"] == "OPTIMAL", state
        assert a.state() == {"tank/data": device, "tank/raw": raw}
    # An orderly end does not end the devices either.
    a.end(15)
    g.run(f"[ -b {device} ] && [ -L {a.folder}/tank/data ]")
    state = a.start()
    assert state["ublk"]["recovered"] == 2 and state["ublk"]["errors"] == 0, state
    g.run("while [ ! -e /tmp/writer ] || [ ! -e /tmp/fio ]; do sleep 0.2; done", seconds=900)
    assert g.run("cat /tmp/writer /tmp/fio").split() == ["0", "0"], g.run("cat /tmp/fio.txt; tail -n 40 /tmp/ashlar.log")
    g.run("sync; echo 3 > /proc/sys/vm/drop_caches")
    assert g.run("sha256sum -c /tmp/sums && cd /mnt && sha256sum -c /tmp/written; s=$?; cd /; [ $s = 0 ]").count(": OK") == 51

    # Space that is given back; what lies in it is gone, and the rest is not.
    g.run("rm /mnt/f && sync && fstrim -v /mnt")
    g.run(f"umount /mnt && e2fsck -fn {device} && mount -t ext4 -o ro {device} /mnt")
    assert g.run("cd /mnt && sha256sum -c /tmp/written; s=$?; cd /; [ $s = 0 ]").count(": OK") == 50
    g.run("umount /mnt")
    assert a.ask("ls vd")[0]["errors"] == 0
    check = a.run("start cc tank --mode stop_on_error --wait")
    assert '"mismatches":0' in check.replace(" ", ""), check

    # The other process finds its device again, with what was in it.
    state = b.start()
    assert state["ublk"]["recovered"] == 1 and b.state() == {"pool/kept": kept}, state
    g.run(f"echo 3 > /proc/sys/vm/drop_caches; cmp -n 3000000 /tmp/kept {kept}")

    # A virtual drive that is deleted has no device, also if somebody has it open; the process goes on.
    g.run(f"sleep 1000 < {raw} & echo $! > /tmp/holder")
    a.run("delete vd tank/raw")
    g.run(f"while [ -e {raw} ] || [ -L {a.folder}/tank/raw ]; do sleep 0.1; done; kill $(cat /tmp/holder)")
    assert a.state() == {"tank/data": device}
    # A group that leaves service takes its devices along, and has them again when it comes back.
    a.run("stop dg tank")
    g.run(f"while [ -e {device} ] || [ -e {a.folder}/tank ]; do sleep 0.1; done")
    a.run("import dg /by")
    device = a.wait("tank/data")
    g.run(f"e2fsck -fn {device}")
    b.run("delete dg pool --force")
    g.run(f"while [ -e {kept} ]; do sleep 0.1; done")
    b.end(15)
    a.run("delete dg tank --force")
    g.run("while ls /dev/ublkb* /dev/ublkc* 2>/dev/null; do sleep 0.1; done; [ ! -e /dev/ashlar/tank ]")
    a.end(15)
