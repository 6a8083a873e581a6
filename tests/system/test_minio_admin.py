"""MinIO's administration API: the real `mc` administers Ashlar, with the same permissions as in Ashlar's own API.

This file starts its own server, because `mc` stops and restarts it.
"""

import concurrent.futures
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
import zipfile
from pathlib import Path

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, one_server, serve

ROOT = (ACCESS, SECRET)
HERE = Path(__file__).parent
EXPORT = HERE / "fixtures" / "minio-iam-export.zip"
TABLE = HERE / "../../crates/admin/src"
# Secrets that must not show in any log.
PLANTED = ["planted-secret-of-user", "planted-secret-of-key", "planted-client-secret", "fixture-secret-of-anna"]


@pytest.fixture(scope="module")
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-minio-admin-", dir=base))
    before = os.environ.get("ASHLAR_LOG")
    os.environ["ASHLAR_LOG"] = "trace"
    s = serve(home)
    try:
        yield s
        log = s.log.read_text(errors="replace")
        assert [p for p in PLANTED if p in log] == []
        if s.process.poll() is None:
            assert s.stop() == 0
    finally:
        os.environ.pop("ASHLAR_LOG")
        if before is not None:
            os.environ["ASHLAR_LOG"] = before
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def mc(own, tmp_path):
    """Runs `mc --json` against the alias `it`; answers the documents it prints, or its error's code."""

    def go(*args, who=ROOT, fails=None, stdin=None, raw=False):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MC_"))}
        env.update(MC_HOST_it=own.endpoint.replace("http://", f"http://{who[0]}:{who[1]}@"), HOME=str(tmp_path))
        done = subprocess.run(
            [f"{os.environ['CLIENT_BIN']}/mc", *(() if raw else ("--json",)), *map(str, args)],
            env=env, capture_output=True, text=True, timeout=60, input=stdin or "",
        )
        said = done.stdout + done.stderr
        if raw:
            assert done.returncode == 0, said
            return done.stdout
        decoder, documents, rest = json.JSONDecoder(), [], done.stdout.strip()
        while rest:
            one, end = decoder.raw_decode(rest)
            documents.append(one)
            rest = rest[end:].lstrip()
        errors = [d["error"]["cause"]["error"].get("Code") for d in documents if isinstance(d, dict) and d.get("status") == "error"]
        if fails:
            assert errors == [fails], f"{args}: {said}"
            return documents
        assert done.returncode == 0 and not errors, f"{args}: {done.returncode} {said}"
        return documents

    return go


@pytest.fixture(autouse=True)
def swept(own):
    """What a test leaves behind is removed, so that one that fails fails alone."""
    yield
    if own.process.poll() is None:
        base = f"{own.endpoint}/ashlar/admin/v1"
        for kind in ["users", "groups"]:
            for one in plainly("GET", f"{base}/{kind}")[kind]:
                if kind == "groups" and one["members"]:
                    plainly("POST", f"{base}/groups/{one['name']}/members", {"remove": one["members"]})
                plainly("DELETE", f"{base}/{kind}/{one['name']}")


def plainly(method, url, document=None):
    """Root, of our own API."""
    data = None if document is None else json.dumps(document).encode()
    request = AWSRequest(method, url, data=data)
    S3SigV4Auth(Credentials(*ROOT), "s3", REGION).add_auth(request)
    real = urllib.request.Request(url, data=data, method=method, headers=dict(request.headers))
    with urllib.request.urlopen(real, timeout=30) as answer:
        return json.loads(answer.read())


def call(server, who, method, path, body=b"", forge=False):
    """Status and document of a call of the administration API; `who` is a pair, or None for nobody."""
    url = f"{server.endpoint}/minio/admin/{path}"
    request = AWSRequest(method, url, data=body)
    if who:
        S3SigV4Auth(Credentials(*who), "s3", REGION).add_auth(request)
    headers = dict(request.headers)
    if forge:
        sign = headers["Authorization"]
        headers["Authorization"] = sign[:-4] + ("0000" if sign[-4:] != "0000" else "1111")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, url.removeprefix(server.endpoint), body=body, headers=headers)
    except (BrokenPipeError, ConnectionResetError):
        return 400, {"Code": "cut off"}
    answer = connection.getresponse()
    # What has no end is only begun: test_monitoring.py.
    text = answer.read1() if answer.headers["Transfer-Encoding"] == "chunked" else answer.read()
    connection.close()
    try:
        return answer.status, json.loads(text or b"{}")
    except ValueError:
        return answer.status, {"Sealed": len(text)}


