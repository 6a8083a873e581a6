"""The NBD server of Ashlar beside nbdkit, both over a device in memory: what the protocol costs, without an array.

    cargo build --release -p ashlar-nbd --example nbd_memory
    python3 tests/speed/nbd.py [rounds] [seconds]

Needs nbdkit and fio with its NBD engine. Both servers run all the time and take turns, the first of each turn another one; printed are the
medians of the rates, of the ratio of the two in a turn, and of the CPU time of the server for each request. NBD_MEMORY names the example. By hand
only: it is no test.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import process

OURS = os.environ.get("NBD_MEMORY", "target/release/examples/nbd_memory")
MIB = 256
# Name, options of fio.
ROWS = [
    ("random read 4 KiB, 1 in flight", ["--rw=randread", "--bs=4k", "--iodepth=1"]),
    ("random read 4 KiB, 32 in flight", ["--rw=randread", "--bs=4k", "--iodepth=32"]),
    ("random read 4 KiB, 4 connections of 32", ["--rw=randread", "--bs=4k", "--iodepth=32", "--numjobs=4"]),
    ("random write 4 KiB, 32 in flight", ["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
    ("sequential read 1 MiB, 8 in flight", ["--rw=read", "--bs=1m", "--iodepth=8"]),
    ("sequential write 1 MiB, 8 in flight", ["--rw=write", "--bs=1m", "--iodepth=8"]),
]


class Served:
    """A server on a Unix socket."""

    def __init__(self, name, socket, command):
        self.name, self.socket = name, socket
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def wait(self):
        end = time.monotonic() + 30
        while not self.socket.exists():
            assert self.process.poll() is None and time.monotonic() < end, f"{self.name} did not start"
            time.sleep(0.05)

    def fio(self, options, seconds):
        """Requests per second, and CPU microseconds of the server for each."""
        before = process.cpu(self.process.pid)
        side = process.fio(f"nbd+unix:///?socket={self.socket}", f"--size={MIB}m", "--time_based", f"--runtime={seconds}", "--norandommap",
                           "--group_reporting", *options)
        cpu = process.cpu(self.process.pid) - before
        return side["iops"], cpu / side["total_ios"] * 1e6


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory(prefix="ashlar-nbd-") as home:
        home = Path(home)
        both = [
            Served("ashlar", home / "a", [OURS, f"unix:{home}/a", str(MIB)]),
            Served("nbdkit", home / "n", ["nbdkit", "-f", "-U", str(home / "n"), "memory", f"{MIB}M"]),
        ]
        try:
            for served in both:
                served.wait()
                served.fio(["--rw=write", "--bs=1m", "--iodepth=8"], 2)
            print("| | nbdkit | Ashlar | Ashlar / nbdkit (least, most) | CPU: nbdkit | Ashlar |\n|---|---|---|---|---|---|")
            for name, options in ROWS:
                found = {served.name: [] for served in both}
                for turn in range(rounds):
                    for served in both if turn % 2 else both[::-1]:
                        found[served.name].append(served.fio(options, seconds))
                rate = {who: statistics.median(r for r, _ in of) for who, of in found.items()}
                cpu = {who: statistics.median(c for _, c in of) for who, of in found.items()}
                ratios = [a / n for (a, _), (n, _) in zip(found["ashlar"], found["nbdkit"])]
                print(f"| {name} | {rate['nbdkit']:,.0f}/s | {rate['ashlar']:,.0f}/s | {statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f}) "
                      f"| {cpu['nbdkit']:.1f} us | {cpu['ashlar']:.1f} us |", flush=True)
        finally:
            for served in both:
                served.process.terminate()
                served.process.wait(30)


if __name__ == "__main__":
    main()
