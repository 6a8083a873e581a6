"""`ashlar array serve --nvme` with the NVMe/TCP host of Debian's kernel, in a virtual machine.

The host discovers the target, connects with and without digests, makes a file system and uses it; a member of the group fails and
the server is killed and started again during its writes, and every acknowledged byte is there afterwards.
"""

import json

import pytest

from conftest import free_port, get_over_socket, until
from guest import Guest
from test_array import array  # noqa: F401  a fixture

DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


@pytest.fixture
def guest(tmp_path):
    machine = Guest(tmp_path, ["/usr/sbin/nvme", "/usr/sbin/mkfs.ext4", "/usr/sbin/e2fsck"])
    yield machine
    machine.stop()


def connect(guest, port, nqn, options=""):
    """Connects; waits for the device. Reconnects for ever, every second."""
    text = f"transport=tcp,traddr=10.0.2.2,trsvcid={port},nqn={nqn},keep_alive_tmo=5,reconnect_delay=1,ctrl_loss_tmo=-1"
    guest.run(f"echo '{text}{options}' > /dev/nvme-fabrics")
    guest.run("while ! ls /dev/nvme*n1 2>/dev/null; do sleep 1; done")
    return guest.run("ls /dev/nvme*n1").split()[0]


def disconnect(guest, nqn):
    # Writing to it waits for the end.
    guest.run(f"for c in /sys/class/nvme/nvme*; do grep -q {nqn} $c/subsysnqn && echo 1 > $c/delete_controller; done; true")


def state(a):
    """The state of the process, as its socket tells."""
    return json.loads(get_over_socket(a.socket, "/v1/state"))


def test_the_host_of_the_linux_kernel(array, guest):  # noqa: F811
    port = free_port()
    a = array("--nvme", f"127.0.0.1:{port}").start()
    files = a.make(5)
    a.run("create", "dg", "raid5", *files[:4], "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "48MiB", "--name", "data")
    nqn = a.group("tank")["nqn"]
    volume = a.ask("describe", "vd", "tank/data")[0]

    # Discovery, and what the target says about itself.
    found = guest.run(f"nvme discover -t tcp -a 10.0.2.2 -s {port}")
    assert f"subnqn:  {nqn}" in found and DISCOVERY in found and f"trsvcid: {port}" in found, found

    # With and without digests; each finds what the one before has written.
    for number, options in enumerate(["", ",hdr_digest", ",hdr_digest,data_digest", ",disable_sqflow"]):
        device = connect(guest, port, nqn, options)
        if number == 0:
            say = guest.run(f"cat /sys/class/block/{device[5:]}/nguid /sys/class/block/{device[5:]}/uuid")
            assert set(say.split()) == {volume["uuid"]}, (say, volume)
            assert "4096" in guest.run(f"cat /sys/class/block/{device[5:]}/queue/logical_block_size")
            for log in ("smart-log", "error-log", "fw-log", "effects-log", "ana-log", "id-ns", "id-ctrl", "list-ns"):
                more = " -n 1" if log == "id-ns" else ""
                guest.run(f"nvme {log} {device if log == 'id-ns' else device[:-2]}{more}")
            guest.run(f"mkfs.ext4 -q -F {device}")
        guest.run(f"mount -t ext4 {device} /mnt")
        if number:
            guest.run("cd /mnt && sha256sum -c /tmp/sums; s=$?; cd /; [ $s = 0 ]")
        guest.run(f"dd if=/dev/urandom of=/mnt/f{number} bs=100k count=20 conv=fsync 2>/dev/null")
        guest.run("cd /mnt && sha256sum f* > /tmp/sums; cd /")
        guest.run("rm -f /mnt/gone; dd if=/dev/urandom of=/mnt/gone bs=64k count=16 conv=fsync 2>/dev/null")
        guest.run("umount /mnt")
        guest.run(f"e2fsck -fn {device}")
        disconnect(guest, nqn)
        assert "nvme" not in guest.run("ls /dev/nvme*n1", check=False).replace("/dev/nvme*n1", "")
    until(lambda: state(a)["nvme"]["controllers"] == 0, 60)

    # A new virtual drive appears without a new connection.
    device = connect(guest, port, nqn, ",hdr_digest,data_digest")
    a.run("create", "vd", "tank", "8MiB", "--name", "late")
    guest.run("while [ $(ls -d /sys/class/nvme-subsystem/*/nvme*n* | wc -l) != 2 ]; do sleep 1; done")
    a.run("delete", "vd", "tank/late")
    guest.run("while [ $(ls -d /sys/class/nvme-subsystem/*/nvme*n* | wc -l) != 1 ]; do sleep 1; done")

    # One that grows has its size at once, too.
    a.run("grow", "vd", "tank/data", "56MiB")
    guest.run(f"while [ $(cat /sys/class/block/{device[5:]}/size) != {56 * 2048} ]; do sleep 1; done")
    guest.run(f"dd if={device} of=/dev/null bs=4096 skip={55 * 256} iflag=direct 2>&1 | grep -q '^256+0 records in'")

    # Writes go on while a member fails, and while the server is killed and started again.
    guest.run(f"mount -t ext4 {device} /mnt")
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
    guest.finish()
    guest.run("umount /mnt")
    disconnect(guest, nqn)
    a.wait("OPTIMAL", name="tank")
    a.stop()
    a.start()
    device = connect(guest, port, nqn)
    guest.run(f"e2fsck -fn {device}")
    guest.run(f"mount -t ext4 -o ro {device} /mnt")
    assert guest.run("cd /mnt && sha256sum -c /tmp/sums /tmp/written; s=$?; cd /; [ $s = 0 ]").count(": OK") == 64
    guest.run("umount /mnt")
    disconnect(guest, nqn)
    check = a.run("start", "cc", "tank", "--mode", "stop_on_error", "--wait")
    assert '"mismatches":0' in check.stdout.replace(" ", "")
    a.stop()
