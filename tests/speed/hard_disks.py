"""What hard disks are used for: PUT and GET of large objects over four disks in software, beside the sequential bound.

    ASHLAR_BIN=target/release/ashlar MINIO_BIN=~/go/bin/minio DISKS_BIN=target/release/ashlar-server-cost \\
        python3 tests/speed/hard_disks.py [rounds]

Needs root, /dev/fuse, loop devices, XFS, fio for `check`, and 6 GiB of memory. The disks are those of `cargo xtask harddisks`: 8 ms for
each seek and each flush, 200 MB/s, one head, requests in upward order. Everything takes HARD_DISKS_SCALE
(2) times as long, so that the processors are not the limit; ratios stay. On each disk are a loop device with direct I/O and
the scheduler mq-deadline, and XFS. The servers take turns: blank disks, PUTs with 8 and 64 requests in flight, a new
start over file systems mounted again, so that nothing is cached, and GETs of what was written. Without MINIO_BIN only Ashlar is measured;
ASHLAR_BEFORE is an older program, which takes turns with the one measured. HARD_DISKS_MIB is the size of the objects,
HARD_DISKS_MEMORY (2GiB) has Ashlar measured with that --memory, too; HARD_DISKS_ONLY names the servers to be measured.

The bound: the bytes of the body's shards at the rate of all disks together (PUT: 2+2, so twice the body; GET: the body), without any seek or flush.

    ... python3 tests/speed/hard_disks.py check

measures the disks themselves with fio instead. By hand only: it is no test.
"""

import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import process
from cluster import ROOT, free_ports
from encryption import wire

COUNT, SEEK, RATE = 4, 0.008, 200e6
SCALE = int(os.environ.get("HARD_DISKS_SCALE", "2"))
MIB = int(os.environ.get("HARD_DISKS_MIB", "10"))
BUCKET = "speed-bucket"
# Before the memory, in the name of a server.
WITH = "Ashlar with "
# Requests in flight and MiB of bodies; requests in flight and the part of the objects left.
PUTS = [(8, 960), (64, 2240)]
GETS = [(8, 0.3), (64, 1)]
PHASES = [("put", flight) for flight, _ in PUTS] + [("get", flight) for flight, _ in GETS]


def shell(*command):
    return subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.strip()


class Disks:
    """Four disks with file systems at `drives`; removed behind `with`."""

    def __init__(self, size="3GiB"):
        self.size = size

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="ashlar-disks-", dir="/dev/shm"))
        self.files, self.devices, self.mounted = self.home / "disks", [], []
        self.files.mkdir()
        self.process = subprocess.Popen([os.environ["DISKS_BIN"], "harddisks", "--dir", self.files, "--count", str(COUNT), "--size", self.size])
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        while not (self.files / "control").exists():
            if self.process.poll() is not None:
                raise RuntimeError("the disks did not start")
            time.sleep(0.05)
        self.control("scale 0")
        self.drives = [self.home / f"drive{n}" for n in range(1, COUNT + 1)]
        for n, drive in enumerate(self.drives, 1):
            device = shell("losetup", "--direct-io=on", "--find", "--show", self.files / f"disk{n}")
            self.devices.append(device)
            assert shell("losetup", "--noheadings", "--output", "DIO", device) == "1", "no direct I/O"
            queue = Path("/sys/block") / Path(device).name / "queue"
            (queue / "scheduler").write_text("mq-deadline")
            (queue / "rotational").write_text("1")
            shell("mkfs.xfs", "-q", "-f", "-K", device)
            drive.mkdir()
        self.mount()

    def mount(self):
        for device, drive in zip(self.devices, self.drives):
            shell("mount", "-o", "noatime", device, drive)
            self.mounted.append(drive)

    def unmount(self):
        while self.mounted:
            shell("umount", self.mounted[-1])
            self.mounted.pop()

    def control(self, text):
        (self.files / "control").write_text(text + "\n")

    def counts(self):
        """Sums over the disks."""
        found = json.loads((self.files / "control").read_text())
        return {name: sum(disk[name] for disk in found) for name in found[0]}

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.control("scale 0")
            self.unmount()
            for device in self.devices:
                shell("losetup", "--detach", device)
            subprocess.run(["umount", self.files], check=False)
            self.process.wait(timeout=60)
        shutil.rmtree(self.home, ignore_errors=True)


