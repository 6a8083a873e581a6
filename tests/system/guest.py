"""A Linux machine in QEMU with the stock kernel of Debian, which has the NVMe/TCP host that users have.

It boots from memory: busybox, the modules it needs and the programs that a test names, each with its libraries. Its console
is a shell: `run` sends it a line and waits for the end. It reaches this machine at 10.0.2.2.
"""

import gzip
import lzma
import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

GUEST = Path(os.environ.get("CLIENT_GUEST", "/nonexistent"))
# A kernel whose NVMe/TCP host knows DH-HMAC-CHAP: the same one if it does.
GUEST_AUTH = Path(os.environ.get("CLIENT_GUEST_AUTH", "/nonexistent"))
# Programs of Debian 13 with their libraries, for TLS of the kernel's NVMe/TCP host.
GUEST_TLS = Path(os.environ.get("CLIENT_GUEST_TLS", "/nonexistent"))
MODULES = ["virtio_pci", "virtio_net", "virtio_blk", "crc32c_generic", "sha512_generic", "nvme-tcp", "ext4"]
# An emulated processor on a busy machine: no statement about speed.
LONG = 240

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r module parameters; do insmod "/modules/$module" $parameters; done < /modules/order
ip link set lo up; ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
stty -echo
echo guest-is-ready
# Not as for a person, whose lines it would let edit: the console may then seem to end when it changes modes under input.
sh 2>&1 | cat
"""


def content(path):
    """The bytes of a module; Debian 13 compresses them."""
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def modules(kernel, wanted):
    """Files of modules, each after those that it needs."""
    files = {path.name.split(".ko")[0].replace("-", "_"): path for path in kernel.rglob("*.ko*")}
    order = []

    def add(name):
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return  # Built in, or there already.
        needed = re.search(rb"\0depends=([^\0]*)\0", b"\0" + content(path))
        for other in needed.group(1).decode().split(",") if needed else []:
            add(other)
        order.append(path)

    built_in = {Path(line).stem.replace("-", "_") for line in (kernel.parent / "modules.builtin").read_text().splitlines()}
    for name in wanted:
        assert name.replace("-", "_") in files.keys() | built_in, name
        add(name)
    return order


def image(out, programs, home, later=(), more=(), tree=None, parameters=None):
    """Makes the memory image that the machine boots from. `later`: modules that it has and does not load; `more`: further ones that it loads.
    `tree`: a folder whose content it has. `parameters`: of modules, by their names."""
    parameters = parameters or {}
    root = out.parent / "root"
    for folder in ("bin", "sbin", "proc", "sys", "dev", "mnt", "modules", "etc", "tmp", "usr/sbin"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    kernel = next((home / "lib/modules").iterdir()) / "kernel"
    if tree:
        shutil.copytree(tree, root, dirs_exist_ok=True)
    order = modules(kernel, [*MODULES, *more])
    assert any(path.name.startswith("nvme-tcp.ko") for path in order), kernel
    for path in modules(kernel, [*MODULES, *more, *later]):
        (root / "modules" / path.name.removesuffix(".xz")).write_bytes(content(path))
    lines = [f"{path.name.removesuffix('.xz')} {parameters.get(path.name.split('.ko')[0], '')}\n" for path in order]
    (root / "modules/order").write_text("".join(lines))
    for program in programs:
        shutil.copy(program, root / "sbin" / Path(program).name)
        for line in subprocess.check_output(["ldd", program], text=True).splitlines():
            found = re.search(r"(/\S+) \(0x", line)
            if found:
                target = root / found.group(1).lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found.group(1), target)
    (root / "etc/mtab").symlink_to("/proc/mounts")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    names = subprocess.check_output(["find", "."], cwd=root)
    made = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=subprocess.PIPE, check=True)
    out.write_bytes(gzip.compress(made.stdout, 1))
    shutil.rmtree(root)


class Guest:
    """A machine that runs."""

    def __init__(self, folder, programs, memory=320, home=GUEST, disks=(), files=(), cpus=1, later=(), more=(), tree=None, parameters=None):
        """`memory`: MiB. The programs and the files of the guest take a part of it. `home`: the folder of its kernel.
        `disks`: sockets of vhost-user-blk devices, to which QEMU connects again every second. `files`: what further disks have.
        `later`: modules that tests load; `more`: further ones that it loads. `tree`: a folder whose content it has.
        `parameters`: of modules that it loads, by their names."""
        initrd = folder / "initrd"
        image(initrd, programs, home, later, more, tree, parameters)
        kernel = next((home / "boot").glob("vmlinuz-*"))
        devices = ["-object", f"memory-backend-memfd,id=m,size={memory}M,share=on", "-machine", "memory-backend=m"] if disks else []
        for number, socket in enumerate(disks):
            devices += ["-chardev", f"socket,id=c{number},path={socket},reconnect=1",
                        "-device", f"vhost-user-blk-pci,chardev=c{number},num-queues=2"]
        for number, file in enumerate(files):
            devices += ["-drive", f"file={file},format=raw,if=none,id=f{number},cache=unsafe,discard=unmap",
                        "-device", f"virtio-blk-pci,drive=f{number}"]
        self.log = b""
        self.count = 0
        self.qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-machine", "q35", "-cpu", "max", "-m", str(memory), "-smp", str(cpus), "-nographic",
             "-no-reboot", "-nodefaults", "-serial", "stdio", "-kernel", kernel, "-initrd", initrd,
             "-append", "console=ttyS0 panic=-1 quiet loglevel=3", "-netdev", "user,id=n",
             "-device", "virtio-net-pci,netdev=n,romfile=", *devices],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.wait(rb"guest-is-ready\r?\n", LONG)

    def wait(self, pattern, seconds):
        """What the console says, up to a pattern."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.log)):
            left = end - time.monotonic()
            assert left > 0, self.log[-4000:].decode(errors="replace")
            if select.select([self.qemu.stdout], [], [], min(left, 5))[0]:
                more = os.read(self.qemu.stdout.fileno(), 65536)
                assert more, self.log[-4000:].decode(errors="replace")
                self.log += more
        before, self.log = self.log[:found.start()], self.log[found.end():]
        return before, found

    def begin(self, line):
        """Sends a line; `finish` waits for its end."""
        self.count += 1
        self.line = line
        # The mark is not in the line itself, in case that the console repeats it.
        self.qemu.stdin.write(f"{line}\necho guest-\"\"done-{self.count}-$?-\n".encode())
        self.qemu.stdin.flush()

    def finish(self, check=True, seconds=LONG):
        before, found = self.wait(rb"guest-done-%d-(\d+)-" % self.count, seconds)
        text = before.decode(errors="replace").replace("\r", "")
        assert not check or found.group(1) == b"0", (self.line, text)
        return text

    def run(self, line, check=True, seconds=LONG):
        self.begin(line)
        return self.finish(check, seconds)

    def stop(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
        self.qemu.wait(60)
