"""RAID 5 of Ashlar beside that of Linux (md), both under the same kernel in user mode.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/md_raid5.py [seconds]

Needs Debian's user-mode-linux, mdadm and fio. The members are five files in memory. A Linux kernel that runs as a process (one
virtual processor) runs fio on a block device: for md the kernel's own RAID 5 over the files (ubd), for Ashlar a disk that `ashlar array serve`
exports over vhost-user-blk, over the same files; "file" is one of the files without any array, to show what the rig allows. All take
turns; ASHLAR_SPEED_ROUNDS says how often, and the medians are printed. CPU is that of the kernel in user mode, with fio, and of `ashlar array serve`.
md is measured without bitmap and journal, which promises as much as the policy `none` of Ashlar, and with a partial parity log (`--consistency-policy=ppl`), which
closes the write hole as `journal`, the default of Ashlar, does. "devices" are loop devices with blocks of 4 KiB over the files (they need root), where `journal` writes whole rows
once. ASHLAR_SPEED_KINDS chooses, separated by semicolons. By hand only: it is no test.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import process

ASHLAR = os.environ.get("ASHLAR_BIN", "target/release/ashlar")
MEMBERS, SIZE, CHUNK = 5, 256, 64
TILES = "amx_tile" in Path("/proc/cpuinfo").read_text()
ROWS = [
    ("random read 4 KiB, 32 in flight", "--rw=randread --bs=4k --iodepth=32"),
    ("random write 4 KiB, 32 in flight", "--rw=randwrite --bs=4k --iodepth=32"),
    ("sequential write 1 MiB, 8 in flight", "--rw=write --bs=1m --iodepth=8"),
    ("sequential read 1 MiB, 8 in flight", "--rw=read --bs=1m --iodepth=8"),
]
# What the kernel in user mode runs first. The file system is that of the machine, so only /dev, /proc, /sys and /run are its own.
INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin {tunables}
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null; mount -t tmpfs run /run
modprobe -d {home}/root {modules} || echo "no modules" >{home}/failed
{prepare}
echo 0 >/sys/block/$(basename $(readlink -f {device}))/queue/add_random 2>/dev/null
{jobs}
{end}
sync
halt -f
"""


# Without the whole register state no program may use more than SSE.
TUNABLES = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX_Usable,-AVX2_Usable,-AVX512F_Usable,-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ"


def shell(*command):
    return subprocess.run(list(map(str, command)), check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.strip()


def relay(path, behind):
    """Passes vhost-user on, with what the kernel in user mode (6.1) needs changed: it sends SET_MEM_TABLE with room for two regions, whatever
    their number, and the library of Ashlar (rust-vmm) refuses what is longer than it says; and it has an interrupt for the disk only if the
    other end may send requests too, which Ashlar has no need of. Requests of the disk do not pass here."""
    server = socket.create_server(str(path), family=socket.AF_UNIX)
    may_ask, set_protocol, ask_back, memory = 1 << 5, 16, 21, 5

    def to_ashlar(front, back):
        while True:
            data, files, _, _ = socket.recv_fds(front, 4096, 8)
            if not data:
                return back.shutdown(socket.SHUT_WR)
            while data:
                request, flags, size = struct.unpack_from("<III", data)
                body, data = data[12:12 + size], data[12 + size:]
                # Descriptors come with the last of the messages that arrived together.
                message(front, back, request, flags, body, [] if data else files)

    def message(front, back, request, flags, body, files):
        if request == ask_back:
            kept.extend(files)
            return front.sendall(struct.pack("<IIIQ", request, 5, 8, 0) if flags & 8 else b"")
        if request == memory:
            body = body[:8 + 32 * struct.unpack_from("<I", body)[0]]
        if request == set_protocol:
            body = struct.pack("<Q", struct.unpack("<Q", body)[0] & ~may_ask)
        socket.send_fds(back, [struct.pack("<III", request, flags, len(body)) + body], files)
        for file in files:
            os.close(file)

    def to_kernel(back, front):
        while data := back.recv(4096):
            if struct.unpack_from("<I", data)[0] == set_protocol - 1:
                data = data[:12] + struct.pack("<Q", struct.unpack_from("<Q", data, 12)[0] | may_ask)
            front.sendall(data)

    def accept():
        front, _ = server.accept()
        back = socket.socket(socket.AF_UNIX)
        back.connect(str(behind))
        for way in ((to_ashlar, front, back), (to_kernel, back, front)):
            threading.Thread(target=way[0], args=way[1:], daemon=True).start()

    kept = []
    threading.Thread(target=accept, daemon=True).start()


def without_tiles():
    """In the process that becomes the kernel in user mode: keeps it from the whole register state of a processor (PTRACE_GETREGSET and SETREGSET of
    NT_X86_XSTATE), as that of processors with tiles (AMX) is larger than Linux 6.1 in user mode expects. It uses the older calls then."""
    nr, request, what, get, put, state, refuse = 0, 16, 32, 0x4204, 0x4205, 0x202, 0x00050000 | errno.EINVAL
    load, equal, answer = 0x20, 0x15, 0x06
    code = [(load, 0, 0, nr), (equal, 0, 5, 101), (load, 0, 0, request), (equal, 1, 0, get), (equal, 0, 2, put),
            (load, 0, 0, what), (equal, 1, 0, state), (answer, 0, 0, 0x7FFF0000), (answer, 0, 0, refuse)]
    filled = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in code))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(filled)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls")


