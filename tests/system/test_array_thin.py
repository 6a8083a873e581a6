"""Limits, sizes and room of virtual drives of `ashlar array`, with fio, nbdcopy, mkfs.ext4 and others over NBD."""

import errno
import json
import os
import threading
import time

from test_array import MIB, Client, array, fio, program  # noqa: F401 (array is a fixture)


def volume(a, name):
    return a.ask("describe", "vd", name)[0]


def load(uri, *options):
    """What a job of fio came to."""
    out = program("fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", "--iodepth=16", "--time_based", "--output-format=json", *options)
    return json.loads(out[out.index("{"):])["jobs"][0]


def test_limits_hold_for_all_clients_together_and_for_nobody_else(array):  # noqa: F811
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4, "60MiB"), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "64MiB", "--name", "slow", "--iops-limit", "300")
    a.run("create", "vd", "dg0", "64MiB", "--name", "fast")
    found = {}

    def ask(name, volume, *options):
        found[name] = load(a.uri(f"dg0/{volume}"), "--runtime=6", *options)

    # Two clients, reads and writes.
    clients = [("one", "slow", "--rw=randread"), ("two", "slow", "--rw=randwrite"), ("other", "fast", "--rw=randread")]
    threads = [threading.Thread(target=ask, args=(*client, "--bs=4k", "--size=32m")) for client in clients]
    began = time.monotonic()
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    took = time.monotonic() - began
    slow, fast = (volume(a, name)["reads"] + volume(a, name)["writes"] for name in ("slow", "fast"))
    assert 900 < slow < 300 * 1.1 * took, (slow, took)
    assert fast > 2 * slow, (fast, slow)
    # Another limit, while it is asked.
    thread = threading.Thread(target=ask, args=("bytes", "slow", "--rw=write", "--bs=128k", "--size=32m"))
    thread.start()
    a.run("edit", "vd", "dg0/slow", "iops_limit", "off")
    a.run("edit", "vd", "dg0/slow", "bandwidth_limit", "4MiB")
    thread.join()
    ask("after", "slow", "--rw=write", "--bs=128k", "--size=32m")
    assert 2 * MIB < found["after"]["write"]["bw_bytes"] < 4.6 * MIB, found["after"]["write"]["bw_bytes"]
    now = volume(a, "slow")
    assert (now["iops_limit"], now["bandwidth_limit"]) == (0, 4 * MIB) and now["limit_wait_us"] > 1_000_000
    assert volume(a, "fast")["limit_wait_us"] == 0
    # A kill and another start.
    a.kill()
    a.start()
    assert volume(a, "slow")["bandwidth_limit"] == 4 * MIB
    for wrong in (["iops_limit", "0"], ["bandwidth_limit", "1"], ["bandwidth_limit", "much"]):
        assert a.run("edit", "vd", "slow", *wrong, check=False).returncode == 2
    a.stop()


