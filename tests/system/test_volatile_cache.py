"""T5: power cuts on drives that lose their own cache, with every kind of write in flight.

Every drive is a FUSE file system (volatile_disk.py) in which only flushed writes are sure to stay. While writers put,
overwrite, delete, append, rename and upload in parts, and a webhook follows the bucket through the change feed, the
server is killed and some or all drives lose power. Then the server starts again, every acknowledged change must be
there, and the last event that the webhook gets of each key must be that of its last change. In some cycles a drive lies about flushes, or goes
back to the state before the cycle before (a restored image); at most as many of them as the code's majority bears.

`ASHLAR_VOLATILE_CUTS` sets the cuts per code (2; 100 for the night), `ASHLAR_SEED` repeats one run's choices, `ASHLAR_KEEP`
names a folder to which the drives are copied after a failure.
"""

import hashlib
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import unquote_plus

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from conftest import Server
from histories import client, content

CUTS = int(os.environ.get("ASHLAR_VOLATILE_CUTS", "2"))
HERE = Path(__file__).parent

pytestmark = pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="FUSE needs /dev/fuse")


class Drives:
    """Folders behind file systems whose caches can be lost."""

    def __init__(self, count):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = Path(tempfile.mkdtemp(prefix="ashlar-volatile-", dir=base))
        self.count, self.processes = count, {}
        for i in range(1, count + 1):
            (self.root / f"below{i}").mkdir()
            self.mount_point(i).mkdir()
            self.mount(i)

    def mount_point(self, i):
        return self.root / f"drive{i}"

    def below(self, i):
        return self.root / f"below{i}"

    def mount(self, i):
        process = subprocess.Popen(
            [sys.executable, str(HERE / "volatile_disk.py"), str(self.below(i)), str(self.mount_point(i))],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while not os.path.ismount(self.mount_point(i)):
            assert process.poll() is None and time.monotonic() < deadline, "a drive cannot be mounted"
            time.sleep(0.02)
        self.processes[i] = process

    def unmount(self, i):
        process = self.processes.pop(i)
        for _ in range(200):
            if subprocess.run(["umount", str(self.mount_point(i))], capture_output=True).returncode == 0:
                break
            time.sleep(0.05)
        else:
            subprocess.run(["umount", "-l", str(self.mount_point(i))], capture_output=True)
        process.wait(timeout=60)
        shutil.rmtree(f"{self.below(i)}.removed", ignore_errors=True)

    def set(self, i, name, value):
        os.setxattr(self.mount_point(i), name, str(value).encode())

    def keep(self, i):
        """Keeps what is on a drive, for a cycle in which it goes back to it."""
        kept = self.root / f"kept{i}"
        shutil.rmtree(kept, ignore_errors=True)
        subprocess.run(["cp", "-a", "--sparse=always", self.below(i), kept], check=True)

    def go_back(self, i):
        shutil.rmtree(self.below(i))
        (self.root / f"kept{i}").rename(self.below(i))

    def close(self):
        for i in list(self.processes):
            subprocess.run(["umount", "-l", str(self.mount_point(i))], capture_output=True)
            self.processes[i].kill()
            self.processes[i].wait()
        shutil.rmtree(self.root, ignore_errors=True)


class Follower:
    """A webhook: the last event of each key, as the size of the object, or None when it was removed."""

    def __init__(self):
        self.last, self.count = {}, 0
        follower = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                document = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                for record in document.get("Records", []):
                    seen = record["s3"]["object"]
                    removed = "ObjectRemoved" in record["eventName"]
                    follower.last[unquote_plus(seen["key"])] = None if removed else seen.get("size", 0)
                    follower.count += 1
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_HEAD = do_POST

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A server that is killed cuts its connections.
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def environment(self):
        return {
            "ASHLAR_NOTIFY_WEBHOOK_ENABLE_1": "on",
            "ASHLAR_NOTIFY_WEBHOOK_ENDPOINT_1": f"http://127.0.0.1:{self.server.server_address[1]}/",
        }

    def follow(self, s3, bucket):
        s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [
            {"QueueArn": "arn:minio:sqs::1:webhook", "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}
        ]})

    def wait(self, want, deadline=120):
        """Until the last event of each key of `want` is that of its state: a size, or None."""
        end, missing = time.monotonic() + deadline, object()
        while True:
            late = {k: (self.last.get(k, missing), size) for k, size in want.items() if self.last.get(k, missing) != size}
            if not late:
                return
            assert time.monotonic() < end, f"last events (told, true): {late}"
            time.sleep(0.05)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Client(threading.Thread):
    """Changes its own keys until told to stop or until the server is gone.

    `state[key]` is what the key shows: a tuple of pieces (generation, size), or None. A change in flight is in `flying`: a
    list of (key, state after it), which happen together or not at all.
    """

    def __init__(self, s3, bucket, who, rng):
        super().__init__()
        self.s3, self.bucket, self.who, self.rng = s3, bucket, who, rng
        self.state, self.flying, self.going, self.acknowledged = {}, [], True, 0
        # Keys with an acknowledged change.
        self.changed = set()
        # Everything that a key may ever have shown, for messages.
        self.tried = {}

    def run(self):
        while self.going:
            change = self.choose()
            if change is None:
                continue
            self.flying, request = change
            for key, pieces in self.flying:
                self.tried.setdefault(key, []).append((pieces, self.shown(key, pieces), time.time()))
            try:
                request()
            except (BotoCoreError, ClientError, http.client.HTTPException, OSError):
                return
            self.state.update(self.flying)
            self.changed.update(key for key, _ in self.flying)
            self.flying = []
            self.acknowledged += 1

    def piece(self, sizes):
        return self.rng.randrange(1 << 40), self.rng.choice(sizes)

    def choose(self):
        rng, key = self.rng, f"{self.who}/{self.rng.randrange(8)}"
        where = {"Bucket": self.bucket, "Key": key}
        now, kind = self.state.get(key), rng.random()
        if kind < 0.15 and now:
            return [(key, None)], lambda: self.s3.delete_object(**where)
        if kind < 0.3 and now:
            piece = self.piece([10, 5000, 300_000])
            at = sum(size for _, size in now)
            body = content(key, *piece)
            return [(key, (*now, piece))], lambda: self.s3.put_object(**where, Body=body, WriteOffsetBytes=at)
        if kind < 0.4 and now and len(now) == 1:
            target = f"{self.who}/r{rng.randrange(4)}"
            if target not in self.state or self.state[target] is None:
                # Content goes by the name under which it was written.
                renamed = ((now[0][0], now[0][1], key),) if len(now[0]) == 2 else now
                source = f"{self.bucket}/{key}"
                return [(key, None), (target, renamed)], lambda: self.s3.rename_object(
                    Bucket=self.bucket, Key=target, RenameSource=source
                )
            return [(target, None)], lambda: self.s3.delete_object(Bucket=self.bucket, Key=target)
        if kind < 0.5:
            return self.upload(where, key)
        piece = self.piece([0, 10, 1000, 4096, 100_000, 400_000, 1_500_000])
        body = content(key, *piece)
        return [(key, (piece,))], lambda: self.s3.put_object(**where, Body=body)

    def upload(self, where, key):
        pieces = (self.piece([5 << 20]), self.piece([10, 700_000]))

        def request():
            upload = self.s3.create_multipart_upload(**where)["UploadId"]
            parts = []
            for number, piece in enumerate(pieces, 1):
                part = self.s3.upload_part(**where, UploadId=upload, PartNumber=number, Body=content(key, *piece))
                parts.append({"PartNumber": number, "ETag": part["ETag"]})
            self.s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})

        return [(key, pieces)], request

    def told(self):
        """What the last event must say of each key that this client changed for sure."""
        open_ = {key for key, _ in self.flying}
        return {
            k: None if self.state[k] is None else sum(piece[1] for piece in self.state[k])
            for k in self.changed - open_
        }

    def shown(self, key, pieces):
        if pieces is None:
            return None
        data = b"".join(content(p[2] if len(p) == 3 else key, *p[:2]) for p in pieces)
        return hashlib.sha256(data).hexdigest()

    def story(self, key, seen, after):
        known = [(pieces, at) for pieces, shown, at in self.tried.get(key, []) if shown == seen]
        return {"key": key, "was": self.state.get(key), "in flight": after.get(key, "nothing"), "shows": known or seen,
                "last tried": [(pieces, at) for pieces, _, at in self.tried.get(key, [])[-8:]]}

    def check(self, s3):
        """Every key shows what was acknowledged; a change in flight happened wholly or not at all."""
        after = dict(self.flying)
        seen = {}
        for key in {*self.state, *after}:
            try:
                seen[key] = hashlib.sha256(s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()).hexdigest()
            except ClientError as e:
                assert e.response["Error"]["Code"] == "NoSuchKey", f"{key}: {e}"
                seen[key] = None
        old = {k: self.shown(k, self.state.get(k)) for k in seen}
        new = {k: self.shown(k, after.get(k, self.state.get(k))) for k in seen}
        lost = [k for k in seen if seen[k] not in (old[k], new[k])]
        assert not lost, f"lost or reverted: {[self.story(k, seen[k], after) for k in lost]}"
        assert seen == old or seen == new, f"half of a change happened: {self.flying}"
        if seen != old:
            self.state.update(after)
        self.flying = []
        listed = {
            o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.who + "/")
            for o in page.get("Contents", [])
        }
        assert listed == {k for k, v in self.state.items() if v is not None}, "the list differs from the keys"
        return len(seen)


