"""Users, groups, policies and access keys: made on the command line, used by boto3.

This file starts its own server, because it restarts it with other root secrets.
"""

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, one_server, serve

BASE = "/ashlar/admin/v1/"
BIN = os.environ["ASHLAR_BIN"]
# Secrets that must not show anywhere.
PLANTED = ["planted-secret-of-alice", "planted-secret-of-a-key", "planted-secret-of-bob"]


@pytest.fixture(scope="module")
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-identities-", dir=base))
    # Everything that can be logged is, and is searched for secrets in the end.
    before = os.environ.get("ASHLAR_LOG")
    os.environ["ASHLAR_LOG"] = "trace"
    s = serve(home)
    try:
        yield s
        assert s.stop() == 0
    finally:
        os.environ.pop("ASHLAR_LOG")
        if before is not None:
            os.environ["ASHLAR_LOG"] = before
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


def client(server, access=ACCESS, secret=SECRET, service="s3", token=None):
    return boto3.client(
        service, endpoint_url=server.endpoint, aws_access_key_id=access, aws_secret_access_key=secret,
        aws_session_token=token, region_name=REGION,
        config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def call(server, who, method, path, body=None):
    """Status and JSON of an administration call; `who` is a pair, or None for nobody."""
    data = None if body is None else json.dumps(body).encode()
    url = server.endpoint + BASE + path
    request = AWSRequest(method, url, data=data)
    if who:
        S3SigV4Auth(Credentials(*who), "s3", REGION).add_auth(request)
    real = urllib.request.Request(url, data=data, method=method, headers=dict(request.headers))
    try:
        with urllib.request.urlopen(real, timeout=30) as answer:
            if answer.headers["Content-Type"] == "application/x-ndjson":
                # Goes on for ever, perhaps: test_monitoring.py.
                return answer.status, {}
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def root(server, method, path, body=None):
    status, answer = call(server, (ACCESS, SECRET), method, path, body)
    assert status < 300, (status, answer)
    return answer


@pytest.fixture
def cli(own, tmp_path):
    def go(*args, who=(ACCESS, SECRET), check=True, stdin=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MC_"))}
        env["MC_HOST_it"] = own.endpoint.replace("http://", f"http://{who[0]}:{who[1]}@")
        env["ASHLAR_CONFIG"] = str(tmp_path / "config.toml")
        done = subprocess.run(
            [BIN, *map(str, args)], env=env, capture_output=True, text=True, timeout=60, input=stdin or "",
        )
        if check and done.returncode != 0:
            pytest.fail(f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return go


def denied(call, *args, **kwargs):
    with pytest.raises(ClientError) as caught:
        call(*args, **kwargs)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403, caught.value
    return caught.value


def allow(actions, resource="arn:aws:s3:::*"):
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": resource}]}


def test_users_are_managed_on_the_command_line(own, cli, tmp_path):
    s3 = client(own)
    s3.create_bucket(Bucket="team")
    s3.put_object(Bucket="team", Key="a", Body=b"1")
    cli("admin", "user", "add", "it", "alice", stdin=PLANTED[0] + "\n")
    alice = client(own, "alice", PLANTED[0])
    denied(alice.get_object, Bucket="team", Key="a")
    # A policy takes effect on the very next request, and so does its change.
    cli("admin", "policy", "attach", "it", "readonly", "--user", "alice")
    assert alice.get_object(Bucket="team", Key="a")["Body"].read() == b"1"
    denied(alice.put_object, Bucket="team", Key="a", Body=b"2")
    cli("admin", "policy", "detach", "it", "readonly", "--user", "alice")
    denied(alice.get_object, Bucket="team", Key="a")
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(allow(["s3:PutObject", "s3:GetObject"], "arn:aws:s3:::team/home/${aws:username}/*")))
    cli("admin", "policy", "create", "it", "home", file)
    cli("admin", "group", "add", "it", "staff", "alice")
    cli("admin", "policy", "attach", "it", "home", "--group", "staff")
    alice.put_object(Bucket="team", Key="home/alice/x", Body=b"x")
    denied(alice.put_object, Bucket="team", Key="home/bob/x", Body=b"x")
    file.write_text(json.dumps(allow("s3:GetObject", "arn:aws:s3:::team/home/${aws:username}/*")))
    cli("admin", "policy", "create", "it", "home", file)
    denied(alice.put_object, Bucket="team", Key="home/alice/x", Body=b"x")
    assert alice.get_object(Bucket="team", Key="home/alice/x")["Body"].read() == b"x"
    cli("admin", "group", "disable", "it", "staff")
    denied(alice.get_object, Bucket="team", Key="home/alice/x")
    cli("admin", "group", "enable", "it", "staff")
    alice.get_object(Bucket="team", Key="home/alice/x")
    # What is shown.
    shown = json.loads(cli("--json", "admin", "user", "info", "it", "alice").stdout)
    assert shown["groups"] == ["staff"] and shown["enabled"] and shown["used_ms"] and "secret" not in shown
    assert "alice" in cli("admin", "user", "list", "it").stdout
    assert "home" in cli("admin", "group", "info", "it", "staff").stdout
    names = [json.loads(l)["name"] for l in cli("--json", "admin", "policy", "list", "it").stdout.splitlines()]
    assert {"readonly", "home", "consoleAdmin"} <= set(names)
    assert "GetObject" in cli("admin", "policy", "info", "it", "home").stdout
    said = cli("admin", "policy", "simulate", "it", "alice", "s3:GetObject", "team/home/alice/x").stdout
    assert said.startswith("allowed") and "policy home" in said
    said = cli("admin", "policy", "simulate", "it", "alice", "s3:PutObject", "team/home/alice/x").stdout
    assert said.startswith("denied")
    # In use, not there, not possible.
    assert cli("admin", "policy", "remove", "it", "home", check=False).returncode == 1
    assert cli("admin", "user", "info", "it", "nobody", check=False).returncode == 3
    assert cli("admin", "user", "list", "it", who=("alice", PLANTED[0]), check=False).returncode == 4
    # Disabled at once.
    cli("admin", "user", "disable", "it", "alice")
    denied(alice.get_object, Bucket="team", Key="home/alice/x")
    cli("admin", "user", "enable", "it", "alice")
    alice.get_object(Bucket="team", Key="home/alice/x")


def test_access_keys(own, cli, tmp_path):
    alice = ("alice", PLANTED[0])
    made = json.loads(cli("--json", "admin", "accesskey", "create", "it", who=alice).stdout)
    key = client(own, made["access_key"], made["secret"])
    assert key.get_object(Bucket="team", Key="home/alice/x")["Body"].read() == b"x"
    denied(key.put_object, Bucket="team", Key="home/alice/x", Body=b"y")
    # One that says more than its user may is no more; one that says less is less.
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(allow("s3:*")))
    wide = json.loads(cli(
        "--json", "admin", "accesskey", "create", "it", "--secret-key", PLANTED[1], "--policy", file,
        "--name", "wide", "--expiry-duration", "1h", who=alice,
    ).stdout)
    assert wide["secret"] == PLANTED[1]
    bounded = client(own, wide["access_key"], wide["secret"])
    denied(bounded.put_object, Bucket="team", Key="home/alice/x", Body=b"y")
    bounded.get_object(Bucket="team", Key="home/alice/x")
    file.write_text(json.dumps(allow("s3:ListBucket")))
    cli("admin", "accesskey", "edit", "it", wide["access_key"], "--policy", file, who=alice)
    denied(bounded.get_object, Bucket="team", Key="home/alice/x")
    # Restricted keys make no keys, nor free themselves; nobody makes keys for others.
    who = (wide["access_key"], wide["secret"])
    for method, path, body in [
        ("POST", "keys", {}), ("PATCH", f"keys/{who[0]}", {"policy": ""}), ("DELETE", f"keys/{made['access_key']}", None),
        ("PUT", "users/alice", {"secret": "taken-over-secret"}),
    ]:
        assert call(own, who, method, path, body)[0] == 403, (method, path)
    for user in [ACCESS, "bob", "staff"]:
        assert call(own, alice, "POST", "keys", {"user": user})[0] == 403
    listed = cli("--json", "admin", "accesskey", "list", "it", who=alice).stdout
    assert made["access_key"] in listed and wide["access_key"] in listed and "planted" not in listed
    assert cli("admin", "accesskey", "list", "it", "bob", who=alice, check=False).returncode == 4
    assert PLANTED[1] not in cli("admin", "accesskey", "info", "it", wide["access_key"]).stdout
    cli("admin", "accesskey", "disable", "it", made["access_key"], who=alice)
    denied(key.get_object, Bucket="team", Key="home/alice/x")
    cli("admin", "accesskey", "enable", "it", made["access_key"], who=alice)
    key.get_object(Bucket="team", Key="home/alice/x")
    cli("admin", "accesskey", "remove", "it", made["access_key"], who=alice)
    denied(key.get_object, Bucket="team", Key="home/alice/x")


def test_bucket_policy_grants_anonymous_access(own):
    s3 = client(own)
    url = f"{own.endpoint}/team/a"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url, timeout=10)
    assert caught.value.code == 403
    policy = allow("s3:GetObject", "arn:aws:s3:::team/a")
    policy["Statement"][0]["Principal"] = "*"
    s3.put_bucket_policy(Bucket="team", Policy=json.dumps(policy))
    assert urllib.request.urlopen(url, timeout=10).read() == b"1"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{own.endpoint}/team/home/alice/x", timeout=10)
    assert caught.value.code == 403
    said = root(own, "POST", "simulate", {"user": "", "action": "s3:GetObject", "resource": "team/a"})
    assert said["allowed"] and "bucket" in said["why"]
    s3.delete_bucket_policy(Bucket="team")
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url, timeout=10)