def test_a_virtual_drive_becomes_smaller(array):  # noqa: F811
    a = array().start()
    a.run("create", "dg", "raid6", *a.make(5), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "32MiB", "--name", "v")
    fio(a.uri("v"), "--rw=write", "--size=32m")
    assert a.run("shrink", "vd", "v", "12MiB", check=False).returncode != 0
    assert json.loads(program("nbdinfo", "--json", a.uri("v")))["exports"][0]["export-size"] == 32 * MIB
    a.run("shrink", "vd", "v", "12MiB", "--force")
    assert json.loads(program("nbdinfo", "--json", a.uri("v")))["exports"][0]["export-size"] == 12 * MIB
    # What is left is as it was, and what takes the place of the rest is empty.
    fio(a.uri("v"), "--rw=write", "--size=12m", "--verify_only")
    a.run("create", "vd", "dg0", "20MiB", "--name", "w")
    program("cmp", "-n", str(20 * MIB), "/dev/zero", copied(a, "w"))
    check = a.run("start", "consistency_check", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["state"] == "DONE"
    a.stop()


def holes(a, export):
    """Bytes of a virtual drive without room, as NBD says."""
    return sum(e["length"] for e in json.loads(program("nbdinfo", "--map", "--json", a.uri(export))) if e["type"] & 1)


def test_a_thin_virtual_drive_gives_room_back(array, tmp_path):  # noqa: F811
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4, "60MiB"), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "2GiB", "--thin", "--name", "t")
    a.run("create", "vd", "dg0", "16MiB", "--name", "k")
    made = volume(a, "t")
    assert (made["thin"], made["allocated"], made["size"]) == (True, 0, 2 << 30)
    assert holes(a, "t") == 2 << 30
    # A file system of 2 GiB takes some MiB, and has what is put into it.
    image = tmp_path / "image"
    files = tmp_path / "files"
    files.mkdir()
    for i in range(40):
        (files / f"f{i}").write_bytes(bytes([i]) * (300_000 + i))
    program("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-J", "size=4", "-d", files, image, "2G")
    program("nbdcopy", "--destination-is-zero", image, a.uri("t"))
    used = volume(a, "t")["allocated"]
    assert 11 * MIB < used < 100 * MIB, used
    assert (2 << 30) - holes(a, "t") <= used
    program("cmp", image, copied(a, "t"))
    program("e2fsck", "-f", "-n", copied(a, "t"))
    # As fstrim does it: everything that is discarded at once, then by requests that are verified beside it.
    fio(a.uri("k"), "--rw=randwrite", "--size=16m")
    client = Client(a.nbd, "dg0/t")
    for at in range(0, 2 << 30, 32 * MIB):
        client.request(4, at, 32 * MIB)
    assert volume(a, "t")["allocated"] == 0 and holes(a, "t") == 2 << 30
    program("fio", "--name=x", "--ioengine=nbd", f"--uri={a.uri('t')}", "--rw=randtrimwrite", "--bs=1m", "--size=64m", "--iodepth=8")
    fio(a.uri("t"), "--rw=randrw", "--size=64m", "--bs=4k-256k", "--offset=1g")
    a.kill()
    a.start()
    fio(a.uri("k"), "--rw=randwrite", "--size=16m", "--verify_only")
    before = volume(a, "t")["allocated"]
    assert before > 0
    check = a.run("start", "consistency_check", "dg0", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["state"] == "DONE"
    a.run("shrink", "vd", "t", "1GiB", "--force")
    assert volume(a, "t")["allocated"] < before
    a.run("delete", "vd", "t")
    group = a.group()
    assert group["free"] == group["size"] - 16 * MIB
    a.stop()


def test_without_room_only_writes_that_need_some_fail(array):  # noqa: F811
    a = array().start()
    a.run("create", "dg", "raid5", *a.make(4, "40MiB"), "--journal", "4MiB")
    a.run("create", "vd", "dg0", "1GiB", "--thin", "--name", "t")
    a.run("create", "vd", "dg0", "16MiB", "--name", "k")
    client = Client(a.nbd, "dg0/t")
    written = 0
    try:
        while True:
            client.write(written, os.urandom(4096))
            written += MIB
    except OSError as e:
        assert e.errno == errno.ENOSPC, e
    client.write(8192, b"x" * 4096)
    assert client.read(8192, 4096) == b"x" * 4096 and client.read(written, 4096) == bytes(4096)
    client.request(3, 0, 0)
    assert volume(a, "t")["allocated"] == written > 40 * MIB
    fio(a.uri("k"), "--rw=randrw", "--size=16m")
    assert a.group()["free"] < MIB
    metrics = program("curl", "-s", "--unix-socket", a.socket, "http://localhost/metrics")
    assert "ashlar_array_volume_allocated_bytes{" in metrics and "ashlar_array_group_free_bytes{" in metrics
    assert "little room is left" in (a.folder / "log").read_text()
    a.kill()
    a.start()
    assert volume(a, "t")["allocated"] == written
    client = Client(a.nbd, "dg0/t")
    client.request(6, 0, 8 * MIB)
    client.write(900 * MIB, b"y" * 4096)
    assert volume(a, "t")["allocated"] == written - 7 * MIB
    a.stop()


def copied(a, export):
    """The content of a virtual drive, as a file."""
    path = a.folder / f"{export}.copy"
    program("nbdcopy", a.uri(export), path)
    return path
