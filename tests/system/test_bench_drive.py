"""`ashlar bench drive` against fio on the same file system, and that nothing is left behind.

Both do the same I/O at the same depth on files that were written in full before, in turns, several
times. What is compared are medians; the tolerance is 5 % and what both vary by between their own
repetitions, since a machine that runs tests is never quiet. While other programs need the processors,
each of the two gets another share of them every time: then only half of fio's rate is asked for, and
being faster is no error. That no more is claimed than was done is checked against the kernel's own count. Huge pages are off for both: with them a virtual disk may be
twice as fast, and fio's buffers have none.
"""

import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

import pytest

SIZE = 256 << 20
REPETITIONS = 5
SECONDS = 1.5
TOLERANCE = 0.05
BUSY_TOLERANCE = 0.5
# The share of the processors' time that other programs may have for `TOLERANCE` to hold.
OTHERS = 0.15
ASHLAR = os.environ.get("ASHLAR_BIN", "target/release/ashlar")


@pytest.fixture
def folder():
    """On a disk: the file system of the repository, not /tmp, which may be memory."""
    home = Path(__file__).resolve().parents[2] / "target" / f"bench-drive-{os.getpid()}"
    home.mkdir(parents=True)
    try:
        yield home
    finally:
        shutil.rmtree(home)


def bench(*arguments, check=True, **more):
    env = dict(os.environ, MIMALLOC_ALLOW_THP="0")
    command = [ASHLAR, "bench", *map(str, arguments)]
    return subprocess.run(command, env=env, check=check, capture_output=True, text=True, timeout=120, **more)


