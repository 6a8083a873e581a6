"""Flaws F3, F8, F11, F12 (docs/protocol.md 4) and T10's single faults, over HTTP: real requests to a real server.

The lower layers have their own tests of these flaws; docs/proof.md has the table.
"""

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from conftest import Server
from histories import client, content
from signing import admin
from test_crash import empty, healed, own, wait_until  # noqa: F401 (`own` is a fixture)


def status(call, **arguments):
    """The status code of a call, successful or not."""
    try:
        return call(**arguments)["ResponseMetadata"]["HTTPStatusCode"]
    except ClientError as e:
        return e.response["ResponseMetadata"]["HTTPStatusCode"]


def hold(server, drive, held):
    path = str(server.home / f"drive{drive}")
    admin(server, "POST", f"/ashlar/admin/v1/drives/{'offline' if held else 'online'}", {"drive": path})


def states(server):
    return [d["state"] for d in admin(server, "GET", "/ashlar/admin/v1/info")["drives"]]


def pull(server, drives):
    """Drives are pulled out: their folders are gone, and the server knows."""
    for d in drives:
        (server.home / f"drive{d}").rename(server.home / f"pulled{d}")
    wait_until(lambda: not any(states(server)[d - 1] == "online" for d in drives), 20)


def plug(server, drives):
    """And are back."""
    for d in drives:
        (server.home / f"pulled{d}").rename(server.home / f"drive{d}")
    wait_until(lambda: states(server) == ["online"] * 4, 30)


def test_f3_too_few_drives_is_503_never_404(own):
    """With 3 of 4 drives away every answer is 503: for what is there, for what is not, for lists."""
    server = own()
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    sizes = {"empty": 0, "small": 1000, "large": 3_000_000}
    for key, size in sizes.items():
        s3.put_object(Bucket="bkt", Key=key, Body=content(key, 1, size))
    s3.put_object(Bucket="bkt", Key="deleted", Body=b"x")
    s3.delete_object(Bucket="bkt", Key="deleted")
    for away in ((1, 2, 3), (2, 3, 4), (1, 2, 3, 4)):
        # A new process: nothing is answered from memory.
        assert server.stop() == 0
        server.start()
        s3 = client(server)
        pull(server, away)
        for key in [*sizes, "deleted", "never"]:
            for call in (s3.get_object, s3.head_object, s3.get_object_tagging):
                assert status(call, Bucket="bkt", Key=key) == 503, f"{call.__name__} {key}, away {away}"
            assert status(s3.delete_object, Bucket="bkt", Key=key) == 503
            assert status(s3.put_object, Bucket="bkt", Key=key, Body=b"y") == 503
            assert status(s3.put_object, Bucket="bkt", Key=key, Body=b"y", IfNoneMatch="*") == 503
        for call in (s3.list_objects_v2, s3.list_object_versions, s3.list_multipart_uploads):
            assert status(call, Bucket="bkt") == 503, f"{call.__name__}, away {away}"
        plug(server, away)
        for key, size in sizes.items():
            assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == content(key, 1, size)
        for key in ("deleted", "never"):
            assert status(s3.head_object, Bucket="bkt", Key=key) == 404
    # Half of them: reads go on, absence can be told, writes are 503.
    pull(server, (1, 2))
    for key, size in sizes.items():
        assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == content(key, 1, size)
    assert status(s3.head_object, Bucket="bkt", Key="never") == 404
    assert status(s3.put_object, Bucket="bkt", Key="new", Body=b"y") == 503


def raw(server, method, target, headers):
    """A connection on which a request was begun: the head is sent, nothing of the body."""
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    s.sendall(f"{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n{lines}\r\n".encode())
    return s


def presigned(s3, call, **arguments):
    url = urllib.parse.urlsplit(s3.generate_presigned_url(call, Params=arguments))
    return f"{url.path}?{url.query}"


def answer(s):
    """Status and body of the answer on a connection."""
    r = http.client.HTTPResponse(s)
    r.begin()
    return r.status, r.read()


