"""A process that is measured: when it is ready, its CPU time, its memory. For the other files of this folder."""

import json
import os
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path


def cpu(pid):
    """Seconds of CPU, user and system, of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_children(pid):
    """Seconds of CPU, user and system, of children that ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """Memory now and at most, in MiB."""
    of = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(of[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def fio(uri, *options):
    """Runs fio over NBD; what it reports of its reads, or of its writes if it read nothing."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", "--output-format=json", *options]
    out = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    # Notes of fio may precede the document.
    job = json.loads(out[out.index("{"):])["jobs"][0]
    return job["read"] if job["read"]["total_ios"] else job["write"]


def wait(url, processes, what, logs=(), seconds=120):
    """Waits until `url` answers. If a process ends before, or it takes too long: an error with the ends of the log files."""
    deadline = time.monotonic() + seconds
    unchecked = ssl._create_unverified_context()
    while True:
        try:
            return urllib.request.urlopen(url, timeout=5, context=unchecked).read()
        except OSError:
            if any(p.poll() is not None for p in processes) or time.monotonic() > deadline:
                text = "".join(f.read_text(errors="replace")[-3000:] for f in sorted(logs))
                raise RuntimeError(f"{what} did not start\n{text}") from None
            time.sleep(0.05)
