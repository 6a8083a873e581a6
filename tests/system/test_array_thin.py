"""Limits, sizes and room of virtual drives of `ashlar array`, with fio, nbdcopy, mkfs.ext4 and others over NBD."""

import json
import threading

from test_array import MIB, array, fio, program  # noqa: F401 (array is a fixture)


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
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    both = found["one"]["read"]["iops"] + found["two"]["write"]["iops"]
    assert 150 < both < 345, both
    assert found["other"]["read"]["iops"] > 3 * both, (both, found["other"]["read"]["iops"])
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
    assert a.run("shrink", "vd", "v", "12MiB", check=False).returncode == 1
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


def copied(a, export):
    """The content of a virtual drive, as a file."""
    path = a.folder / f"{export}.copy"
    program("nbdcopy", a.uri(export), path)
    return path
