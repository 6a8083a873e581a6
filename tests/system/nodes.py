"""Nodes of a cluster as processes: etcd, four servers, and a load balancer before them."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from conftest import Server, free_port, wait_until
from histories import client

NODES = 4
# Drives, and memory, of each node.
DRIVES, MEMORY = 2, "96MiB"


class Etcd:
    """One member, with its data in a folder."""

    def __init__(self, home: Path):
        self.home, self.port, self.peer = home / "etcd", free_port(), free_port()
        self.url = f"etcd://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", self.home, "--listen-client-urls", client, "--advertise-client-urls", client,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", f"default={peer}", "--log-level", "error"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: json.load(urllib.request.urlopen(f"{client}/health", timeout=2))["health"] == "true", 30)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Node(Server):
    """One node. Its start does not wait until it serves, because that needs the others."""

    def __init__(self, cluster, number, arguments=(), env=None):
        self.number, self.node_port = number, free_port()
        home = cluster.home / f"node{number}"
        home.mkdir()
        arguments = ["--control", cluster.etcd.url, "--cluster", "test", "--nodes", str(NODES),
                     "--node-address", f"127.0.0.1:{self.node_port}", "--memory", MEMORY, *arguments]
        super().__init__(home, DRIVES, arguments, env)

    def start(self):
        self.launch()

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
    def __init__(self, code="4+4", env=None):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.home = Path(tempfile.mkdtemp(prefix="ashlar-cluster-", dir=base))
        self.etcd = Etcd(self.home)
        self.nodes = [Node(self, n + 1, ["--code", code], env) for n in range(NODES)]
        for node in self.nodes:
            node.wait(60)

    def clients(self, attempts=1, but=()):
        return [client(n, attempts) for n in self.nodes if n.number not in but]

    def end(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
                node.kill()
        self.etcd.kill()
        shutil.rmtree(self.home, ignore_errors=True)


class BalancedCluster:
    """A cluster that looks like one server to a test: each connection goes to the next node."""

    def __init__(self, home: Path):
        self.home, self.port = home, free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        # All nodes need the same root key: none makes one of its own.
        self.cluster = Cluster(env={"ASHLAR_KMS_ROOT_KEY": base64.b64encode(bytes(range(32))).decode()})
        self.process, self.log = self.cluster.nodes[0].process, self.cluster.nodes[0].log
        servers = "".join(
            f"    server node{n.number} 127.0.0.1:{n.port} check inter 500ms fall 2 rise 2\n" for n in self.cluster.nodes
        )
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
        wait_until(lambda: urllib.request.urlopen(f"{self.endpoint}/minio/health/ready", timeout=2), 30)

    def stop(self):
        codes = [node.stop() for node in self.cluster.nodes]
        self.balancer.kill()
        self.balancer.wait()
        self.cluster.end()
        return max(codes, key=abs)
