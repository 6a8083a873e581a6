"""Reservations of `ashlar array serve --nvme`, with nvme-cli and the NVMe/TCP host of Debian's kernel in a virtual machine.

Two controllers of the virtual machine are two hosts, each with its name and identifier. What one reserves the other cannot write, or read,
until it is released, preempted or cleared by an operator; writes that are under way when a host is preempted change nothing afterwards.
"""

import json
import re
import subprocess

import pytest

from conftest import free_port, until
from guest import Guest
from test_array import ASHLAR, array  # noqa: F401  a fixture

IDS = [f"2400000{n}-0000-4000-8000-00000000000{n}" for n in (1, 2)]
HOSTS = [f"nqn.2014-08.org.nvmexpress:uuid:{i}" for i in IDS]
A, B = "/dev/nvme0n1", "/dev/nvme1n1"


@pytest.fixture
def guest(tmp_path):
    # As one host with two paths the kernel would have one device only.
    machine = Guest(tmp_path, ["/usr/sbin/nvme"], parameters={"nvme-core": "multipath=N"})
    yield machine
    machine.stop()


def resv(guest, verb, device, options, check=True):
    """A reservation command of nvme-cli: what it says, and whether it succeeded."""
    said = guest.run(f"nvme resv-{verb} {device} -n $(cat /sys/class/block/{device[5:]}/nsid) {options} 2>&1; echo rc-$?-")
    done = "rc-0-" in said
    assert done or not check, (verb, options, said)
    return done, said


def refused(guest, verb, device, options):
    done, said = resv(guest, verb, device, options, check=False)
    assert not done and "Reservation Conflict" in said.replace("_", " ").title(), (verb, options, said)


def report(guest, device):
    said = resv(guest, "report", device, "--eds -o json")[1]
    return json.loads(said[said.index("{"):said.rindex("}") + 1])


def write(guest, device, at=0):
    """Whether a block can be written; a refusal has to be that of a reservation."""
    said = guest.run(f"dd if=/dev/zero of={device} bs=4096 count=1 seek={at} oflag=direct conv=notrunc 2>&1; echo rc-$?-")
    assert "rc-0-" in said or "exchange" in said, said
    return "rc-0-" in said


def read(guest, device):
    said = guest.run(f"dd if={device} of=/dev/null bs=4096 count=1 iflag=direct 2>&1; echo rc-$?-")
    assert "rc-0-" in said or "exchange" in said, said
    return "rc-0-" in said


