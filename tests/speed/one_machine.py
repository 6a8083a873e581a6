"""What a request costs on one machine: Ashlar and MinIO over four drives each, 2+2, one after the other.

    ASHLAR_BIN=target/release/ashlar MINIO_BIN=~/go/bin/minio python3 tests/speed/one_machine.py [seconds]

MinIO is its last release that the Go module proxy serves: `go install github.com/minio/minio@latest`; without
MINIO_BIN only Ashlar is measured. ASHLAR_BEFORE is an older program of Ashlar, measured beside them. Each row begins with
blank drives: folders in memory (or under ASHLAR_SPEED_DIR), or with ASHLAR_SPEED_DRIVES=xfs (root only) XFS on loop devices there. The load is
`ashlar bench s3` with 8 requests in flight unless the row says something else. CPU is that of the server, user and system,
within the measured time. ASHLAR_SPEED_TLS=1: all clients talk over TLS (it needs openssl). ASHLAR_SPEED_ROUNDS: all take turns so
often, and the medians are printed. ASHLAR_SPEED_ONLY: parts of names of rows, separated by commas. ASHLAR_SPEED_KEYS: keys of the rows that list and delete many (20000). By hand only: it is no test.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import process
from cluster import ROOT, SCHEME, TLS, Servers, free_ports

XFS = os.environ.get("ASHLAR_SPEED_DRIVES") == "xfs"
KEYS = int(os.environ.get("ASHLAR_SPEED_KEYS", "20000"))
DRIVES = 4
CHECKOUT = Path(__file__).parents[2]

# Name, operation of `ashlar bench s3`, its options, what the cost is of, ratio of CPU time that is wanted against MinIO.
ROWS = [
    ("PUT 10 MiB", "put", ["-s", "10MiB", "--bytes", "1GiB"], "GiB", 3),
    ("GET 10 MiB", "get", ["-s", "10MiB", "--objects", "40"], "GiB", 2),
    ("PUT 1 MiB", "put", ["-s", "1MiB", "--bytes", "1GiB"], "GiB", 4),
    ("GET 1 MiB", "get", ["-s", "1MiB", "--objects", "300"], "GiB", 4),
    ("PUT 128 KiB", "put", ["-s", "128KiB", "--bytes", "512MiB"], "request", 8),
    ("GET 128 KiB", "get", ["-s", "128KiB", "--objects", "1500"], "request", 9),
    ("PUT 4 KiB", "put", ["-s", "4KiB", "--bytes", "128MiB"], "request", 8),
    ("GET 4 KiB", "get", ["-s", "4KiB", "--objects", "2000"], "request", 15),
    ("HEAD", "stat", ["-s", "4KiB", "--objects", "2000"], "request", None),
    ("GET 64 KiB at a random place of 10 MiB", "get", ["-s", "10MiB", "--objects", "40", "--range-size", "64KiB"], "request", None),
    ("upload of 1 GiB in 64 parts, one at a time", "multipart-put",
     ["--parts", "64", "--part-size", "16MiB", "-c", "1", "--count", "2", "-d", "10m"], "GiB", None),
    ("DELETE, one key", "delete", ["-s", "4KiB", "--objects", "6000"], "request", None),
    (f"DELETE of {KEYS:,} keys, 1,000 a request", "delete",
     ["-s", "1", "--objects", str(KEYS), "--batch", "1000", "-c", "4", "-d", "10m"], "key", None),
    (f"LIST of {KEYS:,} keys, pages of 1,000", "list", ["-s", "1", "--objects", str(KEYS), "-c", "1"], "request", None),
    ("GET 4 KiB, 70 % of the rate above", "get", ["-s", "4KiB", "--objects", "2000", "-c", "16", "--arrivals", "poisson"], "open", None),
    ("PUT 4 KiB, 70 % of the rate above", "put", ["-s", "4KiB", "-c", "16", "--arrivals", "poisson"], "open", None),
]


class Machine(Servers):
    """One server over four drives."""

    def folders(self):
        parent = self.home / "drives"
        if XFS:
            parent.mkdir()
            loopdrives("up", self.home)
            return [parent / f"drive{n}" for n in range(1, DRIVES + 1)]
        folders = [parent / f"drive{n}" for n in range(1, DRIVES + 1)]
        for folder in folders:
            folder.mkdir(parents=True)
        return folders

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
            p.wait()
        if XFS:
            loopdrives("down", self.home)
        shutil.rmtree(self.home, ignore_errors=True)

    def peak(self):
        """Most memory so far, in MiB."""
        [server] = self.processes
        return process.memory(server.pid)[1]


class Ashlar(Machine):
    name, ready, program = "Ashlar", "/ashlar/health/ready", "ASHLAR_BIN"

    def start(self):
        [port] = free_ports(1)
        self.endpoints.append(f"{SCHEME}://127.0.0.1:{port}")
        self.run(os.environ[self.program], "server", *self.folders(), *self.certificates, "--address", f"127.0.0.1:{port}", "--code", "2+2")


class Before(Ashlar):
    name, program = "Ashlar before", "ASHLAR_BEFORE"


class MinIO(Machine):
    name, ready = "MinIO", "/minio/health/cluster"

    def start(self):
        [port] = free_ports(1)
        self.endpoints.append(f"{SCHEME}://127.0.0.1:{port}")
        self.folders()
        self.run(os.environ["MINIO_BIN"], "server", "--quiet", *self.certificates, "--address", f"127.0.0.1:{port}", f"{self.home}/drives/drive{{1...{DRIVES}}}",
                 MINIO_ROOT_USER=ROOT[0], MINIO_ROOT_PASSWORD=ROOT[1], MINIO_CI_CD="1", MINIO_STORAGE_CLASS_STANDARD="EC:2",
                 MINIO_BROWSER="off", HOME=str(self.home))


def loopdrives(action, home):
    size = ["--count", str(DRIVES), "--size", "3GiB"] if action == "up" else []
    subprocess.run(["cargo", "xtask", "loopdrives", action, "--dir", home / "drives", "--backing", home, *size],
                   cwd=CHECKOUT, check=True, capture_output=True)


def measure(server, operation, options, unit, seconds):
    """Rate per second, 50th and 99th percentiles in ms, CPU of the unit, most memory in MiB."""
    out = server.home / "result.json"
    env = {**os.environ, "ASHLAR_ACCESS_KEY": ROOT[0], "ASHLAR_SECRET_KEY": ROOT[1]}
    # What a row says comes last.
    command = [os.environ["ASHLAR_BIN"], "bench", "s3", operation, "speed-bucket", "--endpoint", server.endpoints[0], "-o", out, "-q",
               "--server-pid", str(server.processes[0].pid), *(["--insecure"] if TLS else [])]
    defaults = [("-c", ["-c", "8"]), ("-d", ["-d", f"{seconds}s"]), ("--warmup", ["--warmup", "0s" if "-d" in options else "500ms"])]
    command += [*(a for name, given in defaults if name not in options for a in given), *options]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # 6: measured, but with a caveat, as that the client is at its limit.
    if done.returncode not in (0, 6):
        raise RuntimeError(f"{server.name}: {operation} {options}\n{done.stdout}\n{done.stderr}")
    phase = next(p for p in json.loads(out.read_text())["phases"] if p["name"] == operation)
    found = max(phase["operations"], key=lambda o: o["bytes"] if unit == "GiB" else o["count"])
    assert found["count"], f"nothing was measured: {done.stdout}"
    keys = phase.get("values", {}).get("deleted_keys", 0) if unit == "key" else found["count"]
    server_s = phase["cost"]["server_us_per_op"] * sum(o["count"] for o in phase["operations"] if "PART" not in o["name"]) / 1e6
    cpu = phase["cost"]["server_s_per_gib"] if unit == "GiB" else server_s * 1e6 / keys
    rate = found["bytes"] / phase["seconds"] / (1 << 20) if unit == "GiB" else keys / phase["seconds"]
    times = found["response" if unit == "open" else "service"]["percentiles_ns"]
    return {"rate": rate, "p50": times["p50"] / 1e6, "p99": times["p99"] / 1e6, "cpu": cpu, "peak": server.peak(),
            "errors": sum(found["errors"].values())}


def cells(unit, m):
    rate = f"{m['rate']:,.0f}{' MiB' if unit == 'GiB' else ' keys' if unit == 'key' else ''}/s"
    cpu = f"{m['cpu']:.2f} s/GiB" if unit == "GiB" else f"{m['cpu']:,.1f} us" if m["cpu"] < 100 else f"{m['cpu']:,.0f} us"
    return f"{cpu} | {rate}, {m['p50']:,.1f}, {m['p99']:,.1f} ms"


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    kinds = [Ashlar]
    if os.environ.get("MINIO_BIN"):
        kinds.append(MinIO)
    else:
        print("MINIO_BIN is not set: MinIO is not measured")
    if os.environ.get("ASHLAR_BEFORE"):
        kinds.append(Before)
    only = [part for part in os.environ.get("ASHLAR_SPEED_ONLY", "").split(",") if part]
    rows = [row for row in ROWS if not only or any(part in row[0] for part in only)]
    found, closed = {}, {}
    for turn in range(int(os.environ.get("ASHLAR_SPEED_ROUNDS", "1"))):
        for name, operation, options, unit, _ in rows:
            # The first one of a row is another one in each round.
            for kind in kinds if turn % 2 == 0 else kinds[::-1]:
                with kind() as server:
                    offered = options
                    if unit == "open":
                        if (name[:9], kind) not in closed:
                            continue
                        offered = [*options, "--rate", f"{0.7 * closed[name[:9], kind]:.0f}"]
                    got = measure(server, operation, offered, unit, seconds)
                closed[name, kind] = got["rate"]
                found.setdefault((name, kind), []).append(got)
                print(f"{name}, {kind.name}: {got}", file=sys.stderr, flush=True)
    print(f"load of the machine at the end: {os.getloadavg()}; {'TLS; ' if TLS else ''}drives: {'XFS on loop devices' if XFS else 'folders'} in {os.environ.get('ASHLAR_SPEED_DIR', 'memory')}")
    print("\n| | " + " | ".join(f"{k.name}: CPU | rate, p50, p99" for k in kinds) + " | MinIO / Ashlar | goal |")
    print("|---|" + "---|---|" * len(kinds) + "---|---|")
    for name, _, _, unit, goal in rows:
        if any((name, k) not in found for k in kinds):
            continue
        middle = {k: {of: statistics.median(one[of] for one in found[name, k]) for of in found[name, k][0]} for k in kinds}
        ratio = f"{middle[MinIO]['cpu'] / middle[Ashlar]['cpu']:.1f}" if MinIO in kinds else ""
        errors = "".join(f"; {k.name}: {m['errors']:.0f} errors" for k, m in middle.items() if m["errors"])
        print(f"| {name} | " + " | ".join(cells(unit, m) for m in middle.values()) + f" | {ratio}{errors} | {goal or ''} |")
    for kind in kinds:
        most = max(got["peak"] for (_, k), all_of in found.items() if k is kind for got in all_of)
        print(f"most memory of any row, {kind.name}: {most:,.0f} MiB")


if __name__ == "__main__":
    main()
