"""T5, and flaw F1 of docs/protocol.md 4: power cuts, on real file systems in images.

Four images are on an XFS file system that can clone files in one step. While writers run, the server is
stopped in its tracks and every image is cloned: the clone holds what had reached the device and nothing of
the page cache, as after a power cut. The server is killed, the clones are mounted in the images' place
(all of them, or only some: then only those drives lost power) and every acknowledged write must be there.

What this cannot show: a device that loses its own volatile cache. Needs root for mounts; elsewhere the
tests are skipped and say so. `ASHLAR_POWER_CYCLES` sets the cycles per file system (3).
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from conftest import Server
from histories import Writer, check, client

CYCLES = int(os.environ.get("ASHLAR_POWER_CYCLES", "3"))
DRIVES = 4

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/loop-control", os.W_OK), reason="mounting images needs root"
)


def sh(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    assert done.returncode == 0, f"{args}: {done.stderr}"
    return done.stdout.strip()


class Images:
    """The host file system, the drives' images on it, and where they are mounted."""

    def __init__(self, kind):
        self.kind = kind
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = Path(tempfile.mkdtemp(prefix="ashlar-power-", dir=base))
        self.mounts = []
        self.host = self.root / "host"
        self.host.mkdir()
        image = self.root / "host.img"
        sh("truncate", "-s", "5G", image)
        sh("mkfs.xfs", "-q", "-m", "reflink=1", image)
        self.mount(image, self.host)
        for i in range(1, DRIVES + 1):
            sh("truncate", "-s", "1G", self.image(i))
            sh(*{"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}[self.kind], self.image(i))
            (self.root / f"drive{i}").mkdir()
            self.mount(self.image(i), self.root / f"drive{i}")

    def image(self, i):
        return self.host / f"d{i}.img"

    def mount(self, image, at):
        sh("mount", "-o", "loop,nouuid" if self.kind == "xfs" and image.parent == self.host else "loop", image, at)
        self.mounts.append(at)

    def unmount(self, at):
        for _ in range(50):
            if subprocess.run(["umount", str(at)], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"{at} stays busy")
        self.mounts.remove(at)

    def cut(self, server, lost):
        """Power goes away under the drives `lost`."""
        server.process.send_signal(signal.SIGSTOP)
        for i in lost:
            sh("cp", "--reflink=always", self.image(i), self.host / f"d{i}.clone")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        for i in range(1, DRIVES + 1):
            self.unmount(self.root / f"drive{i}")
        for i in lost:
            (self.host / f"d{i}.clone").rename(self.image(i))
        for i in range(1, DRIVES + 1):
            self.mount(self.image(i), self.root / f"drive{i}")

    def close(self):
        for at in reversed(list(self.mounts)):
            subprocess.run(["umount", "-l", str(at)], capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_power_cut_under_load(kind):
    assert shutil.which(f"mkfs.{kind}"), f"mkfs.{kind} is missing"
    images, server = Images(kind), None
    rng = random.Random(os.environ.get("ASHLAR_SEED", kind))
    try:
        server = Server(images.root, DRIVES)
        client(server).create_bucket(Bucket="power")
        state = {}
        for cycle in range(CYCLES):
            writers = [Writer(client(server), "power", f"w{i}", state) for i in range(4)]
            [w.start() for w in writers]
            time.sleep(rng.uniform(0.3, 1.5))
            everything = list(range(1, DRIVES + 1))
            lost = everything if cycle % 2 == 0 else rng.sample(everything, rng.randrange(1, DRIVES))
            images.cut(server, lost)
            for w in writers:
                w.going = False
            [w.join() for w in writers]
            server.start()
            check(client(server, 3), "power", state)
            print(f"{kind} cycle {cycle}: drives {lost} lost power, {len(state)} keys are right")
    finally:
        if server and server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        images.close()
