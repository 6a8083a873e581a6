"""ANA states of a virtual enclosure: the NVMe/TCP host of Debian's kernel, with its native multipath, and our own host change paths while
they write, and meet no error.
"""

import threading
import time

import pytest

from conftest import free_port, until
from guest import Guest
from test_array import Client, array, content  # noqa: F401  a fixture among them
from test_fabric import connect, device, disconnect, fabric  # noqa: F401  a fixture among them
from test_fabric_array import drive

SET_UP = """
scale = 100
seed = 44
bays = 3
data = "data"

[drive]
capacity = "6GB"

[[ana]]
at = "B"
namespaces = ["2"]
state = "non-optimized"
"""


@pytest.fixture
def guest(tmp_path):
    machine = Guest(tmp_path, ["/usr/sbin/nvme"])
    yield machine
    machine.stop()


@pytest.fixture
def modules(fabric):  # noqa: F811
    """An enclosure with a port of each module: A1 and B1."""
    fabric.ports = [free_port() for _ in range(4)]
    fabric.set_up(SET_UP).start()
    return fabric


def writes(fabric):  # noqa: F811
    ports = {p["name"]: p["writes"] for p in fabric.state()["ports"]}
    return ports["A1"], ports["B1"]


def listed(fabric, port):  # noqa: F811
    return {e["state"]: e["namespaces"] for e in fabric.run("ana", "list") if e["port"] == port}


def test_states_are_set_shown_and_refused(modules):
    everything = [f"{bay}/{n}" for bay in (1, 2, 3) for n in (1, 2)]
    assert listed(modules, "A1") == {"optimized": everything}
    assert listed(modules, "B1") == {"optimized": ["1/1", "1/2", "3/1", "3/2"], "non-optimized": ["2/1", "2/2"]}
    said = modules.run("ana", "set", "A", "inaccessible", "--namespaces", "{1...2}/1", "3")[0]
    assert said == {"status": "success", "at": "A", "namespaces": ["{1...2}/1", "3"], "state": "inaccessible"}
    for port in ("A1", "A2", "A3"):
        assert listed(modules, port) == {"optimized": ["1/2", "2/2"], "inaccessible": ["1/1", "2/1", "3/1", "3/2"]}
    assert "2 optimized, 4 inaccessible" in modules.text("status")
    assert "1/1 2/1 3/1 3/2" in modules.text("ana", "ls") and "change" not in modules.text("ana", "ls")
    modules.run("ana", "set", "C", "optimized", code=3)
    modules.run("ana", "set", "A4", "optimized", code=3)
    modules.run("ana", "set", "A1", "optimized", "--namespaces", "4", code=3)
    modules.run("ana", "set", "A1", "best", code=2)
    modules.run("ana", "set", "all", "optimized")
    assert all(e["state"] == "optimized" for e in modules.run("ana", "list"))
    modules.stop()


