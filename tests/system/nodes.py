"""Nodes of a cluster as processes: etcd, four servers, and a load balancer before them."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from conftest import ACCESS, SECRET, Server, free_port, wait_until
from histories import client

NODES = 4
# Drives, and memory, of each node.
DRIVES, MEMORY = 2, "96MiB"


class Member:
    """One member of etcd, with its data in a folder. `host`: its address; `prefix`: what its command begins with."""

    def __init__(self, home: Path, name: str, arguments=(), host="127.0.0.1", scheme="http", prefix=()):
        self.data, self.name, self.arguments, self.prefix = home / name, name, list(arguments), list(prefix)
        self.log = home / f"{name}.log"
        self.address = f"{host}:{free_port()}"
        self.endpoint, self.peer = f"{scheme}://{self.address}", f"http://{host}:{free_port()}"
        self.initial, self.process = None, None

    def start(self):
        """Starts the process with the data that it had, or blank."""
        self.process = subprocess.Popen(
            [*self.prefix, "etcd", "--name", self.name, "--data-dir", self.data,
             "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
             "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
             "--initial-cluster", self.initial, "--log-level", "error", *self.arguments],
            stdin=subprocess.DEVNULL, stdout=self.log.open("ab"), stderr=subprocess.STDOUT,
        )

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.runs():
            self.resume()
            self.process.kill()
            self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)


class Etcd:
    """One or more members. `ask` uses their HTTP gateway, so that no client program is needed."""

    def __init__(self, home: Path, members=1, arguments=(), context=None, **place):
        scheme = "https" if context else "http"
        self.members = [Member(home, f"etcd{i + 1}", arguments, scheme=scheme, **place) for i in range(members)]
        self.context = context
        for member in self.members:
            member.initial = ",".join(f"{m.name}={m.peer}" for m in self.members)
        self.url = f"etcd{'s' if context else ''}://" + ",".join(m.address for m in self.members)
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    def start(self):
        """Starts the members that do not run, and waits until every one answers what needs a quorum."""
        for member in self.members:
            if not member.runs():
                member.start()
        for member in self.members:
            self.ready(member)

    def ready(self, member):
        def healthy():
            try:
                with urllib.request.urlopen(f"{member.endpoint}/health", timeout=2, context=self.context) as answer:
                    said = json.load(answer)
            except urllib.error.HTTPError as e:
                # Out of space it is not healthy, and answers why.
                said = json.load(e)
            if said["health"] != "true":
                raise OSError(f"{member.name}: {said}")

        wait_until(healthy, 30)

    def kill(self):
        for member in self.members:
            member.kill()

    def ask(self, path, body, at=0, headers=()):
        """The answer of any status to a request to the gateway."""
        request = urllib.request.Request(f"{self.members[at].endpoint}{path}", json.dumps(body).encode(), dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            return json.load(e)

    def ids(self):
        """The number of each member, by which others name it."""
        return [self.ask("/v3/maintenance/status", {}, at)["header"]["member_id"] for at in range(len(self.members))]

    def leader(self):
        """The index of the member that leads."""
        return self.ids().index(self.ask("/v3/maintenance/status", {})["leader"])

    def keys(self, prefix, at=0):
        """The keys that begin with these characters."""
        last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        encode = lambda text: base64.b64encode(text.encode()).decode()
        found = self.ask("/v3/kv/range", {"key": encode(prefix), "range_end": encode(last), "keys_only": True}, at)
        return [base64.b64decode(entry["key"]).decode() for entry in found.get("kvs", [])]


class Node(Server):
    """One node of `count`. Its start does not wait until it serves, because that needs the others. `{home}` in an argument is
    its own folder. `drives`: where its drives are, if they are no folders there."""

    def __init__(self, cluster, number, arguments=(), env=None, host="127.0.0.1", prefix=(), count=NODES,
                 certs=None, drives=()):
        self.number, self.node_port, self.host, self.prefix = number, free_port(), host, prefix
        self.named = list(drives)
        home = cluster.home / f"node{number}"
        home.mkdir()
        arguments = ["--control", cluster.etcd.url, "--cluster", "test", "--nodes", str(count),
                     "--node-address", f"{host}:{self.node_port}", "--memory", MEMORY,
                     *(argument.replace("{home}", str(home)) for argument in arguments), *self.named[1:]]
        super().__init__(home, DRIVES, arguments, env, certs)

    def start(self):
        self.launch()

    def launch(self):
        self.drives = self.named[0] if self.named else self.drives
        super().launch()

    def text(self):
        return self.log.read_text()

    def ends(self, seconds=60):
        """What it says when it ends with an error."""
        assert self.process.wait(timeout=seconds) != 0
        return self.text().strip().splitlines()[-1]

    def kill(self):
        self.process.kill()
        self.process.wait()


class Cluster:
    """`count` nodes. `etcd`: how its members are made; `places`: arguments of each node that say where it runs."""

    def __init__(self, code="4+4", env=None, arguments=(), etcd=Etcd, places=None, count=NODES):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.home = Path(tempfile.mkdtemp(prefix="ashlar-cluster-", dir=base))
        self.nodes, self.etcd = [], None
        try:
            self.etcd = etcd(self.home)
            places = places or [{"count": count}] * count
            for n, place in enumerate(places):
                self.nodes.append(Node(self, n + 1, ["--code", code, *arguments], env, **place))
            for node in self.nodes:
                node.wait(60)
        except BaseException:
            self.end()
            raise

    def clients(self, attempts=1, but=()):
        return [client(n, attempts) for n in self.nodes if n.number not in but]

    def ask(self, node, *arguments):
        """What a command of `ashlar` answers that asks a node."""
        env = {**os.environ, "ASHLAR_HOST_it": node.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@")}
        done = subprocess.run([os.environ["ASHLAR_BIN"], "--json", *arguments, "it"], env=env, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        # The answer. A second document follows if the answer is that something fails, as a node that is slow to answer.
        return json.JSONDecoder().raw_decode(done.stdout)[0]

    def end(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.kill()
        if self.etcd:
            self.etcd.kill()
        shutil.rmtree(self.home, ignore_errors=True)


class BalancedCluster:
    """A cluster that looks like one server to a test: each connection goes to the next node.

    `down`: how many of the nodes, from the last one, are killed before the tests begin."""

    def __init__(self, home: Path, down=0, arguments=(), env=None, certs=None):
        self.home, self.port = home, free_port()
        self.endpoint = f"{'https' if certs else 'http'}://127.0.0.1:{self.port}"
        # All nodes need the same root key: none makes one of its own.
        if not any("--kms" in argument for argument in arguments):
            env = {"ASHLAR_KMS_ROOT_KEY": base64.b64encode(bytes(range(32))).decode(), **(env or {})}
        self.cluster = Cluster(env=env, arguments=arguments, places=({"certs": certs},) * NODES)
        self.context = self.cluster.nodes[0].context
        self.process, self.log = self.cluster.nodes[0].process, self.cluster.nodes[0].log
        tls = "check-ssl verify none " if certs else ""
        servers = "".join(f"    server node{n.number} 127.0.0.1:{n.port} check {tls}inter 500ms fall 2 rise 2\n"
                          for n in self.cluster.nodes)
        configuration = home / "haproxy.cfg"
        configuration.write_text(f"""
defaults
    mode tcp
    timeout connect 2s
    timeout client 300s
    timeout server 300s
    option redispatch
    retries 3
frontend s3
    bind 127.0.0.1:{self.port}
    default_backend nodes
backend nodes
    balance roundrobin
    option httpchk GET /minio/health/ready
{servers}""")
        self.balancer = subprocess.Popen(["haproxy", "-f", configuration, "-db", "-q"], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ready = f"{self.endpoint}/minio/health/ready"
        try:
            wait_until(lambda: urllib.request.urlopen(ready, timeout=2, context=self.context), 30)
        except BaseException:
            self.end()
            raise
        for node in self.cluster.nodes[NODES - down:]:
            node.kill()

    def stop(self):
        try:
            return max((node.stop() for node in self.cluster.nodes if node.process.poll() is None), key=abs)
        finally:
            self.end()

    def end(self):
        self.balancer.kill()
        self.balancer.wait()
        self.cluster.end()
