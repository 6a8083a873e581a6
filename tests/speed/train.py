"""Loads that show a profile-guided build what the program does often (`cargo xtask build`, `package`); nothing is measured.

    ASHLAR_BIN=... python3 tests/speed/train.py [seconds]

ASHLAR_BIN is a program built with `-C profile-generate`. Each process writes its counts where that says when it ends, so all are ended by SIGTERM. What no load
here reaches is built as rare: a feature whose speed matters belongs here. One load takes `seconds` (2). Needs openssl and etcd.
"""

import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cluster
import one_machine

MIB = 1 << 20
BUCKET = "speed-bucket"
# Operation of `ashlar bench s3` and its options.
S3 = [
    ("put", ["-s", "4KiB"]),
    ("get", ["-s", "4KiB", "--objects", "2000"]),
    ("stat", ["-s", "4KiB", "--objects", "2000"]),
    ("put", ["-s", "4KiB", "--payload", "unsigned"]),
    ("put", ["-s", "128KiB"]),
    ("get", ["-s", "128KiB", "--objects", "500"]),
    ("put", ["-s", "1MiB"]),
    ("put", ["-s", "1MiB", "--payload", "trailer", "--checksum", "crc64nvme"]),
    ("get", ["-s", "1MiB", "--objects", "100"]),
    ("put", ["-s", "10MiB"]),
    ("get", ["-s", "10MiB", "--objects", "20"]),
    ("get", ["-s", "10MiB", "--objects", "20", "--range-size", "64KiB"]),
    ("multipart-put", ["--parts", "8", "--part-size", "8MiB", "-c", "2", "--count", "2", "-d", "5m"]),
    ("delete", ["-s", "4KiB", "--objects", "4000", "-d", "5m"]),
    ("delete", ["-s", "1", "--objects", "6000", "--batch", "1000", "-c", "4", "-d", "5m"]),
    ("list", ["-s", "1", "--objects", "20000", "-c", "1"]),
]


def end(processes):
    """Ends processes in the order in which they would be ended by hand, and expects that they do it well."""
    for p in processes:
        p.send_signal(signal.SIGTERM)
    for p in processes:
        code = p.wait(timeout=120)
        # A program that a signal ends writes no counts; etcd has none to write.
        assert code == (-signal.SIGTERM if p.args[0] == "etcd" else 0), f"{p.args[0]} ended with {code}"


class Ending:
    """Servers that are asked to end."""

    def __exit__(self, *failed):
        try:
            if failed and failed[0] is None:
                end(self.processes[::-1])
        finally:
            super().__exit__()


class OneMachine(Ending, one_machine.Ashlar):
    pass


class OverTLS(OneMachine):
    def start(self):
        self.certify()
        super().start()
        self.endpoints = [e.replace("http:", "https:") for e in self.endpoints]


class FourNodes(Ending, cluster.Ashlar):
    pass


def ashlar(*arguments, **env):
    command = [os.environ["ASHLAR_BIN"], *map(str, arguments), "-q"]
    done = subprocess.run(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    # 6: measured, with a caveat, as that the client is at its limit.
    if done.returncode not in (0, 6):
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def load(servers, loads, seconds):
    keys = {"ASHLAR_ACCESS_KEY": cluster.ROOT[0], "ASHLAR_SECRET_KEY": cluster.ROOT[1]}
    for operation, options in loads:
        defaults = [("-c", ["-c", "8"]), ("-d", ["-d", f"{seconds}s"])]
        given = [a for name, value in defaults if name not in options for a in value]
        (servers.home / "result.json").unlink(missing_ok=True)
        ashlar("bench", "s3", operation, BUCKET, "--endpoint", ",".join(servers.endpoints), "--warmup", "0s", "--insecure", "-o", servers.home / "result.json",
               *given, *options, **keys)


def s3(kind, loads, seconds, encrypted=False):
    with kind() as servers:
        if encrypted:
            url = servers.endpoints[0]
            scheme, host = url.split("://")
            alias = {"ASHLAR_HOST_trained": f"{scheme}://{cluster.ROOT[0]}:{cluster.ROOT[1]}@{host}"}
            ashlar("mb", f"trained/{BUCKET}", **alias)
            ashlar("encrypt", "set", "sse-s3", f"trained/{BUCKET}", **alias)
        load(servers, loads, seconds)


class Export:
    """A client of NBD on one connection (fixed newstyle, simple replies)."""

    def __init__(self, path, name):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.receive(18)
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name.encode())
        self.receive(10)

    def receive(self, count):
        out = b""
        while len(out) < count:
            part = self.socket.recv(count - len(out))
            assert part, "the server closed the connection"
            out += part
        return out

    def request(self, command, at, length, depth):
        """So many equal requests at neighbouring places, and then all answers."""
        data = os.urandom(length) if command else b""
        for n in range(depth):
            self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, n, at + n * length, length) + data)
        for _ in range(depth):
            _, error, _ = struct.unpack(">IIQ", self.receive(16))
            assert not error, os.strerror(error)
            if command == 0:
                self.receive(length)


def blocks(export, size, seconds):
    chance = random.Random(size)
    for command in (1, 0):
        for length, depth in ((4096, 16), (65536, 8), (MIB, 4)):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                export.request(command, chance.randrange((size - depth * length) // length) * length, length, depth)


class Array(Ending, cluster.Servers):
    """A drive group of eight files over NBD."""

    def start(self):
        self.nbd, self.control = self.home / "nbd", self.home / "array.sock"
        members = [self.home / f"members/m{n}" for n in range(8)]
        members[0].parent.mkdir()
        ashlar("array", "create", "pd", *members, "--size", "128MiB")
        self.run(os.environ["ASHLAR_BIN"], "array", "serve", members[0].parent, "--nbd", f"unix:{self.nbd}", "--socket", self.control)
        until = time.monotonic() + 60
        while not self.control.exists():
            assert time.monotonic() < until and self.processes[0].poll() is None, "the array does not start"
            time.sleep(0.05)
        self.members = members


def array(level, seconds):
    with Array() as served:
        control = ("--socket", served.control)
        ashlar("array", "create", "dg", level, *served.members, "--name", "tank", *control)
        ashlar("array", "create", "vd", "tank", "256MiB", "--name", "data", *control)
        for degraded in (False, True):
            if degraded:
                ashlar("array", "edit", "pd", "tank/1", "marker", "offline", *control)
            exports = [Export(served.nbd, "tank/data") for _ in range(4)]
            # A client that fails is an error here; in a thread of its own it would be a message.
            with ThreadPoolExecutor(len(exports)) as clients:
                list(clients.map(lambda export: blocks(export, 256 * MIB, seconds), exports))
        ashlar("array", "edit", "pd", "tank/1", "marker", "online", *control)
        ashlar("array", "progress", "tank", "--watch", *control)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2
    few = [one for one in S3 if one[0] in ("put", "get")]
    parts = [
        ("one machine", lambda: s3(OneMachine, S3, 2 * seconds)),
        ("TLS", lambda: s3(OverTLS, S3, seconds)),
        ("encryption at rest", lambda: s3(OneMachine, few, seconds, encrypted=True)),
        ("four nodes", lambda: s3(FourNodes, S3, seconds)),
        ("RAID 5", lambda: array("raid5", seconds / 2)),
        ("RAID 6", lambda: array("raid6", seconds / 2)),
    ]
    for name, run in parts:
        began = time.monotonic()
        run()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
