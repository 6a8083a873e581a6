"""DH-HMAC-CHAP of `ashlar array serve --nvme-hosts` and of `ashlar fabric`: with the host of Debian's kernel in a virtual machine, and with
our own host.

A host with its secret connects, with and without authentication of the target, with every hash function; one with another secret, with
none, or with another name does not. Nothing that the program says has a secret in it.
"""

import json
import os
import stat
import subprocess

import pytest

from conftest import free_port, get_over_socket, until
from guest import GUEST_AUTH, Guest
from test_array import array  # noqa: F401  a fixture

HOST = "nqn.2014-08.org.nvmexpress:uuid:24000000-0000-4000-8000-000000000001"
HOST_ID = HOST.split(":")[-1]


@pytest.fixture
def guest(tmp_path):
    machine = Guest(tmp_path, ["/usr/sbin/nvme", "/usr/sbin/mkfs.ext4", "/usr/sbin/e2fsck"], memory=512, home=GUEST_AUTH)
    yield machine
    machine.stop()


def secret(hmac, nqn=HOST):
    """A secret, as users make one."""
    return subprocess.check_output(["nvme", "gen-dhchap-key", "--hmac", str(hmac), "--nqn", nqn], text=True).strip()


def state(a):
    return json.loads(get_over_socket(a.socket, "/v1/state"))


