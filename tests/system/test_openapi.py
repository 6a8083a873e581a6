"""The administration API against its own description: real answers validate, and no request that the
description allows makes the server fail.

A server of this file's own, with administration on a port of its own too.
"""

import copy
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import jsonschema
import pytest
import requests
import schemathesis
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import HealthCheck, Phase, settings

from conftest import ACCESS, REGION, SECRET, Server, free_port
from test_identities import allow

BIN = os.environ["ASHLAR_BIN"]
BASE = "/ashlar/api/v1"
DOCUMENT = json.loads(subprocess.run([BIN, "admin", "api-document"], capture_output=True, check=True).stdout)
OPERATIONS = {o["operationId"]: (m.upper(), p, o) for p, item in DOCUMENT["paths"].items() for m, o in item.items()}


def closed(components):
    """The same schemas, but what is not described may not be there either."""
    out = copy.deepcopy(components)
    schemas = out["schemas"].values()
    parts = {part["$ref"].rsplit("/", 1)[-1] for s in schemas for part in s.get("allOf", []) if "$ref" in part}
    for name, schema in out["schemas"].items():
        if name not in parts and ("properties" in schema or "allOf" in schema) and "additionalProperties" not in schema:
            schema["unevaluatedProperties"] = False
    # The description itself is described by its first members only.
    out["schemas"]["OpenApi"].pop("unevaluatedProperties")
    return out


CLOSED = closed(DOCUMENT["components"])


@pytest.fixture(scope="module")
def own():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-openapi-", dir=base))
    port = free_port()
    os.environ["ASHLAR_ADMIN_ADDRESS"] = f"127.0.0.1:{port}"
    try:
        s = Server(home, env={"ASHLAR_KMS_ROOT_KEY": "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="})
    finally:
        os.environ.pop("ASHLAR_ADMIN_ADDRESS")
    s.admin = f"http://127.0.0.1:{port}"
    try:
        yield s
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


def sign(method, url, data=None, who=(ACCESS, SECRET)):
    request = AWSRequest(method, url, data=data)
    S3SigV4Auth(Credentials(*who), "s3", REGION).add_auth(request)
    return dict(request.headers)


def ask(base, method, path, body=None, who=(ACCESS, SECRET)):
    data = None if body is None else json.dumps(body).encode()
    url = base + path
    headers = sign(method, url, data, who) if who else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


def check(operation, status, answer):
    """Validates an answer against the schema that the description gives for it."""
    assert str(status) in operation["responses"], (operation["operationId"], status, answer)
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": CLOSED}).validate(answer)


def do(base, name, subject="", body=None, who=(ACCESS, SECRET)):
    """Sends one operation's request and checks what comes back. `subject` fills the names in its path."""
    method, path, operation = OPERATIONS[name]
    # What is left fills the last name: that of an object may hold slashes.
    for part in subject.split("/", path.count("{") - 1) if subject else []:
        path = path.replace(path[path.index("{"):path.index("}") + 1], part, 1)
    status, answer = ask(base, method, path, body, who)
    check(operation, status, answer)
    return status, answer


