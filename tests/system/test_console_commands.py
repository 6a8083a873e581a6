"""“Show the command” of the console: what it shows for a call does what the call does, with `ashlar` and with curl."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, Server, one_server
from test_console import HERE, OURS, ask, drive, s3_of, sign_in

pytestmark = one_server

READER = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::it's/*"]}]}


@pytest.fixture
def home():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-console-commands-", dir=base))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def own(home):
    (home / "server").mkdir()
    s = Server(home / "server")
    try:
        yield s
    finally:
        s.stop()


def commands_of(server, calls):
    """By program, for each call."""
    done = subprocess.run(["node", HERE / "console" / "commands.mjs", server.endpoint, REGION], input=json.dumps(calls),
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Shell:
    """A terminal of somebody who has the alias `it`, and credentials in the environment."""

    def __init__(self, server, home):
        folder = home / "bin"
        folder.mkdir(exist_ok=True)
        if not (folder / "ashlar").exists():
            (folder / "ashlar").symlink_to(os.environ["ASHLAR_BIN"])
        self.home = home
        self.environment = dict(
            os.environ, PATH=f"{folder}:{os.environ['PATH']}", ASHLAR_CONFIG=str(home / "config.toml"), AWS_ACCESS_KEY_ID=ACCESS,
            AWS_SECRET_ACCESS_KEY=SECRET, ASHLAR_HOST_it=server.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"))

    def run(self, text):
        done = subprocess.run(["sh", "-ec", text], env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout


def admin(method, path, body=None):
    call = {"method": method, "url": f"admin/{path}"}
    return call if body is None else {**call, "headers": {"content-type": "application/json"}, "body": json.dumps(body, ensure_ascii=False)}


def s3_call(method, path, body=None, **headers):
    call = {"method": method, "url": f"s3/{path}", "headers": {name.replace("_", "-"): value for name, value in headers.items()}}
    if body is None:
        return call
    sums = {"x-amz-checksum-crc32": base64.b64encode(zlib.crc32(body.encode()).to_bytes(4)).decode()}
    return {**call, "body": body, "headers": {"content-type": "application/xml", **sums, **call["headers"]}}


# Each call, and the programs that have a command for it.
BOTH = ["ashlar", "curl"]
ODD = "odd & 'name'.txt"
SCENE = [
    (s3_call("PUT", "shown", x_amz_bucket_object_lock_enabled="true"), BOTH),
    (s3_call("PUT", "plain"), BOTH),
    (s3_call("PUT", "plain?versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"), BOTH),
    (s3_call("PUT", "plain/folder/" + quote(ODD)), BOTH),
    (s3_call("PUT", f"plain/folder/{quote(ODD)}?tagging", "<Tagging><TagSet><Tag><Key>colour</Key><Value>blue + green=1</Value></Tag></TagSet></Tagging>"), BOTH),
    (s3_call("PUT", "shown/held"), BOTH),
    (s3_call("PUT", "shown/held?legal-hold", "<LegalHold><Status>ON</Status></LegalHold>"), BOTH),
    (s3_call("PUT", "shown/held?legal-hold", "<LegalHold><Status>OFF</Status></LegalHold>"), BOTH),
    (s3_call("PUT", "shown?object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>3</Days></DefaultRetention></Rule></ObjectLockConfiguration>"), BOTH),
    (s3_call("PUT", "plain?policy", json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::plain/public/*"}]}), content_type="application/json"), BOTH),
    (s3_call("PUT", "plain?cors", "<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"), BOTH),
    (s3_call("PUT", "plain?website", "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key>it's &amp; 404.html</Key></ErrorDocument></WebsiteConfiguration>"), BOTH),
    (s3_call("PUT", "shown?website", "<WebsiteConfiguration><IndexDocument><Suffix>i.html</Suffix></IndexDocument><RoutingRules><RoutingRule><Condition><KeyPrefixEquals>it's/</KeyPrefixEquals></Condition><Redirect><ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>"), BOTH),
    (s3_call("PUT", "plain?lifecycle", "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix>tmp/</Prefix></Filter><Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>"), BOTH),
    (s3_call("PUT", "plain?logging", "<BucketLoggingStatus><LoggingEnabled><TargetBucket>shown</TargetBucket><TargetPrefix>of plain/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>"), BOTH),
    (s3_call("PUT", "shown?logging", "<BucketLoggingStatus><LoggingEnabled><TargetBucket>plain</TargetBucket><TargetPrefix></TargetPrefix><TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix></TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>"), BOTH),
    (s3_call("PUT", "shown/held?retention", "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2090-12-31T23:59:59Z</RetainUntilDate></Retention>"), BOTH),
    (s3_call("PUT", "shown/held?retention", "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2080-12-31T23:59:59Z</RetainUntilDate></Retention>", x_amz_bypass_governance_retention="true"), BOTH),
    (admin("PUT", "quotas/plain", {"quota": 3 << 30}), BOTH),
    (admin("PUT", "users/anna", {"secret": "…"}), BOTH),
    (admin("PUT", "policies/reader", READER), BOTH),
    (admin("POST", "policies/attach", {"policies": ["reader", "readonly"], "user": "anna"}), BOTH),
    (admin("POST", "policies/detach", {"policies": ["readonly"], "user": "anna"}), BOTH),
    (admin("POST", "groups/team/members", {"add": ["anna"], "remove": []}), BOTH),
    (admin("POST", "groups/team/disable"), BOTH),
    (admin("POST", "users/anna/revoke"), BOTH),
    (admin("POST", "users/anna/disable"), BOTH),
    (admin("POST", "keys", {"name": "a backup", "description": "", "user": "anna", "expires_ms": 4102444800000, "policy": READER}), BOTH),
    (admin("PUT", "settings/notify_webhook/shop", {"values": {"endpoint": "http://127.0.0.1:9/", "enable": "off", "comment": "it's for shops"}}), BOTH),
    (admin("POST", "heal", {"deep": True}), BOTH),
]
UNDONE = [
    (admin("DELETE", "settings/notify_webhook/shop"), BOTH),
    (admin("POST", "groups/team/members", {"add": [], "remove": ["anna"]}), BOTH),
    (admin("DELETE", "groups/team"), BOTH),
    (admin("POST", "policies/detach", {"policies": ["reader"], "user": "anna"}), BOTH),
    (admin("DELETE", "users/anna"), BOTH),
    (admin("DELETE", "policies/reader"), BOTH),
    (admin("DELETE", "quotas/plain"), BOTH),
    (s3_call("DELETE", "plain?cors"), BOTH),
    (s3_call("DELETE", "plain?policy"), BOTH),
    (s3_call("DELETE", "plain?website"), BOTH),
    (s3_call("PUT", "plain?logging", "<BucketLoggingStatus></BucketLoggingStatus>"), BOTH),
    (s3_call("PUT", "plain?notification", "<NotificationConfiguration></NotificationConfiguration>"), BOTH),
    (s3_call("PUT", "shown/held?retention", "<Retention></Retention>", x_amz_bypass_governance_retention="true"), BOTH),
    (s3_call("DELETE", "plain?lifecycle"), BOTH),
    (s3_call("DELETE", f"plain/folder/{quote(ODD)}?tagging"), BOTH),
    (s3_call("POST", "plain?delete", "<Delete><Quiet>true</Quiet><Object><Key>folder/odd &amp; &apos;name&apos;.txt</Key></Object></Delete>"), BOTH),
]


@pytest.mark.parametrize("program", BOTH)
def test_commands_do_what_the_calls_do(own, home, program):
    shell, s3 = Shell(own, home), s3_of(own)
    (home / "FILE").write_text("of the file")
    calls = [call for call, _ in SCENE + UNDONE]
    shown = commands_of(own, calls)
    assert [(c["url"], sorted(s)) for c, s in zip(calls, shown)] == [(c["url"], has) for c, has in SCENE + UNDONE]

    def run(call, commands):
        text = commands.get(program, commands["curl"])
        # As the page says: what is hidden is put in.
        return shell.run(text.replace("SECRET-KEY", "secret-of-anna").replace("…", "secret-of-anna"))

    def ours(path):
        headers = {**OURS, "Cookie": cookie}
        status, _, body = ask(f"{own.endpoint}/console/admin/{path}", headers=headers)
        return status, json.loads(body)

    cookie = sign_in(own)
    for call, commands in zip(calls, shown[:len(SCENE)]):
        run(call, commands)
    key = f"folder/{ODD}"
    assert s3.get_object(Bucket="plain", Key=key)["Body"].read() == b"of the file"
    assert s3.get_object_tagging(Bucket="plain", Key=key)["TagSet"] == [{"Key": "colour", "Value": "blue + green=1"}]
    assert s3.get_bucket_versioning(Bucket="plain")["Status"] == "Enabled"
    assert s3.get_object_legal_hold(Bucket="shown", Key="held")["LegalHold"]["Status"] == "OFF"
    lock = s3.get_object_lock_configuration(Bucket="shown")["ObjectLockConfiguration"]
    assert lock["Rule"]["DefaultRetention"] == {"Mode": "GOVERNANCE", "Days": 3}
    assert "plain/public/*" in s3.get_bucket_policy(Bucket="plain")["Policy"]
    assert s3.get_bucket_cors(Bucket="plain")["CORSRules"][0]["AllowedOrigins"] == ["https://a.example"]
    assert ours("quotas/plain")[1]["quota"] == 3 << 30
    site = s3.get_bucket_website(Bucket="plain")
    assert (site["IndexDocument"], site["ErrorDocument"]) == ({"Suffix": "index.html"}, {"Key": "it's & 404.html"})
    assert s3.get_bucket_website(Bucket="shown")["RoutingRules"][0]["Condition"] == {"KeyPrefixEquals": "it's/"}
    assert s3.get_bucket_lifecycle_configuration(Bucket="plain")["Rules"][0]["Expiration"] == {"Days": 9}
    to = s3.get_bucket_logging(Bucket="plain")["LoggingEnabled"]
    assert (to["TargetBucket"], to["TargetPrefix"]) == ("shown", "of plain/")
    assert s3.get_bucket_logging(Bucket="shown")["LoggingEnabled"]["TargetObjectKeyFormat"] == {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}
    assert s3.get_object_retention(Bucket="shown", Key="held")["Retention"]["RetainUntilDate"].year == 2080
    anna = ours("users/anna")[1]
    assert anna["policies"] == ["reader"] and anna["groups"] == ["team"] and anna["enabled"] is False
    assert ours("policies/reader")[1]["document"]["Statement"][0]["Resource"] in [["arn:aws:s3:::it's/*"], "arn:aws:s3:::it's/*"]
    assert ours("groups/team")[1]["enabled"] is False
    keys = [k for k in ours("keys?all=true")[1]["keys"] if k["user"] == "anna"]
    assert [(k["name"], k["expires_ms"], k["policy"] is not None) for k in keys] == [("a backup", 4102444800000, True)]
    settings = ours("settings/notify_webhook/shop")[1]["values"]
    assert settings["comment"] == "it's for shops" and settings["enable"] == "off"
    for call, commands in zip(calls[len(SCENE):], shown[len(SCENE):]):
        run(call, commands)
    assert ours("users/anna")[0] == 404 and ours("groups/team")[0] == 404 and ours("policies/reader")[0] == 404
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="plain")
    for gone in [lambda: s3.get_object(Bucket="plain", Key=key), lambda: s3.get_bucket_cors(Bucket="plain"), lambda: s3.get_bucket_lifecycle_configuration(Bucket="plain"),
                 lambda: s3.get_bucket_policy(Bucket="plain"), lambda: s3.get_bucket_website(Bucket="plain"), lambda: s3.get_object_retention(Bucket="shown", Key="held")]:
        with pytest.raises(ClientError):
            gone()


def test_dialogs_and_the_log_show_commands(own, home):
    seen = drive("show_command.mjs", own.endpoint, ACCESS, SECRET)
    assert seen["violations"] == []
    # The newest first; an act is what was sent, so the two calls of the first dialog are two.
    assert seen["acts"]["ashlar"] == [
        "ashlar admin user disable it shown-user", "ASHLAR_USER_SECRET=SECRET-KEY ashlar admin user add it shown-user",
        "ashlar bucket versioning enable it/by-hand", "ashlar mb it/by-hand"]
    assert seen["shown"]["ashlar"] == ["\n".join(reversed(seen["acts"]["ashlar"][2:]))]
    assert seen["shown"]["curl"] == ["\n".join(reversed(seen["acts"]["curl"][2:]))]
    # What was shown for it makes the bucket again.
    s3_of(own).delete_bucket(Bucket="by-hand")
    Shell(own, home).run(seen["shown"]["curl"][0])
    assert s3_of(own).get_bucket_versioning(Bucket="by-hand")["Status"] == "Enabled"


def test_settings_show_their_commands_before_they_are_saved(own, home):
    """What is shown of each part of a bucket's settings is what the log of commands has afterwards."""
    s3 = s3_of(own)
    s3.create_bucket(Bucket="shown", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="shown", Key="held", Body=b"x")
    folder = os.environ.get("ASHLAR_CONSOLE_PICTURES", "")
    seen = drive("settings_commands.mjs", own.endpoint, ACCESS, SECRET, *([folder] if folder else []))
    assert seen["violations"] == []
    assert seen["shown"] == seen["acts"]
    shell = Shell(own, home)
    for act in seen["acts"]:
        assert act["ashlar"].startswith("ashlar ") and act["curl"].startswith("curl "), act
    # What was done is done again by the commands of `ashlar`: the settings, then their removal.
    made = [act["ashlar"] for act in seen["acts"]]
    first_removal = next(i for i, text in enumerate(made) if text.startswith("ashlar ilm rule rm"))
    for text in made[:first_removal]:
        shell.run(text)
    assert s3.get_bucket_lifecycle_configuration(Bucket="shown")["Rules"][0]["Expiration"] == {"Days": 9}
    assert s3.get_bucket_website(Bucket="shown")["ErrorDocument"] == {"Key": "404.html"}
    assert s3.get_bucket_tagging(Bucket="shown")["TagSet"] == [{"Key": "team", "Value": "a + b=1"}]
    assert s3.get_bucket_cors(Bucket="shown")["CORSRules"][0]["AllowedOrigins"] == ["https://app.example.com"]
    assert s3.get_bucket_logging(Bucket="shown")["LoggingEnabled"]["TargetBucket"] == "shown"
    assert s3.get_bucket_policy(Bucket="shown")
    for text in made[first_removal:]:
        shell.run(text)
    for gone in [s3.get_bucket_lifecycle_configuration, s3.get_bucket_cors, s3.get_bucket_policy]:
        with pytest.raises(ClientError):
            gone(Bucket="shown")
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="shown")
