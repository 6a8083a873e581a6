"""What a change of the server costs requests that have nothing to do with it: two programs side by side.

    ASHLAR_BASE=before/ashlar ASHLAR_BIN=target/release/ashlar python3 tests/speed/paired.py [rounds]

Needs botocore and two cores: the servers run on the first, who asks them on the second. Both servers run on
folders in memory; GETs and PUTs of 4 KiB and 10 MiB are sent to one and the other in turns, the first of each
pair chosen by chance. Printed are the means of the CPU time of each (user and system, all threads) per
request, the median of the differences within the pairs, the span in which the median lies with 95 % (by
order statistics), and the one in which the middle half of the differences lies. By hand only: it is no test.
"""

import os
import random
import statistics
import sys

from encryption import wire
from server import Server

CONNECTIONS = 4
KINDS = [("GET", 4 << 10, 16000), ("PUT", 4 << 10, 5000), ("GET", 10 << 20, 80), ("PUT", 10 << 20, 30)]


def micros(server, method, size, count):
    length = size if method == "PUT" else 0
    head = wire(server.base, method, f"/speed/{method}-{size}", length)
    return server.send(head, os.urandom(length), count, CONNECTIONS) * 1e6


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    os.sched_setaffinity(0, {1})
    with Server(os.environ["ASHLAR_BASE"], core=0) as before, Server(os.environ["ASHLAR_BIN"], core=0) as after:
        servers = (before, after)
        for s in servers:
            s.send(wire(s.base, "PUT", "/speed"), b"", 1)
            for size in (4 << 10, 10 << 20):
                s.send(wire(s.base, "PUT", f"/speed/GET-{size}", size), os.urandom(size), 1)
        found = {kind: [] for kind in KINDS}
        for _ in range(rounds + 1):
            for kind in random.sample(KINDS, len(KINDS)):
                pair = [0.0, 0.0]
                for i in random.sample((0, 1), 2):
                    pair[i] = micros(servers[i], *kind)
                found[kind].append(pair)
        for (method, size, _), pairs in found.items():
            # The first round warms both up.
            pairs = pairs[1:]
            more = sorted(100 * (b / a - 1) for a, b in pairs)
            one, other = (statistics.mean(p[i] for p in pairs) for i in (0, 1))
            low, high = more[len(more) // 4], more[-1 - len(more) // 4]
            aside = int(0.98 * len(more) ** 0.5)
            least, most = more[max(0, len(more) // 2 - aside)], more[min(len(more) - 1, len(more) // 2 + aside)]
            print(f"{method} {size >> 10:6} KiB  {one:9.1f} us -> {other:9.1f} us, {statistics.median(more):+.1f} % "
                  f"({least:+.1f} to {most:+.1f}; middle half {low:+.1f} to {high:+.1f})")


if __name__ == "__main__":
    main()