# The routes of the server, each with the actions that a caller needs for it.
ROUTES = [
    ("GET", "info", None, ["admin:ServerInfo"]),
    ("GET", "usage", None, ["admin:DataUsageInfo"]),
    ("GET", "usage/limits", None, ["admin:DataUsageInfo"]),
    ("GET", "trace", None, ["admin:ServerTrace"]),
    ("GET", "logs", None, ["admin:ConsoleLog"]),
    ("GET", "top", None, ["admin:ServerTrace"]),
    ("GET", "history", None, ["admin:Prometheus"]),
    ("GET", "heal", None, ["admin:Heal"]),
    ("GET", "heal/limits", None, ["admin:Heal"]),
    ("GET", "heal/limits", None, ["admin:HealLimits"]),
    ("PUT", "heal/limits", {"busy_share": 25}, ["admin:HealLimits"]),
    ("DELETE", "heal/limits", None, ["admin:HealLimits"]),
    ("GET", "drives", None, ["admin:StorageInfo"]),
    ("POST", "drives/offline", {"drive": "none"}, ["admin:Decommission"]),
    ("POST", "drives/online", {"drive": "none"}, ["admin:Decommission"]),
    ("POST", "drives/replace", {"drive": "none"}, ["admin:Heal"]),
    ("POST", "drives/recover", {"dry_run": True}, ["admin:Heal"]),
    ("GET", "drives/recover", None, ["admin:Heal"]),
    ("GET", "cluster", None, ["admin:ServerInfo"]),
    ("GET", "cluster/may-stop", None, ["admin:ServerInfo"]),
    # A machine that is alone: 409.
    ("POST", "cluster/tokens", {}, ["admin:Decommission"]),
    ("POST", "cluster/upgrade", {"dry_run": True}, ["admin:ServerUpdate"]),
    ("GET", "metrics-token", None, ["admin:Prometheus"]),
    ("GET", "users", None, ["admin:ListUsers"]),
    ("PUT", "users/{new}", {"secret": "long-enough-secret"}, ["admin:CreateUser"]),
    ("GET", "users/target", None, ["admin:GetUser"]),
    ("POST", "users/target/disable", None, ["admin:DisableUser"]),
    ("POST", "users/target/enable", None, ["admin:EnableUser"]),
    ("POST", "users/target/revoke", None, ["admin:RevokeTemporaryAccounts"]),
    ("GET", "groups", None, ["admin:ListGroups"]),
    ("POST", "groups/crew/members", {"add": ["target"]}, ["admin:AddUserToGroup"]),
    ("POST", "groups/crew/members", {"remove": ["target"]}, ["admin:RemoveUserFromGroup"]),
    ("GET", "groups/crew", None, ["admin:GetGroup"]),
    ("POST", "groups/crew/disable", None, ["admin:DisableGroup"]),
    ("POST", "groups/crew/enable", None, ["admin:EnableGroup"]),
    ("DELETE", "groups/crew", None, ["admin:RemoveUserFromGroup"]),
    ("GET", "policies", None, ["admin:ListUserPolicies"]),
    ("GET", "policies/readonly", None, ["admin:GetPolicy"]),
    ("PUT", "policies/mine", allow("admin:CreatePolicy"), ["admin:CreatePolicy"]),
    ("POST", "policies/attach", {"policies": ["right"], "user": "target"}, ["admin:AttachUserOrGroupPolicy"]),
    ("POST", "policies/detach", {"policies": ["right"], "user": "target"}, ["admin:UpdatePolicyAssociation"]),
    ("DELETE", "policies/mine", None, ["admin:DeletePolicy"]),
    ("GET", "keys?user=target", None, ["admin:ListServiceAccounts"]),
    ("GET", "keys?all=true", None, ["admin:ListServiceAccounts"]),
    ("GET", "keys/TARGETKEY", None, ["admin:ListServiceAccounts"]),
    ("POST", "keys", {"user": "target"}, None),
    ("PATCH", "keys/TARGETKEY", {"description": "x"}, None),
    ("DELETE", "keys/TARGETKEY", None, ["admin:RemoveServiceAccount"]),
    ("POST", "simulate", {"user": "target", "action": "s3:GetObject", "resource": "b"}, ["admin:GetPolicy"]),
    ("GET", "mappings", None, ["admin:GetPolicy"]),
    ("GET", "iam/export", None, None),
    ("POST", "iam/import", {}, ["admin:ImportIAM"]),
    ("GET", "settings", None, ["admin:ConfigUpdate"]),
    ("PUT", "settings/identity_tls/_", {"values": {"enable": "off"}}, None),
    ("GET", "settings/identity_tls/_", None, ["admin:ConfigUpdate"]),
    ("DELETE", "settings/identity_tls/_", None, None),
    ("POST", "service/stop", {"dry_run": True}, ["admin:ServiceStop"]),
    ("POST", "service/restart", {"dry_run": True}, ["admin:ServiceRestart"]),
    ("GET", "quotas/team", None, ["admin:GetBucketQuota"]),
    ("PUT", "quotas/team", {"quota": 1 << 40}, ["admin:SetBucketQuota"]),
    ("DELETE", "quotas/team", None, ["admin:SetBucketQuota"]),
    ("DELETE", "users/target", None, ["admin:DeleteUser"]),
    ("POST", "drives/scrub", {}, ["admin:Heal"]),
    ("POST", "heal", {}, ["admin:Heal"]),
    ("PUT", "quotas/limits", {"quota": 1 << 30}, ["admin:SetBucketQuota"]),
    ("GET", "quotas/limits", None, ["admin:GetBucketQuota"]),
    ("DELETE", "quotas/limits", None, ["admin:SetBucketQuota"]),
    ("GET", "openapi.json", None, ["admin:ServerInfo"]),
    ("GET", "idp/openid", None, ["admin:ConfigUpdate"]),
    # Whoever makes a provider can become anybody: the action alone is not enough (test_openid.py).
    ("PUT", "idp/tls/_", {"values": {"enable": "off"}}, None),
    ("PATCH", "idp/tls/_", {"values": {"comment": "x"}}, None),
    ("POST", "idp/tls/_/disable", None, None),
    ("POST", "idp/tls/none/enable", None, ["admin:ConfigUpdate"]),
    ("DELETE", "idp/tls/_", None, None),
    ("GET", "lifecycle/none", None, ["admin:DataUsageInfo"]),
    ("POST", "lifecycle/none/test", {}, ["admin:DataUsageInfo"]),
    ("POST", "lifecycle/none/simulate", {}, ["admin:SimulateLifecycle"]),
    ("POST", "idp/ldap/none/test", {"username": "a", "password": "b"}, ["admin:TestSignIn"]),
    ("GET", "placement/none/key", None, ["admin:ObjectPlacement"]),
    ("POST", "placement/none/key/heal", None, ["admin:Heal"]),
    ("GET", "events", None, ["admin:ServerInfo"]),
    ("POST", "events/none/test", None, ["admin:TestEventTarget"]),
    ("GET", "dead-letters", None, ["admin:ConfigUpdate"]),
    ("POST", "dead-letters/none/replay", None, ["admin:ConfigUpdate"]),
    ("DELETE", "dead-letters/none", None, ["admin:ConfigUpdate"]),
    ("GET", "kms/status", None, ["admin:KMSKeyStatus"]),
    ("GET", "kms/keys", None, ["admin:KMSKeyStatus"]),
    ("GET", "kms/rewrap", None, ["admin:KMSKeyStatus"]),
    # There are no keys on this server: reaching that is what counts (test_encryption.py has some).
    ("GET", "kms/keys/none", None, ["admin:KMSKeyStatus"]),
    ("PUT", "kms/keys/none", None, ["admin:KMSCreateKey"]),
    ("POST", "kms/keys/none/rotate", None, ["admin:KMSCreateKey"]),
    ("POST", "kms/rewrap", {"bucket": "none"}, ["admin:KMSCreateKey"]),
    ("GET", "why/0000000000000000", None, ["admin:Audit"]),
    ("GET", "audit", None, ["admin:AuditSearch"]),
    # There is no cluster.
    ("POST", "cluster/remove", {"node": 9}, ["admin:Decommission"]),
    ("POST", "cluster/authority", {"replace": "00"}, ["admin:Decommission"]),
    ("POST", "cluster/control-members", {"members": ["127.0.0.1"]}, ["admin:Decommission"]),
]

