"""TLS of `ashlar array serve --nvme --nvme-hosts`: with the host of Debian's kernel in a virtual machine, where Debian 13's tlshd (GnuTLS)
begins the sessions and its nvme-cli derives the keys, with the clients of OpenSSL, and with our own host.

A host with its key connects, to the subsystem and to discovery; one with another key, with none, or without TLS does not. Nothing that
the program says has a key in it.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import subprocess

import pytest

from conftest import free_port, get_over_socket, until
from guest import GUEST_AUTH, GUEST_TLS, Guest
from test_array import array  # noqa: F401  a fixture
from test_nvme_auth import HOST, HOST_ID, disconnect, make_target, secret, set_host, state

DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


@pytest.fixture
def guest(tmp_path):
    machine = Guest(tmp_path, [], memory=640, home=GUEST_AUTH, more=["tls", "gcm", "ghash-generic", "chacha20poly1305", "chacha_generic", "poly1305_generic"], tree=GUEST_TLS)
    machine.run("printf '[debug]\\nloglevel=1\\n[authenticate]\\nkeyrings=.nvme\\n' > /etc/tlshd.conf")
    machine.run("tlshd -s -c /etc/tlshd.conf > /tmp/tlshd.log 2>&1 &")
    machine.run("for i in 1 2 3 4 5 6 7 8 9; do grep -q linked /tmp/tlshd.log && break; sleep 1; done; grep linked /tmp/tlshd.log")
    yield machine
    machine.stop()


def tls_key(hmac_number):
    """A key, as users make one."""
    return subprocess.check_output(["nvme", "gen-tls-key", "--hmac", str(hmac_number)], text=True).strip()


def serve(array, tmp_path, *options):  # noqa: F811
    port, hosts = free_port(), tmp_path / "hosts.toml"
    a = array("--nvme", f"127.0.0.1:{port}", "--nvme-hosts", str(hosts), *options).start()
    return a, port, hosts


def set_tls_host(a, tmp_path, key, *options, nqn=HOST, **env):
    file = tmp_path / "tls.key"
    file.write_text(key + "\n")
    done = a.run("create", "host", nqn, "--tls-key-file", str(file), *options, env=env or None)
    assert nqn in done.stdout + done.stderr and "NVMeTLSkey" not in done.stdout + done.stderr


def insert(guest, key, nqn, version, host=HOST):
    """Puts what nvme-cli derives of a key where the kernel looks for it."""
    guest.run(f"nvme check-tls-key --keydata={key} --hostnqn={host} --subsysnqn={nqn} --identity={version} --insert")


def forget(guest):
    guest.run("keyctl clear %:.nvme; true")


def connect(guest, port, nqn, options="--tls", host=HOST):
    """`nvme connect`: whether the device is there."""
    guest.run("dmesg -c > /dev/null")
    guest.said = guest.run(f"nvme connect -t tcp -a 10.0.2.2 -s {port} -n {nqn} --hostnqn {host} --hostid {HOST_ID} -i 2 "
                           f"--ctrl-loss-tmo 5 {options}; true")
    found = guest.run("for i in 1 2 3 4 5; do ls /dev/nvme*n1 2>/dev/null && break; sleep 1; done; true")
    guest.said += guest.run("dmesg; tail -5 /tmp/tlshd.log; true")
    return next((word for word in found.split() if word.startswith("/dev/nvme")), None)


def test_the_host_of_the_linux_kernel_uses_tls(array, guest, tmp_path):  # noqa: F811
    a, port, hosts = serve(array, tmp_path)
    nqn = make_target(a)
    for number, (hmac_number, version) in enumerate([(2, 1), (1, 1), (1, 0)]):
        key = tls_key(hmac_number)
        set_tls_host(a, tmp_path, key)
        insert(guest, key, nqn, version)
        device = connect(guest, port, nqn)
        assert device, guest.said
        guest.run(f"dd if=/dev/urandom of=/tmp/data bs=1M count=6 && dd if=/tmp/data of={device} bs=1M seek={7 * number} oflag=direct")
        guest.run(f"echo 3 > /proc/sys/vm/drop_caches; dd if={device} of=/tmp/read bs=1M skip={7 * number} count=6 iflag=direct && cmp /tmp/data /tmp/read")
        # The host of a key has to come with it.
        before = state(a)["nvme"]["unauthenticated"]
        disconnect(guest)
        assert connect(guest, port, nqn, "") is None, guest.said
        until(lambda: state(a)["nvme"]["unauthenticated"] > before, 30)
        forget(guest)

    # Without a key in the kernel, with another key, and with another host's name.
    assert connect(guest, port, nqn) is None
    disconnect(guest)
    insert(guest, tls_key(1), nqn, 1)
    before = state(a)["nvme"]["unauthenticated"]
    assert connect(guest, port, nqn) is None, guest.said
    disconnect(guest)
    until(lambda: state(a)["nvme"]["unauthenticated"] > before, 60)
    forget(guest)

    # A secret too: both are needed.
    own = secret(1)
    set_tls_host(a, tmp_path, key, ASHLAR_DHCHAP_SECRET=own)
    insert(guest, key, nqn, 1)
    assert connect(guest, port, nqn) is None
    disconnect(guest)
    assert connect(guest, port, nqn, f"--tls --dhchap-secret '{own}'"), guest.said
    disconnect(guest)
    a.stop()
    text = (a.folder / "log").read_text()
    assert "came without TLS" in text and "is not the one that" in text
    assert key in hosts.read_text() and "NVMeTLSkey" not in text


def test_the_kernel_discovers_and_connects_to_all_over_tls(array, guest, tmp_path):  # noqa: F811
    a, port, _ = serve(array, tmp_path, "--nvme-tls", "required")
    nqn = make_target(a)
    key = tls_key(1)
    set_tls_host(a, tmp_path, key)
    insert(guest, key, nqn, 1)
    insert(guest, key, DISCOVERY, 1)
    at = f"-t tcp -a 10.0.2.2 -s {port} --hostnqn {HOST} --hostid {HOST_ID}"
    assert nqn not in guest.run(f"nvme discover {at} 2>&1; true")
    found = guest.run(f"nvme discover {at} --tls 2>&1")
    assert nqn in found and re.search(r"treq: +required", found) and "tls13" in found, found
    # Its entries name the address of this machine, where the guest has a relay.
    guest.run(f"nc -ll -p {port} -e nc 10.0.2.2 {port} > /dev/null 2>&1 &")
    said = guest.run(f"nvme connect-all {at} --tls 2>&1; true")
    found = guest.run("for i in 1 2 3 4 5; do ls /dev/nvme*n1 2>/dev/null && break; sleep 1; done; true")
    assert "/dev/nvme" in found, said + guest.run("dmesg | tail -20; tail -20 /tmp/tlshd.log; cat /sys/class/nvme/*/subsysnqn; true")
    disconnect(guest)


def derive(key, host, subsystem):
    """The name and the key of TLS of version 1, as TP 8018 has it."""
    number, data = int(key.split(":")[1]), base64.b64decode(key.split(":")[2])[:-4]
    name = {1: "sha256", 2: "sha384"}[number]

    def label(secret, text, context):
        prk = hmac.digest(bytes(hashlib.new(name).digest_size), secret, name)
        text = b"tls13 " + text
        info = len(secret).to_bytes(2, "big") + bytes([len(text)]) + text + bytes([len(context)]) + context
        return hmac.digest(prk, info + b"\x01", name)

    retained = label(data, b"HostNQN", host.encode())
    digest = base64.b64encode(hmac.digest(retained, f"{host} {subsystem} NVMe-over-Fabrics".encode(), name)).decode()
    identity = f"NVMe1R{number:02} {host} {subsystem} {digest}"
    return identity, label(retained, b"nvme-tls-psk", f"{number:02} {digest}".encode()).hex()


def test_openssl_begins_a_session(array, tmp_path):  # noqa: F811
    a, port, _ = serve(array, tmp_path)
    nqn = make_target(a)
    key = tls_key(1)
    set_tls_host(a, tmp_path, key)
    identity, psk = derive(key, HOST, nqn)

    def ask(identity, psk):
        words = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256",
                 "-psk_identity", identity, "-psk", psk, "-quiet"]
        # An ICReq, and its answer.
        request = bytes([0, 0, 128, 0, 128, 0, 0, 0]) + bytes(120)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as openssl:
            try:
                openssl.stdin.write(request)
                openssl.stdin.flush()
                return openssl.stdout.read(128)
            except BrokenPipeError:
                return b""
            finally:
                openssl.kill()

    answer = ask(identity, psk)
    assert len(answer) == 128 and answer[0] == 1, answer
    assert ask(identity, psk[:-2] + ("00" if psk[-2:] != "00" else "01")) == b""
    assert ask(identity.replace(nqn, DISCOVERY), psk) == b""
    a.stop()


def test_our_own_host_uses_members_of_a_target_that_demands_tls(array, tmp_path):  # noqa: F811
    target, port, hosts = serve(array, tmp_path, "--nvme-tls", "required")
    nqn = make_target(target)
    target.run("create", "vd", "tank", "32MiB", "--name", "more")
    numbers = [v["nsid"] for v in target.ask("list", "vd")]
    key = tls_key(2)
    set_tls_host(target, tmp_path, key)
    file, wrong = tmp_path / "key", tmp_path / "wrong"
    file.write_text(key + "\n"), wrong.write_text(tls_key(2) + "\n")

    def listed(*options, check=True, **env):
        words = [os.environ["ASHLAR_BIN"], "--json", "fabric", "list", f"127.0.0.1:{port}", "--host-nqn", HOST, *options]
        done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == check and key[16:] not in done.stdout + done.stderr, done
        return len(done.stdout.splitlines())

    listed(check=False)
    listed("--tls-key-file", str(wrong), check=False)
    listed("--tls-key", "NVMeTLSkey-1:01:AAAA:", check=False)
    assert listed("--tls-key-file", str(file)) == 2
    # An option comes before the environment, and that before a file.
    assert listed("--tls-key-file", str(wrong), ASHLAR_TLS_KEY=key) == 2
    assert listed("--tls-key", key, ASHLAR_TLS_KEY=wrong.read_text()) == 2

    members = [f"nvme-tcp://127.0.0.1:{port}/{nqn}/{n}" for n in numbers]
    user = array("--host-nqn", HOST, "--tls-key-file", str(file)).start()
    user.run("create", "dg", "raid1", *members, "--journal", "4MiB", "--name", "far", "--allow-shared-drive")
    assert user.group("far")["state"] == "OPTIMAL"
    user.stop()

    # What people see has no key in it, and a table says who has one.
    assert target.ask("list", "host")[0]["tls"] and not target.ask("list", "host")[0]["dhchap"]
    assert state(target)["nvme"]["tls"] == "required"
    assert "NVMeTLSkey" not in json.dumps(state(target)) + get_over_socket(target.socket, "/metrics")
    target.stop()
    assert "NVMeTLSkey" not in (target.folder / "log").read_text() and key in hosts.read_text()


def test_tls_needs_a_file_of_hosts(tmp_path):
    words = [os.environ["ASHLAR_BIN"], "array", "--socket", str(tmp_path / "socket"), "serve", "--nvme-tls", "required"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "--nvme-hosts" in done.stderr, done
    done = subprocess.run([*words[:-1], "perhaps"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "none of off, allowed, required" in done.stderr, done


def test_hosts_with_a_secret_need_no_tls_unless_it_is_required(array, tmp_path):  # noqa: F811
    a, port, _ = serve(array, tmp_path)
    make_target(a)
    own = secret(0)
    set_host(a, [own])

    def listed():
        words = [os.environ["ASHLAR_BIN"], "--json", "fabric", "list", f"127.0.0.1:{port}", "--host-nqn", HOST, "--dhchap-secret", own]
        return subprocess.run(words, capture_output=True, text=True, timeout=60).returncode

    assert listed() == 0
    a.stop()
    a.options = (*a.options, "--nvme-tls", "required")
    a.start()
    assert listed() != 0
    a.stop()