class Server:
    """One server over the drives; ended behind `with`."""

    def __init__(self, kind, disks):
        self.kind, self.disks = kind, disks

    def __enter__(self):
        [port] = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{port}"
        home, drives = self.disks.home, f"{self.disks.home}/drive{{1...{COUNT}}}/data"
        env = {**os.environ, "ASHLAR_ROOT_USER": ROOT[0], "ASHLAR_ROOT_PASSWORD": ROOT[1], "ASHLAR_STATE_DIR": str(home / "state"),
               "MINIO_ROOT_USER": ROOT[0], "MINIO_ROOT_PASSWORD": ROOT[1], "MINIO_BROWSER": "off", "HOME": str(home)}
        if self.kind == "MinIO":
            command, ready = [os.environ["MINIO_BIN"], "server", "--quiet", drives, "--address", f"127.0.0.1:{port}"], "/minio/health/cluster"
        else:
            if self.kind.startswith(WITH):
                env["ASHLAR_MEMORY"] = self.kind.removeprefix(WITH)
            program = os.environ["ASHLAR_BEFORE" if self.kind == "Ashlar before" else "ASHLAR_BIN"]
            command, ready = [program, "server", drives, "--address", f"127.0.0.1:{port}"], "/ashlar/health/ready"
        log = (home / "log").open("ab")
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            process.wait(self.endpoint + ready, [self.process], self.kind, [home / "log"])
            return self
        except BaseException:
            self.__exit__()
            raise

    def cpu(self):
        return process.cpu(self.process.pid)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=120)


