"""A server that is measured: on folders in memory (or under ASHLAR_SPEED_DIR, for drives that are read past
the page cache), on a free port, with the CPU time that it takes."""

import multiprocessing
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import process

ROOT = ("speed-root", "speed-root-secret-key")


class Server:
    """Started by `with`; ended and removed behind it. `core`: the only core that it runs on."""

    def __init__(self, program, core=None, **env):
        self.home = Path(tempfile.mkdtemp(prefix="ashlar-speed-", dir=os.environ.get("ASHLAR_SPEED_DIR", "/dev/shm")))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        env = dict(os.environ, ASHLAR_ROOT_USER=ROOT[0], ASHLAR_ROOT_PASSWORD=ROOT[1], **env)
        pin = [] if core is None else ["taskset", "-c", str(core)]
        command = [*pin, program, "server", f"{self.home}/drive{{1...4}}", "--address", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        try:
            process.wait(f"{self.base}/ashlar/health/ready", [self.process], "the server", seconds=30)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        shutil.rmtree(self.home, ignore_errors=True)

    def cpu(self):
        """Seconds of CPU, user and system, of all threads."""
        return process.cpu(self.process.pid)

    def send(self, head, body, count, connections=1):
        """Sends a request `count` times in all over so many connections; CPU seconds of the server per request."""
        before = self.cpu()
        workers = [multiprocessing.Process(target=send, args=(self.port, head, body, count // connections))
                   for _ in range(connections)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
            assert w.exitcode == 0
        return (self.cpu() - before) / count


def send(port, head, body, count):
    """Sends the same request again and again over one connection; every answer must be 200."""
    s = socket.create_connection(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    taken = bytearray(1 << 20)
    for _ in range(count):
        s.sendall(head)
        if body:
            s.sendall(body)
        held = b""
        while b"\r\n\r\n" not in held:
            held += s.recv(65536)
        first, rest = held.split(b"\r\n\r\n", 1)
        assert first.startswith(b"HTTP/1.1 200"), first
        length = next(int(h.split(b":")[1]) for h in first.split(b"\r\n") if h.lower().startswith(b"content-length"))
        length -= len(rest)
        while length > 0:
            length -= s.recv_into(taken)