def s3(server, access, secret):
    return boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
        region_name=REGION, config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def code_of(call, **kwargs):
    try:
        call(**kwargs)
        return None
    except ClientError as error:
        return error.response["Error"]["Code"]


def policy(tmp_path, actions, name="policy.json"):
    file = tmp_path / name
    statement = {"Effect": "Allow", "Action": actions}
    if any(a.startswith("s3:") for a in actions):
        statement["Resource"] = ["arn:aws:s3:::*"]
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    return file


@pytest.fixture
def administrator(mc, tmp_path):
    """Makes a user that may do exactly these actions."""
    def make(name, *actions):
        who = (name, f"{name}-secret-key")
        mc("admin", "user", "add", "it", *who)
        if actions:
            mc("admin", "policy", "create", "it", f"only-{name}", policy(tmp_path, actions))
            mc("admin", "policy", "attach", "it", f"only-{name}", "--user", name)
        return who

    return make


def test_users_and_groups(own, mc):
    mc("admin", "user", "add", "it", "alice", PLANTED[0])
    assert [u["accessKey"] for u in mc("admin", "user", "list", "it")] == ["alice"]
    assert code_of(s3(own, "alice", PLANTED[0]).list_buckets) in (None, "AccessDenied")
    mc("admin", "policy", "attach", "it", "readwrite", "--user", "alice")
    assert code_of(s3(own, "alice", PLANTED[0]).list_buckets) is None
    shown = mc("admin", "user", "info", "it", "alice")[0]
    assert (shown["policyName"], shown["userStatus"]) == ("readwrite", "enabled")
    assert mc("admin", "user", "policy", "it", "alice")[0]["Statement"]
    mc("admin", "user", "disable", "it", "alice")
    assert code_of(s3(own, "alice", PLANTED[0]).list_buckets) == "InvalidAccessKeyId"
    assert mc("admin", "user", "list", "it")[0]["userStatus"] == "disabled"
    mc("admin", "user", "enable", "it", "alice")
    mc("admin", "group", "add", "it", "staff", "alice")
    mc("admin", "policy", "attach", "it", "diagnostics", "--group", "staff")
    assert mc("admin", "group", "list", "it")[0]["groups"] == ["staff"]
    shown = mc("admin", "group", "info", "it", "staff")[0]
    assert (shown["members"], shown["groupPolicy"], shown["groupStatus"]) == (["alice"], "diagnostics", "enabled")
    assert mc("admin", "user", "info", "it", "alice")[0]["memberOf"] == [{"name": "staff", "policies": ["diagnostics"]}]
    mc("admin", "info", "it", who=("alice", PLANTED[0]))
    mc("admin", "group", "disable", "it", "staff")
    assert call(own, ("alice", PLANTED[0]), "GET", "v3/info")[0] == 403
    mc("admin", "group", "enable", "it", "staff")
    mc("admin", "group", "remove", "it", "staff", fails="XMinioAdminGroupNotEmpty")
    mc("admin", "group", "remove", "it", "staff", "alice")
    mc("admin", "group", "remove", "it", "staff")
    mc("admin", "user", "remove", "it", "alice")
    # What does not exist, and what cannot be.
    mc("admin", "user", "info", "it", "alice", fails="XMinioAdminNoSuchUser")
    mc("admin", "user", "remove", "it", "alice", fails="XMinioAdminNoSuchUser")
    mc("admin", "user", "disable", "it", "alice", fails="XMinioAdminNoSuchUser")
    mc("admin", "group", "info", "it", "staff", fails="XMinioAdminNoSuchGroup")
    mc("admin", "group", "add", "it", "staff", "nobody", fails="XMinioAdminNoSuchUser")
    mc("admin", "user", "add", "it", "bob", "short", fails="XMinioAdminInvalidSecretKey")
    mc("admin", "user", "add", "it", ACCESS, "another-secret-key", fails="XMinioInvalidIAMCredentials")
    mc("admin", "user", "list", "it", who=(ACCESS, "not-root's-secret"), fails="SignatureDoesNotMatch")
    mc("admin", "user", "list", "it", who=("nobody", SECRET), fails="InvalidAccessKeyId")


