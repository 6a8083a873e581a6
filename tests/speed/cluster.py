"""What a request costs in a cluster: four nodes of Ashlar, four of MinIO, and one Ashlar server, over 16 drives each.

    ASHLAR_BIN=target/release/ashlar MINIO_BIN=~/go/bin/minio python3 tests/speed/cluster.py [seconds]

Needs etcd on PATH. MinIO is its last release that the Go module proxy serves, built as its documentation says:
`go install github.com/minio/minio@latest`; without MINIO_BIN only Ashlar is measured. Each is started over blank
folders in memory (at most 3 GiB are written at a time), 12+4 shards each, measured by `ashlar bench s3` with 8
requests in flight that go to all nodes in turn, and ended. CPU is that of all server processes, user and system,
etcd included, within the measured time. With ASHLAR_SPEED_ROUNDS all take turns so often, and the means are
printed. ASHLAR_BEFORE is an older program, which takes turns with the one measured; ASHLAR_SPEED_ONLY names the
sizes. By hand only: it is no test.

Nodes of Ashlar always talk over TLS; those of MinIO do only if their clients do. With ASHLAR_SPEED_TLS=1 all servers
of all kinds have a certificate, so that clients, and the nodes of both, talk over TLS. It needs openssl.
"""

import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import process

ROOT = ("speed-root", "speed-root-secret-key")
NODES, DRIVES = 4, 4
TLS = os.environ.get("ASHLAR_SPEED_TLS") == "1"
SCHEME = "https" if TLS else "http"
# Size, objects for GET, most bytes that a PUT may write.
SIZES = [("10MiB", 40, "768MiB"), ("1MiB", 300, "768MiB"), ("128KiB", 1500, "512MiB"), ("4KiB", 2000, "64MiB")]


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


class Servers:
    """Processes over folders of their own; ended and removed behind `with`."""

    name = ready = None

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="ashlar-speed-", dir=os.environ.get("ASHLAR_SPEED_DIR", "/dev/shm")))
        self.processes, self.endpoints, self.certificates = [], [], []
        try:
            if TLS:
                self.certify()
            self.start()
            for endpoint in self.endpoints:
                self.wait(endpoint + self.ready)
            return self
        except BaseException:
            self.__exit__()
            raise

    def certify(self):
        """A certificate that signs itself, for all addresses that servers here have, with its key."""
        folder = self.home / "certificates"
        (folder / "CAs").mkdir(parents=True)
        names = ",".join(f"IP:127.0.0.{n}" for n in range(1, 2 + NODES))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=speed", "-addext", f"subjectAltName={names}", "-keyout", folder / "private.key",
                        "-out", folder / "public.crt"], check=True, capture_output=True)
        # MinIO trusts the other nodes by this.
        shutil.copy(folder / "public.crt", folder / "CAs/speed.crt")
        self.certificates = ["--certs-dir", folder]

    def run(self, *command, **env):
        log = self.home / f"{len(self.processes)}.log"
        env = {**os.environ, "ASHLAR_ROOT_USER": ROOT[0], "ASHLAR_ROOT_PASSWORD": ROOT[1],
               "ASHLAR_STATE_DIR": str(self.home / f"state{len(self.processes)}"), **env}
        self.processes.append(subprocess.Popen(list(map(str, command)), env=env, stdin=subprocess.DEVNULL,
                                               stdout=log.open("wb"), stderr=subprocess.STDOUT))

    def wait(self, url):
        return process.wait(url, self.processes, self.name, self.home.glob("*.log"), seconds=90)

    def drives(self, node):
        for drive in range(1, DRIVES + 1):
            (self.home / f"node{node}/drive{drive}").mkdir(parents=True)
        return [self.home / f"node{node}/drive{drive}" for drive in range(1, DRIVES + 1)]

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
            p.wait()
        shutil.rmtree(self.home, ignore_errors=True)


