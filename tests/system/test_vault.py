"""Encryption with keys in a real HashiCorp Vault. By hand only: skipped unless the program `vault` is with the
other clients (`target/clients/bin`), where `tests/system/install` does not bring it: no release's Go module builds
outside its own tree, since its `sdk` there was never published. What every run tests is the driver against a
server that answers as Vault's documentation says (`crates/kms/tests/vault.rs`).

Vault listens on loopback with TLS and keeps what it has in a folder, so that it can be stopped, sealed and started
again.
"""

import hashlib
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig

from conftest import Server, free_port, noise
from key_server import home  # noqa: F401: a fixture
from test_encryption import certificate, client, environment, holds, refused, run

VAULT = f"{os.environ['CLIENT_BIN']}/vault"
pytestmark = pytest.mark.skipif(not os.access(VAULT, os.X_OK), reason="Vault's program is not there")
POLICY = """
path "transit/encrypt/*" { capabilities = ["update"] }
path "transit/decrypt/*" { capabilities = ["update"] }
path "transit/keys/*" { capabilities = ["create", "read", "update"] }
path "transit/keys" { capabilities = ["list"] }
"""
SSE = [{"ServerSideEncryption": "AES256"}, {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "team-key"}]


class Vault:
    """One Vault, initialised, unsealed, with a transit engine, a policy and a role of AppRole."""

    def __init__(self, home: Path, policy=POLICY, ttl="1h"):
        self.home, self.process, self.port = home, None, free_port()
        self.endpoint = f"https://127.0.0.1:{self.port}"
        home.mkdir(parents=True, exist_ok=True)
        certs = certificate(home / "certs")
        self.ca = certs / "public.crt"
        self.context = ssl.create_default_context(cafile=self.ca)
        (home / "vault.hcl").write_text(f"""
storage "file" {{ path = "{home}/data" }}
listener "tcp" {{
  address = "127.0.0.1:{self.port}"
  tls_cert_file = "{certs}/public.crt"
  tls_key_file = "{certs}/private.key"
}}
disable_mlock = true
api_addr = "{self.endpoint}"
""")
        self.token = ""
        self.start(wait=(501,))
        made = self.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
        self.share, self.token = made["keys"][0], made["root_token"]
        self.unseal()
        self.ask("POST", "sys/mounts/transit", {"type": "transit"})
        self.ask("PUT", "sys/policies/acl/ashlar", {"policy": policy})
        self.ask("POST", "sys/auth/approle", {"type": "approle"})
        self.ask("POST", "auth/approle/role/ashlar", {"token_policies": "ashlar", "token_ttl": ttl, "token_max_ttl": ttl})
        role = self.ask("GET", "auth/approle/role/ashlar/role-id")["data"]["role_id"]
        secret = self.ask("POST", "auth/approle/role/ashlar/secret-id")["data"]["secret_id"]
        self.role = {"ASHLAR_KMS_VAULT_ROLE_ID": role, "ASHLAR_KMS_VAULT_SECRET_ID": secret}

    def ask(self, method, path, document=None):
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(f"{self.endpoint}/v1/{path}", data, {"X-Vault-Token": self.token}, method=method)
        with urllib.request.urlopen(request, timeout=10, context=self.context) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start(self, wait=(503,)):
        """Waits until it answers with one of these: 501 not initialised, 503 sealed."""
        # Built with a newer Go than its own it does not start without: a driver of a database in it comes with
        # a certificate that Go does not take any more.
        env = dict(os.environ, GODEBUG="x509negativeserial=1")
        self.process = subprocess.Popen([VAULT, "server", "-config", self.home / "vault.hcl"], env=env, stdin=subprocess.DEVNULL,
                                        stdout=(self.home / "vault.log").open("ab"), stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.ask("GET", "sys/health")
            except urllib.error.HTTPError as e:
                if e.code in wait:
                    return
            except OSError:
                pass
            assert self.process.poll() is None and time.monotonic() < deadline, (self.home / "vault.log").read_text()
            time.sleep(0.05)

    def unseal(self):
        self.ask("PUT", "sys/unseal", {"key": self.share})
        deadline = time.monotonic() + 30
        while True:
            try:
                return self.ask("GET", "sys/health")
            except urllib.error.HTTPError:
                assert time.monotonic() < deadline, (self.home / "vault.log").read_text()
                time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=20)

    def by_token(self):
        made = self.ask("POST", "auth/token/create", {"policies": ["ashlar"], "ttl": "1h"})
        return {**self.reached(), "ASHLAR_KMS_VAULT_TOKEN": made["auth"]["client_token"]}

    def by_role(self):
        return {**self.reached(), **self.role}

    def reached(self):
        return {"ASHLAR_KMS_VAULT": self.endpoint, "ASHLAR_KMS_VAULT_CA": str(self.ca)}