def test_policies(mc, tmp_path):
    mc("admin", "user", "add", "it", "alice", PLANTED[0])
    mc("admin", "policy", "create", "it", "team", policy(tmp_path, ["s3:GetObject"]))
    shown = mc("admin", "policy", "info", "it", "team")[0]["policyInfo"]
    assert shown["Policy"]["Statement"][0]["Action"] in ("s3:GetObject", ["s3:GetObject"]) and shown["CreateDate"]
    names = {p["policy"] for p in mc("admin", "policy", "list", "it")}
    assert {"team", "readonly", "readwrite", "writeonly", "diagnostics", "consoleAdmin"} <= names
    said = mc("admin", "policy", "attach", "it", "team", "readonly", "--user", "alice")[0]
    assert sorted(said["policiesAttached"]) == ["readonly", "team"]
    # Already so: mc says yes to that.
    mc("admin", "policy", "attach", "it", "team", "--user", "alice")
    found = mc("admin", "policy", "entities", "it", "--user", "alice")[0]["result"]["userMappings"]
    assert found == [{"user": "alice", "policies": ["readonly", "team"]}]
    found = mc("admin", "policy", "entities", "it", "--policy", "team")[0]["result"]["policyMappings"]
    assert found == [{"policy": "team", "users": ["alice"], "groups": []}]
    assert len(mc("admin", "policy", "entities", "it")[0]["result"]["policyMappings"]) == 2
    mc("admin", "policy", "remove", "it", "team", fails="XMinioIAMPolicyInUse")
    mc("admin", "policy", "detach", "it", "team", "readonly", "--user", "alice")
    mc("admin", "policy", "remove", "it", "team")
    mc("admin", "policy", "info", "it", "team", fails="XMinioAdminNoSuchPolicy")
    mc("admin", "policy", "attach", "it", "team", "--user", "alice", fails="XMinioAdminNoSuchPolicy")
    mc("admin", "policy", "attach", "it", "readonly", "--user", "nobody", fails="XMinioAdminNoSuchUser")
    (tmp_path / "bad.json").write_text('{"Statement":[{"Effect":"Maybe","Action":"s3:*"}]}')
    mc("admin", "policy", "create", "it", "bad", tmp_path / "bad.json", fails="XMinioMalformedIAMPolicy")
    mc("admin", "user", "remove", "it", "alice")


