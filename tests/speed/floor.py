"""What requests cost beside the floor of this machine: what their unavoidable parts take, measured in the same run.

    ASHLAR_BIN=target/release/ashlar FLOOR_BIN=target/release/examples/floor python3 tests/speed/floor.py [seconds]

The server has four drives, 2+2, under ASHLAR_SPEED_DIR (default: /dev/shm); 8 signed requests in flight by `ashlar bench s3`. The
floor is that of `cargo build --release -p ashlar-erasure-set --example floor`, in the same folder: socket, SHA-256 that the client
signs, MD5, one copy, parity, four shards written and flushed; or two shards read and sent. ASHLAR_SPEED_ROUNDS: turns of both, whose
medians are printed. By hand only: it is no test.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

import cluster
import one_machine

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
SIZES = {int(size[:-3]) * UNITS[size[-3:]]: (size, *more) for size, *more in cluster.SIZES}


def floor(folder):
    sizes = [str(size) for size in SIZES]
    out = subprocess.run([os.environ["FLOOR_BIN"], folder, *sizes], check=True, capture_output=True, text=True).stdout
    return {(line["size"], kind): line[kind] for line in map(json.loads, out.splitlines()) for kind in ("put", "get")}


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    measured, floors = {}, {}
    for _ in range(int(os.environ.get("ASHLAR_SPEED_ROUNDS", "3"))):
        for length, (size, objects, most) in SIZES.items():
            with one_machine.Ashlar() as server:
                for kind in ("put", "get"):
                    got = cluster.measure(server, kind, size, objects, most, seconds)
                    of_gib = (1 << 30) / length / 1e6 if size.endswith("MiB") else 1
                    measured.setdefault((length, kind), []).append(got["cpu"] / of_gib)
        with tempfile.TemporaryDirectory(dir=os.environ.get("ASHLAR_SPEED_DIR", "/dev/shm")) as folder:
            for row, parts in floor(folder).items():
                floors.setdefault(row, []).append(parts)
    print(f"load of the machine at the end: {os.getloadavg()}\n")
    print("| us of CPU per request | measured | floor | ratio | parts of the floor |\n|---|---|---|---|---|")
    for length, (size, *_) in SIZES.items():
        for kind in ("put", "get"):
            row = (length, kind)
            parts = {name: statistics.median(one[name] for one in floors[row]) for name in floors[row][0]}
            took, least = statistics.median(measured[row]), sum(parts.values())
            shown = ", ".join(f"{name} {value:,.0f}" for name, value in parts.items())
            print(f"| {kind.upper()} {size} | {took:,.0f} | {least:,.0f} | {took / least:.2f} | {shown} |")


if __name__ == "__main__":
    main()
