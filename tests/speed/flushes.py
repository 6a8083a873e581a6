"""How many flushes a serial PUT makes, and of which files: the server over four drives (2+2) under strace.

    ASHLAR_BIN=target/release/ashlar ASHLAR_SPEED_DIR=/var/tmp python3 tests/speed/flushes.py [requests]

Needs strace, botocore and a folder on a real file system (ASHLAR_SPEED_DIR). One connection sends PUTs of a
size to distinct keys one after another; counted are the calls of fdatasync and fsync from the first request to the
answer to the last, by the file or folder that they flush, per request. By hand only: it is no test.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from encryption import wire
from server import Server, send

SIZES = [4 << 10, 128 << 10, 1 << 20, 10 << 20]
CALL = re.compile(r"(\d+\.\d+) (fdatasync|fsync)\(\d+<([^>]*)>")


def what(path, home):
    """A flushed file or folder in words: digits of names are left out."""
    name = re.sub(r"^drive\d+/?", "", str(path).removeprefix(home).lstrip("/"))
    kind = "folder " if not re.search(r"\.\w+$|^sequences$", name) else ""
    return kind + (re.sub(r"\d+", "N", name) or "of the drive")


@contextmanager
def strace(pid, log):
    command = ["strace", "-f", "-ttt", "-y", "-e", "trace=fdatasync,fsync", "-o", str(log), "-p", str(pid)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    folder = Path(tempfile.mkdtemp(prefix="flushes-"))
    log = folder / "strace"
    with Server(os.environ["ASHLAR_BIN"]) as server, strace(server.process.pid, log):
        send(server.port, wire(server.base, "PUT", "/speed"), b"", 1)
        for size in SIZES:
            body = os.urandom(size)
            heads = [wire(server.base, "PUT", f"/speed/{size}-{i}", size) for i in range(count)]
            for head in heads[: count // 4]:
                send(server.port, head, body, 1)
            time.sleep(3)
            begin = time.time()
            waits = []
            for head in heads:
                before = time.monotonic()
                send(server.port, head, body, 1)
                waits.append(time.monotonic() - before)
            end = time.time()
            found = Counter()
            for line in log.read_text().splitlines():
                call = CALL.search(line)
                if call and begin <= float(call[1]) <= end:
                    found[call[2], what(call[3], str(server.home))] += 1
            waits.sort()
            print(f"PUT {size >> 10} KiB, {count} one after another, {(end - begin) / count * 1e3:.2f} ms each "
                  f"(median {waits[count // 2] * 1e3:.2f}, under strace)")
            for kind in ("fdatasync", "fsync"):
                print(f"  {kind:9} {sum(n for (k, _), n in found.items() if k == kind) / count:6.2f} a request")
            for (kind, file), n in sorted(found.items(), key=lambda item: -item[1]):
                print(f"            {n / count:6.2f} {kind} {file}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