def test_access_keys(own, mc, tmp_path):
    mc("admin", "user", "add", "it", "alice", PLANTED[0])
    mc("admin", "policy", "attach", "it", "readwrite", "--user", "alice")
    bound = policy(tmp_path, ["s3:GetObject"])
    mc("admin", "accesskey", "create", "it", "alice", "--access-key", "alicekey1", "--secret-key", PLANTED[1],
       "--name", "backup", "--description", "for the backup", "--policy", bound, "--expiry-duration", "24h")
    assert code_of(s3(own, "alicekey1", PLANTED[1]).list_buckets) in (None, "AccessDenied")
    assert code_of(s3(own, "alicekey1", PLANTED[1]).create_bucket, Bucket="made") == "AccessDenied"
    shown = mc("admin", "accesskey", "info", "it", "alicekey1")[0]
    assert (shown["parentUser"], shown["accountStatus"], shown["name"]) == ("alice", "on", "backup")
    assert shown["policy"]["Statement"][0]["Action"] in ("s3:GetObject", ["s3:GetObject"]) and shown["expiration"]
    mc("admin", "accesskey", "edit", "it", "alicekey1", "--description", "other")
    after = mc("admin", "accesskey", "info", "it", "alicekey1")[0]
    assert after == {**shown, "description": "other"}
    mc("admin", "accesskey", "disable", "it", "alicekey1")
    assert code_of(s3(own, "alicekey1", PLANTED[1]).list_buckets) == "InvalidAccessKeyId"
    mc("admin", "accesskey", "enable", "it", "alicekey1")
    # A user's own, without any right to administer; made, listed, removed by itself.
    alice = ("alice", PLANTED[0])
    made = mc("admin", "accesskey", "create", "it", who=alice)[0]
    assert code_of(s3(own, made["accessKey"], made["secretKey"]).list_buckets) is None
    listed = mc("admin", "accesskey", "ls", "it", who=alice)[0]["svcaccs"]
    assert {k["accessKey"] for k in listed} == {"alicekey1", made["accessKey"]}
    assert mc("admin", "accesskey", "ls", "it", "alice")[0]["svcaccs"] == listed
    assert {u["user"] for u in mc("admin", "accesskey", "ls", "it", "--all")} == {"alice"}
    mc("admin", "accesskey", "rm", "it", made["accessKey"], who=alice)
    # The older words for the same.
    mc("admin", "user", "svcacct", "add", "it", "alice", "--access-key", "alicekey2", "--secret-key", PLANTED[1])
    assert {k["accessKey"] for k in mc("admin", "user", "svcacct", "ls", "it", "alice")} == {"alicekey1", "alicekey2"}
    assert mc("admin", "user", "svcacct", "info", "it", "alicekey2")[0]["impliedPolicy"] is True
    mc("admin", "user", "svcacct", "edit", "it", "alicekey2", "--secret-key", "another-secret-of-it")
    assert code_of(s3(own, "alicekey2", "another-secret-of-it").list_buckets) is None
    mc("admin", "user", "svcacct", "disable", "it", "alicekey2")
    mc("admin", "user", "svcacct", "enable", "it", "alicekey2")
    mc("admin", "user", "svcacct", "rm", "it", "alicekey2")
    # Failures.
    mc("admin", "accesskey", "create", "it", ACCESS, who=alice, fails="AccessDenied")
    mc("admin", "accesskey", "create", "it", "nobody", fails="XMinioAdminNoSuchUser")
    mc("admin", "accesskey", "create", "it", "alice", "--access-key", "alicekey1", "--secret-key", PLANTED[1],
       fails="XMinioInvalidIAMCredentials")
    mc("admin", "accesskey", "rm", "it", "nosuchkey", fails="XMinioInvalidIAMCredentials")
    mc("admin", "user", "sts", "info", "it", "nosuchkey", fails="XMinioAdminNoSuchAccessKey")
    mc("admin", "accesskey", "info", "it", "alicekey1", who=alice)
    mc("admin", "user", "remove", "it", "alice")
    assert code_of(s3(own, "alicekey1", PLANTED[1]).list_buckets) == "InvalidAccessKeyId"


def test_settings(mc, tmp_path):
    names = {h["key"] for h in mc("admin", "config", "get", "it")[0]["help"]["keysHelp"]}
    assert {"identity_openid", "identity_ldap", "identity_tls"} <= names
    mc("admin", "config", "set", "it", "identity_tls", "enable=off", "comment=two words")
    values = {kv["key"]: kv["value"] for kv in mc("admin", "config", "get", "it", "identity_tls")[0]["config"][0]["kv"]}
    assert (values["enable"], values["comment"]) == ("off", "two words")
    # Out and in again.
    text = mc("admin", "config", "export", "it", raw=True)
    assert 'identity_tls comment="two words" enable=off' in text
    mc("admin", "config", "reset", "it", "identity_tls")
    assert "\nidentity_tls" not in "\n" + mc("admin", "config", "export", "it", raw=True)
    mc("admin", "config", "import", "it", stdin=text, raw=True)
    assert mc("admin", "config", "export", "it", raw=True) == text
    mc("admin", "config", "reset", "it", "identity_tls")
    mc("admin", "config", "set", "it", "nosuch", "a=b", fails="XMinioConfigError")
    mc("admin", "config", "set", "it", "identity_tls", "a=b", fails="XMinioConfigError")
    mc("admin", "config", "set", "it", "identity_tls", "enable=maybe", fails="XMinioAdminInvalidArgument")
    mc("admin", "config", "get", "it", "nosuch", fails="XMinioConfigError")
    mc("admin", "config", "history", "it", fails="NotImplemented")