def kms(*more):
    return [os.environ["ASHLAR_BIN"], "--json", "admin", "kms", *more]


def begun(home, tmp_path, **more):
    """Vault, our server with its default key made, a client and a bucket."""
    path, started = home
    started.append(vault := Vault(path / "kms", **more))
    started.append(server := Server(path / "store", env=vault.by_role()))
    run(environment(server, tmp_path), *kms("key", "create", "it", "ashlar"))
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    return vault, server, s3


@pytest.mark.parametrize("how", [Vault.by_token, Vault.by_role])
def test_objects_are_sealed_by_vault(home, tmp_path, how):
    path, started = home
    started.append(vault := Vault(path / "kms"))
    started.append(server := Server(path / "store", env=how(vault)))
    env = environment(server, tmp_path)
    mc = [f"{os.environ['CLIENT_BIN']}/mc", "--json", "admin", "kms"]
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    refused(s3.put_object, "KMS.NotFoundException", Bucket="bkt", Key="early", Body=b"x", **SSE[0])
    run(env, *kms("key", "create", "it", "ashlar"))
    status = json.loads(run(env, *kms("status", "it")).stdout)
    assert (status["driver"], status["endpoint"], status["works"], status["default_key"]) == ("vault", vault.endpoint, True, "ashlar")
    run(env, *mc, "key", "create", "it", "team-key")
    assert run(env, *mc, "key", "create", "it", "team-key", check=False).returncode != 0
    assert "success" in run(env, *mc, "key", "status", "it", "team-key").stdout
    listed = run(env, *mc, "key", "list", "it").stdout
    assert "team-key" in listed and "ashlar" in listed
    assert sorted(vault.ask("GET", "transit/keys?list=true")["data"]["keys"]) == ["ashlar", "team-key"]

    mark = hashlib.sha256(b"mark").hexdigest().encode()
    body = lambda size: (mark * (size // 64 + 1))[:size]
    for k, kind in enumerate(SSE):
        s3.put_object(Bucket="bkt", Key=f"small{k}", Body=body(900), **kind)
        s3.put_object(Bucket="bkt", Key=f"large{k}", Body=body(3_000_000), **kind)
        (path / "up").write_bytes(body(11_000_000))
        s3.upload_file(str(path / "up"), "bkt", f"multi{k}", ExtraArgs=kind,
                       Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
        (path / "up").unlink()
    unknown = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "no-such-key"}
    refused(s3.put_object, "KMS.NotFoundException", Bucket="bkt", Key="unknown", Body=mark, **unknown)
    assert "no-such-key" not in vault.ask("GET", "transit/keys?list=true")["data"]["keys"], "Vault made a key nobody meant"
    time.sleep(0.5)
    assert not holds(path / "store", mark), "in clear on a drive"
    assert not holds(path / "kms" / "data", mark)

    def all_there():
        for k in range(len(SSE)):
            for name, size in [("small", 900), ("large", 3_000_000), ("multi", 11_000_000)]:
                got = s3.get_object(Bucket="bkt", Key=f"{name}{k}")
                assert got["Body"].read() == body(size), (name, k)
                assert got["ServerSideEncryption"] == SSE[k]["ServerSideEncryption"]

    all_there()
    assert server.stop() == 0
    server.start()
    all_there()

    # A new version seals from now on; the old one opens, until what it sealed is sealed anew and Vault forgets it.
    for name in ["ashlar", "team-key"]:
        assert json.loads(run(env, *kms("key", "rotate", "it", name)).stdout)["version"] == 2
        assert vault.ask("GET", f"transit/keys/{name}")["data"]["latest_version"] == 2
    s3.put_object(Bucket="bkt", Key="newer", Body=b"newer", **SSE[0])
    all_there()
    run(env, *kms("rewrap", "it/bkt"))
    deadline = time.monotonic() + 30
    while (now := json.loads(run(env, *kms("rewrap", "it", "--status")).stdout))["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (now["sealed"], now["failed"]) == (6, 0), now
    for name in ["ashlar", "team-key"]:
        vault.ask("POST", f"transit/keys/{name}/config", {"min_decryption_version": 2, "min_available_version": 0})
        vault.ask("POST", f"transit/keys/{name}/config", {"min_encryption_version": 2})
        vault.ask("POST", f"transit/keys/{name}/trim", {"min_available_version": 2})
    assert server.stop() == 0
    server.start()
    all_there()
    assert s3.get_object(Bucket="bkt", Key="newer")["Body"].read() == b"newer"
    vault.ask("POST", "transit/keys/team-key/config", {"deletion_allowed": True})
    vault.ask("DELETE", "transit/keys/team-key")
    assert server.stop() == 0
    server.start()
    assert s3.get_object(Bucket="bkt", Key="small0")["Body"].read() == body(900)
    with pytest.raises(s3.exceptions.ClientError) as caught:
        s3.get_object(Bucket="bkt", Key="small1")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403, 404), caught.value.response


def test_expired_token_is_renewed(home, tmp_path):
    vault, server, s3 = begun(home, tmp_path, ttl="1s")
    for turn in range(3):
        s3.put_object(Bucket="bkt", Key=f"k{turn}", Body=noise(50, turn), **SSE[0])
        time.sleep(1.5)
    assert server.stop() == 0
    server.start()
    for turn in range(3):
        assert s3.get_object(Bucket="bkt", Key=f"k{turn}")["Body"].read() == noise(50, turn)
    # One that was given is not made anew: what it may do is up to Vault.
    assert server.stop() == 0
    given = vault.by_token()
    server.env = given
    server.start()
    vault.ask("POST", "auth/token/revoke", {"token": given["ASHLAR_KMS_VAULT_TOKEN"]})
    refused(s3.put_object, "AccessDenied", Bucket="bkt", Key="k", Body=b"x", **SSE[0])


def test_vault_sealed_or_unreachable(home, tmp_path):
    path, _ = home
    vault, server, s3 = begun(home, tmp_path)
    mark = hashlib.sha256(b"down").hexdigest().encode()
    s3.put_object(Bucket="bkt", Key="sealed", Body=noise(70_000), **SSE[0])
    s3.put_object(Bucket="bkt", Key="plain", Body=b"plain")

    def nothing_goes():
        refused(s3.put_object, "ServiceUnavailable", Bucket="bkt", Key="a", Body=mark * 99, **SSE[0])
        refused(s3.create_multipart_upload, "ServiceUnavailable", Bucket="bkt", Key="a", **SSE[0])
        assert s3.get_object(Bucket="bkt", Key="plain")["Body"].read() == b"plain"

    vault.ask("PUT", "sys/seal", {})
    nothing_goes()
    vault.stop()
    nothing_goes()
    # It starts all the same, and serves what needs no key.
    assert server.stop() == 0
    server.start()
    refused(s3.get_object, "ServiceUnavailable", Bucket="bkt", Key="sealed")
    nothing_goes()
    vault.start()
    nothing_goes()
    vault.unseal()
    assert s3.get_object(Bucket="bkt", Key="sealed")["Body"].read() == noise(70_000)
    assert {o["Key"] for o in s3.list_objects_v2(Bucket="bkt")["Contents"]} == {"sealed", "plain"}
    s3.put_object(Bucket="bkt", Key="a", Body=mark * 99, **SSE[0])
    assert s3.get_object(Bucket="bkt", Key="a")["Body"].read() == mark * 99
    assert not holds(path / "store", mark), "in clear on a drive"


def test_denials_by_the_vault_policy_are_reported(home, tmp_path):
    path, started = home
    reading = POLICY.replace('"transit/encrypt/*" { capabilities = ["update"]', '"transit/encrypt/*" { capabilities = ["deny"]')
    started.append(vault := Vault(path / "kms", policy=reading))
    vault.ask("POST", "transit/keys/ashlar", {"type": "aes256-gcm96"})
    started.append(server := Server(path / "store", env=vault.by_role()))
    s3 = client(server)
    s3.create_bucket(Bucket="bkt")
    refused(s3.put_object, "AccessDenied", Bucket="bkt", Key="k", Body=b"x", **SSE[0])
    status = json.loads(run(environment(server, tmp_path), *kms("status", "it")).stdout)
    assert not status["works"] and "403" in status["problem"], status
    vault.ask("PUT", "sys/policies/acl/ashlar", {"policy": POLICY})
    s3.put_object(Bucket="bkt", Key="k", Body=b"x", **SSE[0])
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == b"x"


def test_data_on_drives_is_unreadable_without_vault(home, tmp_path):
    """Under a Vault that has another key of the same name."""
    path, started = home
    vault, server, s3 = begun(home, tmp_path)
    s3.put_object(Bucket="bkt", Key="k", Body=noise(5000), **SSE[0])
    assert server.stop() == 0
    (path / "other").mkdir()
    started.append(other := Vault(path / "other" / "kms"))
    other.ask("POST", "transit/keys/ashlar", {"type": "aes256-gcm96"})
    server.env = other.by_role()
    server.start()
    with pytest.raises(s3.exceptions.ClientError) as caught:
        s3.get_object(Bucket="bkt", Key="k")["Body"].read()
    assert "cannot be opened" in str(caught.value)
    assert server.stop() == 0
    server.env = vault.by_role()
    server.start()
    assert s3.get_object(Bucket="bkt", Key="k")["Body"].read() == noise(5000)