# Routes about the caller only, which every account may ask.
OWN = [
    ("POST", "permissions", {"checks": [{"action": "admin:GetUser"}, {"action": "s3:ListBucket", "resource": "limits"}]}),
]


def test_every_route_by_every_kind_of_caller(own):
    secret = "long-enough-secret"
    for name in ["nothing", "wrong", "right", "target"]:
        root(own, "PUT", f"users/{name}", {"secret": secret})
    root(own, "POST", "keys", {"user": "target", "access_key": "TARGETKEY"})
    root(own, "PUT", "policies/right", allow("admin:GetUser"))
    root(own, "POST", "policies/attach", {"policies": ["right"], "user": "right"})
    root(own, "PUT", "policies/wrong", allow("admin:Profiling"))
    root(own, "POST", "policies/attach", {"policies": ["wrong"], "user": "wrong"})
    client(own).create_bucket(Bucket="limits")
    # Every route of the server's table is here.
    source = (Path(__file__).parents[2] / "crates/admin/src/table.rs").read_text()
    table = re.findall(r'^    \w+ (GET|PUT|POST|PATCH|DELETE) "([^"]+)"', source, re.M)
    assert len(table) >= 32
    names = r"^(usage|users|groups|policies|keys|quotas|why|kms/keys|lifecycle|dead-letters|events|placement)/(?!attach|detach)[^/]+|^(settings)/.+"
    ours = {(m, re.sub(names, lambda n: f"{n[1] or n[2]}/*", p.split("?")[0])) for m, p, _, _ in ROUTES}
    ours = {(m, re.sub(r"^idp/.*?(/enable|/disable|/test)?$", r"idp/*\1", p)) for m, p in ours}
    ours = {(m, p.replace("placement/*/key", "placement/*")) for m, p in ours}
    assert ours | {(m, p) for m, p, _ in OWN} == set(table)
    for method, path, body in OWN:
        assert call(own, None, method, path, body)[0] == 403, path
        assert call(own, ("nothing", "not-the-secret"), method, path, body)[0] == 403, path
        status, answer = call(own, ("nothing", secret), method, path, body)
        assert status == 200 and not any(c["allowed"] for c in answer["checks"]), (path, answer)
        status, answer = call(own, ("right", secret), method, path, body)
        assert status == 200 and [c["allowed"] for c in answer["checks"]] == [True, False], (path, answer)
    for i, (method, path, body, actions) in enumerate(ROUTES):
        path = path.replace("{new}", f"fresh{i}")
        status, answer = call(own, None, method, path, body)
        assert status == 403, ("nobody", method, path, status)
        assert call(own, ("right", "not-the-secret"), method, path, body)[0] == 403
        for who in ["nothing", "wrong"]:
            status, answer = call(own, (who, secret), method, path, body)
            assert (status, answer["code"]) == (403, "AccessDenied"), (who, method, path, status, answer)
        if actions is None:
            # The action alone is not enough: with keys of others, settings, or secrets, who has it could become others.
            root(own, "PUT", "policies/right", allow(["admin:CreateServiceAccount", "admin:UpdateServiceAccount", "admin:ConfigUpdate", "admin:ExportIAM"]))
            assert call(own, ("right", secret), method, path, body)[0] == 403
            root(own, method, path, body)
            continue
        root(own, "PUT", "policies/right", allow(actions))
        status, answer = call(own, ("right", secret), method, path, body)
        # Reaching the action is what counts: there is no drive "none", and a pass may be running.
        reached = [200, 202, 409] if "none" not in f"{path} {body}" else [400, 404]
        reached = [404] if path.startswith("why/") else reached
        # The server has keys of its own; nothing needs a recovery.
        reached = [200, 400, 404, 409] if path.startswith("kms/") else reached
        reached = [200, 400, 404] if path == "drives/recover" else reached
        assert status in reached, ("right", method, path, status, answer)
    assert call(own, (ACCESS, SECRET), "GET", "nonsense")[0] == 404
    assert call(own, None, "GET", "nonsense")[0] == 403