def test_description_is_valid_openapi():
    assert DOCUMENT["openapi"].startswith("3.1")
    # What is of no use without signing says that it needs none, and nothing else does.
    assert {n for n, (_, _, o) in OPERATIONS.items() if o.get("security") == []} == {"SignInChoices", "SignInBack"}
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("api", ["s3", "admin"])
def test_every_answer_matches_its_description(own, api):
    base = own.endpoint + BASE if api == "s3" else own.admin + "/api/v1"
    status, made = do(base, "KeyCreate", body={"name": "k"})
    assert status == 200 and made["secret"]
    key = made["access_key"]
    ask(own.endpoint, "PUT", "/a-bucket")
    s3 = boto3.client("s3", endpoint_url=own.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION)
    s3.put_bucket_lifecycle_configuration(Bucket="a-bucket", LifecycleConfiguration={"Rules": [
        {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 9}}]})
    s3.put_object(Bucket="a-bucket", Key="key", Body=b"of the description")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{own.endpoint}/a-bucket/k")
    request_id = refused.value.headers["x-amz-request-id"]
    drive = ask(base, "GET", "/drives")[1]["drives"][0]["id"]
    off = {"values": {"enable": "off"}}
    p = {"policies": ["p"]}
    # In an order in which each finds what it needs.
    steps = [
        ("UserPut", "ann", {}), ("UserPut", "bob", {"secret": "a-secret-of-bob"}), ("UserList", "", None),
        ("UserGet", "ann", None), ("UserDisable", "ann", None), ("UserEnable", "ann", None), ("UserRevoke", "ann", None),
        ("UserRevoke", ACCESS, None), ("GroupMembers", "team", {"add": ["ann"]}), ("GroupList", "", None),
        ("GroupGet", "team", None), ("GroupDisable", "team", None), ("GroupEnable", "team", None),
        ("PolicyPut", "p", allow(["s3:GetObject"])), ("PolicyList", "", None), ("PolicyGet", "p", None),
        ("PolicyAttach", "", {**p, "user": "ann"}), ("PolicyAttach", "", {**p, "group": "team"}),
        ("PolicyAttach", "", {**p, "federated_user": "openid/corp/zoe"}), ("MappingList", "", None),
        ("Simulate", "", {"user": "ann", "action": "s3:GetObject", "resource": "b/k"}), ("Simulate", "", {"user": "", "action": "s3:PutObject"}),
        ("IamExport", "", None),
        ("PolicyDetach", "", {**p, "user": "ann"}), ("PolicyDetach", "", {**p, "group": "team"}),
        ("PolicyDetach", "", {**p, "federated_user": "openid/corp/zoe"}),
        ("KeyCreate", "", {"name": "second", "policy": allow(["s3:GetObject"]), "expires_ms": int(time.time() * 1000) + 3600_000}),
        ("KeyList", "", None), ("KeyList", "", None), ("KeyGet", key, None), ("KeyEdit", key, {"description": "d"}),
        ("KeyRemove", key, None), ("PolicyRemove", "p", None), ("GroupMembers", "team", {"remove": ["ann"]}),
        ("GroupRemove", "team", None), ("UserRemove", "ann", None), ("UserRemove", "bob", None),
        ("IamImport", "", {"users": {"ann": {"secret": "a-secret-of-ann", "enabled": True}}, "policies": {"q": {}}}),
        ("IamImport", "", {}), ("UserRemove", "ann", None),
        ("SettingPut", "identity_tls/_", off), ("SettingGet", "identity_tls/_", None), ("SettingList", "", None),
        ("ProviderList", "openid", None), ("ProviderGet", "tls/_", None), ("SettingRemove", "identity_tls/_", None),
        ("ProviderPut", "tls/_", off), ("ProviderEdit", "tls/_", {"values": {"comment": "x"}}), ("ProviderList", "tls", None),
        ("ProviderDisable", "tls/_", None), ("ProviderRemove", "tls/_", None),
        ("LifecycleStatus", "a-bucket", None), ("LifecycleTest", "a-bucket", {"at": "2999-01-01T00:00:00Z"}),
        ("EventList", "", None), ("DeadLetterList", "", None),
        ("LifecycleSimulate", "a-bucket", {"until": "2999-01-01T00:00:00Z", "examples": 5}),
        ("Placement", "a-bucket/key", None), ("PlacementHeal", "a-bucket/key", None),
        ("UsageList", "", None), ("UsageGet", "a-bucket", None), ("Top", "", None), ("History", "", None),
        ("Info", "", None), ("ClusterStatus", "", None), ("ClusterMayStop", "", None), ("HealStatus", "", None), ("HealLimits", "", None), ("HealLimitsPut", "", {"max_rate": 1 << 30, "busy_share": 30}), ("HealLimitsRemove", "", None), ("Drives", "", None), ("MetricsToken", "", None),
        ("DriveOffline", "", {"drive": drive}), ("Info", "", None), ("DriveOnline", "", {"drive": drive}),
        ("QuotaGet", "a-bucket", None), ("QuotaPut", "a-bucket", {"quota": 1 << 30}), ("QuotaGet", "a-bucket", None),
        ("QuotaRemove", "a-bucket", None), ("KmsStatus", "", None), ("KmsKeyCreate", key.lower(), None),
        ("KmsKeyList", "", None), ("KmsKeyGet", key.lower(), None), ("KmsKeyRotate", key.lower(), None),
        ("RewrapStart", "", {"bucket": "a-bucket"}), ("RewrapStatus", "", None), ("Why", request_id, None), ("AuditSearch", "", None), ("Document", "", None),
        ("ServiceStop", "", {"dry_run": True}), ("ServiceRestart", "", {"dry_run": True}),
        ("HealStart", "", {}), ("DriveScrub", "", None), ("HealStatus", "", None), ("SignInChoices", "", None),
        ("Permissions", "", {"checks": [{"action": "s3:PutObject", "resource": "a-bucket/key"}]}),
    ]
    for name, subject, body in steps:
        if name in ("HealStart", "DriveScrub"):
            wait_for(lambda: not ask(base, "GET", "/heal")[1]["running"])
        status, answer = do(base, name, subject, body, None if name.startswith("SignIn") else (ACCESS, SECRET))
        assert 200 <= status < 300, (name, status, answer)
    # Streams are read in test_monitoring.py; the others cannot succeed here, and their answers are made as those of DriveOffline, ProviderDisable, or in crates/ashlar/tests/drives.rs and cluster_up.rs, in test_cluster_operations.py, test_openid.py, test_events.py, test_console_sign_in.py, test_console_operations.py and test_cluster_managed.py.
    elsewhere = {"Trace", "Logs", "ClusterToken", "ClusterUpgrade", "ClusterRemove", "ClusterAuthority", "ClusterControlMembers", "DriveReplace", "DriveRecover", "DriveRecovery", "ProviderEnable", "SignInBack", "DeadLetterReplay", "DeadLetterRemove", "ProviderTest", "EventTest"}
    asked = {name for name, _, _ in steps} | elsewhere
    assert set(OPERATIONS) == asked, set(OPERATIONS) ^ asked
    for name, subject, body, want in [
        ("UserGet", "nobody", None, 404), ("PolicyAttach", "", {"policies": []}, 400), ("KeyGet", "none", None, 404),
        ("Why", "0000000000000000", None, 404), ("ClusterToken", "", {}, 409), ("ClusterUpgrade", "", {}, 409), ("ClusterRemove", "", {"node": 1}, 409), ("ClusterAuthority", "", {"replace": "0"}, 409), ("ClusterControlMembers", "", {"members": ["127.0.0.1"]}, 409), ("DriveReplace", "", {}, 400), ("DriveRecover", "", {}, 400), ("UserPut", "x", {"unknown": 1}, 400),
        ("QuotaGet", "no-bucket", None, 404), ("ProviderGet", "ldap/none", None, 404), ("SettingGet", "identity_ldap/_", None, 404),
        ("SignInBack", "", {"code": "c", "state": "s"}, 400), ("ProviderEnable", "tls/none", None, 404), ("KeyCreate", "", {"user": "nobody"}, 404),
        ("PolicyPut", "p", {"Statement": 1}, 400), ("QuotaPut", "a-bucket", {"quota": -1}, 400), ("HealLimitsPut", "", {"max_rate": 1000}, 400), ("HealLimitsPut", "", {}, 400),
        ("DeadLetterReplay", "none", {}, 400), ("EventTest", "none", None, 400), ("ProviderTest", "ldap/none", {"username": "a", "password": "b"}, 404), ("Placement", "a-bucket/nothing", None, 404), ("DeadLetterRemove", "none", None, 400),
    ]:
        status, answer = do(base, name, subject, body)
        assert status == want, (name, status, answer)