def make_target(a):
    """A target of one virtual drive: its port and its subsystem."""
    files = a.make(4)
    a.run("create", "dg", "raid5", *files, "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "32MiB", "--name", "data")
    return a.group("tank")["nqn"]


def serve(array, tmp_path):  # noqa: F811
    port, hosts = free_port(), tmp_path / "hosts.toml"
    a = array("--nvme", f"127.0.0.1:{port}", "--nvme-hosts", str(hosts)).start()
    return a, port, hosts


def set_host(a, keys, *options, nqn=HOST):
    """Lets a host connect; the secrets are in the environment."""
    names = ["ASHLAR_DHCHAP_SECRET", "ASHLAR_DHCHAP_CTRL_SECRET"]
    done = a.run("create", "host", nqn, *options, env=dict(zip(names, keys)))
    assert nqn in done.stdout + done.stderr and "DHHC" not in done.stdout + done.stderr


def connect(guest, port, nqn, *secrets, host=HOST):
    """`nvme connect`: whether the device is there. What the kernel says is in `guest.said`."""
    options = "".join(f" {name} '{s}'" for name, s in zip(["--dhchap-secret", "--dhchap-ctrl-secret"], secrets))
    guest.run("dmesg -c > /dev/null")
    guest.run(f"nvme connect -t tcp -a 10.0.2.2 -s {port} -n {nqn} --hostnqn {host} --hostid {HOST_ID} -i 2 "
              f"--ctrl-loss-tmo 5{options}", check=False)
    found = guest.run("for i in 1 2 3 4 5; do ls /dev/nvme*n1 2>/dev/null && break; sleep 1; done; true")
    guest.said = guest.run("dmesg; true")
    return next((word for word in found.split() if word.startswith("/dev/nvme")), None)


def disconnect(guest):
    guest.run("for c in /sys/class/nvme/nvme*; do [ -e $c ] && echo 1 > $c/delete_controller; done; true")


def test_the_host_of_the_linux_kernel_authenticates_itself_and_the_target(array, guest, tmp_path):  # noqa: F811
    a, port, hosts = serve(array, tmp_path)
    nqn = make_target(a)
    assert connect(guest, port, nqn, secret(1)) is None, "no host is known"

    for number, (hmac, hash_name, group) in enumerate([(1, "sha256", "null"), (2, "sha384", "ffdhe2048"), (3, "sha512", "ffdhe3072"),
                                                       (0, None, None)]):
        own, target = secret(hmac), secret(hmac, nqn)
        chosen = ["--dhchap-hash", hash_name, "--dhchap-dhgroup", group] if hash_name else []
        set_host(a, [own, target], *chosen)
        device = connect(guest, port, nqn, own, target)
        assert device, guest.said
        expected = f"authenticated with hash hmac({hash_name or 'sha256'}) dhgroup {group or 'ffdhe2048'}"
        assert expected in guest.said and "controller authenticated" in guest.said, guest.said
        if number == 0:
            guest.run(f"mkfs.ext4 -q -F {device}")
        guest.run(f"mount -t ext4 {device} /mnt && head -c 300000 /dev/urandom > /mnt/f{number} && sync && umount /mnt")
        guest.run(f"e2fsck -fn {device}")
        disconnect(guest)
        # The target need not authenticate itself.
        assert connect(guest, port, nqn, own) and "controller authenticated" not in guest.said
        disconnect(guest)

    before = state(a)["nvme"]["unauthenticated"]
    for secrets, host in [([secret(0)], HOST), ([own, secret(0)], HOST), ([], HOST), ([own], HOST[:-1] + "2")]:
        assert connect(guest, port, nqn, *secrets, host=host) is None, guest.said
        disconnect(guest)
    until(lambda: state(a)["nvme"]["unauthenticated"] >= before + 3, 30)

    # A host that is removed loses what it has.
    assert connect(guest, port, nqn, own, target)
    a.run("delete", "host", HOST)
    until(lambda: state(a)["nvme"]["controllers"] == 0, 30)
    assert a.ask("list", "host") == []

    # Nobody but its owner reads the file, and nothing else has a secret in it.
    set_host(a, [own, target])
    assert stat.S_IMODE(os.stat(hosts).st_mode) == 0o600 and own in hosts.read_text()
    a.stop()
    a.start()
    assert [h["nqn"] for h in a.ask("list", "host")] == [HOST]
    assert "DHHC" not in json.dumps(state(a)) + get_over_socket(a.socket, "/metrics")
    a.stop()
    assert "DHHC" not in (a.folder / "log").read_text()


def test_our_own_host_uses_members_of_a_target_that_demands_authentication(array, tmp_path):  # noqa: F811
    target, port, _ = serve(array, tmp_path)
    nqn = make_target(target)
    target.run("create", "vd", "tank", "32MiB", "--name", "more")
    numbers = [v["nsid"] for v in target.ask("list", "vd")]
    own, theirs = secret(1), secret(2, nqn)
    set_host(target, [own, theirs])
    file, wrong = tmp_path / "secret", tmp_path / "wrong"
    file.write_text(own + "\n"), wrong.write_text(secret(1) + "\n")

    def listed(*options, check=True, **env):
        words = [os.environ["ASHLAR_BIN"], "--json", "fabric", "list", f"127.0.0.1:{port}", "--host-nqn", HOST, *options]
        done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == check and "DHHC" not in done.stdout + done.stderr, done
        return len(done.stdout.splitlines())

    listed(check=False)
    listed("--dhchap-secret-file", str(wrong), check=False)
    assert listed("--dhchap-secret-file", str(file)) == 2
    # An option comes before the environment, and that before a file.
    assert listed("--dhchap-secret-file", str(wrong), ASHLAR_DHCHAP_SECRET=own) == 2
    assert listed("--dhchap-secret", own, ASHLAR_DHCHAP_SECRET=wrong.read_text()) == 2
    assert listed("--dhchap-secret-file", str(file), ASHLAR_DHCHAP_CTRL_SECRET=theirs) == 2
    listed("--dhchap-secret-file", str(file), ASHLAR_DHCHAP_CTRL_SECRET=secret(0), check=False)

    members = [f"nvme-tcp://127.0.0.1:{port}/{nqn}/{n}" for n in numbers]
    user = array("--host-nqn", HOST, "--dhchap-secret-file", str(file)).start()
    user.run("create", "dg", "raid1", *members, "--journal", "4MiB", "--name", "far", "--allow-shared-drive")
    assert user.group("far")["state"] == "OPTIMAL"
    user.stop()
    target.stop()