def test_native_multipath_of_the_linux_kernel_follows(modules, guest):
    nqn, names = modules.nqn(1), [n["uuid"] for n in modules.state()["drives"][0]["namespaces"]]
    a, b = modules.ports[0], modules.ports[3]
    for port in (a, b):
        connect(guest, port, nqn, 1)
    first, second = device(guest, names[0]), device(guest, names[1])

    def state(port, name):
        """What the kernel knows of a namespace at a port."""
        of = f"grep -l trsvcid={port} /sys/class/nvme/nvme*/address"
        return guest.run(f"cat $(dirname $({of}))/nvme*c*n{name[-1]}/ana_state").strip()

    def becomes(port, name, wanted):
        until(lambda: state(port, name) == wanted, 120)

    for port in (a, b):
        for name in (first, second):
            becomes(port, name, "optimized")
    said = guest.run(f"nvme list-subsys {first}")
    assert said.count("live optimized") == 2 and str(a) in said and str(b) in said, said

    # All optimized paths take turns.
    guest.run("for s in /sys/class/nvme-subsystem/*; do echo round-robin > $s/iopolicy; done")

    # Writes go on, one block after the other, while access changes.
    guest.run("dd if=/dev/urandom of=/tmp/data bs=64k count=40 2>/dev/null; echo 0 > /tmp/count")
    guest.run(f"(i=0; while [ ! -e /tmp/enough ]; do n=$((i%40)); dd if=/tmp/data of={first} bs=64k count=1 skip=$n seek=$n "
              "oflag=direct 2>/tmp/error || { touch /tmp/failed; break; }; i=$((i+1)); echo $i > /tmp/count; sleep 0.05; done; touch /tmp/ended) &")

    def all_take(port):
        """All writes take the path of a port: 0 is A1, 1 is B1."""
        before = writes(modules)
        until(lambda: writes(modules)[port] >= before[port] + 5, 240)
        assert writes(modules)[1 - port] == before[1 - port]

    until(lambda: min(writes(modules)) > 0, 240)
    for a_state, b_state, taken in [
        ("inaccessible", "optimized", 1),
        ("non-optimized", "optimized", 1),
        ("non-optimized", "persistent-loss", 0),
        ("optimized", "non-optimized", 0),
        ("optimized", "change", 0),
    ]:
        modules.run("ana", "set", "A", a_state)
        modules.run("ana", "set", "B1", b_state, "--namespaces", "1/1")
        becomes(a, first, a_state)
        becomes(b, first, b_state)
        all_take(taken)
        # The other namespace of the drive has states of its own at B1.
        assert state(b, second) == "optimized" and state(a, second) == a_state
    said = guest.run(f"nvme list-subsys {first}")
    assert "live optimized" in said and "live change" in said, said
    log = guest.run(f"nvme ana-log {first[:-2]}")
    assert "grpid" in log and "state" in log, log

    # No path at all: the kernel holds requests back, and goes on when there is one.
    modules.run("ana", "set", "all", "inaccessible")
    for port in (a, b):
        becomes(port, first, "inaccessible")
    before = writes(modules)
    time.sleep(2)
    assert writes(modules) == before
    modules.run("ana", "set", "B", "non-optimized")
    all_take(1)
    modules.run("ana", "set", "all", "optimized")
    guest.run("while [ $(cat /tmp/count) -lt 40 ]; do sleep 1; done")
    guest.run("touch /tmp/enough; while [ ! -e /tmp/ended ]; do sleep 1; done; cat /tmp/error; [ ! -e /tmp/failed ]")
    guest.run(f"dd if={first} bs=64k count=40 iflag=direct 2>/dev/null | cmp - /tmp/data")
    assert modules.state()["drives"][0]["errors"] == 0
    disconnect(guest)
    modules.stop()


def test_a_drive_group_follows(modules, array):  # noqa: F811
    """Our own host: each member has both ports."""
    modules.ports = [modules.ports[0], modules.ports[3]]
    a = array("--fast-io-fail-timeout", "60").start()
    # No redundancy: a request that fails is lost.
    members = [drive(modules, bay, 1) for bay in (1, 2, 3)]
    a.run("create", "dg", "raid0", *members, "--policy", "none", "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "40MiB", "--name", "data")
    answered, finished, turns = {}, threading.Event(), [0]

    def write():
        client, turn = Client(a.nbd, "tank/data"), 0
        while not finished.is_set():
            block = turn * 37 % 2048
            client.write(block * 4096, content(block, turn))
            answered[block] = turns[0] = turn
            turn += 1

    def states():
        return [[p["ana_state"] for p in d["paths"]] for d in a.group("tank")["drives"]]

    def goes_on(count=100):
        before = turns[0]
        until(lambda: turns[0] > before + count, 240)

    worker = threading.Thread(target=write)
    worker.start()
    try:
        goes_on()
        for a_state, b_state in [
            ("inaccessible", "optimized"),
            ("optimized", "persistent-loss"),
            ("change", "non-optimized"),
            ("non-optimized", "inaccessible"),
        ]:
            modules.run("ana", "set", "A1", a_state)
            modules.run("ana", "set", "B", b_state)
            until(lambda: states() == [[a_state, b_state]] * 3, 60)  # noqa: B023
            # What began before the states were known has ended.
            goes_on()
            before = writes(modules)
            goes_on()
            after = writes(modules)
            taken = [after[i] > before[i] for i in (0, 1)]
            assert taken == [s in ("optimized", "non-optimized") for s in (a_state, b_state)], (taken, a_state, b_state)
        modules.run("ana", "set", "all", "optimized")
        goes_on()
    finally:
        finished.set()
        worker.join(120)
    assert a.ask("describe", "vd", "tank/data")[0]["errors"] == 0
    client = Client(a.nbd, "tank/data")
    for block, turn in answered.items():
        assert client.read(block * 4096, 4096) == content(block, turn), (block, turn)
    a.stop()
    modules.stop()
