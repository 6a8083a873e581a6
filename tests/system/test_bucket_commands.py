"""Commands of `ashlar` for the documents of a bucket: website, access log, notifications, lifecycle, policy; and retention until a day.

Each is set from options and from a file or the standard input, shown, and removed; S3 sees what was set. Exit codes are those of
the manual pages: 2 for a wrong command line, 3 for what is not there.
"""

import json
import os
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from botocore.exceptions import ClientError

from conftest import ACCESS, SECRET, Server, one_server

pytestmark = one_server
TARGET = "arn:minio:sqs::own:webhook"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A server with a target for events, which is off: rules for it are stored, and nothing is sent."""
    home = tmp_path_factory.mktemp("bucket-commands")
    server = Server(home)
    try:
        yield server
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.process.kill()


@pytest.fixture
def s3(own):
    from test_console import s3_of
    return s3_of(own)


@pytest.fixture
def bucket(s3):
    name = f"b{os.urandom(6).hex()}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def ashlar(own, tmp_path):
    env = dict(os.environ, ASHLAR_HOST_it=own.endpoint.replace("http://", f"http://{ACCESS}:{SECRET}@"),
               ASHLAR_CONFIG=str(tmp_path / "config.toml"))

    def call(*words, code=0, data=None):
        done = subprocess.run([os.environ["ASHLAR_BIN"], *map(str, words)], env=env, input=data, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return call


def test_website_from_options_file_and_standard_input(ashlar, s3, bucket, tmp_path):
    at = f"it/{bucket}"
    ashlar("bucket", "website", "get", at, code=3)
    ashlar("bucket", "website", "set", at, "--index", "index.html", "--error", "a&b.html")
    site = s3.get_bucket_website(Bucket=bucket)
    assert (site["IndexDocument"], site["ErrorDocument"]) == ({"Suffix": "index.html"}, {"Key": "a&b.html"})
    text = ashlar("bucket", "website", "get", at)
    assert json.loads(ashlar("--json", "bucket", "website", "get", at)) == {"status": "success", "bucket": at, "document": text.rstrip("\n")}
    ashlar("bucket", "website", "set", at, "--redirect-to", "https://www.example.com")
    assert s3.get_bucket_website(Bucket=bucket)["RedirectAllRequestsTo"] == {"HostName": "www.example.com", "Protocol": "https"}
    # What was printed sets it again, from a file and from the standard input.
    file = tmp_path / "website.xml"
    file.write_text(text)
    ashlar("bucket", "website", "set", at, file)
    assert s3.get_bucket_website(Bucket=bucket)["ErrorDocument"] == {"Key": "a&b.html"}
    rules = text.replace("</WebsiteConfiguration>", "<RoutingRules><RoutingRule><Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition>"
                         "<Redirect><ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>")
    assert json.loads(ashlar("--json", "bucket", "website", "set", at, "-", data=rules)) == {"status": "success", "bucket": at}
    assert s3.get_bucket_website(Bucket=bucket)["RoutingRules"][0]["Redirect"] == {"ReplaceKeyPrefixWith": "new/"}
    # A wrong command line or document changes nothing.
    for words in [[], ["--error", "e"], ["--index", "i", file], ["--redirect-to", "https://h/path"]]:
        ashlar("bucket", "website", "set", at, *words, code=2)
    ashlar("bucket", "website", "set", at, tmp_path / "none.xml", code=3)
    ashlar("bucket", "website", "set", at, "-", data="<WebsiteConfiguration><Nothing/></WebsiteConfiguration>", code=1)
    ashlar("bucket", "website", "set", at + "/key", "--index", "i", code=2)
    assert len(s3.get_bucket_website(Bucket=bucket)["RoutingRules"]) == 1
    ashlar("bucket", "website", "remove", at)
    with pytest.raises(ClientError) as gone:
        s3.get_bucket_website(Bucket=bucket)
    assert gone.value.response["Error"]["Code"] == "NoSuchWebsiteConfiguration"
    ashlar("bucket", "website", "get", "it/nosuchbucket0", code=3)


def test_access_log_from_options_and_file(ashlar, s3, bucket, tmp_path):
    at = f"it/{bucket}"
    ashlar("bucket", "logging", "get", at, code=3)
    ashlar("bucket", "logging", "set", at, "--to", bucket, "--prefix", "log&/")
    assert s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"]["TargetPrefix"] == "log&/"
    text = ashlar("bucket", "logging", "get", at)
    file = tmp_path / "logging.xml"
    file.write_text(text.replace("log&amp;/", "other/"))
    ashlar("bucket", "logging", "set", at, file)
    assert s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"]["TargetPrefix"] == "other/"
    ashlar("bucket", "logging", "set", at, code=2)
    ashlar("bucket", "logging", "set", at, file, "--prefix", "p/", code=2)
    ashlar("bucket", "logging", "set", at, "--to", "nosuchbucket0", code=1)
    ashlar("bucket", "logging", "rm", at)
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    ashlar("bucket", "logging", "get", at, code=3)
    ashlar("bucket", "logging", "remove", at)


def test_notification_rules_are_exported_imported_and_removed(ashlar, s3, bucket, tmp_path, own):
    at = f"it/{bucket}"
    ashlar("admin", "config", "set", "it", "notify_webhook:own", "endpoint=http://127.0.0.1:9/", "enable=on")
    ashlar("event", "export", at, code=3)
    rule = f"<QueueConfiguration><Queue>{TARGET}</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration>"
    s3.put_bucket_notification_configuration(
        Bucket=bucket, SkipDestinationValidation=True,
        NotificationConfiguration={"QueueConfigurations": [{"QueueArn": TARGET, "Events": ["s3:ObjectCreated:*"], "Filter": {"Key": {"FilterRules": [{"Name": "suffix", "Value": ".jpg"}]}}}]})
    text = ashlar("event", "export", at)
    assert TARGET in text and ".jpg" in text
    # A target that a bucket has already is not tested again.
    file = tmp_path / "events.xml"
    file.write_text(text.replace(".jpg", ".png"))
    ashlar("event", "import", at, file)
    [got] = s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert got["Filter"]["Key"]["FilterRules"][0]["Value"] == ".png"
    ashlar("event", "import", at, data=f"<NotificationConfiguration>{rule}</NotificationConfiguration>")
    [got] = s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert got["Events"] == ["s3:ObjectCreated:*"] and "Filter" not in got
    ashlar("event", "import", at, data="<NotificationConfiguration><Queue/></NotificationConfiguration>", code=1)
    ashlar("event", "rm", at, code=2)
    ashlar("event", "rm", at, TARGET, "--force", code=2)
    assert json.loads(ashlar("--json", "event", "rm", at, "--force")) == {"status": "success", "removed": 1}
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=bucket)
    ashlar("event", "export", at, code=3)


def test_lifecycle_rules_are_imported_as_xml_and_json_from_files(ashlar, s3, bucket, tmp_path):
    at = f"it/{bucket}"
    xml = ("<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix>tmp/</Prefix></Filter>"
           "<Expiration><Days>9</Days></Expiration></Rule></LifecycleConfiguration>")
    ashlar("ilm", "rule", "import", at, data=xml)
    [rule] = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert (rule["ID"], rule["Expiration"]["Days"]) == ("r", 9)
    file = tmp_path / "rules.json"
    file.write_text(ashlar("ilm", "rule", "export", at).replace("9", "10"))
    ashlar("ilm", "rule", "import", at, file)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"][0]["Expiration"]["Days"] == 10
    file.write_text(xml)
    ashlar("ilm", "rule", "import", at, file)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"][0]["Expiration"]["Days"] == 9
    ashlar("ilm", "rule", "import", at, data="no rules", code=2)
    ashlar("ilm", "rule", "import", at, data="<LifecycleConfiguration><Rule/></LifecycleConfiguration>", code=1)
    ashlar("ilm", "rule", "import", at, tmp_path / "none", code=3)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"][0]["Expiration"]["Days"] == 9


def test_the_policy_is_removed(ashlar, s3, bucket):
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}]}
    ashlar("anonymous", "set-json", "-", f"it/{bucket}", data=json.dumps(policy))
    assert s3.get_bucket_policy(Bucket=bucket)
    ashlar("anonymous", "remove-json", f"it/{bucket}")
    with pytest.raises(ClientError) as gone:
        s3.get_bucket_policy(Bucket=bucket)
    assert gone.value.response["Error"]["Code"] == "NoSuchBucketPolicy"


def test_retention_until_a_day_or_an_instant(ashlar, s3):
    name = f"b{os.urandom(6).hex()}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    at, day = f"it/{name}/k", (datetime.now(timezone.utc) + timedelta(days=40)).date()

    def until():
        return s3.get_object_retention(Bucket=name, Key="k")["Retention"]["RetainUntilDate"]

    ashlar("retention", "set", "governance", day, at)
    assert until() == datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=timezone.utc)
    ashlar("retention", "set", "governance", f"{day}T23:59:59Z", at)
    # Two hours further east the day is over sooner: a shorter retention.
    ashlar("retention", "set", "governance", f"{day}T23:59:59+02:00", at, code=4)
    ashlar("retention", "set", "governance", f"{day}T23:59:59+02:00", "--bypass", at)
    assert until() == datetime(day.year, day.month, day.day, 21, 59, 59, tzinfo=timezone.utc)
    for wrong in ["2020-01-01", "9999-01-01", "2099-02-30", "soon"]:
        ashlar("retention", "set", "governance", wrong, at, code=2)
    ashlar("retention", "set", "governance", day, "--default", f"it/{name}", code=2)
    ashlar("retention", "clear", at)


def test_a_key_no_longer_expires_nor_has_a_policy(ashlar):
    made = json.loads(ashlar("--json", "admin", "accesskey", "create", "it", "--expiry-duration", "30d", "--policy", "-", data=json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::b/*"]}]})))
    key = made["access_key"]
    ashlar("admin", "accesskey", "edit", "it", key, "--no-expiry", "--expiry", "2090-01-01", code=2)
    ashlar("admin", "accesskey", "edit", "it", key, "--no-expiry", "--no-policy")
    now = json.loads(ashlar("--json", "admin", "accesskey", "info", "it", key))
    assert now["expires_ms"] is None and now["policy"] is None, now
    ashlar("admin", "accesskey", "remove", "it", key)
