"""Many small objects on one machine: what they cost when the store is empty and when it is full.

    ASHLAR_BIN=target/release/ashlar [MINIO_BIN=~/go/bin/minio] python3 tests/speed/small_objects.py [objects] [steps]

One server over four folders, 2+2, takes so many objects of one byte (5,000,000) in so many steps (10), by `ashlar bench s3 put`
with 16 requests in flight; ASHLAR_SPEED_SIZE is another size. For each step it prints the rate, CPU of the server, the memory
of its process, and the bytes of the blocks that the folders have allocated. Then nobody writes until compaction has ended, the
server is ended and started again (time until it is ready, CPU, memory), and the bucket is listed. At last PUT and GET are measured
in turns with another server that holds the objects of one step only: medians of three turns. MinIO takes one step only,
and is listed.
The folders are in memory or under ASHLAR_SPEED_DIR: 1,000,000 objects need 8 GB. By hand only: it is no test.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

import process
from cluster import ROOT
from one_machine import Ashlar, MinIO

SIZE = os.environ.get("ASHLAR_SPEED_SIZE", "1")


def bench(server, operation, prefix, *options):
    """Runs `ashlar bench s3`: operations per second, CPU of the server in us each, 50th and 99th percentiles in ms, seconds."""
    out = server.home / "result.json"
    env = {**os.environ, "ASHLAR_ACCESS_KEY": ROOT[0], "ASHLAR_SECRET_KEY": ROOT[1]}
    command = [os.environ["ASHLAR_BIN"], "bench", "s3", operation, f"many/{prefix}", "--endpoint", server.endpoints[0], "-o", out, "-q",
               "--server-pid", str(server.processes[-1].pid), "--warmup", "0s", "-d", "10h", "-s", SIZE, *options]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # 6: measured, but with a caveat, as that the client is at its limit.
    if done.returncode not in (0, 6):
        raise RuntimeError(f"{server.name}: {operation} {options}\n{done.stdout}\n{done.stderr}")
    phase = next(p for p in json.loads(out.read_text())["phases"] if p["name"] == operation)
    found = max(phase["operations"], key=lambda o: o["count"])
    times = found["service"]["percentiles_ns"]
    errors = sum(o["errors"] and sum(o["errors"].values()) or 0 for o in phase["operations"])
    return {"rate": found["count"] / phase["seconds"], "cpu": phase["cost"]["server_us_per_op"], "p50": times["p50"] / 1e6,
            "p99": times["p99"] / 1e6, "seconds": phase["seconds"], "count": found["count"], "errors": errors}


def allocated(folder):
    """Bytes of the blocks that the files in a folder have."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def memory(server):
    """Memory of the server now and at most, in MiB."""
    return process.memory(server.processes[-1].pid)


def say(*what):
    print(*what, flush=True)


def fill(server, objects, steps, begin):
    """Writes the objects in steps, and prints a line of a table for each."""
    say(f"\n{server.name}, {objects:,} objects of {SIZE} bytes\n\n| objects | PUT/s | CPU each | p50, p99 | memory now, at most | bytes of the drives for each object |")
    say("|---|---|---|---|---|---|")
    for step in range(steps):
        got = bench(server, "put", f"{step:03}", "--count", str(objects // steps), "-c", "16", "--keep")
        now, most = memory(server)
        held = (allocated(server.home / "drives") - begin) / (objects // steps * (step + 1))
        errors = f", {got['errors']} errors" if got["errors"] else ""
        say(f"| {objects // steps * (step + 1):,} | {got['rate']:,.0f} | {got['cpu']:.0f} us | {got['p50']:.1f}, {got['p99']:.1f} ms{errors} "
            f"| {now:.0f}, {most:.0f} MiB | {held:,.0f} |")


def settle(server, objects, begin, seconds):
    """Prints the space while nobody writes, until it has been the same for a minute."""
    last, same, since = None, 0, time.monotonic()
    while same < 6 and time.monotonic() - since < seconds:
        time.sleep(10)
        now = allocated(server.home / "drives") - begin
        same = same + 1 if last is not None and abs(now - last) < 0.001 * last else 0
        last = now
    say(f"after {time.monotonic() - since:.0f} s without requests: {last / objects:,.0f} bytes for each object, memory {memory(server)[0]:.0f} MiB")


def list_all(server, objects):
    got = bench(server, "list", "", "--existing", "--objects", str(objects), "--count", str(objects // 1000), "-c", "1")
    say(f"LIST of {got['count'] * 1000:,} keys: {got['seconds']:.1f} s, {got['cpu'] * got['count'] / 1e6:.1f} s of CPU, page p50 {got['p50']:.1f}, p99 {got['p99']:.1f} ms; "
        f"memory at most {memory(server)[1]:.0f} MiB")


def restart(server):
    old = server.processes.pop()
    began = time.monotonic()
    old.send_signal(signal.SIGTERM)
    old.wait(timeout=120)
    ended = time.monotonic()
    port = server.endpoints[0].rsplit(":", 1)[1]
    server.run(os.environ[server.program], "server", *[server.home / "drives" / f"drive{n}" for n in range(1, 5)],
               "--address", f"127.0.0.1:{port}")
    server.wait(server.endpoints[0] + server.ready)
    ready = time.monotonic()
    time.sleep(2)
    say(f"ended in {ended - began:.2f} s; ready {ready - ended:.2f} s after the start; CPU of the first two seconds {process.cpu(server.processes[-1].pid):.2f} s, memory {memory(server)[0]:.0f} MiB")


def compare(full, few):
    """PUT and GET of a server that holds many objects and of one that holds few, in turns."""
    with Ashlar() as fresh:
        bench(fresh, "put", "000", "--count", str(few), "-c", "16", "--keep")
        found = {}
        for turn in range(3):
            for name, server in [("full", full), ("fresh", fresh)][:: 1 if turn % 2 == 0 else -1]:
                put = bench(server, "put", f"turn{turn}", "--count", "30000", "-c", "16", "--keep")
                got = bench(server, "get", "000", "--existing", "--objects", str(few), "--count", "50000", "-c", "16")
                found.setdefault(("PUT", name), []).append(put)
                found.setdefault(("GET", name), []).append(got)
    say(f"\n| | PUT/s, CPU, p50 | GET/s, CPU, p50 |\n|---|---|---|")
    for name in ("full", "fresh"):
        cells = []
        for operation in ("PUT", "GET"):
            of = {what: statistics.median(one[what] for one in found[operation, name]) for what in ("rate", "cpu", "p50")}
            cells.append(f"{of['rate']:,.0f}, {of['cpu']:.0f} us, {of['p50']:.2f} ms")
        say(f"| {name} | " + " | ".join(cells) + " |")


def main():
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    if os.environ.get("MINIO_BIN"):
        with MinIO() as server:
            fill(server, objects // steps, 1, allocated(server.home / "drives"))
            list_all(server, objects // steps)
    with Ashlar() as server:
        begin = allocated(server.home / "drives")
        say(f"the empty store has {begin / (1 << 20):.0f} MiB")
        fill(server, objects, steps, begin)
        settle(server, objects, begin, 600)
        restart(server)
        list_all(server, objects)
        compare(server, objects // steps)


if __name__ == "__main__":
    main()
