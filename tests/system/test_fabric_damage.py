"""A drive group whose members are drives of a virtual enclosure that lie: one loses writes that it has answered, another one reads wrong bits.

The group finds by its checksums what is wrong, and no byte that was answered is lost: reads correct it, and so does the consistency check. Others lose what
was not flushed when they are pulled.
"""

import json
import random
import threading
import time

import pytest

from conftest import until
from test_array import Client, array, content  # noqa: F401  a fixture among them
from test_fabric import fabric  # noqa: F401  a fixture
from test_fabric_array import drive

SET_UP = """
scale = 100
seed = 31
bays = 6
data = "data"

[drive]
capacity = "6GB"
"""
BLOCKS = 4096


class Written:
    """Blocks of a virtual drive, and what was answered of them."""

    def __init__(self, a, export):
        self.client, self.turns, self.chance = Client(a.nbd, export), {}, random.Random(31)

    def write(self, count, turn):
        for block in self.chance.sample(range(BLOCKS), count):
            self.client.write(block * 4096, content(block, turn))
            self.turns[block] = turn
        self.client.request(3, 0, 0)

    def verify(self):
        for block, turn in self.turns.items():
            assert self.client.read(block * 4096, 4096) == content(block, turn), (block, turn)


def corrects(a):
    """A check that corrects what it finds: it fails if there was something."""
    done = a.run("start", "cc", "tank", "--wait", check=False)
    return json.loads(done.stdout.splitlines()[0])["check"]


def is_whole(a):
    check = json.loads(a.run("start", "cc", "tank", "--mode", "stop_on_error", "--wait").stdout)["check"]
    assert check["mismatches"] == 0, check


def corrected(a, position):
    return a.group("tank")["drives"][position]["corrected"]