def test_directory_is_configured_and_its_password_is_never_shown(mc):
    # Off, so that nothing is asked of a directory that is not there.
    given = ["server_addr=127.0.0.1:1", "lookup_bind_dn=cn=reader,dc=example", f"lookup_bind_password={PLANTED[2]}",
             "user_dn_search_base_dn=dc=example", "user_dn_search_filter=(uid=%s)", "enable=off"]
    mc("idp", "ldap", "add", "it", *given)
    assert mc("idp", "ldap", "ls", "it")[0] == [{"type": "ldap", "name": "_", "enabled": False}]
    shown = json.dumps(mc("idp", "ldap", "info", "it")) + mc("admin", "config", "export", "it", raw=True)
    assert "cn=reader,dc=example" in shown and PLANTED[2] not in shown and "*redacted*" in shown
    mc("idp", "ldap", "add", "it", *given, fails="XMinioAdminConfigIDPCfgNameAlreadyExists")
    mc("idp", "ldap", "update", "it", "comment=changed")
    assert {"key": "comment", "value": "changed", "isCfg": True, "isEnv": False} in mc("idp", "ldap", "info", "it")[0]["info"]
    mc("idp", "ldap", "policy", "attach", "it", "readonly", "--user", "uid=ann,dc=example")
    mc("idp", "ldap", "policy", "attach", "it", "readonly", "--group", "cn=staff,dc=example")
    found = mc("idp", "ldap", "policy", "entities", "it")[0]["result"]["policyMappings"]
    assert found == [{"policy": "readonly", "users": ["uid=ann,dc=example"], "groups": ["cn=staff,dc=example"]}]
    mc("idp", "ldap", "policy", "detach", "it", "readonly", "--user", "uid=ann,dc=example")
    mc("idp", "ldap", "policy", "detach", "it", "readonly", "--group", "cn=staff,dc=example")
    mc("idp", "ldap", "accesskey", "ls", "it")
    mc("idp", "ldap", "rm", "it")
    mc("idp", "openid", "update", "it", "nosuch", "client_id=x", fails="XMinioAdminConfigIDPCfgNameDoesNotExist")
    mc("idp", "openid", "rm", "it", "nosuch", fails="XMinioAdminConfigIDPCfgNameDoesNotExist")
    mc("idp", "openid", "info", "it", "nosuch", fails="XMinioAdminNoSuchConfigTarget")


def test_quotas(own, mc):
    root = s3(own, *ROOT)
    root.create_bucket(Bucket="limited")
    mc("quota", "set", "it/limited", "--size", "1MiB")
    assert mc("quota", "info", "it/limited")[0]["quota"] == 1 << 20
    assert code_of(root.put_object, Bucket="limited", Key="a", Body=bytes(2 << 20))
    mc("quota", "clear", "it/limited")
    assert mc("quota", "info", "it/limited")[0].get("quota", 0) == 0
    assert code_of(root.put_object, Bucket="limited", Key="a", Body=bytes(2 << 20)) is None
    mc("quota", "set", "it/nosuch", "--size", "1MiB", fails="NoSuchBucket")
    mc("quota", "info", "it/nosuch", fails="NoSuchBucket")


