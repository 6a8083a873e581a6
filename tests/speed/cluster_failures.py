"""What clients of a cluster see when one node of four is killed, and when one stands still.

    ASHLAR_BIN=target/release/ashlar python3 tests/speed/cluster_failures.py [seconds]

Needs etcd on PATH, and botocore. Four nodes with four drives each (folders in memory), 12+4; all clients talk to the other
three nodes only. ASHLAR_SPEED_ROUNDS: that many clusters per row (1).

The first table compares the latency of PUT and GET (`ashlar bench s3`, 8 in flight) before a node is killed and from five
seconds after it. The second has six clients, each with one connection, that write and read objects of 4 KiB one after another
while a node is killed, or stopped (SIGSTOP) for ten seconds: failed requests, and per connection the requests that took longer
than half a second and the longest one. By hand only: it is no test.

The kernel's TCP congestion control matters (it is printed): with `bbr` some answers of 1 MiB wait 40 ms or more for delayed
acknowledgements of the client, with a node dead or without; with `cubic`, the default of Linux, none does.
"""

import http.client
import os
import signal
import statistics
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import cluster
from signing import signed

CLIENTS, BODY = 6, b"x" * 4096
SLOW = 0.5


class Client(threading.Thread):
    """Writes and reads its own key over one connection until it is told to end."""

    def __init__(self, endpoint, number):
        super().__init__()
        self.url, self.ends = f"{endpoint}/speed-bucket/client-{number}", threading.Event()
        self.slow, self.failed, self.took = 0, [], []

    def run(self):
        at = urlsplit(self.url)
        connection = http.client.HTTPConnection(at.netloc, timeout=30)
        heads = {method: signed(cluster.ROOT, method, self.url) for method in ("PUT", "GET")}
        while not self.ends.is_set():
            for method, head in heads.items():
                began = time.monotonic()
                try:
                    connection.request(method, at.path, body=BODY if method == "PUT" else None, headers=head)
                    answer = connection.getresponse()
                    body = answer.read()
                    if answer.status != 200 or (method == "GET" and body != BODY):
                        self.failed.append(f"{method}: {answer.status} {body[:200]!r}")
                except OSError as e:
                    self.failed.append(f"{method}: {e}")
                    connection.close()
                self.took.append(time.monotonic() - began)
                self.slow += self.took[-1] > SLOW


def make_bucket(endpoint):
    url = f"{endpoint}/speed-bucket"
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.request("PUT", urlsplit(url).path, headers=signed(cluster.ROOT, "PUT", url))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()


def disturbed(fault):
    """Clients of three nodes while `fault` happens to the fourth."""
    with cluster.Ashlar() as servers:
        make_bucket(servers.endpoints[0])
        clients = [Client(servers.endpoints[n % 3], n) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        victim = servers.processes[-1]
        time.sleep(5)
        before = max(max(client.took[1:]) for client in clients)
        victim.send_signal(fault)
        time.sleep(10)
        victim.send_signal(signal.SIGCONT)
        time.sleep(5)
        for client in clients:
            client.ends.set()
        for client in clients:
            client.join()
        count = sum(len(client.took) for client in clients)
        failed = [why for client in clients for why in client.failed]
        longest = ", ".join(f"{max(client.took):.2f}" for client in clients)
        slow = ", ".join(str(client.slow) for client in clients)
        print(f"| {signal.Signals(fault).name} | {count:,} | {len(failed)} | {slow} | {longest} | {before:.2f} |", flush=True)
        for why in failed[:5]:
            print(why, file=sys.stderr)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    rounds = int(os.environ.get("ASHLAR_SPEED_ROUNDS", "1"))
    print("| | p50, p99 before, ms | p50, p99 with a node dead, ms | p99, times | errors |\n|---|---|---|---|---|")
    for size, objects, most in cluster.SIZES:
        found = {}
        for _ in range(rounds):
            with cluster.Ashlar() as servers:
                victim = servers.processes[-1]
                servers.endpoints.pop()
                for dead in (False, True):
                    if dead:
                        victim.kill()
                        victim.wait()
                        servers.processes.remove(victim)
                        time.sleep(5)
                    for operation in ("put", "get"):
                        got = cluster.measure(servers, operation, size, objects, most, seconds)
                        found.setdefault((operation, dead), []).append(got)
        for operation in ("put", "get"):
            mean = {dead: {name: statistics.mean(one[name] for one in found[operation, dead]) for name in ("p50", "p99", "errors")}
                    for dead in (False, True)}
            cells = [f"{mean[dead]['p50']:.1f}, {mean[dead]['p99']:.0f}" for dead in (False, True)]
            times = mean[True]["p99"] / mean[False]["p99"]
            errors = mean[True]["errors"] + mean[False]["errors"]
            print(f"| {operation.upper()} {size} | {cells[0]} | {cells[1]} | {times:.2f} | {errors:.0f} |", flush=True)
    print("\n| | requests | failed | longer than 0.5 s, per connection | longest, s, per connection | longest before, s |\n|---|---|---|---|---|---|")
    for _ in range(rounds):
        for fault in (signal.SIGKILL, signal.SIGSTOP):
            disturbed(fault)
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    print(f"\nload of the machine at the end: {os.getloadavg()}; TCP congestion control: {congestion}")


if __name__ == "__main__":
    main()
