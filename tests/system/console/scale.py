"""Measures whether each screen of the console is usable within a second with much data: a bucket of a million keys, ten thousand
buckets, five thousand users. Not a test of the suite: filling takes minutes, and figures depend on the machine.

    ASHLAR_BIN=target/release/ashlar python tests/system/console/scale.py [--keys N] [--buckets N] [--users N] [--folder DIR [--fill]] [KIND ...]

Prints one line for each screen: milliseconds from the click until its content can be used, median and maximum of the runs.
"""

import argparse
import concurrent.futures
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("CLIENT_BIN", ""), os.environ.setdefault("CLIENT_VENV", "")

import boto3  # noqa: E402
from botocore.config import Config  # noqa: E402

from conftest import ACCESS, REGION, SECRET, Server  # noqa: E402
from test_console import OURS, sign_in  # noqa: E402

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


def fill(server, home, parts):
    """Fills what is not filled yet: each part leaves a file when it is done, and each call may be repeated."""
    for what, workers, call, of in parts:
        if (home / what).exists():
            continue
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            for n, _ in enumerate(pool.map(call, of)):
                if n % 1000 == 999:
                    print(f"{what}: {n + 1} of {len(of)}, {time.monotonic() - began:.0f} s", flush=True)
        print(f"filled {what} in {time.monotonic() - began:.0f} s", flush=True)
        (home / what).touch()


def measure(home, kind, parts_of, fills_only):
    """Starts a server over the data of a kind, fills it, and measures its screens."""
    home = home / kind
    home.mkdir(exist_ok=True)
    server = Server(home)
    try:
        s3 = boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION,
                          config=Config(s3={"addressing_style": "path"}, read_timeout=600, max_pool_connections=64, retries={"max_attempts": 1}))
        headers = {**OURS, "Cookie": sign_in(server), "Content-Type": "application/json"}
        fill(server, home, parts_of(server, s3, headers))
        if fills_only:
            return
        subprocess.run(["node", Path(__file__).with_name("scale.mjs"), server.endpoint, ACCESS, SECRET, kind], check=True)
    finally:
        server.stop()


def main():
    options = argparse.ArgumentParser()
    for name, default in [("keys", 1_000_000), ("buckets", 10_000), ("users", 5_000)]:
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--folder", help="keep the data here, and use what is there")
    options.add_argument("--fill", action="store_true", help="make the data, and measure nothing")
    options.add_argument("kinds", nargs="*", metavar="KIND", help="names (buckets and users), keys; both if left out")
    options = options.parse_args()
    home = Path(options.folder or tempfile.mkdtemp(prefix="ashlar-scale-", dir="/dev/shm"))
    home.mkdir(exist_ok=True)

    def keys(_, s3, headers):
        def bucket(name):
            with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
                s3.create_bucket(Bucket=name)

        def extract(first):
            s3.put_object(Bucket="million", Key=f"batch-{first}.tar", Body=archive(first, min(BATCH, options.keys - first)))

        s3.meta.events.register("before-call.s3.PutObject", lambda params, **_: params["headers"].update({"x-amz-meta-snowball-auto-extract": "true"}))
        return [("bucket", 1, bucket, ["million"]), ("keys", 4, extract, range(0, options.keys, BATCH))]

    # Changes of the control store that are made at the same time wait for each other.
    def names(server, s3, headers):
        def user(i):
            url = f"{server.endpoint}/console/admin/users/user-{i:05}"
            request = urllib.request.Request(url, method="PUT", data=json.dumps({"secret": f"secret-of-user-{i}"}).encode(), headers=headers)
            urllib.request.urlopen(request, timeout=600).read()

        def bucket(i):
            with contextlib.suppress(s3.exceptions.BucketAlreadyOwnedByYou):
                s3.create_bucket(Bucket=f"bucket-{i:05}")

        return [("users", 16, user, range(options.users)), ("buckets", 64, bucket, range(options.buckets))]

    try:
        for kind, parts_of in [("names", names), ("keys", keys)]:
            if kind in (options.kinds or [kind]):
                measure(home, kind, parts_of, options.fill)
    finally:
        if not options.folder:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