def put(server, flight, count):
    """PUTs of new objects: seconds, times of each, CPU of the server per GiB, errors."""
    out = server.disks.home / "result.json"
    env = {**os.environ, "ASHLAR_ACCESS_KEY": ROOT[0], "ASHLAR_SECRET_KEY": ROOT[1]}
    done = subprocess.run(
        [os.environ["ASHLAR_BIN"], "bench", "s3", "put", BUCKET, "--endpoint", server.endpoint, "-s", f"{MIB}MiB", "-c", str(flight), "--keep",
         "--count", str(count), "--warmup", "0s", "--timeout", "300s", "--max-error-rate", "100%", "-o", out, "-q"],
        env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # 6: measured, but with a caveat.
    if done.returncode not in (0, 6):
        raise RuntimeError(f"{server.kind}: put\n{done.stdout}\n{done.stderr}")
    phase = next(p for p in json.loads(out.read_text())["phases"] if p["name"] == "put")
    out.unlink()
    [found] = phase["operations"]
    of = found["service"]["percentiles_ns"]
    return phase["seconds"], found["count"], (of["p50"] / 1e9, of["p99"] / 1e9), found["errors"]


def keys(server):
    """All keys of the bucket, in an order that has nothing to do with that of the disks."""
    request = wire(server.endpoint, "GET", f"/{BUCKET}?list-type=2&max-keys=1000")
    with socket.create_connection(("127.0.0.1", int(server.endpoint.rsplit(":", 1)[1]))) as s:
        s.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    found = re.findall("<Key>([^<]+)</Key>", text)
    assert found, text
    random.Random(7).shuffle(found)
    return found


def get(server, flight, names):
    """GETs of each of the objects, once: nothing comes from a cache."""
    times, errors, waiting = [], {}, iter(names)
    lock = threading.Lock()

    def work():
        taken = bytearray(1 << 20)
        with socket.create_connection(("127.0.0.1", int(server.endpoint.rsplit(":", 1)[1]))) as s:
            while True:
                with lock:
                    name = next(waiting, None)
                if name is None:
                    return
                began = time.monotonic()
                s.sendall(wire(server.endpoint, "GET", f"/{BUCKET}/{name}"))
                held = b""
                while b"\r\n\r\n" not in held:
                    held += s.recv(65536)
                first, rest = held.split(b"\r\n\r\n", 1)
                length = int(re.search(rb"(?i)content-length: (\d+)", first)[1]) - len(rest)
                while length > 0:
                    length -= s.recv_into(taken)
                with lock:
                    times.append(time.monotonic() - began)
                    if not first.startswith(b"HTTP/1.1 200"):
                        errors[first[9:12].decode()] = errors.get(first[9:12].decode(), 0) + 1

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(flight)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = time.monotonic() - began
    times.sort()
    return seconds, len(times), (times[len(times) // 2], times[len(times) * 99 // 100]), errors


def phase(server, operation, flight, what):
    """One phase: its ratio to the bound, and what the disks did per operation. `what`: how many PUTs, or the keys of the GETs."""
    # What a phase before left to be done in the background belongs to no phase.
    time.sleep(3)
    server.disks.control("reset")
    cpu = server.cpu()
    seconds, ops, (p50, p99), errors = (put if operation == "put" else get)(server, flight, what)
    counts, cpu = server.disks.counts(), server.cpu() - cpu
    body = ops * MIB * (1 << 20)
    share = 2 if operation == "put" else 1
    ratio = seconds / (body * share / (COUNT * RATE / SCALE))
    return {"ratio": ratio, "MB/s": body / seconds, "seeks": counts["seeks"] / ops / COUNT, "flushes": counts["flushes"] / ops / COUNT,
            "bytes": (counts["bytes_read"] + counts["bytes_written"]) / (body * share), "requests": (counts["reads"] + counts["writes"]) / ops / COUNT,
            "busy": counts["busy_s"] / seconds / COUNT, "p50": p50, "p99": p99, "cpu": cpu / body * (1 << 30), "errors": errors}


def measure(kind):
    """All phases over blank disks."""
    found = {}

    def note(operation, flight, what, server):
        found[operation, flight] = phase(server, operation, flight, what)
        print(f"{kind}: {operation} {flight}: {found[operation, flight]}", file=sys.stderr, flush=True)

    # The disks are slow from the start: a server may measure them then.
    with Disks() as disks:
        disks.control(f"scale {SCALE}")
        with Server(kind, disks) as server:
            for flight, mib in PUTS:
                note("put", flight, mib // MIB, server)
            disks.control("scale 0")
        disks.unmount()
        disks.mount()
        disks.control(f"scale {SCALE}")
        with Server(kind, disks) as server:
            names = keys(server)
            for flight, part in GETS:
                some = names[:int(len(names) * part)]
                note("get", flight, some, server)
                names = names[len(some):]
            disks.control("scale 0")
    return found


def check():
    """The disks by fio: with the set times one expects 200 MB/s, and 1 / (8 ms + 20 us) requests of 4 KiB per second."""
    with Disks() as disks:
        disks.unmount()
        disks.control(f"scale {SCALE}")
        for name, options in [
            ("sequential read, 1 MiB, 4 in flight", ["--rw=read", "--bs=1M", "--iodepth=4", "--size=256M"]),
            ("sequential write, 1 MiB, 4 in flight", ["--rw=write", "--bs=1M", "--iodepth=4", "--size=256M"]),
            ("sequential read, 128 KiB, 1 in flight", ["--rw=read", "--bs=128k", "--iodepth=1", "--size=64M"]),
            ("random read, 4 KiB, 1 in flight", ["--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=100"]),
            ("random read, 4 KiB, 32 in flight", ["--rw=randread", "--bs=4k", "--iodepth=32", "--number_ios=200"]),
            ("random write, 4 KiB, a flush after each", ["--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=1", "--number_ios=100"]),
            ("random read, 5 MiB, 4 in flight", ["--rw=randread", "--bs=5M", "--iodepth=4", "--number_ios=50"]),
        ]:
            disks.control("reset")
            out = json.loads(shell("fio", "--name=check", f"--filename={disks.devices[0]}", "--direct=1", "--ioengine=libaio", "--output-format=json", *options))
            job = out["jobs"][0]
            side = job["read"] if job["read"]["total_ios"] else job["write"]
            counts = disks.counts()
            print(f"{name}: {side['bw_bytes'] * SCALE / 1e6:.1f} MB/s, {side['iops'] * SCALE:.1f} requests/s (times {SCALE}); "
                  f"seeks {counts['seeks']}, flushes {counts['flushes']}, requests {counts['reads'] + counts['writes']}", flush=True)


def main():
    if sys.argv[1:] == ["check"]:
        return check()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    memory = os.environ.get("HARD_DISKS_MEMORY")
    kinds = [kind for kind, name in [("Ashlar", "ASHLAR_BIN"), (f"{WITH}{memory}", "HARD_DISKS_MEMORY"), ("Ashlar before", "ASHLAR_BEFORE"), ("MinIO", "MINIO_BIN")]
             if os.environ.get(name)]
    kinds = [kind for kind in kinds if kind in os.environ.get("HARD_DISKS_ONLY", kind).split(",")]
    found = {}
    for _ in range(rounds):
        for kind in kinds:
            for phase, values in measure(kind).items():
                found.setdefault((phase, kind), []).append(values)
    print(f"load of the machine at the end: {os.getloadavg()}")
    print(f"\n| {MIB} MiB, in flight | | x bound | MB/s (times {SCALE}) | seeks, flushes, requests per operation and disk | bytes / needed | busy | p50, p99 (by {SCALE}) | CPU s/GiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for operation, flight in PHASES:
        for kind in kinds:
            each = found[(operation, flight), kind]
            m = {name: statistics.mean(one[name] for one in each) for name in each[0] if name != "errors"}
            errors = sum(sum(one["errors"].values()) for one in each)
            ratios = ", ".join(f"{one['ratio']:.2f}" for one in each)
            print(f"| {operation.upper()}, {flight} | {kind} | {ratios} | {m['MB/s'] * SCALE / 1e6:.0f} | {m['seeks']:.2f}, {m['flushes']:.2f}, {m['requests']:.1f} | "
                  f"{m['bytes']:.2f} | {m['busy'] * 100:.0f} % | {m['p50'] / SCALE * 1e3:.0f}, {m['p99'] / SCALE * 1e3:.0f} ms | {m['cpu']:.2f} |"
                  + (f" {errors} errors" if errors else ""))


if __name__ == "__main__":
    main()
