"""A drive group whose drives are namespaces of a second `ashlar array serve --nvme` process.

fio and a client verify what they wrote over NBD while the process that has the namespaces is killed and started again, and while one
of the namespaces is deleted. Then through two ports, of which one after the other is cut.
"""

import json
import socket
import threading

import pytest

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
    # They are of one subsystem, which is killed as a whole.
    above.run("create", "dg", "raid6", *drives, "--journal", "4MiB", "--name", "tank", "--allow-shared-drive")
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
    above.run("replace", "pd", "tank/2", address, "--allow-shared-drive")
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


class Forwarder:
    """Passes TCP connections on to a port, until they are cut."""

    def __init__(self, to):
        self.to, self.open = to, True
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.sockets, self.lock = [], threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            try:
                target = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                client.close()
                continue
            with self.lock:
                self.sockets += [client, target]
            for pair in ((client, target), (target, client)):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, source, to):
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
        except OSError:
            pass
        for one in (source, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Ends all connections, and refuses new ones until `open` is set."""
        self.open = False
        with self.lock:
            for one in self.sockets:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.sockets.clear()


@pytest.mark.parametrize("policy", ["round-robin", "queue-depth", "latency"])
def test_a_group_goes_on_while_one_path_after_the_other_is_cut(array, policy):  # noqa: F811
    ports = [free_port(), free_port()]
    below = array("--nvme", f"127.0.0.1:{ports[0]}", "--nvme", f"127.0.0.1:{ports[1]}").start()
    below.run("create", "dg", "raid5", *below.make(3, "80MiB"), "--journal", "4MiB", "--name", "below")
    for i in range(3):
        below.run("create", "vd", "below", "40MiB", "--name", f"d{i}")
    group = below.group("below")
    paths = [Forwarder(p) for p in ports]
    portals = ",".join(f"127.0.0.1:{p.port}" for p in paths)
    drives = [f"nvme-tcp://{portals}/{group['nqn']}/{v['nsid']}" for v in group["volumes"]]

    above = array("--iopolicy", policy).start()
    # No redundancy: a request that fails is lost.
    above.run("create", "dg", "raid0", *drives, "--journal", "4MiB", "--name", "tank")
    above.run("create", "vd", "tank", "32MiB", "--name", "data")

    def states():
        return {p["state"] for d in above.group("tank")["drives"] for p in d["paths"]}

    until(lambda: states() == {"live"}, 60)
    answered, finished, turns = {}, threading.Event(), [0]

    def write():
        client, turn = Client(above.nbd, "tank/data"), 0
        while not finished.is_set():
            block = turn * 37 % 2048
            client.write(block * 4096, content(block, turn))
            answered[block] = turn
            turn += 1
            turns[0] = turn

    worker = threading.Thread(target=write)
    worker.start()
    for turn in range(4):
        before = turns[0]
        until(lambda: turns[0] > before + 100, 120)
        paths[turn % 2].cut()
        before = turns[0]
        until(lambda: turns[0] > before + 100, 120)
        drive = above.group("tank")["drives"][0]
        assert [p["state"] for p in drive["paths"]][turn % 2] == "connecting", drive
        paths[turn % 2].open = True
        until(lambda: states() == {"live"}, 60)
    finished.set()
    worker.join(120)
    assert above.group("tank")["state"] == "OPTIMAL" and len(answered) > 100
    client = Client(above.nbd, "tank/data")
    for block, turn in answered.items():
        assert client.read(block * 4096, 4096) == content(block, turn), (block, turn)
    drive = above.ask("describe", "pd", "tank/0")[0]
    assert [p["ana_state"] for p in drive["paths"]] == ["optimized"] * 2, drive
    assert all(p["losses"] >= 2 and p["commands"] > 0 for p in drive["paths"]), drive
    assert drive["health"]["available_spare_percent"] == 100, drive
    text = above.run("--format", "text", "describe", "pd", "tank/0").stdout
    assert "optimized" in text and "no warning" in text, text
    above.stop()

    # Ports that a discovery controller knows.
    found = [d.replace(f"nvme-tcp://{portals}", f"nvme-tcp+discovery://127.0.0.1:{ports[0]}") for d in drives]
    above.start()
    above.run("import", "dg", *found)
    drive = above.group("tank")["drives"][1]
    assert {p["address"] for p in drive["paths"]} == {f"127.0.0.1:{p}" for p in ports}, drive
    above.stop()
    below.stop()
