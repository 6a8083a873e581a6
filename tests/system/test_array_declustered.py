"""Declustered drive groups: drives fail one after another while fio verifies, and are rebuilt into distributed spares without an operator.

Then the process is killed during a rebuild and while blocks are copied back to new drives; everything that was written is read.
"""

import json
import random
import subprocess
import threading

from conftest import until
from test_array import ASHLAR, MIB, Client, array, fio  # noqa: F401  a fixture among them


class Load:
    """fio, which verifies, in the background."""

    def __init__(self, uri, *options):
        self.failures = []

        def run():
            try:
                fio(uri, *options)
            except BaseException as e:
                self.failures.append(e)

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def join(self):
        self.thread.join(280)
        assert not self.thread.is_alive() and not self.failures, self.failures


def spares(group):
    return group["distributed_spares"], group["distributed_spares_used"]


def is_in_spare(a, drive, state="FAILED"):
    """All blocks of a drive are in a distributed spare."""
    group = a.group()
    found = group["drives"][drive]
    return found["distributed_spare"] is not None and found["state"] == state and group["state"] == "PARTIALLY_DEGRADED"


def begun(a, drive):
    """A rebuild has begun, or has ended already, as it may on a busy machine."""
    group = a.group()
    rebuild = group["rebuild"]
    return rebuild is not None and rebuild["done"] > 0 or group["drives"][drive]["state"] == "ONLINE" or is_in_spare(a, drive, "OFFLINE")


def test_drives_fail_one_after_another_while_fio_verifies(array):  # noqa: F811
    a = array().start()
    files = a.make(13)
    refused = a.run("create", "dg", "raid5", *files[:10], "--stripe-width", "3", "--distributed-spares", "2", check=False)
    assert refused.returncode == 2 and "it can be 1, 4, 7" in refused.stdout, refused.stdout
    # Two spares are left beside the stripes without being named.
    a.run("create", "dg", "raid5", *files[:11], "--stripe-width", "3", "--journal", "4MiB", "--strip", "16KiB")
    made = a.group()
    assert (made["level"], made["data"], made["parity"], made["sets"]) == ("2+1s2", 2, 1, 3)
    assert spares(made) == (2, 0)
    a.run("create", "vd", "dg0", "96MiB")
    uri = a.uri("dg0/vd0")
    fio(uri, "--rw=write", "--size=64m", "--bs=64k")
    pattern = random.Random(7).randbytes(2 * MIB)
    Client(a.nbd, "dg0/vd0").write(90 * MIB, pattern)
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")

    # The file of the first one is there no more; an operator takes the second one out. Nobody asks for a rebuild.
    load = Load(uri, "--rw=randrw", "--size=64m", "--io_size=12m")
    a.run("edit", "pd", "dg0/4", "marker", "offline")
    until(lambda: begun(a, 4), 120)
    task = a.group()["rebuild"]
    assert task is None or (task["position"], task["to_spare"]) == (4, True)
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    until(lambda: is_in_spare(a, 4, "OFFLINE"), 240)
    load.join()
    assert spares(a.group()) == (2, 1)
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    load = Load(uri, "--rw=randrw", "--size=64m", "--io_size=12m")
    a.run("edit", "pd", "dg0/9", "marker", "offline")
    until(lambda: begun(a, 9), 120)
    load.join()
    a.kill()
    a.start()
    # It goes on where it was, as far as it is not done.
    assert a.group()["drives"][9]["distributed_spare"] == 1
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    until(lambda: is_in_spare(a, 9, "OFFLINE"), 240)
    text = subprocess.run([ASHLAR, "array", "--socket", a.socket, "describe", "dg", "dg0"], capture_output=True, text=True).stdout
    assert "stripes of 3 drives over 11; 2 distributed spares, of which 2 have blocks" in text, text
    assert "distributed spare 1 has blocks of it" in text, text
    # A third one is tolerated, but has no spare.
    a.run("edit", "pd", "dg0/0", "marker", "offline")
    assert a.group()["state"] == "DEGRADED" and a.group()["drives"][0]["distributed_spare"] is None
    assert a.run("edit", "pd", "dg0/1", "marker", "offline", check=False).returncode != 0
    fio(uri, "--rw=randrw", "--size=64m", "--io_size=8m")
    assert Client(a.nbd, "dg0/vd0").read(90 * MIB, 2 * MIB) == pattern

    # New drives get the blocks back, and free the spares.
    a.run("edit", "dg", "dg0", "rebuild_speed", "low")
    a.run("replace", "pd", "dg0/4", files[11])
    load = Load(uri, "--rw=randrw", "--size=64m", "--io_size=16m")
    until(lambda: begun(a, 4), 120)
    load.join()
    a.kill()
    a.start()
    a.run("edit", "dg", "dg0", "rebuild_speed", "high")
    until(lambda: a.group()["drives"][4]["state"] == "ONLINE" and a.group()["drives"][0]["distributed_spare"] is not None, 240)
    a.run("edit", "pd", "dg0/0", "marker", "online")
    a.run("replace", "pd", "dg0/9", files[12])
    a.wait("OPTIMAL")
    assert spares(a.group()) == (2, 0)
    fio(uri, "--rw=randrw", "--size=64m", "--io_size=8m")
    assert Client(a.nbd, "dg0/vd0").read(90 * MIB, 2 * MIB) == pattern
    check = a.run("start", "cc", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["mismatches"] == 0
    refused = a.run("grow", "dg", "dg0", files[4], check=False)
    assert refused.returncode == 2 and "does not grow" in refused.stdout, refused.stdout
    a.stop()


def test_hot_spares_replace_drives_whose_blocks_are_in_distributed_ones(array):  # noqa: F811
    a = array("--metrics", "127.0.0.1:0").start()
    files = a.make(8)
    a.run("create", "dg", "3+2", *files[:6], "--distributed-spares", "1", "--spare", files[6], "--journal", "4MiB")
    a.run("create", "vd", "dg0", "32MiB")
    uri = a.uri("dg0/vd0")
    fio(uri, "--rw=write", "--size=32m", "--bs=64k")
    load = Load(uri, "--rw=randrw", "--size=32m", "--io_size=16m")
    a.run("edit", "pd", "dg0/2", "marker", "offline")
    a.run("progress", "dg0", "--watch")
    a.wait("OPTIMAL")
    load.join()
    group = a.group()
    assert group["drives"][2]["path"] == str(files[6]) and group["spares"] == [] and spares(group) == (1, 0)
    a.stop()
    # Without a process the drives say the same.
    listed = a.ask("describe", "dg", "dg0", a.members)[0]
    assert (listed["level"], listed["data"], listed["parity"], spares(listed)) == ("3+2s1", 3, 2, (1, 0))
