"""The time of a rebuild of a declustered group beside that of a hot spare, over members of limited speed.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/rebuild_bound.py [turns]

Needs what array_bound.py needs: root, loop devices, the block controller of cgroups (version 1) and fio. Thirteen loop devices in memory, each
limited to BYTES per second each way, are RAID 50 of two sets of six and a hot spare, or a declustered group of the same: stripes of six and one
distributed spare. Each group is full; then a drive is taken out of service, and it is waited until its blocks are there again.
The declustered group also gets the drive back. No requests meanwhile. Printed for each turn: the seconds, those of the
bound (hot spare: what the drive had / BYTES; declustered: that x 5 / 12, as each of twelve others reads 5/12 and writes 1/12 of it, which are limited each for itself), and their ratio.
ASHLAR_BASE names another program that also rebuilds the hot spare. By hand only: it is no test.
"""

import json
import os
import sys
import time

import array_bound
import process  # noqa: F401  found beside this file

ASHLAR = os.environ.get("ASHLAR_BIN", "target/release/ashlar")
MEMBERS, SIZE, BYTES, JOURNAL = 13, 96 << 20, 4 << 20, "4MiB"


class Array(array_bound.Array):
    """As there, with another group."""

    def __init__(self, program, *group):
        super().__init__(program, "journal")
        self.group = group

    def make(self):
        self.limits.mkdir()
        for n in range(MEMBERS):
            file = self.home / f"m{n}"
            with file.open("wb") as f:
                f.truncate(SIZE)
            self.devices.append(array_bound.shell("losetup", "--find", "--show", file))
        level, drives, *options = self.group
        spare = [word for device in self.devices[drives:] for word in ("--spare", device)]
        self.ask("create", "dg", level, *self.devices[:drives], *spare, "--name", "g", "--journal", JOURNAL, *options)
        join = f'echo $$ > {self.limits}/cgroup.procs; exec "$@"'
        command = ["sh", "-c", join, "sh", self.program, "--json", "array", "--socket", self.home / "s", "serve", *self.devices, "--nbd", f"unix:{self.home}/nbd",
                   "--rebuild-threads", "4"]
        self.process = array_bound.subprocess.Popen(list(map(str, command)), stdout=array_bound.subprocess.PIPE, stderr=(self.home / "log").open("wb"))
        assert self.process.stdout.readline(), (self.home / "log").read_text()
        self.ask("edit", "dg", "g", "rebuild_speed", "high")
        made = json.loads(self.ask("create", "vd", "g", "--name", "v"))["volume"]
        self.size = made["size"]
        self.fio("--rw=write", "--bs=1m", "--iodepth=8", f"--size={self.size}")

    def limit(self):
        for name in ("read_bps", "write_bps"):
            for device in self.devices:
                number = os.stat(device).st_rdev
                (self.limits / f"blkio.throttle.{name}_device").write_text(f"{os.major(number)}:{os.minor(number)} {BYTES}")

    def state(self):
        return json.loads(self.ask("describe", "dg", "g"))

    def until(self, done):
        """The seconds until then."""
        began = time.monotonic()
        while not done(self.state()):
            time.sleep(0.05)
        return time.monotonic() - began


def line(label, seconds, bound):
    print(f"| {label} | {seconds:.1f} s | {bound:.1f} s | {seconds / bound:.2f} |", flush=True)


def hot_spare(label, program):
    with Array(program, "50x2", 12) as array:
        array.limit()
        # What a drive had: data and parity.
        had = array.size * 12 // 10 // 12
        array.ask("edit", "pd", "g/3", "marker", "offline")
        line(label, array.until(lambda g: g["state"] == "OPTIMAL"), had / BYTES)


def declustered():
    with Array(ASHLAR, "raid5", 13, "--stripe-width", "6", "--distributed-spares", "1") as array:
        array.limit()
        had = array.size * 12 // 10 // 13
        array.ask("edit", "pd", "g/3", "marker", "offline")
        line("declustered, to the distributed spare", array.until(lambda g: g["state"] == "PARTIALLY_DEGRADED"), had * 5 / 12 / BYTES)
        array.ask("edit", "pd", "g/3", "marker", "online")
        line("declustered, back to the drive", array.until(lambda g: g["state"] == "OPTIMAL"), had / BYTES)


def main():
    print(f"{MEMBERS} drives of {SIZE >> 20} MiB, each {BYTES >> 20} MiB/s each way\n")
    print("| Rebuild | Took | Bound | Ratio |\n|---|---|---|---|")
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        if os.environ.get("ASHLAR_BASE"):
            hot_spare("hot spare, base", os.environ["ASHLAR_BASE"])
        hot_spare("hot spare", ASHLAR)
        declustered()


if __name__ == "__main__":
    main()