def test_usage_is_narrowed(own):
    """Pages of the buckets, in any order, and without histograms."""
    base = own.endpoint + BASE
    s3 = boto3.client("s3", endpoint_url=own.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET, region_name=REGION)
    for name, size in [("usage-a", 10), ("usage-b", 3000), ("usage-c", 200)]:
        s3.create_bucket(Bucket=name)
        s3.put_object(Bucket=name, Key="key", Body=b"x" * size)

    def usage(query=""):
        status, answer = ask(base, "GET", "/usage" + query)
        check(OPERATIONS["UsageList"][2], status, answer)
        return status, answer

    wait_for(lambda: {b["bucket"]: b["bytes"] for b in usage()[1]["buckets"]}.get("usage-c") == 200)
    status, everything = usage()
    mine = {b["bucket"]: b for b in everything["buckets"]}
    assert status == 200 and mine["usage-b"]["sizes"] and mine["usage-b"]["version_counts"]
    assert (everything["existing"], everything["matching"]) == (len(mine), len(mine)) and list(mine) == sorted(mine)

    def names(query):
        status, answer = usage(f"?{query}&contains=usage-&brief=true")
        assert status == 200 and answer["matching"] == 3 and answer["existing"] == len(mine), answer
        assert all(b["sizes"] == {} == b["version_counts"] for b in answer["buckets"])
        assert answer["total"].keys() == everything["total"].keys()
        return "".join(b["bucket"].removeprefix("usage-") for b in answer["buckets"])

    assert names("sort=bytes&descending=true&limit=2") == "bc" and names("sort=bytes&descending=true&limit=2&offset=2") == "a"
    assert names("sort=bytes") == "acb" and names("sort=name&descending") == "cba" and names("sort=created") == "abc"
    # Equal ones are in the order of names, whatever the direction.
    assert names("sort=objects&descending=true") == "abc" and names("limit=0") == "" and names("offset=3") == ""
    assert usage("?contains=age-b")[1]["buckets"][0]["bytes"] == 3000
    for query in ["limit=-1", "limit=1001", "limit=x", "offset=1.5", "sort=size", "descending=2"]:
        status, answer = usage(f"?{query}")
        assert status == 400 and query.split("=")[1] in json.dumps(answer), answer