def test_root_lists_all_keys_and_built_in_policies_are_kept(own):
    root(own, "PUT", "users/keyholder", {"secret": "long-enough-secret"})
    root(own, "POST", "keys", {"user": "keyholder", "access_key": "HOLDERSKEY"})
    assert "HOLDERSKEY" in [k["access_key"] for k in root(own, "GET", "keys")["keys"]]
    assert root(own, "GET", f"keys?user={ACCESS}")["keys"] == [k for k in root(own, "GET", "keys?all=true")["keys"] if k["user"] == ACCESS]
    mine = call(own, ("keyholder", "long-enough-secret"), "GET", "keys")[1]["keys"]
    assert [k["access_key"] for k in mine] == ["HOLDERSKEY"]
    before = root(own, "GET", "policies/readonly")
    done = root(own, "POST", "iam/import", {"policies": {"readonly": allow(["s3:*"]), "imported-here": allow(["s3:GetObject"])}})
    outcomes = {r["name"]: r["outcome"] for r in done["records"]}
    assert outcomes == {"readonly": "skipped", "imported-here": "added"}
    assert root(own, "GET", "policies/readonly") == before


def test_users_manage_their_own_keys(own):
    me = ("nothing", "long-enough-secret")
    assert call(own, me, "GET", "users/nothing")[0] == 200
    assert call(own, me, "GET", "keys")[0] == 200
    assert call(own, me, "POST", "users/nothing/revoke")[0] == 200
    assert call(own, me, "PUT", "users/nothing", {"secret": "another-long-secret"})[0] == 200
    assert call(own, me, "GET", "keys")[0] == 403, "the old secret"
    me = ("nothing", "another-long-secret")
    status, key = call(own, me, "POST", "keys", {})
    assert status == 200 and len(key["secret"]) == 40
    assert call(own, (key["access_key"], key["secret"]), "GET", "keys")[1]["keys"][0]["access_key"] == key["access_key"]
    assert call(own, me, "DELETE", f"keys/{key['access_key']}")[0] == 200
    for method, path, body in [
        ("POST", "policies/attach", {"policies": ["consoleAdmin"], "user": "nothing"}),
        ("POST", "users/nothing/enable", None), ("DELETE", "users/nothing", None),
        ("POST", "groups/staff/members", {"add": ["nothing"]}),
    ]:
        assert call(own, me, method, path, body)[0] == 403, path
    # A deny reaches one's own things too.
    deny = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "admin:CreateServiceAccount"}]}
    root(own, "PUT", "policies/nokeys", deny)
    root(own, "POST", "policies/attach", {"policies": ["nokeys"], "user": "nothing"})
    assert call(own, me, "POST", "keys", {})[0] == 403