class Ashlar(Servers):
    name, ready, program = "Ashlar, 4 nodes", "/ashlar/health/ready", "ASHLAR_BIN"

    def start(self):
        client, peer, *ports = free_ports(2 + 2 * NODES)
        client, peer = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.run("etcd", "--data-dir", self.home / "etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                 "--log-level", "error")
        self.wait(f"{client}/health")
        for n in range(NODES):
            address = f"127.0.0.{2 + n}"
            self.endpoints.append(f"{SCHEME}://{address}:{ports[2 * n]}")
            self.run(os.environ[self.program], "server", *self.drives(n), *self.certificates, "--control", client.replace("http", "etcd"),
                     "--cluster", "speed", "--nodes", NODES, "--address", f"{address}:{ports[2 * n]}",
                     "--node-address", f"{address}:{ports[2 * n + 1]}", "--code", "12+4")


class Before(Ashlar):
    name, program = "Ashlar before, 4 nodes", "ASHLAR_BEFORE"


class OneMachine(Servers):
    name, ready = "Ashlar, 1 machine", "/ashlar/health/ready"

    def start(self):
        [port] = free_ports(1)
        self.endpoints.append(f"{SCHEME}://127.0.0.1:{port}")
        drives = [d for n in range(NODES) for d in self.drives(n)]
        self.run(os.environ["ASHLAR_BIN"], "server", *drives, *self.certificates, "--address", f"127.0.0.1:{port}", "--code", "12+4")


class MinIO(Servers):
    name, ready = "MinIO, 4 nodes", "/minio/health/cluster"

    def start(self):
        ports = free_ports(NODES)
        self.endpoints = [f"{SCHEME}://127.0.0.1:{port}" for port in ports]
        # Without ellipses, so that all are one pool, although every node has other folders.
        drives = [f"{self.endpoints[n]}{d}" for n in range(NODES) for d in self.drives(n)]
        for n in range(NODES):
            self.run(os.environ["MINIO_BIN"], "server", "--quiet", *self.certificates, "--address", f"127.0.0.1:{ports[n]}", *drives,
                     MINIO_ROOT_USER=ROOT[0], MINIO_ROOT_PASSWORD=ROOT[1], MINIO_CI_CD="1",
                     MINIO_STORAGE_CLASS_STANDARD="EC:4", MINIO_BROWSER="off", HOME=str(self.home),
                     # In a container it would wait for an address that is not loopback.
                     _MINIO_SERVER_LOCAL=f"127.0.0.1:{ports[n]}")


def measure(servers, operation, size, objects, most, seconds):
    """Rate in MiB/s or operations/s, 50th and 99th percentiles in ms, CPU in s/GiB or us per request."""
    out = servers.home / "result.json"
    pids = [argument for p in servers.processes for argument in ("--server-pid", str(p.pid))]
    limit = ["--bytes", most] if operation == "put" else ["--objects", str(objects)]
    env = {**os.environ, "ASHLAR_ACCESS_KEY": ROOT[0], "ASHLAR_SECRET_KEY": ROOT[1]}
    done = subprocess.run(
        [os.environ["ASHLAR_BIN"], "bench", "s3", operation, "speed-bucket", "--endpoint", ",".join(servers.endpoints),
         "-s", size, "-c", "8", "-d", f"{seconds}s", "--warmup", "500ms", "-o", out, "-q", *pids, *limit, *(["--insecure"] if TLS else [])],
        env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # 6: measured, but with a caveat, as that the client is at its limit.
    if done.returncode not in (0, 6):
        raise RuntimeError(f"{servers.name}: {operation} {size}\n{done.stdout}\n{done.stderr}")
    phase = next(p for p in json.loads(out.read_text())["phases"] if p["name"] == operation)
    [found] = phase["operations"]
    assert found["count"], f"nothing was measured: {done.stdout}"
    large = size.endswith("MiB")
    rate = found["bytes"] / phase["seconds"] / (1 << 20) if large else found["count"] / phase["seconds"]
    cpu = phase["cost"]["server_s_per_gib" if large else "server_us_per_op"]
    out.unlink()
    p50, p99 = (found["service"]["percentiles_ns"][p] / 1e6 for p in ("p50", "p99"))
    return {"rate": rate, "p50": p50, "p99": p99, "cpu": cpu, "errors": sum(found["errors"].values())}


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    kinds = [Ashlar, MinIO, OneMachine] if os.environ.get("MINIO_BIN") else [Ashlar, OneMachine]
    if os.environ.get("ASHLAR_BEFORE"):
        kinds.insert(1, Before)
    only = os.environ.get("ASHLAR_SPEED_ONLY", "").split()
    sizes = [of for of in SIZES if not only or of[0] in only]
    if MinIO not in kinds:
        print("MINIO_BIN is not set: MinIO is not measured")
    found = {}
    for _ in range(int(os.environ.get("ASHLAR_SPEED_ROUNDS", "1"))):
        for size, objects, most in sizes:
            for kind in kinds:
                # Blank folders for each size: what is deleted is not always gone at once.
                with kind() as servers:
                    for operation in ("put", "get"):
                        got = measure(servers, operation, size, objects, most, seconds)
                        found.setdefault((operation, size, kind), []).append(got)
                        print(f"{operation} {size} {kind.name}: {got}", file=sys.stderr, flush=True)
    print(f"load of the machine at the end: {os.getloadavg()}")
    print("\n| | " + " | ".join(f"{k.name}: rate | p50, p99 | CPU" for k in kinds) + " | ratios |")
    print("|---|" + "---|---|---|" * len(kinds) + "---|")
    for size, _, _ in sizes:
        for operation in ("put", "get"):
            mean = {k: {name: statistics.mean(one[name] for one in found[operation, size, k]) for name in
                        ("rate", "p50", "p99", "cpu", "errors")} for k in kinds}
            large = size.endswith("MiB")
            cells = [f"{m['rate']:,.0f}{' MiB/s' if large else '/s'} | {m['p50']:.1f}, {m['p99']:.0f} ms | "
                     f"{m['cpu']:,.2f} s/GiB" if large else f"{m['rate']:,.0f}/s | {m['p50']:.1f}, {m['p99']:.0f} ms | "
                     f"{m['cpu']:,.0f} us" for m in mean.values()]
            ratios = [f"{mean[Ashlar]['cpu'] / mean[OneMachine]['cpu']:.2f} of one machine"]
            if MinIO in kinds:
                ratios.insert(0, f"{mean[MinIO]['cpu'] / mean[Ashlar]['cpu']:.1f} times less than MinIO")
            ratios += [f"{k.name}: {m['errors']:.0f} errors" for k, m in mean.items() if m["errors"]]
            print(f"| {operation.upper()} {size} | " + " | ".join(cells) + f" | {', '.join(ratios)} |")


if __name__ == "__main__":
    main()