def test_identities_exported_by_minio_are_imported(own, mc, tmp_path):
    said = mc("admin", "cluster", "iam", "import", "it", EXPORT)[0]
    assert said["added"]["users"] == ["anna", "bert", "carl", "dora"]
    assert said["added"]["groups"] == ["closed", "staff"]
    assert said["added"]["serviceAccounts"] == ["annaskey1", "bertskey1", "bertskey2"]
    assert said["skipped"]["serviceAccounts"] == ["rootskey1"] and not said["failed"]
    root = s3(own, *ROOT)
    root.create_bucket(Bucket="team")
    root.put_object(Bucket="team", Key="a", Body=b"1")
    who = {n: s3(own, n, f"fixture-secret-of-{n}") for n in ["anna", "bert", "carl", "dora"]}
    who.update({k: s3(own, k, f"fixture-secret-{k}") for k in ["annaskey1", "bertskey1", "bertskey2", "rootskey1"]})
    read = {n: code_of(c.get_object, Bucket="team", Key="a") for n, c in who.items()}
    assert read == {"anna": None, "bert": None, "carl": "InvalidAccessKeyId", "dora": None, "annaskey1": None,
                    "bertskey1": None, "bertskey2": "InvalidAccessKeyId", "rootskey1": "InvalidAccessKeyId"}
    written = {n: code_of(who[n].put_object, Bucket="team", Key=n, Body=b"") for n in ["anna", "annaskey1", "bertskey1", "dora"]}
    assert written == {"anna": None, "annaskey1": "AccessDenied", "bertskey1": None, "dora": "AccessDenied"}
    # Once more: the same, and nothing breaks. Then out of here, and in again.
    assert not mc("admin", "cluster", "iam", "import", "it", EXPORT)[0]["failed"]
    mc("admin", "cluster", "iam", "export", "it", "--output", tmp_path / "ours.zip")
    for user in ["anna", "bert", "carl", "dora"]:
        mc("admin", "user", "remove", "it", user)
    said = mc("admin", "cluster", "iam", "import", "it", tmp_path / "ours.zip")[0]
    assert not said["failed"] and said["added"]["serviceAccounts"] == ["annaskey1", "bertskey1", "bertskey2"]
    assert code_of(who["annaskey1"].get_object, Bucket="team", Key="a") is None
    assert code_of(who["annaskey1"].put_object, Bucket="team", Key="b", Body=b"") == "AccessDenied"
    assert code_of(who["carl"].list_buckets) == "InvalidAccessKeyId"
    with zipfile.ZipFile(tmp_path / "ours.zip") as ours, zipfile.ZipFile(EXPORT) as theirs:
        assert set(ours.namelist()) == set(theirs.namelist())
        for name in ["users", "user_mappings"]:
            mine, other = (json.loads(z.read(f"iam-assets/{name}.json")) for z in (ours, theirs))
            assert mine.keys() == other.keys()
    for user in ["anna", "bert", "carl", "dora"]:
        mc("admin", "user", "remove", "it", user)
    for group in ["staff", "closed"]:
        mc("admin", "group", "remove", "it", group)


def archive(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, value in files.items():
            z.writestr(f"iam-assets/{name}.json", json.dumps(value))
    return out.getvalue()


def test_import_grants_no_more_than_requests(own, mc, administrator):
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["admin:*", "s3:*"], "Resource": ["*"]}]}
    evil = archive(
        policies={"evil": everything, "readonly": everything},
        users={"evilone": {"secretKey": "evil-secret-key", "status": "enabled"}},
        groups={"evils": {"version": 1, "status": "enabled", "members": ["importer"]}},
        svcaccts={"evilkey": {"parent": ACCESS, "accessKey": "evilkey", "secretKey": "evil-secret-key", "sessionPolicy": None, "status": "on"},
                  "endedkey": {"parent": "importer", "accessKey": "endedkey", "secretKey": "evil-secret-key", "status": "on",
                               "expiration": "2020-01-01T00:00:00Z"}},
        user_mappings={"importer": {"version": 1, "policy": "consoleAdmin"}},
        group_mappings={"evils": {"version": 1, "policy": "consoleAdmin"}},
    )
    before = root_view(own)
    who = administrator("importer", "admin:ImportIAM")
    status, said = call(own, who, "PUT", "v3/import-iam-v2", evil)
    assert status == 200 and "added" not in said, said
    assert said["skipped"]["serviceAccounts"] == ["endedkey"]
    # Built-in policies are never imported.
    assert [e["name"] for e in said["failed"]["policies"]] == ["evil"] and all("Access Denied" in e["reason"] for e in said["failed"]["users"])
    # With every action but everything: what would give more is still refused.
    who = administrator("operator", "admin:*")
    status, said = call(own, who, "PUT", "v3/import-iam-v2", evil)
    assert status == 200 and set(said.get("added", {})) <= {"users", "groups"}, said
    assert call(own, who, "GET", "v3/export-iam")[0] == 403
    # What it could make by hand it made: a user, a group without a policy.
    if "evils" in said.get("added", {}).get("groups", []):
        mc("admin", "group", "remove", "it", "evils", "importer")
        mc("admin", "group", "remove", "it", "evils")
    for name in said.get("added", {}).get("users", []):
        mc("admin", "user", "remove", "it", name)
    for body, code in [(b"no archive", "XMinioAdminInvalidArgument"), (archive(users=[1]), "XMinioAdminConfigBadJSON")]:
        status, said = call(own, ROOT, "PUT", "v3/import-iam-v2", body)
        assert (status, said["Code"]) == (400, code)
    assert call(own, ROOT, "PUT", "v3/import-iam-v2", bytes(5 << 20))[0] == 400
    assert root_view(own) == before


