"""A drive group whose drives are namespaces of a second `ashlar array serve --nvme` process.

fio and a client verify what they wrote over NBD while the process that has the namespaces is killed and started again, and while one
of the namespaces is deleted.
"""

import json
import threading

from conftest import free_port, until
from test_array import Client, array, content, fio, program  # noqa: F401  a fixture among them


def test_raid6_of_namespaces_while_their_process_is_killed_and_one_is_deleted(array):  # noqa: F811
    port = free_port()
    below = array("--nvme", f"127.0.0.1:{port}").start()
    below.run("create", "dg", "raid5", *below.make(4, "80MiB"), "--journal", "4MiB", "--name", "below")
    for i in range(6):
        below.run("create", "vd", "below", "32MiB", "--name", f"d{i}")
    group = below.group("below")
    drives = [f"nvme-tcp://127.0.0.1:{port}/{group['nqn']}/{v['nsid']}" for v in group["volumes"]]

    above = array().start()
    above.run("create", "dg", "raid6", *drives, "--journal", "4MiB", "--name", "tank")
    above.run("create", "vd", "tank", "32MiB", "--name", "data")
    assert [d["path"] for d in above.group("tank")["drives"]] == drives
    # A drive of a group is not taken for another one.
    refused = above.run("create", "dg", "raid1", *drives[:2], "--name", "other", check=False)
    assert refused.returncode != 0 and "in use" in refused.stdout, refused.stdout

    uri = above.uri("tank/data")
    answered, turns = {}, [0]
    finished = threading.Event()

    def write():
        # Blocks that fio does not use.
        client, turn = Client(above.nbd, "tank/data"), 0
        while not finished.is_set():
            block = 6144 + turn * 37 % 1024
            client.write(block * 4096, content(block, turn))
            answered[block] = turn
            turn += 1
            turns[0] = turn

    def goes_on():
        # So many touch every drive: all are connected.
        before = turns[0]
        until(lambda: turns[0] > before + 200, 120)

    verified = []
    workers = [
        threading.Thread(target=write),
        threading.Thread(target=lambda: verified.append(
            fio(uri, "--rw=randrw", "--size=16m", "--time_based", "--runtime=20", "--fsync=32"))),
    ]
    [w.start() for w in workers]
    for _ in range(3):
        goes_on()
        below.kill()
        below.start()
    goes_on()
    assert above.group("tank")["state"] == "OPTIMAL", above.group("tank")

    # One namespace is deleted: its drive fails, and the others go on.
    below.run("delete", "vd", "below/d2")
    until(lambda: above.group("tank")["drives"][2]["state"] == "FAILED", 120)
    drive = above.group("tank")["drives"][2]
    assert drives[2] in drive["why"] and "Invalid Namespace" in drive["why"], drive
    assert above.group("tank")["state"] == "PARTIALLY_DEGRADED"
    workers[1].join(240)
    finished.set()
    workers[0].join(120)
    assert len(verified) == 1 and len(answered) > 100

    client = Client(above.nbd, "tank/data")
    for block, turn in answered.items():
        assert client.read(block * 4096, 4096) == content(block, turn), (block, turn)
    program("qemu-io", "-f", "raw", "-c", "write -P 7 0 1M", "-c", "read -P 7 0 1M", uri)

    # A new namespace takes its place.
    below.run("create", "vd", "below", "32MiB", "--name", "new")
    new = next(v for v in below.group("below")["volumes"] if v["name"] == "new")
    address = f"nvme-tcp://127.0.0.1:{port}/{group['nqn']}/{new['nsid']}"
    above.run("replace", "pd", "tank/2", address)
    above.wait("OPTIMAL", name="tank")
    check = above.run("start", "consistency_check", "tank", "--mode", "stop_on_error", "--wait")
    assert json.loads(check.stdout)["check"]["mismatches"] == 0
    above.stop()

    # The group is put in service by the addresses alone.
    drives[2] = address
    above.run("ls", "dg", *drives)
    above.start()
    above.run("import", "dg", *drives)
    client = Client(above.nbd, "tank/data")
    for block, turn in answered.items():
        assert client.read(block * 4096, 4096) == content(block, turn), (block, turn)
    above.stop()
    below.stop()
