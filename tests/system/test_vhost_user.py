"""`ashlar array serve --vhost-user` with QEMU and the virtio driver of Debian's kernel.

The guest makes a file system on a virtual drive and uses it; a member of the group fails and the server is killed and started again
during its writes, and every acknowledged byte is there afterwards.
"""

import hashlib
import json
import subprocess

import pytest

from conftest import get_over_socket, until
from guest import Guest
from test_array import ASHLAR, array  # noqa: F401  a fixture


@pytest.fixture
def guests(tmp_path):
    machines = []

    def make(*disks):
        machines.append(Guest(tmp_path, ["/usr/sbin/mkfs.ext4", "/usr/sbin/e2fsck", "/usr/sbin/fstrim"], disks=disks))
        return machines[-1]

    yield make
    for machine in machines:
        machine.stop()


def counted(a):
    """What the process has counted, as its socket tells."""
    return json.loads(get_over_socket(a.socket, "/v1/state"))["vhost_user"]


def test_the_driver_of_the_linux_kernel(array, guests):  # noqa: F811
    a = array()
    sockets = a.folder / "vm"
    a.options = ("--vhost-user", sockets)
    a.start()
    files = a.make(5)
    a.run("create", "dg", "raid5", *files[:4], "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "48MiB", "--name", "data")
    a.run("create", "vd", "tank", "8MiB", "--name", "other")
    disks = [sockets / "tank/data.sock", sockets / "tank/other.sock"]
    until(lambda: all(disk.is_socket() for disk in disks), 30)
    assert {disk.stat().st_mode & 0o777 for disk in disks} == {0o600}

    guest = guests(*disks)
    until(lambda: counted(a)["connections"] == 2, 30)
    # What the shell says first belongs to no command.
    guest.run("true")
    assert guest.run("cat /sys/block/vda/serial; echo; cat /sys/block/vdb/serial").split() == ["data", "other"]
    say = guest.run("cd /sys/block/vda; cat size ro queue/logical_block_size queue/physical_block_size queue/write_cache; "
                    "cat queue/discard_max_bytes queue/write_zeroes_max_bytes queue/discard_granularity; cd /")
    lines = say.strip().split("\n")
    assert lines[:5] == [str(48 << 11), "0", "512", "4096", "write back"], say
    assert lines[5:8] == [str(256 << 20), str(256 << 20), "4096"], say

    guest.run("mkfs.ext4 -q -F /dev/vda && mount -t ext4 /dev/vda /mnt")
    guest.run("dd if=/dev/urandom of=/mnt/f bs=100k count=100 conv=fsync 2>/dev/null; sha256sum /mnt/f > /tmp/sums")
    guest.run("head -c 3000000 /dev/urandom > /tmp/raw; dd if=/tmp/raw of=/dev/vdb conv=fsync 2>/dev/null")

    # Writes go on while a member fails, and while the server is killed and started again.
    guest.begin("i=0; while [ $i -lt 60 ]; do i=$((i+1)); head -c 70000 /dev/urandom > /tmp/w; "
                "dd if=/tmp/w of=/mnt/w$i bs=70000 conv=fsync 2>/dev/null || break; "
                "(cd /tmp; sha256sum w | sed s/w$/w$i/ >> /tmp/written); echo wrote-$i-; done; [ $i = 60 ]")
    guest.wait(rb"wrote-10-", 240)
    a.run("edit", "pd", "tank/1", "marker", "offline")
    guest.wait(rb"wrote-20-", 240)
    a.kill()
    a.start()
    assert a.group("tank")["state"] != "FAILED"
    guest.wait(rb"wrote-30-", 240)
    a.run("replace", "pd", "tank/1", files[4])
    guest.wait(rb"wrote-40-", 240)
    a.kill()
    a.start()
    guest.wait(rb"wrote-50-", 240)
    # An orderly end does not lose requests either.
    a.stop()
    assert not any(disk.exists() for disk in disks)
    a.start()
    guest.finish()
    guest.run("sync; echo 3 > /proc/sys/vm/drop_caches")
    assert guest.run("sha256sum -c /tmp/sums && cd /mnt && sha256sum -c /tmp/written; s=$?; cd /; [ $s = 0 ]").count(": OK") == 61
    guest.run("cmp -n 3000000 /tmp/raw /dev/vdb")

    # Space that is given back; what lies in it is gone, and the rest is not.
    guest.run("rm /mnt/f && sync && fstrim -v /mnt")
    guest.run("umount /mnt && e2fsck -fn /dev/vda && mount -t ext4 -o ro /dev/vda /mnt")
    assert guest.run("cd /mnt && sha256sum -c /tmp/written; s=$?; cd /; [ $s = 0 ]").count(": OK") == 60
    guest.run("umount /mnt")
    said = counted(a)
    assert said["errors"] == 0 and said["writes"] > 0 and said["bytes_read"] > 4_000_000, said

    # The same bytes over NBD.
    read = subprocess.run(["nbdcopy", a.uri("tank/other"), "-"], capture_output=True, timeout=120, check=True).stdout
    assert guest.run("sha256sum < /tmp/raw").split()[0] == hashlib.sha256(read[:3_000_000]).hexdigest()
    guest.stop()
    until(lambda: counted(a)["connections"] == 0, 30)
    a.wait("OPTIMAL", name="tank")
    check = a.run("start", "cc", "tank", "--mode", "stop_on_error", "--wait")
    assert '"mismatches":0' in check.stdout.replace(" ", "")
    a.stop()


def test_a_path_in_use_ends_the_start(array):  # noqa: F811
    a = array()
    a.options = ("--vhost-user", a.folder / "vm")
    a.start()
    a.run("create", "dg", "raid5", *a.make(3), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "8MiB")
    until(lambda: (a.folder / "vm/dg0/vd0.sock").is_socket(), 30)
    # A second process over other drives finds the folder in use only if it has the same names; a file is refused.
    (a.folder / "file").write_text("x")
    refused = subprocess.run([ASHLAR, "array", "--socket", a.folder / "second.sock", "serve", "--vhost-user", a.folder / "file"],
                             capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "file" in refused.stderr, refused.stderr
    assert a.group()["state"] == "OPTIMAL"
    a.stop()