def root_view(server):
    """All policies, but those that tests made for themselves."""
    status, policies = call(server, ROOT, "GET", "v3/list-canned-policies")
    assert status == 200
    return {n: p for n, p in policies.items() if not n.startswith("only-")}


def test_escalation_is_refused_in_mc_too(own, mc, administrator, tmp_path):
    who = administrator("helper", "admin:CreateUser", "admin:CreatePolicy", "admin:AttachUserOrGroupPolicy",
                        "admin:UpdatePolicyAssociation", "admin:ConfigUpdate", "admin:AddUserToGroup", "admin:ExportIAM")
    mc("admin", "user", "add", "it", "victim", "victim-secret-key")
    mc("admin", "user", "add", "it", "victim", "taken-over-secret", who=who, fails="AccessDenied")
    mc("admin", "policy", "create", "it", "more", policy(tmp_path, ["admin:*"]), who=who, fails="AccessDenied")
    mc("admin", "policy", "attach", "it", "consoleAdmin", "--user", "helper", who=who, fails="AccessDenied")
    mc("admin", "policy", "attach", "it", "consoleAdmin", "--user", "victim", who=who, fails="AccessDenied")
    mc("admin", "config", "set", "it", "identity_openid:evil", "config_url=http://127.0.0.1:1/x", "client_id=x",
       "role_policy=consoleAdmin", who=who, fails="AccessDenied")
    mc("idp", "openid", "add", "it", "evil", "config_url=http://127.0.0.1:1/x", who=who, fails="AccessDenied")
    # mc closes this answer before it reads the error in it.
    mc("admin", "cluster", "iam", "export", "it", "--output", tmp_path / "x.zip", who=who, fails="403 Forbidden")
    mc("admin", "accesskey", "create", "it", "victim", who=who, fails="AccessDenied")
    mc("admin", "config", "get", "it", "identity_openid", who=who)
    mc("admin", "user", "remove", "it", "victim")


def calls_of_the_table():
    """Method, path, query and the actions of each call, read from the server's own tables."""
    routes = {}
    for name, actions in re.findall(r'^    (\w+) [A-Z]+ "[^"]+" ([\w ]+);', (TABLE / "table.rs").read_text(), re.M):
        routes[name] = actions.split()
    found = re.findall(r'^    (\w+) ([A-Z]+) "([^"]+)" \[([^\]]*)\] ([\w ]+);', (TABLE / "minio/table.rs").read_text(), re.M)
    names = dict(re.findall(r'(\w+) = "(admin:\w+)"', (HERE / "../../crates/policy/src/action.rs").read_text()))
    values = {"status": "enabled", "listType": "all", "isGroup": "false", "action": "stop", "key": "identity_tls",
              "subSys": "identity_tls", "bucket": "nosuch"}
    out = []
    for name, method, pattern, query, of in found:
        path = "v3/" + pattern.replace("idp-config/*/*", "idp-config/openid/x").replace("idp-config/*", "idp-config/openid")
        path = path.replace("*", "builtin")
        pairs = [f"{q}={values.get(q, 'nosuch')}" for q in re.findall(r'"(\w+)"', query)]
        if name == "Service":
            pairs.append("dry-run=true")
        out.append((name, method, path + ("?" + "&".join(pairs) if pairs else ""), [[names[a] for a in routes[r]] for r in of.split()]))
    assert len(out) >= 45, out
    return out


# About the requester's own account when no other is named, which needs no policy.
OWN = {"UserRevoke", "KeyListBulk", "KeyListLdap", "KeyAdd", "KeyUpdate", "KeyInfo", "KeyInfoAny", "KeyInfoTemporary", "KeyList",
       "KeyRemove", "UserAdd", "UserInfo"}
# Calls that a policy of their action is not enough for.
MORE = {"ConfigSet", "ConfigDelete", "ConfigImport", "IdpAdd", "IdpUpdate", "IdpRemove", "IamExport"}