class Rig:
    """Member files, and what serves them; all removed behind `with`."""

    def __init__(self, kind):
        self.kind = kind

    def __enter__(self):
        # The kernel in user mode sees the files of the machine, but has a /dev of its own.
        self.home, self.memory = (Path(tempfile.mkdtemp(prefix="ashlar-md-", dir=of)) for of in (None, "/dev/shm"))
        self.server, self.devices = None, []
        try:
            self.files = [self.memory / f"m{n}" for n in range(MEMBERS)]
            for file in self.files:
                with file.open("wb") as f:
                    # Written, so that no turn pays for memory that the machine has not seen before.
                    for _ in range(SIZE):
                        f.write(bytes(1 << 20))
            folder = next(Path("/usr/lib/uml/modules").iterdir())
            (self.home / "root/lib/modules").mkdir(parents=True)
            (self.home / "root/lib/modules" / folder.name).symlink_to(folder)
            if self.kind.startswith("Ashlar"):
                _, policy, *devices = self.kind.split(", ")
                for file in self.files if devices else []:
                    self.devices.append(shell("losetup", "--sector-size", 4096, "--direct-io=off", "--find", "--show", file))
                self.serve(policy, self.devices or self.files)
        except BaseException:
            self.__exit__()
            raise
        return self

    def serve(self, policy, members):
        ask = [ASHLAR, "--json", "array", "--socket", self.home / "s"]
        shell(*ask, "create", "dg", "raid5", *members, "--name", "g", "--policy", policy)
        command = [*ask, "serve", *members, "--vhost-user", self.home / "vm"]
        self.server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=(self.home / "log").open("wb"))
        assert self.server.stdout.readline(), (self.home / "log").read_text()
        shell(*ask, "create", "vd", "g", f"{SIZE * (MEMBERS - 1) * 3 // 4}MiB", "--name", "v")
        self.socket = self.home / "vm/g/v.sock"
        for _ in range(100):
            if self.socket.exists():
                return relay(self.home / "disk.sock", self.socket)
            time.sleep(0.1)
        raise RuntimeError((self.home / "log").read_text())

    def run(self, seconds):
        """Runs fio in the kernel; returns the result of each row."""
        disks, prepare, end, modules = [f"ubd{n}={file}" for n, file in enumerate(self.files)], "", "", "loop"
        if self.kind.startswith("md"):
            protected = "--consistency-policy=ppl" if self.kind == "md, ppl" else "--bitmap=none"
            device, modules = "/dev/md0", "raid456"
            members = " ".join(f"/dev/ubd{chr(97 + n)}" for n in range(MEMBERS))
            prepare = (f"mdadm --create /dev/md0 --run --level=5 --raid-devices={MEMBERS} --chunk={CHUNK} --assume-clean {protected} {members} "
                       f">{self.home}/mdadm 2>&1")
            end = "mdadm --stop /dev/md0 >/dev/null 2>&1"
        elif self.kind == "file":
            device = "/dev/ubda"
        else:
            device, modules, disks = "/dev/vda", "virtio_blk", [f"virtio_uml.device={self.home}/disk.sock:2"]
        # Everything is written once: an array need not read blocks that nobody wrote.
        jobs = [f"fio --name=fill --filename={device} --ioengine=libaio --direct=1 --rw=write --bs=1m --iodepth=8 --output={self.home}/fill"]
        for n, (_, options) in enumerate(ROWS):
            jobs.append(f"fio --name=x --filename={device} --ioengine=libaio --direct=1 --norandommap --time_based --runtime={seconds} {options} "
                        f"--output-format=json --output={self.home}/out{n}; cat /proc/uptime >{self.home}/done{n}")
        init = self.home / "init"
        init.write_text(INIT.format(home=self.home, tunables=TUNABLES if TILES else "", modules=modules, prepare=prepare, device=device, jobs="\n".join(jobs), end=end))
        init.chmod(0o755)
        command = ["linux.uml", "mem=1G", "rootfstype=hostfs", "root=/dev/root", "rw", f"init={init}", "con=null", "con0=null,fd:1", *disks]
        kernel = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=(self.home / "console").open("wb"), stderr=subprocess.STDOUT,
                                  env={**os.environ, "TMPDIR": "/dev/shm"}, start_new_session=True, preexec_fn=without_tiles if TILES else None)
        try:
            return [self.row(kernel, n, seconds) for n in range(len(ROWS))]
        finally:
            self.stop(kernel)

    def row(self, kernel, n, seconds):
        self.until(kernel, self.home / (f"done{n - 1}" if n else "fill"), seconds)
        began = self.cpu(kernel)
        self.until(kernel, self.home / f"done{n}", seconds)
        used = [after - before for before, after in zip(began, self.cpu(kernel))]
        out = (self.home / f"out{n}").read_text()
        job = json.loads(out[out.index("{"):])["jobs"][0]
        side = job["read"] if job["read"]["total_ios"] else job["write"]
        if job["error"]:
            raise RuntimeError(f"{self.kind}: fio ended with error {job['error']}\n{self.logs()}")
        return {"rate": side["iops"], "p99": side["clat_ns"]["percentile"]["99.000000"] / 1e6, "kernel": used[0] / side["total_ios"] * 1e6,
                "server": used[1] / side["total_ios"] * 1e6}

    def until(self, kernel, file, seconds):
        end = time.monotonic() + 60 + 3 * seconds
        while not (file.exists() and file.stat().st_size):
            if kernel.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.kind}: the kernel did not come to {file.name}\n{self.logs()}")
            time.sleep(0.02)

    def logs(self):
        return "".join(f.read_text(errors="replace")[-3000:] for f in (self.home / "console", self.home / "log") if f.exists())

    def cpu(self, kernel):
        """Seconds of the kernel with all its processes, and of the server."""
        total = 0
        for pid in [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]:
            try:
                if os.getsid(pid) == kernel.pid:
                    total += process.cpu(pid) + process.cpu_of_children(pid)
            except (ProcessLookupError, FileNotFoundError):
                pass
        return total, process.cpu(self.server.pid) if self.server else 0

    def stop(self, kernel):
        try:
            kernel.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(kernel.pid, signal.SIGKILL)
            kernel.wait()

    def __exit__(self, *_):
        if self.server:
            self.server.terminate()
            self.server.wait(60)
        for device in self.devices:
            shell("losetup", "--detach", device)
        for folder in (self.home, self.memory):
            shutil.rmtree(folder, ignore_errors=True)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    kinds = ["file", "md", "md, ppl", "Ashlar, none", "Ashlar, journal", "Ashlar, none, devices", "Ashlar, journal, devices"]
    kinds, found = os.environ.get("ASHLAR_SPEED_KINDS", ";".join(kinds)).split(";"), {}
    for turn in range(int(os.environ.get("ASHLAR_SPEED_ROUNDS", "1"))):
        for kind in kinds if turn % 2 == 0 else kinds[::-1]:
            with Rig(kind) as rig:
                for (name, _), got in zip(ROWS, rig.run(seconds)):
                    print(f"{name}, {kind}: {got}", file=sys.stderr, flush=True)
                    found.setdefault((name, kind), []).append(got)
    print(f"RAID 5 of {MEMBERS} files in memory, load of the machine at the end: {os.getloadavg()}\n")
    print("| | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for name, _ in ROWS:
        middle = {k: {what: statistics.median(one[what] for one in found[name, k]) for what in ("rate", "p99", "kernel", "server")} for k in kinds}
        cells = []
        for kind, m in middle.items():
            beside = middle.get({"none": "md", "journal": "md, ppl"}.get(kind.split(", ")[1]) if kind.startswith("Ashlar") else None)
            ratio = f", {m['rate'] / beside['rate']:.2f} of md" if beside else ""
            cells.append(f"{m['rate']:,.0f}/s, p99 {m['p99']:.1f} ms, {m['kernel']:.0f} + {m['server']:.0f} us{ratio}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