def test_two_hosts_of_the_linux_kernel(array, guest):  # noqa: F811
    port = free_port()
    a = array("--nvme", f"127.0.0.1:{port}").start()
    a.run("create", "dg", "raid5", *a.make(4), "--journal", "4MiB", "--name", "tank")
    a.run("create", "vd", "tank", "16MiB", "--name", "data")
    nqn = a.group("tank")["nqn"]
    for number, (name, identifier) in enumerate(zip(HOSTS, IDS)):
        # nvme-cli takes another host of the same machine for a second connection, and refuses it.
        guest.run(f"echo 'transport=tcp,traddr=10.0.2.2,trsvcid={port},nqn={nqn},hostnqn={name},hostid={identifier},nr_io_queues=2,"
                  "keep_alive_tmo=5,reconnect_delay=1,ctrl_loss_tmo=600' > /dev/nvme-fabrics")
        guest.run(f"while ! [ -b /dev/nvme{number}n1 ]; do sleep 1; done")
        assert name in guest.run(f"cat /sys/class/nvme/nvme{number}/hostnqn")
    assert re.search(r"rescap\s*: 0xfe", guest.run(f"nvme id-ns {A}"))
    assert write(guest, A) and write(guest, B)

    # Persistence through a loss of power cannot be had, and is not promised.
    done, said = resv(guest, "register", A, "--nrkey=0xa1 --cptpl=3", check=False)
    assert not done and "Invalid Field" in said.replace("_", " ").title(), said
    refused(guest, "acquire", A, "--crkey=0xa1 --rtype=1 --racqa=0")
    resv(guest, "register", A, "--nrkey=0xa1")
    refused(guest, "register", A, "--nrkey=0xa2")
    resv(guest, "register", B, "--nrkey=0xb1")
    assert "reservation" in a.ask("describe", "vd", "tank/data")[0]

    # Each type: what the other registrant and a host that is not registered may.
    for kind, name, registrant, other in [
            (1, "write-exclusive", "r-", "r-"), (2, "exclusive-access", "--", "--"),
            (3, "write-exclusive-registrants-only", "rw", "r-"), (4, "exclusive-access-registrants-only", "rw", "--"),
            (5, "write-exclusive-all-registrants", "rw", "r-"), (6, "exclusive-access-all-registrants", "rw", "--")]:
        resv(guest, "acquire", A, f"--crkey=0xa1 --rtype={kind} --racqa=0")
        said = report(guest, B)
        assert (said["rtype"], said["regctl"]) == (kind, 2), said
        shown = a.ask("describe", "vd", "tank/data")[0]["reservation"]
        assert shown["type"] == name, shown
        assert [(r["nqn"], r["host_id"], r["key"]) for r in shown["registrants"]] == list(zip(HOSTS, IDS, ["0xa1", "0xb1"]))
        assert [r["holder"] for r in shown["registrants"]] == [True, kind > 4]
        text = subprocess.check_output([ASHLAR, "array", "--socket", a.socket, "describe", "vd", "tank/data"], text=True)
        assert f"Reservation: {name} (generation {said['gen']})" in text and all(host in text for host in HOSTS), text
        for device, expected in (A, "rw"), (B, registrant):
            assert ("r" if read(guest, device) else "-") + ("w" if write(guest, device) else "-") == expected, (kind, device)
        resv(guest, "register", B, "--crkey=0xb1 --rrega=1")
        assert ("r" if read(guest, B) else "-") + ("w" if write(guest, B) else "-") == other, kind
        resv(guest, "register", B, "--nrkey=0xb1")
        resv(guest, "release", A, f"--crkey=0xa1 --rtype={kind} --rrela=0")
        assert write(guest, B)
    # B was told of releases, under types for registrants. nvme-cli 2.3 calls 2 by the name of 1.
    said = guest.run("nvme resv-notif-log /dev/nvme1")
    assert re.search(r"Page Type\s*: 2 ", said) and re.search(r"Namespace ID:\s*: 1", said), said

    # A preempts while B writes: nothing of B comes after the answer.
    for turn in range(3):
        resv(guest, "acquire", B, "--crkey=0xb1 --rtype=1 --racqa=0")
        guest.run(f"(while dd if=/dev/urandom of={B} bs=64k count=64 oflag=direct conv=notrunc 2>/tmp/why; do :; done; echo over >> /tmp/over) "
                  "> /dev/null & sleep 1")
        resv(guest, "acquire", A, f"--crkey=0xa1 --prkey=0xb1 --rtype=1 --racqa={1 + turn % 2}")
        guest.run(f"dd if=/dev/zero of={A} bs=64k count=256 oflag=direct conv=notrunc 2>/dev/null")
        guest.run("while ! grep -q over /tmp/over; do sleep 1; done; rm /tmp/over; grep -q exchange /tmp/why")
        assert guest.run(f"dd if={A} bs=64k count=256 iflag=direct 2>/dev/null | tr -d '\\000' | wc -c").split()[-1] == "0"
        refused(guest, "acquire", B, "--crkey=0xb1 --rtype=1 --racqa=0")
        resv(guest, "register", B, "--nrkey=0xb1")
        assert not write(guest, B)
        resv(guest, "release", A, "--crkey=0xa1 --rtype=1 --rrela=0")

    # A is gone for good. An operator clears.
    resv(guest, "acquire", A, "--crkey=0xa1 --rtype=2 --racqa=0")
    guest.run("echo 1 > /sys/class/nvme/nvme0/delete_controller")
    assert not read(guest, B)
    text = a.run("edit", "vd", "tank/data", "reservation", "clear").stdout
    assert "reservation" not in json.loads(text)["volume"], text
    assert write(guest, B) and report(guest, B)["regctl"] == 0

    # What is reserved ends with the process.
    resv(guest, "register", B, "--nrkey=0xb1")
    resv(guest, "acquire", B, "--crkey=0xb1 --rtype=1 --racqa=0")
    a.kill()
    a.start()
    until(lambda: write(guest, B), 240)
    said = report(guest, B)
    assert (said["rtype"], said["regctl"], said["gen"]) == (0, 0, 0), said
    guest.run("echo 1 > /sys/class/nvme/nvme1/delete_controller")
    a.stop()