def test_temporary_credentials(own):
    alice = client(own, "alice", PLANTED[0], "sts")
    me = alice.get_caller_identity()
    assert me["Arn"].endswith(":user/alice") and me["UserId"] == "alice" and len(me["Account"]) == 12
    role = dict(RoleArn="arn:aws:iam::000000000000:role/any", RoleSessionName="job")
    made = alice.assume_role(**role, DurationSeconds=900)["Credentials"]
    three = made["AccessKeyId"], made["SecretAccessKey"]
    session = client(own, *three, token=made["SessionToken"])
    assert session.get_object(Bucket="team", Key="home/alice/x")["Body"].read() == b"x"
    denied(session.put_object, Bucket="team", Key="home/alice/x", Body=b"y")
    assert client(own, *three, "sts", made["SessionToken"]).get_caller_identity()["UserId"] == "alice"
    # Bounded by its own policy too.
    less = alice.assume_role(**role, Policy=json.dumps(allow("s3:ListBucket")))["Credentials"]
    narrow = client(own, less["AccessKeyId"], less["SecretAccessKey"], token=less["SessionToken"])
    denied(narrow.get_object, Bucket="team", Key="home/alice/x")
    # A session makes nothing that lasts longer than itself.
    for make in [
        lambda: client(own, *three, "sts", made["SessionToken"]).assume_role(**role),
        lambda: alice.assume_role(**role, DurationSeconds=60 * 60 * 24 * 400),
        lambda: alice.assume_role(**role, Policy="no policy"),
        lambda: client(own, "alice", "not-the-secret", "sts").get_caller_identity(),
        lambda: client(own, "nobody", "not-the-secret", "sts").get_caller_identity(),
    ]:
        with pytest.raises(ClientError) as caught:
            make()
        assert caught.value.response["Error"]["Code"], caught.value
    form = urllib.request.Request(
        own.endpoint + "/", data=b"Action=GetCallerIdentity&Version=2011-06-15",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(form, timeout=10)
    assert caught.value.code == 403
    # Revoked, and gone with its user.
    assert call(own, ("alice", PLANTED[0]), "POST", "users/alice/revoke")[0] == 200
    with pytest.raises(ClientError):
        session.get_object(Bucket="team", Key="home/alice/x")


def test_user_administrators_cannot_escalate_privileges(own):
    """No sequence of calls by an administrator of users makes a credential that does more than that
    one could: every call there is, up to four in a row, in random order. Federated callers, and every way
    to hold a policy: crates/admin/src/delegation_tests.rs."""
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    print("SEED", seed)
    rng = random.Random(seed)
    secret = "long-enough-secret"
    root(own, "PUT", "policies/lifter", allow(["admin:*", "s3:ListBucket"]))
    root(own, "PUT", "policies/keep-out", {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Deny", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::*"}],
    })
    root(own, "PUT", "users/lifter", {"secret": secret})
    root(own, "PUT", "users/strong", {"secret": "nobody-knows-this-one"})
    root(own, "POST", "policies/attach", {"policies": ["lifter"], "user": "lifter"})
    # A caller who is allowed everything except what a policy denies.
    root(own, "PUT", "policies/everything", allow("*", "*"))
    root(own, "PUT", "users/fenced", {"secret": secret})
    root(own, "POST", "policies/attach", {"policies": ["everything", "keep-out"], "user": "fenced"})
    s3 = client(own)
    # Names that a bucket's policy gives something, whether there is such a user or not.
    s3.create_bucket(Bucket="named")
    s3.put_bucket_policy(Bucket="named", Policy=json.dumps({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::named", "arn:aws:s3:::named/*"],
        "Principal": {"AWS": ["arn:aws:iam:::user/zoe", "arn:aws:iam:::user/strong"]}}]}))
    s3.put_object(Bucket="named", Key="a", Body=b"1")
    # A bucket that the caller may configure.
    s3.create_bucket(Bucket="lifted")
    owner = s3.list_buckets()["Owner"]["ID"]
    root(own, "POST", "policies/attach", {"policies": ["readwrite"], "user": "strong"})
    root(own, "POST", "groups/power/members", {"add": ["strong"]})
    root(own, "POST", "policies/attach", {"policies": ["consoleAdmin"], "group": "power"})
    fresh = itertools.count()
    for turn in range(60):
        first = "fenced" if turn % 3 == 0 else "lifter"
        known = [(first, secret)]
        mine = [f"l{next(fresh)}x"]
        for _ in range(4):
            who = rng.choice(known)
            user = rng.choice([*mine, first, "strong", "zoe", owner, ACCESS])
            group = rng.choice(["power", f"g{next(fresh)}"])
            name = rng.choice(["readwrite", "consoleAdmin", "lifter", "keep-out", f"p{mine[0]}"])
            method, path, body = rng.choice([
                ("PUT", f"users/{user}", {"secret": secret}),
                ("PUT", f"users/{mine[0]}", {"secret": secret}),
                ("PUT", f"policies/{name}", allow("s3:*")),
                ("PUT", f"policies/{name}", allow("admin:*")),
                ("POST", "policies/attach", {"policies": [name], "user": user}),
                ("POST", "policies/attach", {"policies": [name], "group": group}),
                ("POST", "policies/detach", {"policies": [name], "user": user}),
                ("POST", f"groups/{group}/members", {"add": [user]}),
                ("POST", f"groups/{group}/disable", None),
                ("POST", "keys", {"user": user}),
                ("POST", "keys", {"user": who[0], "policy": allow("*", "*")}),
                ("POST", "policies/detach", {"policies": ["keep-out"], "user": "fenced"}),
                ("PUT", "policies/keep-out", {"Version": "2012-10-17", "Statement": [
                    {"Effect": "Deny", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::none"}]}),
                ("DELETE", f"policies/{name}", None),
                ("DELETE", f"users/{user}", None),
                ("POST", "iam/import", {"users": {user: {"secret": secret, "enabled": True}}}),
                ("POST", "iam/import", {"policies": {name: allow("*", "*")}, "user_policies": {mine[0]: [name]}}),
                ("POST", "iam/import", {"groups": {group: {"members": [user], "enabled": True}},
                                        "group_policies": {group: [name]}}),
                ("POST", "iam/import", {"keys": {f"K{mine[0]}": {"user": user, "secret": secret, "enabled": True}}}),
            ])
            status, answer = call(own, who, method, path, body)
            assert status < 500, (method, path, status, answer)
            if status == 200 and method == "PUT" and path.startswith("users/"):
                assert path != "users/strong" and path != f"users/{ACCESS}"
                known.append((path[6:], secret))
            if status == 200 and path == "keys" and "secret" in answer:
                known.append((answer["access_key"], answer["secret"]))
            if status == 200 and path == "iam/import":
                records = [r for r in answer["records"] if r["kind"] in ("user", "key") and r["outcome"] == "added"]
                known.extend((r["name"], secret) for r in records)
        if not any(u["name"] == "strong" for u in root(own, "GET", "users")["users"]):
            # It was removed, which gives nobody anything; for the next sequences it is there again.
            root(own, "PUT", "users/strong", {"secret": "nobody-knows-this-one"})
            root(own, "POST", "policies/attach", {"policies": ["readwrite"], "user": "strong"})
            root(own, "POST", "groups/power/members", {"add": ["strong"]})
        for who in known:
            them = client(own, *who)
            denied(them.put_object, Bucket="team", Key="lifted", Body=b"x")
            if first == "lifter":
                denied(them.get_object, Bucket="team", Key="a")
                denied(them.get_object, Bucket="named", Key="a")
            # A log of one's own bucket is no way into another one.
            with pytest.raises(ClientError):
                them.put_bucket_logging(Bucket="lifted", BucketLoggingStatus={
                    "LoggingEnabled": {"TargetBucket": "team", "TargetPrefix": "lifted"}})


def test_identities_are_exported_and_imported(own, tmp_path):
    env = dict(os.environ, ASHLAR_CONFIG_DIR=str(tmp_path), NO_COLOR="1",
               ASHLAR_HOST_it=own.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"))

    def cli(*args):
        return subprocess.run([BIN, "--json", "admin", *args], env=env, capture_output=True, text=True, timeout=60)

    root(own, "PUT", "users/mover", {"secret": "secret-of-the-mover"})
    root(own, "PUT", "policies/moving", allow("s3:ListAllMyBuckets"))
    root(own, "POST", "policies/attach", {"policies": ["moving"], "user": "mover"})
    made = cli("cluster", "iam", "export", "it", "--output", str(tmp_path / "all.json"))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "all.json").stat().st_mode & 0o777 == 0o600
    assert cli("cluster", "iam", "export", "it", "--output", str(tmp_path / "all.json")).returncode != 0, "never overwritten"
    root(own, "DELETE", "users/mover")
    root(own, "DELETE", "policies/moving")
    back = cli("cluster", "iam", "import", "it", str(tmp_path / "all.json"))
    records = json.loads(back.stdout)["records"]
    outcome = {(r["kind"], r["name"]): r["outcome"] for r in records}
    assert outcome[("user", "mover")] == "added" and outcome[("policy", "moving")] == "added", outcome
    client(own, "mover", "secret-of-the-mover").list_buckets()
    (tmp_path / "zip").write_bytes(b"PK\x03\x04")
    assert cli("cluster", "iam", "import", "it", str(tmp_path / "zip")).returncode != 0


@contextlib.contextmanager
def started(server, args, env):
    """A server with other credentials, for as long as the block takes."""
    process = subprocess.Popen(
        args, env=env, stdout=server.log.open("ab"), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                urllib.request.urlopen(f"{server.endpoint}/minio/health/ready", timeout=2)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, server.log.read_text()[-2000:]
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


@one_server
def test_change_of_the_root_secret_and_sealed_records(own):
    root(own, "PUT", "users/bob", {"secret": PLANTED[2]})
    root(own, "POST", "policies/attach", {"policies": ["readwrite"], "user": "bob"})
    assert own.stop() == 0
    own.start()
    bob = client(own, "bob", PLANTED[2])
    bob.put_object(Bucket="team", Key="b", Body=b"after")
    alice = client(own, "alice", PLANTED[0])
    assert alice.get_object(Bucket="team", Key="home/alice/x")["Body"].read() == b"x"
    denied(alice.put_object, Bucket="team", Key="home/alice/x", Body=b"y")
    assert own.stop() == 0
    # Another root secret: refused in words that say what to do, and done with the old one.
    args = [BIN, "server", own.drives, "--address", f"127.0.0.1:{own.port}"]
    other = "another-root-secret"
    env = dict(os.environ, ASHLAR_ROOT_USER=ACCESS, ASHLAR_ROOT_PASSWORD=other, ASHLAR_STATE_DIR=str(own.home / "state"))
    refused = subprocess.run(args, env=env, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "ASHLAR_ROOT_PASSWORD_OLD" in refused.stderr, refused.stderr
    with started(own, args, dict(env, ASHLAR_ROOT_PASSWORD_OLD=SECRET)):
        assert bob.get_object(Bucket="team", Key="b")["Body"].read() == b"after"
        client(own, ACCESS, other).list_buckets()
        denied(client(own).list_buckets)
    # The old one is not needed again; and back, for whoever runs after this.
    with started(own, args, env):
        assert bob.get_object(Bucket="team", Key="b")["Body"].read() == b"after"
    with started(own, args, dict(env, ASHLAR_ROOT_PASSWORD=SECRET, ASHLAR_ROOT_PASSWORD_OLD=other)):
        client(own).list_buckets()
    # No secret in the log, nor on the drives.
    for secret in PLANTED:
        found = subprocess.run(["grep", "-rlaF", secret, str(own.home)], capture_output=True, text=True)
        assert found.stdout == "", (secret, found.stdout)
    # The search finds what is there, and everything was logged.
    log = own.log.read_text()
    assert "DEBUG" in log and "users/alice" in log and "alice" in log
    own.start()