def quick(what, limit=10.0):
    """Who waits for a slow client waits until the server cuts that off, 30 s at the least; a busy machine takes less."""
    begin = time.monotonic()
    what()
    took = time.monotonic() - begin
    assert took < limit, f"it took {took:.1f} s: somebody was waited for"


@pytest.mark.parametrize("size", [200_000, 6_000_000])
def test_f8_slow_conditional_upload_blocks_no_other_request(own, size):
    """Half of its body is sent, then nothing: others read, write and delete the key. It gets 412 at its end."""
    server = own()
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    body = content("slow", 1, size)
    target = presigned(s3, "put_object", Bucket="bkt", Key="k", IfNoneMatch="*")
    slow = raw(server, "PUT", target, {"content-length": size, "if-none-match": "*"})
    slow.sendall(body[: size // 2])
    time.sleep(0.3)
    for i in range(3):
        mine = content("quick", i, 50_000)
        if i == 0:
            quick(lambda: s3.put_object(Bucket="bkt", Key="k", Body=mine, IfNoneMatch="*"))
        else:
            quick(lambda: s3.put_object(Bucket="bkt", Key="k", Body=mine))
        got = []
        quick(lambda: got.append(s3.get_object(Bucket="bkt", Key="k")["Body"].read()))
        assert got == [mine]
        quick(lambda: s3.list_objects_v2(Bucket="bkt"))
    slow.sendall(body[size // 2:])
    code, text = answer(slow)
    assert code == 412, text
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == mine
    # And one that wins: nobody was there when it ended.
    slow = raw(server, "PUT", target, {"content-length": size, "if-none-match": "*"})
    slow.sendall(body[: size // 2])
    time.sleep(0.3)
    quick(lambda: s3.delete_object(Bucket="bkt", Key="k"))
    slow.sendall(body[size // 2:])
    assert answer(slow)[0] == 200
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == body


def test_f8_slow_reader_blocks_no_other_request(own):
    """A reader takes the head of 64 MiB and stops: the key is overwritten, deleted and listed meanwhile. What it then
    gets is the version that it asked for, or an error before the end; never other bytes."""
    server = own()
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    big = content("big", 1, 64 << 20)
    s3.put_object(Bucket="bkt", Key="k", Body=big)
    slow = raw(server, "GET", presigned(s3, "get_object", Bucket="bkt", Key="k"), {})
    head = slow.recv(65_536)
    assert head.startswith(b"HTTP/1.1 200")
    time.sleep(0.3)
    for i in range(3):
        mine = content("quick", i, 3_000_000)
        quick(lambda: s3.put_object(Bucket="bkt", Key="k", Body=mine))
        got = []
        quick(lambda: got.append(s3.get_object(Bucket="bkt", Key="k")["Body"].read()))
        assert got == [mine]
    quick(lambda: s3.delete_object(Bucket="bkt", Key="k"))
    assert status(s3.head_object, Bucket="bkt", Key="k") == 404
    quick(lambda: s3.list_objects_v2(Bucket="bkt"))
    got = bytearray(head[head.index(b"\r\n\r\n") + 4:])
    while len(got) < len(big):
        piece = slow.recv(1 << 20)
        if not piece:
            break
        got += piece
    assert got == big[: len(got)], "bytes of another version"
    assert len(got) == len(big), f"a reader that had begun was cut off after {len(got)} bytes"


def test_f8_many_slow_clients_of_one_key(own):
    """Forty of each kind at once."""
    server = own()
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=content("big", 1, 20 << 20))
    put = presigned(s3, "put_object", Bucket="bkt", Key="k", IfNoneMatch="*")
    get = presigned(s3, "get_object", Bucket="bkt", Key="k")
    slow = []
    for _ in range(40):
        slow.append(raw(server, "PUT", put, {"content-length": 100_000, "if-none-match": "*"}))
        slow[-1].sendall(b"x" * 50_000)
        slow.append(raw(server, "GET", get, {}))
    time.sleep(0.5)
    for i in range(10):
        quick(lambda: s3.put_object(Bucket="bkt", Key="k", Body=content("k", i, 100_000)))
        quick(lambda: s3.get_object(Bucket="bkt", Key="k")["Body"].read())
    [s.close() for s in slow]
    quick(lambda: s3.put_object(Bucket="bkt", Key="k", Body=b"after"))
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == b"after"


def files(server):
    """Files and folders of each drive."""
    count = lambda d: sum(len(fs) + len(ds) for _, ds, fs in os.walk(server.home / f"drive{d}"))
    return [count(d) for d in range(1, 5)]


def test_f12_no_directory_tree_per_object(own):
    """Files on a drive follow bytes, not keys: 3,000 keys in 3,000 folders add next to none."""
    server = own()
    s3 = client(server, 3)
    s3.create_bucket(Bucket="bkt")
    keys = [f"a{i % 50}/b{i}/c/d/e/key{i}" for i in range(3000)]
    for key in keys[:100]:
        s3.put_object(Bucket="bkt", Key=key, Body=key.encode())
    before = files(server)
    for key in keys[100:]:
        s3.put_object(Bucket="bkt", Key=key, Body=key.encode())
    after = files(server)
    assert all(a - b < 20 and a < 60 for a, b in zip(after, before)), f"{before} -> {after}"
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bkt")
    assert sorted(o["Key"] for p in pages for o in p["Contents"]) == sorted(keys)
    for at in range(0, len(keys), 1000):
        s3.delete_objects(Bucket="bkt", Delete={"Objects": [{"Key": k} for k in keys[at:at + 1000]]})
    assert "Contents" not in s3.list_objects_v2(Bucket="bkt")
    assert all(a < 60 for a in files(server))


def test_f12_key_that_is_a_prefix_of_another_hides_no_key(own):
    """`p`, `p/` and `p/one` are three keys: where objects are folders, one hides the other."""
    server = own()
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    names = ["p", "p/", "p/one", "p/one/", "p/one/two", "p//one", "P"]
    for order in (names, names[::-1]):
        for key in order:
            s3.put_object(Bucket="bkt", Key=key, Body=key.encode())
        left = list(order)
        for gone in order:
            listed = [o["Key"] for o in s3.list_objects_v2(Bucket="bkt").get("Contents", [])]
            assert listed == sorted(left)
            for key in order:
                if key in left:
                    assert s3.get_object(Bucket="bkt", Key=key)["Body"].read() == key.encode(), f"{key} of {left}"
                else:
                    assert status(s3.head_object, Bucket="bkt", Key=key) == 404, f"{key}, left {left}"
            page = s3.list_objects_v2(Bucket="bkt", Delimiter="/")
            below = any(k.startswith("p/") for k in left)
            assert [p["Prefix"] for p in page.get("CommonPrefixes", [])] == (["p/"] if below else [])
            assert [o["Key"] for o in page.get("Contents", [])] == sorted(k for k in left if "/" not in k)
            s3.delete_object(Bucket="bkt", Key=gone)
            left.remove(gone)


def test_f11_placement_does_not_depend_on_free_space_or_order(own):
    """24 drives in two groups: a key stays where it is whatever order the drives are found in."""
    server = own(24)
    s3 = client(server, 3)
    s3.create_bucket(Bucket="bkt")
    for i in range(60):
        s3.put_object(Bucket="bkt", Key=f"k{i}", Body=content("k", i, 3000 * (i % 5)))
    assert server.stop() == 0
    for i in range(1, 13):
        a, b = server.home / f"drive{i}", server.home / f"drive{25 - i}"
        a.rename(server.home / "t")
        b.rename(a)
        (server.home / "t").rename(b)
    server.start()
    s3 = client(server, 3)
    assert len(s3.list_objects_v2(Bucket="bkt")["Contents"]) == 60, "no key twice, none missing"
    for i in range(60):
        assert s3.get_object(Bucket="bkt", Key=f"k{i}")["Body"].read() == content("k", i, 3000 * (i % 5))
        s3.put_object(Bucket="bkt", Key=f"k{i}", Body=b"again")
    assert len(s3.list_objects_v2(Bucket="bkt")["Contents"]) == 60


ILLS = ["offline", "blank", "foreign", "read-only", "full", "flapping"]


@pytest.mark.parametrize("ill", ILLS)
def test_t10_one_faulty_drive_causes_no_errors(own, ill):
    """While one of four drives is ill no read and no write fails. EIO and 100x slow need injection and are shown in
    ashlar-erasure-set (`singles`, `faults`)."""
    server = own()
    s3 = client(server, 1)
    s3.create_bucket(Bucket="bkt")
    sizes = [0, 1000, 200_000, 3_000_000]
    for i, size in enumerate(sizes):
        s3.put_object(Bucket="bkt", Key=f"old{i}", Body=content("old", i, size))
    folder, mounted = server.home / "drive2", None
    going = threading.Event()
    flapper = None

    def restart_over(change):
        assert server.stop() == 0
        change()
        server.start()

    if ill == "offline":
        hold(server, 2, True)
    elif ill == "blank":
        empty(folder)
    elif ill == "foreign":
        def foreign():
            empty(folder)
            (folder / "photos").mkdir()
            (folder / "photos" / "a.jpg").write_bytes(b"not ours")
        restart_over(foreign)
    elif ill in ("read-only", "full"):
        if os.geteuid() != 0:
            pytest.skip("mounting needs root")

        def mount():
            kept = server.home / "kept"
            shutil.copytree(folder, kept, symlinks=True)
            size = sum(p.stat().st_size for p in kept.rglob("*") if p.is_file())
            room = size + (8 << 20) if ill == "full" else size * 4 + (64 << 20)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(folder)], check=True)
            shutil.copytree(kept, folder, dirs_exist_ok=True, symlinks=True)
            if ill == "full":
                (folder / "lost+found").mkdir()
                with (folder / "lost+found" / "fill").open("wb") as f, pytest.raises(OSError):
                    while True:
                        f.write(bytes(1 << 16))
                        f.flush()
        restart_over(mount)
        mounted = folder
        if ill == "read-only":
            # As a kernel does after an error of the device: open files stay open.
            done = subprocess.run(["mount", "-o", "remount,ro", str(folder)], capture_output=True, text=True)
            if done.returncode != 0:
                # Busy with open files: pulled from under it the hard way.
                assert server.stop() == 0
                subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
                server.start()
    elif ill == "flapping":
        def flap():
            while not going.is_set():
                hold(server, 2, True)
                time.sleep(0.05)
                hold(server, 2, False)
                time.sleep(0.15)
        flapper = threading.Thread(target=flap)
        flapper.start()
    s3 = client(server, 1)
    try:
        for round in range(8 if ill == "flapping" else 3):
            for i, size in enumerate(sizes):
                assert s3.get_object(Bucket="bkt", Key=f"old{i}")["Body"].read() == content("old", i, size)
                s3.put_object(Bucket="bkt", Key=f"new{i}", Body=content("new", round, size))
                assert s3.get_object(Bucket="bkt", Key=f"new{i}")["Body"].read() == content("new", round, size)
            s3.put_object(Bucket="bkt", Key="gone", Body=b"x")
            s3.delete_object(Bucket="bkt", Key="gone")
            assert status(s3.head_object, Bucket="bkt", Key="gone") == 404
            assert len(s3.list_objects_v2(Bucket="bkt")["Contents"]) == 2 * len(sizes)
        if ill == "foreign":
            assert (folder / "photos" / "a.jpg").read_bytes() == b"not ours"
    finally:
        if flapper:
            going.set()
            flapper.join()
        if mounted:
            server.process.kill()
            server.process.wait()
            subprocess.run(["umount", "-l", str(mounted)], check=False)