@pytest.mark.parametrize("policy", ["journal", "bitmap"])
def test_lost_writes_of_a_drive_are_found_and_corrected(fabric, array, policy):  # noqa: F811
    fabric.set_up(SET_UP).start()
    a = array().start()
    members = [drive(fabric, bay, 1) for bay in range(1, 6)]
    a.run("create", "dg", "raid5", *members, "--policy", policy, "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "40MiB", "--name", "data")
    written = Written(a, "tank/data")
    written.write(2000, 1)

    # A share of the blocks of one drive, where members have data: their next write is answered and not kept.
    last = fabric.run("describe", "drive", 1)[0]["namespaces"][0]["size"] // 4096 - 1
    data = ["--blocks", f"1100-{last}"]
    fault = fabric.run("fault", "lost-write", "2/1", "--rate", "0.05", "--seed", "7", *data)[0]
    written.write(2000, 2)
    lost = fabric.run("fault", "list")[0]
    assert lost["hits"] > 10 and lost["blocks_hit"] == sorted(set(lost["blocks_hit"]), key=lost["blocks_hit"].index), lost
    assert fabric.run("describe", "drive", 2)[0]["lost_blocks"] == lost["hits"]
    assert f", {lost['hits']} hit" in fabric.text("describe", "drive", 2)
    fabric.run("fault", "clear", fault["id"])
    # Reads meet the old blocks, and correct them.
    written.verify()
    read = corrected(a, 1)
    assert read > 0
    # The check finds those that no read has met, as parity.
    check = corrects(a)
    assert check["mismatches"] == check["fixed"] and check["state"] == "DONE", check
    assert corrected(a, 1) + check["fixed"] > read or check["mismatches"] == 0
    assert [corrected(a, p) for p in (0, 2, 3, 4)] == [0, 0, 0, 0]
    is_whole(a)

    # All writes of a drive for a while, and wrong bits of another one afterwards.
    fault = fabric.run("fault", "lost-write", "3/1", "--times", "0", *data)[0]
    written.write(300, 3)
    fabric.run("fault", "clear", fault["id"])
    written.verify()
    assert corrected(a, 2) > 0
    corrects(a)
    fabric.run("fault", "corrupt-read", "5/1", "--rate", "0.05")
    written.verify()
    corrects(a)
    written.verify()
    assert corrected(a, 4) > 0 and fabric.run("describe", "drive", 5)[0]["corrupt_blocks"] >= corrected(a, 4)
    fabric.run("fault", "clear", "--all")
    assert a.group("tank")["state"] == "OPTIMAL"

    # What is on the drives is whole, also for a process that opens it anew.
    a.stop()
    a.start()
    a.run("import", "dg", *members)
    written.client = Client(a.nbd, "tank/data")
    written.verify()
    is_whole(a)
    a.stop()
    fabric.stop()


# Half of what a drive has not flushed is lost when it is pulled.
VOLATILE = SET_UP + 'cache = "8MiB"\ncache_lost = 0.5\n'


class Writer:
    """Writes blocks again and again, and never flushes."""

    def __init__(self, a, export):
        self.a, self.export, self.answered, self.turn = a, export, {}, 0
        self.finished = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        client = Client(self.a.nbd, self.export)
        while not self.finished.is_set():
            turn = self.turn + 1
            block = turn * 37 % 2048
            client.write(block * 4096, content(block, turn))
            self.answered[block] = self.turn = turn

    def goes_on(self, count=150):
        before = self.turn
        until(lambda: self.turn > before + count, 240)

    def verify(self):
        self.finished.set()
        self.thread.join(240)
        client = Client(self.a.nbd, self.export)
        for block, turn in self.answered.items():
            assert client.read(block * 4096, 4096) == content(block, turn), (block, turn)


def test_a_drive_that_comes_back_gets_again_what_it_had_not_flushed(fabric, array):  # noqa: F811
    """No redundancy: the host itself sends again what was answered and not flushed."""
    fabric.set_up(VOLATILE).start()
    a = array("--fast-io-fail-timeout", "120").start()
    a.run("create", "dg", "raid0", *[drive(fabric, bay, 1) for bay in (1, 2, 3)], "--policy", "none", "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "40MiB", "--name", "data")
    writer = Writer(a, "tank/data")
    try:
        for turn in range(4):
            writer.goes_on()
            bay = 1 + turn % 3
            fault = fabric.run("fault", "drive-gone", bay)[0]
            time.sleep(0.2)
            fabric.run("fault", "clear", fault["id"])
            writer.goes_on()
    finally:
        writer.finished.set()
    writer.verify()
    assert sum(d["unflushed_blocks"] for d in fabric.state()["drives"]) > 10
    assert a.group("tank")["state"] == "OPTIMAL" and a.ask("describe", "vd", "tank/data")[0]["errors"] == 0
    a.stop()
    fabric.stop()


@pytest.mark.parametrize("policy", ["journal", "bitmap"])
def test_a_member_that_was_out_loses_nothing_of_what_it_had_not_flushed(fabric, array, policy):  # noqa: F811
    """The drive is out for so long that the group goes on without it, and is put back by hand."""
    fabric.set_up(VOLATILE).start()
    a = array("--fast-io-fail-timeout", "2").start()
    members = [drive(fabric, bay, 1) for bay in range(1, 6)]
    a.run("create", "dg", "raid6", *members, "--policy", policy, "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "40MiB", "--name", "data")
    writer = Writer(a, "tank/data")
    try:
        for bay in (2, 4):
            writer.goes_on(300)
            fault = fabric.run("fault", "drive-gone", bay)[0]
            until(lambda: a.group("tank")["state"] == "PARTIALLY_DEGRADED", 120)
            writer.goes_on()
            fabric.run("fault", "clear", fault["id"])
            name = f"tank/{bay - 1}"
            until(lambda: "live" in [p["state"] for p in a.ask("describe", "pd", name)[0]["paths"]], 120)  # noqa: B023
            a.run("edit", "pd", name, "marker", "online")
            a.wait("OPTIMAL", name="tank")
    finally:
        writer.finished.set()
    writer.verify()
    # Under `journal` most of what is answered was flushed to the journals.
    assert policy == "journal" or sum(d["unflushed_blocks"] for d in fabric.state()["drives"]) > 0
    is_whole(a)
    a.stop()
    fabric.stop()