def test_each_call_by_each_kind_of_caller(own, mc, administrator):
    nobody = administrator("plain")
    wrong = administrator("other", "admin:ServerUpdate")
    for number, (name, method, path, actions) in enumerate(calls_of_the_table()):
        # A signature that is wrong, or not there, tells nothing and does nothing.
        status, said = call(own, None, method, path)
        assert (status, said["Code"]) == (403, "AccessDenied"), name
        status, said = call(own, ROOT, method, path, forge=True)
        assert (status, said["Code"]) == (403, "SignatureDoesNotMatch"), name
        status, said = call(own, ("nosuchkey", SECRET), method, path)
        assert (status, said["Code"]) == (403, "InvalidAccessKeyId"), name
        for who in (nobody, wrong):
            status, said = call(own, who, method, path)
            if name in OWN:
                assert status in (200, 204, 400, 403, 404), (name, said)
            else:
                assert (status, said["Code"]) == (403, "AccessDenied"), (name, who, said)
        # Exactly the actions of the call, as the table says. Its document is empty, so that nothing happens.
        first = [of[0] for of in actions] + (["admin:GetUser"] if name == "PolicySet" else [])
        # It tells of the server's drives too.
        first += ["admin:ServerInfo"] if name == "HealStatus" else []
        right = administrator(f"right{number}", *first)
        status, said = call(own, right, method, path)
        if name in MORE and status == 403:
            assert "needs root or a full administrator" in said["Message"], (name, said)
        else:
            assert status != 403, (name, said)


@one_server
def test_missing_features_are_reported_to_authenticated_callers(own, mc):
    for path, status, code in [
        ("v4/info", 426, "XMinioAdminVersionMismatch"), ("v2/info", 426, "XMinioAdminVersionMismatch"),
        ("v3/top/nosuch", 501, "NotImplemented"), ("v3/nosuch", 501, "NotImplemented"), ("v3/user-info", 400, "XMinioAdminInvalidArgument"),
    ]:
        got, said = call(own, ROOT, "GET", path)
        assert (got, said["Code"]) == (status, code), (path, said)
        assert call(own, None, "GET", path)[0] == 403
    mc("admin", "service", "freeze", "it", fails="NotImplemented")
    info = mc("admin", "info", "it")[0]["info"]
    assert info["backend"]["onlineDisks"] == 4 and len(info["servers"][0]["drives"]) == 4


def test_sealed_documents_cannot_exhaust_the_server(own, administrator):
    """A plain user may make access keys of its own, so it may make the server open documents: one at a time."""
    who = administrator("greedy")
    peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{own.process.pid}/status").read_text())[1])
    call(own, who, "PUT", "v3/add-service-account", bytes(57))
    before, began = peak(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        got = list(pool.map(lambda _: call(own, who, "PUT", "v3/add-service-account", bytes(57)), range(144)))
    codes = {(status, said["Code"]) for status, said in got}
    assert codes <= {(400, "XMinioAdminConfigBadJSON"), (503, "SlowDown")} and (400, "XMinioAdminConfigBadJSON") in codes, codes
    assert peak() - before < 160 << 10, "KiB"
    assert time.monotonic() - began < 60
    assert call(own, who, "PUT", "v3/add-service-account", bytes((64 << 10) + 1))[0] == 400


@one_server
def test_mc_restarts_and_stops_the_server(own, mc):
    pid = own.process.pid
    mc("admin", "user", "add", "it", "stays", PLANTED[0])
    started = float(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    mc("admin", "service", "restart", "it")
    deadline = time.monotonic() + 40
    while True:
        try:
            status, said = call(own, ROOT, "GET", "v3/info")
            if status == 200 and said["servers"][0]["uptime"] < 3:
                break
        except OSError:
            pass
        assert time.monotonic() < deadline and own.process.poll() is None
        time.sleep(0.1)
    assert started == float(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    assert [u["accessKey"] for u in mc("admin", "user", "list", "it")] == ["stays"]
    mc("admin", "user", "remove", "it", "stays")
    mc("admin", "service", "stop", "it")
    assert own.process.wait(timeout=40) == 0
