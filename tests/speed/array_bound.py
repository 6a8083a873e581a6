"""A drive group over members of limited speed, beside what the members allow.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/array_bound.py [seconds] [policies] [rows]

Needs root, loop devices, the block controller of cgroups (version 1) and fio. RAID 5 of five loop devices in memory with blocks of 4 KiB, each limited by the kernel to
READS reads and WRITES writes per second and to BYTES per second each way, so that the processors are not the limit. fio
writes and reads a virtual drive over NBD, for each policy of the group, random writes with 32, 128, 256 and 512 requests in flight: a connection
executes 16 of them at the same time, so there are as many connections as that takes. ASHLAR_BASE names another program that is measured
after each group of the first one. `policies` and `rows` (parts of names) choose, separated by commas. Printed are the rate, requests to members for each
request, and two ratios: to the bound of the level (random write: two reads and two writes for each, that is WRITES x members / 2;
sequential write: BYTES x (members - 1); reads: READS x members), and the time that members were busy (the larger of reads
and writes, as a part of what they may). By hand only: it is no test.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import process

ASHLAR = os.environ.get("ASHLAR_BIN", "target/release/ashlar")
MEMBERS, READS, WRITES, BYTES = 5, 1000, 1000, 20 << 20
CONTROLLER = Path("/sys/fs/cgroup/blkio")
# Requests of a connection that the server executes at the same time.
CONNECTION = 16


def connections(rw, in_flight):
    """Options of fio for random requests of 4 KiB."""
    return [f"--rw={rw}", "--bs=4k", f"--iodepth={CONNECTION}", f"--numjobs={in_flight // CONNECTION}", "--group_reporting"]


# Name, options of fio, bytes of a request, host requests per second that the level allows.
ROWS = [
    ("random read 4 KiB, 32 in flight", connections("randread", 32), 4096, MEMBERS * READS),
    ("random write 4 KiB, 32 in flight", connections("randwrite", 32), 4096, MEMBERS * WRITES / 2),
    ("random write 4 KiB, 128 in flight", connections("randwrite", 128), 4096, MEMBERS * WRITES / 2),
    ("random write 4 KiB, 256 in flight", connections("randwrite", 256), 4096, MEMBERS * WRITES / 2),
    ("random write 4 KiB, 512 in flight", connections("randwrite", 512), 4096, MEMBERS * WRITES / 2),
    ("sequential write 1 MiB", ["--rw=write", "--bs=1m", "--iodepth=8"], 1 << 20, (MEMBERS - 1) * BYTES / (1 << 20)),
    ("sequential read 1 MiB", ["--rw=read", "--bs=1m", "--iodepth=8"], 1 << 20, MEMBERS * BYTES / (1 << 20)),
]


def shell(*command):
    return subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.strip()


class Array:
    """A process that serves a group over limited loop devices; all removed behind `with`."""

    def __init__(self, program, policy):
        self.program, self.policy = program, policy

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="ashlar-bound-", dir="/dev/shm"))
        self.limits = CONTROLLER / f"ashlar-bound-{os.getpid()}"
        self.devices, self.process = [], None
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        self.limits.mkdir()
        for n in range(MEMBERS):
            file = self.home / f"m{n}"
            with file.open("wb") as f:
                f.truncate(512 << 20)
            self.devices.append(shell("losetup", "--sector-size", 4096, "--find", "--show", file))
        self.ask("create", "dg", "raid5", *self.devices, "--name", "g", "--policy", self.policy)
        join = f'echo $$ > {self.limits}/cgroup.procs; exec "$@"'
        command = ["sh", "-c", join, "sh", self.program, "--json", "array", "--socket", self.home / "s", "serve", *self.devices, "--nbd", f"unix:{self.home}/nbd"]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=(self.home / "log").open("wb"))
        assert self.process.stdout.readline(), (self.home / "log").read_text()
        self.ask("create", "vd", "g", "512MiB", "--name", "v")
        time.sleep(1)
        # Blocks that were never written are not read for a write.
        self.fio("--rw=write", "--bs=1m", "--iodepth=8", "--size=512m")

    def limit(self):
        for name, most in [("read_iops", READS), ("write_iops", WRITES), ("read_bps", BYTES), ("write_bps", BYTES)]:
            for device in self.devices:
                number = os.stat(device).st_rdev
                (self.limits / f"blkio.throttle.{name}_device").write_text(f"{os.major(number)}:{os.minor(number)} {most}")

    def ask(self, *arguments):
        return shell(self.program, "--json", "array", "--socket", self.home / "s", *arguments)

    def fio(self, *options):
        return process.fio(f"nbd+unix:///v?socket={self.home}/nbd", *options)

    def counts(self):
        """Requests and bytes of each direction that the members took, all together."""
        found = {}
        for what in ("io_serviced", "io_service_bytes"):
            for line in (self.limits / f"blkio.throttle.{what}").read_text().splitlines():
                words = line.split()
                if len(words) == 3 and words[1] in ("Read", "Write"):
                    found[what, words[1]] = found.get((what, words[1]), 0) + int(words[2])
        return found

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait(60)
        for device in self.devices:
            shell("losetup", "--detach", device)
        if self.limits.exists():
            self.limits.rmdir()
        shutil.rmtree(self.home, ignore_errors=True)


def measure(array, options, size, allowed, seconds):
    before, cpu, began = array.counts(), process.cpu(array.process.pid), time.monotonic()
    side = array.fio(*options, "--size=512m", "--time_based", f"--runtime={seconds}", "--norandommap")
    took, cpu, after = time.monotonic() - began, process.cpu(array.process.pid) - cpu, array.counts()
    took_by = {key: after[key] - before.get(key, 0) for key in after}
    ios = side["total_ios"]
    busy = max([took_by.get(("io_serviced", way), 0) / most for way, most in (("Read", READS), ("Write", WRITES))]
               + [took_by.get(("io_service_bytes", way), 0) / BYTES for way in ("Read", "Write")]) / MEMBERS / took
    each = ", ".join(f"{took_by.get(('io_serviced', way), 0) / ios:.2f} {way.lower()}s" for way in ("Read", "Write"))
    written = took_by.get(("io_service_bytes", "Write"), 0) / (ios * size)
    return (f"{side['iops']:,.0f}/s | {each}, {written:.2f} x bytes written | {side['iops'] / allowed * 100:.0f} % | {busy * 100:.0f} % "
            f"| {side['clat_ns']['percentile']['50.000000'] / 1e6:.1f}, {side['clat_ns']['percentile']['99.000000'] / 1e6:.1f} ms | {cpu / ios * 1e6:.0f} us |")


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    policies = sys.argv[2].split(",") if len(sys.argv) > 2 else ["journal", "bitmap", "none"]
    parts = sys.argv[3].split(",") if len(sys.argv) > 3 else [""]
    rows = [row for row in ROWS if any(part in row[0] for part in parts)]
    print(f"RAID 5 of {MEMBERS}, each {READS} reads/s, {WRITES} writes/s, {BYTES >> 20} MiB/s\n")
    print("| Program | Policy | Request | Rate | Requests to members | of the level's bound | members busy | p50, p99 | CPU |\n|---|---|---|---|---|---|---|---|---|")
    for policy in policies:
        for label, program in [("this", ASHLAR), ("base", os.environ.get("ASHLAR_BASE"))]:
            if not program:
                continue
            with Array(program, policy) as array:
                array.limit()
                for name, options, size, allowed in rows:
                    print(f"| {label} | {policy} | {name} | {measure(array, options, size, allowed, seconds)}", flush=True)


if __name__ == "__main__":
    main()
