"""What a change of the server costs requests that have nothing to do with it: two programs side by side.

    ASHLAR_BASE=before/ashlar ASHLAR_BIN=target/release/ashlar python3 tests/speed/paired.py [rounds]

Needs botocore. Both servers run on folders in memory; GETs and PUTs of 4 KiB and 10 MiB are sent to one and
the other in turns, the first of each pair chosen by chance. Printed are the medians of the CPU time of each
(user and system, all threads) per request, and the median of the differences within the pairs, with the span
in which the middle half of them lies. By hand only: it is no test.
"""

import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import encryption
from encryption import ROOT, cpu, send, wire

KINDS = [("GET", 4 << 10, 24000), ("PUT", 4 << 10, 8000), ("GET", 10 << 20, 160), ("PUT", 10 << 20, 80)]


class Server:
    def __init__(self, program, home):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        env = dict(os.environ, ASHLAR_ROOT_USER=ROOT[0], ASHLAR_ROOT_PASSWORD=ROOT[1])
        command = [program, "server", f"{home}/drive{{1...4}}", "--address", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"{self.base}/ashlar/health/ready", timeout=2)
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < deadline, "a server did not start"
                time.sleep(0.05)

    def request(self, method, size):
        length = size if method == "PUT" else 0
        return wire(self.base, method, f"/speed/{method}-{size}", length), os.urandom(length)

    def micros(self, method, size, count):
        head, body = self.request(method, size)
        before = cpu(self.process.pid)
        workers = [encryption.multiprocessing.Process(target=send, args=(self.port, head, body, count // 2))
                   for _ in range(2)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
            assert w.exitcode == 0
        return (cpu(self.process.pid) - before) / count * 1e6


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    home = Path(tempfile.mkdtemp(prefix="ashlar-speed-", dir="/dev/shm"))
    servers = []
    try:
        for name, variable in (("before", "ASHLAR_BASE"), ("after", "ASHLAR_BIN")):
            servers.append(Server(os.environ[variable], home / name))
        for s in servers:
            s.ready()
            send(s.port, wire(s.base, "PUT", "/speed"), b"", 1)
            for size in (4 << 10, 10 << 20):
                send(s.port, wire(s.base, "PUT", f"/speed/GET-{size}", size), os.urandom(size), 1)
        found = {kind: [] for kind in KINDS}
        for _ in range(rounds + 1):
            for kind in random.sample(KINDS, len(KINDS)):
                pair = [0.0, 0.0]
                for i in random.sample((0, 1), 2):
                    pair[i] = servers[i].micros(*kind)
                found[kind].append(pair)
        for (method, size, _), pairs in found.items():
            # The first round warms both up.
            pairs = pairs[1:]
            more = sorted(100 * (b / a - 1) for a, b in pairs)
            before, after = (statistics.median(p[i] for p in pairs) for i in (0, 1))
            low, high = more[len(more) // 4], more[-1 - len(more) // 4]
            print(f"{method} {size >> 10:6} KiB  {before:9.1f} us -> {after:9.1f} us, "
                  f"{statistics.median(more):+.1f} % (middle half {low:+.1f} to {high:+.1f})")
    finally:
        for s in servers:
            s.process.terminate()
        for s in servers:
            s.process.wait(timeout=60)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
