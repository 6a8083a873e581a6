"""A Linux kernel on a virtual drive whose members are namespaces of a virtual Data24, while drives of it are pulled.

The kernel of a virtual machine has ext4 on a RAID 6 virtual drive that `ashlar array serve` exports over NVMe/TCP; the members of the group are
namespaces of the drives of `ashlar fabric serve`. fio writes and verifies in it all the time: two drives are pulled, a hot spare
takes the place of one, the other one is put back, and a port of the enclosure goes down during the rebuild.
"""

import pytest

from conftest import free_port, until
from guest import Guest
from test_array import array  # noqa: F401  a fixture
from test_fabric import fabric  # noqa: F401  a fixture
from test_nvme import connect, disconnect

# 60 MB of each drive in two namespaces, at a hundredth of the rates of the design.
SET_UP = """
scale = 100
seed = 16
bays = 9
data = "data"

[drive]
capacity = "6GB"
"""

# Blocks of a file in a random order, each of which has its place and a checksum in it.
FIO = "fio --bs=4k,4k --ioengine=psync --direct=1 --fsync=64 --verify=crc32c --verify_fatal=1 --randseed=16 --randrepeat=1"
BASE = f"{FIO} --name=base --filename=/mnt/base --size=2m --rw=randwrite"
# One file over and over; what was written is read again soon afterwards.
BUSY = f"{FIO} --name=busy --filename=/mnt/busy --size=1m --rw=randwrite --loops=1000000 --verify_backlog=32"


@pytest.fixture
def guest(tmp_path):
    machine = Guest(tmp_path, ["/usr/bin/fio", "/usr/sbin/mkfs.ext4", "/usr/sbin/e2fsck"], memory=640)
    yield machine
    machine.stop()


def drive(fabric, bay, namespace):  # noqa: F811
    """The address of a namespace, by both ports."""
    portals = ",".join(f"127.0.0.1:{p}" for p in fabric.ports)
    return f"nvme-tcp://{portals}/{fabric.nqn(bay)}/{namespace}"