def test_undescribed_answers_are_detected():
    good = {"access_key": "k", "removed": True}
    operation = OPERATIONS["KeyRemove"][2]
    check(operation, 200, good)
    for bad in ({**good, "more": 1}, {"removed": True}, {**good, "removed": 1}, [good]):
        with pytest.raises(jsonschema.ValidationError):
            check(operation, 200, bad)
    with pytest.raises(AssertionError):
        check(operation, 202, good)


def wait_for(done):
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_error_matches_its_description(own):
    base = own.endpoint + BASE
    secret = "a-secret-of-nothing"
    assert do(base, "UserPut", "nothing", {"secret": secret})[0] == 200
    for name, (method, path, operation) in OPERATIONS.items():
        if operation.get("security") == []:
            continue
        subject = "/".join({"{kind}": "tls", "{subsystem}": "identity_tls"}.get(p, "x") for p in path.split("/") if p.startswith("{"))
        # One's own keys may be seen and made, and one's own permissions asked for, with documents that mean something.
        body = {"KeyCreate": {"user": "x"}, "Permissions": {"checks": []}}.get(name, None if method == "GET" else {})
        for who in (None, (ACCESS, "not the secret"), ("nothing", secret)):
            status, answer = do(base, name, subject, body, who)
            own_account = name in ("KeyList", "Permissions") and who and who[1] == secret
            assert status == (200 if own_account else 403), (name, who, status, answer)


def test_administration_on_a_separate_port(own):
    status, answer = ask(own.admin, "GET", "/api/v1/info")
    assert status == 200 and answer["drives"]
    for base, url in [(own.admin, "/api/v1"), (own.endpoint, BASE), (own.endpoint, "/ashlar/admin/v1")]:
        status, document = ask(base, "GET", f"{url}/openapi.json")
        assert status == 200 and document == {**DOCUMENT, "servers": [{"url": url}]}
    # Nothing without a signature, nothing else.
    assert ask(own.admin, "GET", "/api/v1/openapi.json", who=None)[0] == 403
    assert ask(own.admin, "GET", "/api/v1/info", who=None)[0] == 403
    assert ask(own.admin, "GET", "/")[0] == 404
    assert ask(own.admin, "GET", "/a-bucket/k")[0] == 404
    assert urllib.request.urlopen(f"{own.admin}/ashlar/health/ready").status == 200
    # On the S3 port it is below the reserved name; a bucket may be called api, none ashlar or minio.
    assert ask(own.endpoint, "GET", "/ashlar/admin/v1/drives")[0] == 200
    assert ask(own.endpoint, "PUT", "/api-1")[0] == 200
    for name in ("ashlar", "minio"):
        assert ask(own.endpoint, "PUT", f"/{name}")[0] == 409


class Sign(requests.auth.AuthBase):
    def __call__(self, request):
        body = request.body.encode() if isinstance(request.body, str) else request.body
        request.headers.update(sign(request.method, request.url, body))
        return request


SCHEMA = schemathesis.openapi.from_dict({**DOCUMENT, "servers": [{"url": BASE}]})
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.specs.openapi.checks.status_code_conformance,
    schemathesis.specs.openapi.checks.content_type_conformance,
    schemathesis.specs.openapi.checks.response_schema_conformance,
]


def harmless(name, case):
    """What would end or hold up the server that is being asked is changed so that it does not."""
    if name in ("ServiceStop", "ServiceRestart"):
        case.body = {"dry_run": True}
    elif name.startswith("Drive") and isinstance(case.body, dict) and isinstance(case.body.get("drive"), str):
        # The beginning of an id is a name, too.
        case.body["drive"] = "none " + case.body["drive"]


@SCHEMA.parametrize()
@settings(
    max_examples=10, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_makes_the_server_fail(case, own):
    base = own.admin + "/api/v1" if case.method == "GET" else own.endpoint + BASE
    operation = DOCUMENT["paths"][case.path].get(case.method.lower())
    if operation is None:
        # Another method than those that there are: no request of this API, or one about a strange name.
        assert case.call(base_url=base, auth=Sign(), timeout=30).status_code in (400, 404)
        return
    if operation["operationId"] in ("Trace", "Logs"):
        return  # What they answer may have no end.
    harmless(operation["operationId"], case)
    auth = None if operation.get("security") == [] else Sign()
    answer = case.call(base_url=base, auth=auth, timeout=30)
    case.validate_response(answer, checks=CHECKS)
    check(operation, answer.status_code, answer.json())
    assert "x-amz-request-id" in answer.headers