def whole(server, deadline=120):
    """Waits until all drives vote again and nothing waits for repair: what may be lost next rests on that."""
    env = dict(os.environ, ASHLAR_HOST_it=server.endpoint.replace("http://", "http://clienttests:clienttests-secret-key@"))
    end = time.monotonic() + deadline
    while True:
        done = subprocess.run([os.environ["ASHLAR_BIN"], "--json", "info", "it"], env=env, capture_output=True, text=True)
        if done.returncode == 0:
            info = json.loads(done.stdout)
            voting = all(g["voters"] == g["slots"] for g in info["groups"])
            busy = any(r["phase"] != "done" for r in info["heal"]["rebuilds"])
            if voting and not busy and info["heal"]["queued"] == 0:
                return
        assert time.monotonic() < end, f"drives do not come back: {done.stdout} {done.stderr}"
        time.sleep(0.1)


@pytest.mark.parametrize("drives,code,weak", [(4, "2+2", 1), (6, "4+2", 1), (16, "12+4", 3)], ids=["2+2", "4+2", "12+4"])
def test_cuts(drives, code, weak):
    """`weak`: how many drives may lie or go back in one cycle; fewer than a majority can miss."""
    seed = os.environ.get("ASHLAR_SEED", f"{code}/{time.time_ns()}")
    print("ASHLAR_SEED", seed)
    rng = random.Random(seed)
    disks, follower, server = Drives(drives), Follower(), None
    figures = {"cuts": 0, "acknowledged": 0, "keys": 0, "lied": 0, "back": 0, "events": 0}
    try:
        server = Server(disks.root, drives, arguments=["--code", code], env=follower.environment())
        s3 = client(server, 3)
        s3.create_bucket(Bucket="power")
        follower.follow(s3, "power")
        clients = []
        for cycle in range(CUTS):
            everything = list(range(1, drives + 1))
            bad = rng.sample(everything, rng.randrange(weak + 1)) if cycle else []
            back = bad if rng.random() < 0.5 else []
            for i in back:
                disks.keep(i)
            for i in set(bad) - set(back):
                disks.set(i, "user.lie", 1)
            old = {c.who: c for c in clients}
            clients = [Client(client(server), "power", f"w{i}", random.Random(rng.random())) for i in range(4)]
            for c in clients:
                c.state, c.tried = (old[c.who].state, old[c.who].tried) if c.who in old else ({}, {})
                c.start()
            time.sleep(rng.uniform(2.5, 3.5) if back else rng.uniform(0.3, 2))
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            lost = everything if rng.random() < 0.5 else sorted({*rng.sample(everything, rng.randrange(1, drives)), *bad})
            for i in lost:
                disks.set(i, "user.cut", rng.random())
            for c in clients:
                c.going = False
                c.join()
            for i in lost:
                disks.unmount(i)
                if i in back:
                    disks.go_back(i)
                disks.mount(i)
            server.start()
            s3 = client(server, 3)
            told = {key: size for c in clients for key, size in c.told().items()}
            figures["keys"] += sum(c.check(s3) for c in clients)
            follower.wait(told)
            figures["acknowledged"] += sum(c.acknowledged for c in clients)
            figures["cuts"] += 1
            figures["lied"] += len(bad) - len(back)
            figures["back"] += len(back)
            figures["events"] = follower.count
            whole(server)
        print(code, figures)
    except BaseException as error:
        # At once: the night is long.
        print(server.log.read_text()[-20_000:] if server else "", code, figures, repr(error), sep="\n", flush=True)
        if kept := os.environ.get("ASHLAR_KEEP"):
            if server and server.process.poll() is None:
                server.process.kill()
                server.process.wait()
            for i in list(disks.processes):
                disks.unmount(i)
            shutil.copytree(disks.root, kept, ignore=shutil.ignore_patterns("kept*"))
        raise
    finally:
        if server and server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        follower.close()
        disks.close()