def write_in_full(path):
    """As `ashlar bench drive` does before it measures: allocated, then written past the page cache."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(fd, 0, SIZE)
    os.close(fd)
    subprocess.run(
        ["dd", "if=/dev/urandom", f"of={path}", "bs=4M", f"count={SIZE >> 22}", "conv=notrunc",
         "oflag=direct", "iflag=fullblock", "status=none"],
        check=True,
    )


def fio(path, rw, block, jobs):
    sequential = not rw.startswith("rand")
    part = SIZE // jobs if sequential else SIZE
    result = subprocess.run(
        ["fio", "--name=x", f"--filename={path}", f"--rw={rw}", f"--bs={block}", f"--size={part}",
         f"--offset_increment={part if sequential else 0}", "--direct=1", "--ioengine=psync",
         f"--numjobs={jobs}", "--group_reporting", "--thread", "--norandommap", "--rwmixread=70",
         "--overwrite=1", "--time_based", f"--runtime={SECONDS}", "--ramp_time=0.3", "--output-format=json"],
        check=True, capture_output=True, text=True, timeout=120,
    )
    job = json.loads(result.stdout[result.stdout.index("{"):])["jobs"][0]
    return job["read"]["bw_bytes"] + job["write"]["bw_bytes"]


def ours(folder, test, block, jobs):
    out = folder / "run.json"
    bench("drive", folder, "--size", SIZE, "--tests", test, "-b", block, "--random-block-size", block,
          "--jobs", jobs, "--depth", 1, "-t", f"{SECONDS}s", "--warmup", "300ms", "-q", "-o", out)
    phase = json.loads(out.read_text())["phases"][0]
    out.unlink()
    return sum(o["bytes_per_s"]["mean"] for o in phase["operations"])


def time_of_others():
    """Seconds of processor time that all but niced programs and the children of this process have had."""
    user, _, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + system) / os.sysconf("SC_CLK_TCK") - children.ru_utime - children.ru_stime


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize("test,rw,block,jobs", [
    ("seq-read", "read", 131072, 8),
    ("seq-write", "write", 131072, 8),
    ("rand-read", "randread", 4096, 1),
    ("rand-read", "randread", 4096, 16),
    ("rand-mixed", "randrw", 4096, 16),
    ("rand-write", "randwrite", 4096, 16),
])
def test_throughput_matches_fio(folder, test, rw, block, jobs):
    path = folder / "fio"
    write_in_full(path)
    theirs, mine = [], []
    begin, before = time.monotonic(), time_of_others()
    for _ in range(REPETITIONS):
        theirs.append(fio(path, rw, block, jobs))
        mine.append(ours(folder, test, block, jobs))
    others = (time_of_others() - before) / (time.monotonic() - begin) / os.cpu_count()
    ratio = statistics.median(mine) / statistics.median(theirs)
    quartiles = statistics.quantiles(theirs, n=4) + statistics.quantiles(mine, n=4)
    noise = max((quartiles[2] - quartiles[0]) / quartiles[1], (quartiles[5] - quartiles[3]) / quartiles[4])
    def shown(rates):
        return ", ".join(f"{r / 1e6:.0f}" for r in rates)
    print(f"{test} {block} x {jobs}: fio {shown(theirs)}; ours {shown(mine)} MB/s; "
          f"ratio {ratio:.3f}, noise {noise:.3f}, others had {others:.2f} of the processors")
    if others < OTHERS:
        assert 1 - TOLERANCE - noise <= ratio <= 1 + TOLERANCE + noise
    else:
        assert ratio >= 1 - BUSY_TOLERANCE


def test_reported_bytes_do_not_exceed_the_kernels_count(folder):
    """The kernel counts blocks per process; with direct I/O these are the drive's."""
    size = 32 << 20
    out = folder / "run.json"
    process = subprocess.Popen(
        [ASHLAR, "bench", "drive", folder, "--size", str(size), "-t", "1s", "--warmup", "200ms", "-q", "-o", out],
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    done = {"read": 0, "write": size}
    in_flight = {"read": 0, "write": 0}
    for phase in json.loads(out.read_text())["phases"]:
        for operation in phase["operations"]:
            # Warm-up included.
            done[operation["name"]] += sum(p["bytes"] for p in operation["timeline"]["points"])
            # What came back after the end is not counted.
            block = operation["bytes"] // max(operation["count"], 1)
            in_flight[operation["name"]] += 16 * block
    for name, blocks in [("read", usage.ru_inblock), ("write", usage.ru_oublock)]:
        assert done[name] <= blocks * 512 <= (done[name] + in_flight[name]) * 1.02, name


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_nothing_is_left_behind(folder):
    bench("drive", folder, "--size", "16MiB", "-t", "100ms", "--warmup", "0", "-q")
    assert names(folder) == []
    # Interrupted: what was measured is printed, and the exit code says so. Killed: still nothing.
    for how, code in [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]:
        process = subprocess.Popen(
            [ASHLAR, "bench", "drive", folder, "--size", "16MiB", "-t", "60s", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        time.sleep(1.5)
        assert names(folder) == [], "the file has a name"
        process.send_signal(how)
        out, _ = process.communicate(timeout=20)
        assert process.returncode == code
        assert names(folder) == []
        if code == 130:
            run = json.loads(out.splitlines()[0])
            assert run["mode"] == "drive" and run["phases"][-1]["stopped_by"] == "interrupted"


def test_memory_file_systems_are_marked():
    if not Path("/dev/shm").is_dir():
        pytest.skip("no file system in memory")
    refused = bench("drive", "/dev/shm", "--size", "16MiB", "-t", "100ms", check=False)
    assert refused.returncode == 1 and "--buffered" in refused.stderr
    before = names(Path("/dev/shm"))
    done = bench("drive", "/dev/shm", "--size", "16MiB", "-t", "100ms", "--warmup", "0",
                 "--tests", "rand-read", "--buffered", "--json")
    codes = {c["code"]: c["severity"] for c in json.loads(done.stdout)["caveats"]}
    assert codes["cached-data"] == "invalid"
    assert set(names(Path("/dev/shm"))) <= set(before) | {n for n in names(Path("/dev/shm")) if "ashlar-bench" not in n}


def loop_device(folder):
    if os.geteuid() != 0 or not shutil.which("losetup"):
        pytest.skip("loop devices need root")
    image = folder / "image"
    with image.open("wb") as f:
        f.truncate(64 << 20)
    made = subprocess.run(["losetup", "-f", "--show", image], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("no loop devices here: " + made.stderr.strip())
    return made.stdout.strip()


def test_raw_devices_with_data_are_refused(folder):
    device = loop_device(folder)
    quick = ["-t", "100ms", "--warmup", "0", "-b", "128KiB", "-q"]
    try:
        refused = bench("drive", device, *quick, check=False)
        assert refused.returncode == 1 and "--raw-device-data-loss" in refused.stderr
        bench("drive", device, "--raw-device-data-loss", *quick)
        # It was left blank at its ends, so that the next run needs no force.
        bench("drive", device, "--raw-device-data-loss", *quick)
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        refused = bench("drive", device, "--raw-device-data-loss", *quick, check=False)
        assert refused.returncode == 1 and "ext file system" in refused.stderr
        mount = folder / "mounted"
        mount.mkdir()
        subprocess.run(["mount", device, mount], check=True)
        try:
            refused = bench("drive", device, "--raw-device-data-loss", "--force", *quick, check=False)
            assert refused.returncode == 1 and "mounted" in refused.stderr
        finally:
            subprocess.run(["umount", mount], check=True)
        bench("drive", device, "--raw-device-data-loss", "--force", *quick)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def test_network_and_plan(folder):
    listener = subprocess.Popen(
        [ASHLAR, "bench", "net", "--listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True,
    )
    try:
        at = json.loads(listener.stdout.readline())
        net, drive, plan = (folder / f"{n}.json" for n in ("net", "drive", "plan"))
        wrong = bench("net", at["listening"], "--token", "not-the-token", check=False)
        assert wrong.returncode == 1 and "token" in wrong.stderr
        bench("net", at["listening"], "--token", at["token"], "-t", "500ms", "--warmup", "100ms", "-o", net)
        assert at["token"] not in net.read_text(), "a secret in the result"
        bench("drive", folder, "--size", "16MiB", "-t", "200ms", "--warmup", "0", "-o", drive)
        bench("plan", "--measure", drive, "--measure", net, "--code", "2+1", "--get", "1MB/s", "-o", plan)
    finally:
        listener.send_signal(signal.SIGTERM)
        assert listener.wait(timeout=20) == 0
    ceilings = json.loads(plan.read_text())["ceilings"]
    for side in ("get", "put"):
        assert {c["resource"] for c in ceilings[side]["ceilings"]} >= {"drives", "server network"}
        assert ceilings[side]["binding"] == ceilings[side]["ceilings"][0]["resource"]
    assert 0 < ceilings["get"]["efficiency_percent"] < 100
