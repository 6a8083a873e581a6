"""Measures whether each screen of the console is usable within a second with much data: a bucket of a million keys, ten thousand
buckets, five thousand users. Not a test of the suite: filling takes minutes, and figures depend on the machine.

    ASHLAR_BIN=target/release/ashlar python tests/system/console/scale.py [--keys N] [--buckets N] [--users N] [--folder DIR]

Prints one line for each screen: milliseconds from the click until its content can be used, median and maximum of the runs.
"""

import argparse
import concurrent.futures
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("CLIENT_BIN", ""), os.environ.setdefault("CLIENT_VENV", "")

from conftest import ACCESS, SECRET, Server  # noqa: E402
from test_console import OURS, ask, s3_of, sign_in  # noqa: E402

#: Keys in one archive that the server extracts.
BATCH = 10_000


def archive(first, count):
    """A tar archive of small files in a hundred folders and, most of them, in one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(first, first + count):
            info = tarfile.TarInfo(f"flat/{i:08}.txt" if i % 10 else f"folders/{i // 10 % 100:02}/{i:08}.txt")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


def fill(server, keys, buckets, users):
    s3 = s3_of(server)
    s3.create_bucket(Bucket="million")
    s3.meta.events.register("before-call.s3.PutObject", lambda params, **_: params["headers"].update({"x-amz-meta-snowball-auto-extract": "true"}))
    headers = {**OURS, "Cookie": sign_in(server), "Content-Type": "application/json"}
    pool = concurrent.futures.ThreadPoolExecutor(4)

    def extract(first):
        s3.put_object(Bucket="million", Key=f"batch-{first}.tar", Body=archive(first, min(BATCH, keys - first)))

    def user(i):
        status, _, answer = ask(f"{server.endpoint}/console/admin/users/user-{i:05}", "PUT", json.dumps({"secret": f"secret-of-user-{i}"}).encode(), headers)
        assert status == 200, answer

    for what, call, of in [("keys", extract, range(0, keys, BATCH)), ("buckets", lambda i: s3.create_bucket(Bucket=f"bucket-{i:05}"), range(buckets)), ("users", user, range(users))]:
        began = time.monotonic()
        list(pool.map(call, of))
        print(f"filled {what} in {time.monotonic() - began:.0f} s", flush=True)


def main():
    options = argparse.ArgumentParser()
    for name, default in [("keys", 1_000_000), ("buckets", 10_000), ("users", 5_000)]:
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--folder", help="keep the data here, and use what is there")
    options = options.parse_args()
    home = Path(options.folder or tempfile.mkdtemp(prefix="ashlar-scale-", dir="/dev/shm"))
    home.mkdir(exist_ok=True)
    filled = home / "filled"
    server = Server(home)
    try:
        if not filled.exists():
            fill(server, options.keys, options.buckets, options.users)
            filled.touch()
        script = Path(__file__).with_name("scale.mjs")
        subprocess.run(["node", script, server.endpoint, ACCESS, SECRET], check=True)
    finally:
        server.stop()
        if not options.folder:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
