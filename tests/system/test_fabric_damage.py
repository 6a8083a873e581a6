"""A drive group whose members are drives of a virtual enclosure that lie: one loses writes that it has answered, another one reads wrong bits.

The group finds by its checksums what is wrong, and no byte that was answered is lost: reads correct it, and so does the consistency check.
"""

import json
import random

import pytest

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


def corrected(a, position):
    return a.group("tank")["drives"][position]["corrected"]


@pytest.mark.parametrize("policy", ["journal", "bitmap"])
def test_lost_writes_of_a_drive_are_found_and_corrected(fabric, array, policy):  # noqa: F811
    fabric.set_up(SET_UP).start()
    a = array().start()
    members = [drive(fabric, bay, 1) for bay in range(1, 6)]
    log = ["--journal", "4MiB"] if policy == "journal" else ["--policy", "bitmap"]
    a.run("create", "dg", "raid5", *members, *log, "--name", "tank")
    a.run("create", "vd", "tank", "40MiB", "--name", "data")
    written = Written(a, "tank/data")
    written.write(2000, 1)

    # A share of all blocks of one drive, whatever they are for: their next write is answered and not kept.
    fault = fabric.run("fault", "lost-write", "2/1", "--rate", "0.05", "--seed", "7")[0]
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
    check = json.loads(a.run("start", "cc", "tank", "--wait").stdout)["check"]
    assert check["mismatches"] == check["fixed"] and check["state"] == "DONE", check
    assert corrected(a, 1) + check["fixed"] > read or check["mismatches"] == 0
    assert [corrected(a, p) for p in (0, 2, 3, 4)] == [0, 0, 0, 0]
    check = json.loads(a.run("start", "cc", "tank", "--mode", "stop_on_error", "--wait").stdout)["check"]
    assert check["mismatches"] == 0, check

    # All writes of a drive for a while, and wrong bits of another one afterwards.
    fault = fabric.run("fault", "lost-write", "3/1", "--times", "0")[0]
    written.write(300, 3)
    fabric.run("fault", "clear", fault["id"])
    written.verify()
    assert corrected(a, 2) > 0
    a.run("start", "cc", "tank", "--wait")
    fabric.run("fault", "corrupt-read", "5/1", "--rate", "0.05")
    written.verify()
    a.run("start", "cc", "tank", "--wait")
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
    check = json.loads(a.run("start", "cc", "tank", "--mode", "stop_on_error", "--wait").stdout)["check"]
    assert check["mismatches"] == 0, check
    a.stop()
    fabric.stop()
