"""Places for processes that a network connects which can be cut: a network namespace for each, on one bridge.

Needs root and iproute2. Nothing of the machine's own network is touched: all names and addresses are made by
this process, and what was made is removed at the end, also after a failure in between. Neither nftables nor
netem is needed: a link goes down, and a blackhole route in a namespace drops what goes to one address."""

import contextlib
import os
import subprocess

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def ip(*arguments):
    return subprocess.run(["ip", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True).stdout


def free_network():
    """The first three numbers of a network of 256 addresses that this machine does not use."""
    used = ip("-4", "route", "show", "table", "all")
    for i in range(4096):
        number = (os.getpid() + i) % 4096
        network = f"10.{200 + number // 256}.{number % 256}"
        if f"{network}." not in used:
            return network
    raise OSError("no free network in 10.200.0.0/12")


class Network:
    """`count` places, numbered from 1. This process is on the bridge and reaches all of them."""

    def __init__(self, count):
        self.bridge = f"ash{os.getpid()}"
        self.cuts, self.made = set(), []
        try:
            self.network = free_network()
            self.make(["link", "add", self.bridge, "type", "bridge"], ["link", "del", self.bridge])
            ip("addr", "add", f"{self.network}.254/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            for n in range(1, count + 1):
                self.add(n)
        except BaseException:
            self.end()
            raise

    def make(self, how, back):
        self.made.append(back)
        ip(*how)

    def add(self, n):
        name, link = self.name(n), self.link(n)
        self.make(["netns", "add", name], ["netns", "del", name])
        self.make(["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name], ["link", "del", link])
        ip("link", "set", link, "master", self.bridge, "up")
        ip("-n", name, "addr", "add", f"{self.address(n)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")

    def name(self, n):
        return f"ashlar-{os.getpid()}-{n}"

    def link(self, n):
        return f"{self.bridge}-{n}"

    def address(self, n):
        return f"{self.network}.{n}"

    def place(self, n):
        """Arguments of a process that runs there (`nodes.Node`, `nodes.Etcd`)."""
        return {"host": self.address(n), "prefix": ("ip", "netns", "exec", self.name(n))}

    def cut(self, sender, receiver):
        """Nothing from `sender` arrives at `receiver` any more. What `receiver` sends arrives."""
        ip("-n", self.name(sender), "route", "add", "blackhole", f"{self.address(receiver)}/32")
        self.cuts.add((sender, receiver))

    def separate(self, some, others):
        """Cuts each pair of the two groups both ways. This process still reaches all."""
        for a in some:
            for b in others:
                self.cut(a, b)
                self.cut(b, a)

    def down(self, n):
        """Pulls the cable: nobody reaches this place, this process included."""
        ip("link", "set", self.link(n), "down")

    def up(self, n):
        ip("link", "set", self.link(n), "up")

    def heal(self):
        """All cables are in, nothing is cut."""
        for sender, receiver in self.cuts:
            ip("-n", self.name(sender), "route", "del", "blackhole", f"{self.address(receiver)}/32")
        self.cuts.clear()
        for n in range(1, 1 + sum(back[0] == "netns" for back in self.made)):
            self.up(n)

    def end(self):
        """Removes what was made; what was not, or went with something else, is no error."""
        for back in reversed(self.made):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*back)
        self.made.clear()