def test_a_file_system_survives_pulled_drives_of_a_data24(fabric, array, guest):  # noqa: F811
    fabric.set_up(SET_UP).start()
    listed = [line["address"] for line in fabric.run("list", f"127.0.0.1:{fabric.ports[0]}")]
    # Both ports are in each address.
    assert len(listed) == 18 and drive(fabric, 9, 2) in listed, listed
    said = fabric.run("attach", listed[0], code=2)[0]
    assert f"Name {listed[0]} in `ashlar array create dg`" in said["error"]["cause"]["message"], said
    assert "stop dg" in fabric.run("detach", code=2)[0]["error"]["cause"]["message"]
    port = free_port()
    a = array("--nvme", f"127.0.0.1:{port}", "--fast-io-fail-timeout", "2").start()

    # Two namespaces of one drive fail together: they are no members of one set, unless that is permitted.
    both = [drive(fabric, bay, namespace) for bay, namespace in ((1, 1), (2, 1), (3, 1), (2, 2))]
    refused = a.run("create", "dg", "raid6", *both, "--journal", "4MiB", "--name", "tank", check=False)
    assert refused.returncode != 0 and "fail together" in refused.stdout and fabric.nqn(2) in refused.stdout, refused.stdout
    assert a.ask("ls", "dg") == []

    members = [drive(fabric, bay, 1) for bay in range(1, 8)]
    a.run("create", "dg", "raid6", *members, "--journal", "4MiB", "--name", "tank")
    a.run("create", "dg", "raid5", *[drive(fabric, bay, 2) for bay in (3, 4, 8)], "--journal", "4MiB", "--name", "quiet")
    a.run("create", "vd", "tank", "48MiB", "--name", "data")
    a.run("edit", "dg", "tank", "rebuild_speed", "high")
    assert fabric.nqn(3) in a.ask("describe", "pd", "tank/2")[0]["failure_domain"]
    taken = a.run("replace", "pd", "tank/0", drive(fabric, 2, 2), check=False)
    assert taken.returncode != 0 and "fail together" in taken.stdout, taken.stdout
    assert a.group("tank")["state"] == a.group("quiet")["state"] == "OPTIMAL"

    device = connect(guest, port, a.group("tank")["nqn"])
    guest.run(f"mkfs.ext4 -q -F {device} && mount -t ext4 {device} /mnt")
    guest.run(f"{BASE} --do_verify=0 > /tmp/base")
    guest.run(f"{BUSY} > /tmp/busy 2>&1 & echo $! > /tmp/pid")

    def goes_on():
        # So much that every member was written.
        before = a.ask("describe", "vd", "tank/data")[0]["bytes_written"]
        until(lambda: a.ask("describe", "vd", "tank/data")[0]["bytes_written"] > before + (1 << 19), 240)
        assert a.ask("describe", "vd", "tank/data")[0]["errors"] == 0

    goes_on()
    # A drive is pulled while fio writes. All of its namespaces are gone: also that of a group that nobody uses.
    fabric.run("fault", "drive-gone", 3)
    until(lambda: a.group("tank")["state"] == "PARTIALLY_DEGRADED", 120)
    until(lambda: a.group("quiet")["state"] == "DEGRADED", 120)
    assert [d["state"] for d in a.group("quiet")["drives"]] == ["FAILED", "ONLINE", "ONLINE"]
    goes_on()
    fabric.run("fault", "drive-gone", 6)
    tank = a.wait("DEGRADED", name="tank")
    assert [p for p, d in enumerate(tank["drives"]) if d["state"] == "FAILED"] == [2, 5], tank
    assert fabric.nqn(3) in tank["drives"][2]["why"], tank
    goes_on()

    # A hot spare takes the place of the first one; a port goes down while it is rebuilt.
    a.run("edit", "pd", drive(fabric, 9, 1), "marker", "hotspare", "--group", "tank")
    until(lambda: "REBUILD" in [d["state"] for d in a.group("tank")["drives"]], 120)
    fabric.run("fault", "port-down", "A1")
    goes_on()
    until(lambda: [d["state"] for d in a.group("tank")["drives"]].count("ONLINE") == 6, 240)
    # The other one comes back.
    for fault in fabric.run("fault", "list"):
        fabric.run("fault", "clear", fault["id"])
    for pd in ("tank/5", "quiet/0"):
        # The host connects again by itself.
        until(lambda pd=pd: "live" in [p["state"] for p in a.ask("describe", "pd", pd)[0]["paths"]], 120)
        a.run("edit", "pd", pd, "marker", "online")
    goes_on()
    tank = a.wait("OPTIMAL", name="tank")
    a.wait("OPTIMAL", name="quiet")
    assert tank["drives"][2]["path"] == drive(fabric, 9, 1) and tank["spares"] == [], tank
    goes_on()
    # fio has found no wrong byte so far, and ends when it is told to.
    guest.run("kill -0 $(cat /tmp/pid)")
    guest.run("kill -INT $(cat /tmp/pid); wait; true")
    said = guest.run("cat /tmp/busy")
    assert "err= 0" in said and "bad" not in said, said

    # What it wrote before everything is there, also after the kernel has forgotten it.
    guest.run("umount /mnt")
    guest.run(f"e2fsck -fn {device} && mount -t ext4 {device} /mnt")
    said = guest.run(f"{BASE} --verify_only")
    assert "err= 0" in said, said
    guest.run("umount /mnt")
    disconnect(guest, a.group("tank")["nqn"])
    for group in ("tank", "quiet"):
        check = a.run("start", "cc", group, "--mode", "stop_on_error", "--wait")
        assert '"mismatches":0' in check.stdout.replace(" ", ""), check.stdout
    a.stop()
    fabric.stop()
