"""CORS, websites, access logs, and what is never set, with boto3."""

import json
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, serve


@pytest.fixture(scope="module")
def own():
    settings = {"ASHLAR_WEBSITE_DOMAIN": "website.test", "ASHLAR_ACCESS_LOG_INTERVAL": "1"}
    os.environ.update(settings)
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="ashlar-features-", dir=base))
    try:
        s = serve(home)
    finally:
        for name in settings:
            del os.environ[name]
    try:
        yield s
        assert s.stop() == 0
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def client(own):
    return boto3.client("s3", endpoint_url=own.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                        region_name=REGION,
                        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def fetch(server, path, method="GET", **headers):
    request = urllib.request.Request(server.endpoint + path, method=method, headers=headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=10) as r:
            return r.status, dict(r.headers), r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read().decode()


def test_unset_features_are_answered_as_aws(client):
    client.create_bucket(Bucket="unset")
    assert "Status" not in client.get_bucket_accelerate_configuration(Bucket="unset")
    assert client.get_bucket_request_payment(Bucket="unset")["Payer"] == "BucketOwner"
    assert "LoggingEnabled" not in client.get_bucket_logging(Bucket="unset")
    for call, name in [
        (client.list_bucket_analytics_configurations, "AnalyticsConfigurationList"),
        (client.list_bucket_inventory_configurations, "InventoryConfigurationList"),
        (client.list_bucket_metrics_configurations, "MetricsConfigurationList"),
        (client.list_bucket_intelligent_tiering_configurations, "IntelligentTieringConfigurationList"),
    ]:
        answer = call(Bucket="unset")
        assert answer["IsTruncated"] is False and name not in answer
    for call, code in [
        (client.get_bucket_cors, "NoSuchCORSConfiguration"),
        (client.get_bucket_website, "NoSuchWebsiteConfiguration"),
        (client.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration"),
        (client.get_bucket_replication, "ReplicationConfigurationNotFoundError"),
        (client.get_bucket_tagging, "NoSuchTagSet"),
        (client.get_bucket_policy, "NoSuchBucketPolicy"),
    ]:
        with pytest.raises(ClientError) as caught:
            call(Bucket="unset")
        assert caught.value.response["Error"]["Code"] == code
    client.put_object(Bucket="unset", Key="data.csv", Body=b"a,b\n1,2\n")
    with pytest.raises(ClientError) as caught:
        client.select_object_content(
            Bucket="unset", Key="data.csv", Expression="SELECT * FROM s3object", ExpressionType="SQL",
            InputSerialization={"CSV": {}}, OutputSerialization={"CSV": {}})
    assert caught.value.response["Error"]["Code"] == "NotImplemented"
    assert "SelectObjectContent" in caught.value.response["Error"]["Message"]


def test_cors(own, client):
    client.create_bucket(Bucket="cors")
    client.put_object(Bucket="cors", Key="k", Body=b"x")
    rules = [{"AllowedOrigins": ["https://*.app.example"], "AllowedMethods": ["GET", "PUT"],
              "AllowedHeaders": ["x-amz-*", "content-type"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]
    client.put_bucket_cors(Bucket="cors", CORSConfiguration={"CORSRules": rules})
    assert client.get_bucket_cors(Bucket="cors")["CORSRules"] == rules
    ask = {"Origin": "https://a.app.example", "Access-Control-Request-Method": "PUT",
           "Access-Control-Request-Headers": "content-type,x-amz-date"}
    status, headers, _ = fetch(own, "/cors/k", "OPTIONS", **ask)
    assert status == 200 and headers["access-control-allow-origin"] == "https://a.app.example"
    assert headers["access-control-allow-methods"] == "GET, PUT" and headers["access-control-max-age"] == "60"
    assert headers["access-control-allow-credentials"] == "true"
    assert fetch(own, "/cors/k", "OPTIONS", **{**ask, "Origin": "https://app.example"})[0] == 403
    assert fetch(own, "/unset/k", "OPTIONS", **{**ask, "Origin": "https://app.example"})[0] == 200, "the server's own"
    client.delete_bucket_cors(Bucket="cors")


def test_website(own, client):
    client.create_bucket(Bucket="site")
    client.put_bucket_website(Bucket="site", WebsiteConfiguration={
        "IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"},
        "RoutingRules": [{"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "new/"}}]})
    assert client.get_bucket_website(Bucket="site")["IndexDocument"] == {"Suffix": "index.html"}
    for key in ["index.html", "docs/index.html", "error.html"]:
        client.put_object(Bucket="site", Key=key, Body=f"<p>{key}</p>".encode(), ContentType="text/html")
    client.put_object(Bucket="site", Key="moved", Body=b"", WebsiteRedirectLocation="/docs/")
    host = {"Host": "site.website.test"}
    assert fetch(own, "/", **host)[0] == 403
    client.put_bucket_policy(Bucket="site", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*"},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::site"}]}))
    status, headers, text = fetch(own, "/", **host)
    assert (status, headers["content-type"], text) == (200, "text/html", "<p>index.html</p>")
    assert fetch(own, "/docs", **host)[1]["location"] == "/docs/"
    assert fetch(own, "/docs/", **host)[2] == "<p>docs/index.html</p>"
    assert fetch(own, "/old/x", **host)[1]["location"] == "http://site.website.test/new/x"
    assert fetch(own, "/moved", **host)[1]["location"] == "/docs/"
    status, _, text = fetch(own, "/none", **host)
    assert (status, text) == (404, "<p>error.html</p>")
    assert fetch(own, "/", "DELETE", **host)[0] == 405


def test_access_logs(own, client):
    client.create_bucket(Bucket="logs")
    client.create_bucket(Bucket="watched")
    client.put_bucket_logging(Bucket="watched", BucketLoggingStatus={
        "LoggingEnabled": {"TargetBucket": "logs", "TargetPrefix": "w/"}})
    client.put_object(Bucket="watched", Key="a b", Body=b"123")
    client.get_object(Bucket="watched", Key="a b")["Body"].read()
    end = time.monotonic() + 20
    text = ""
    while "REST.GET.OBJECT" not in text:
        assert time.monotonic() < end, text
        time.sleep(0.3)
        found = client.list_objects_v2(Bucket="logs", Prefix="w/").get("Contents", [])
        text = "".join(client.get_object(Bucket="logs", Key=o["Key"])["Body"].read().decode() for o in found)
    line = next(x for x in text.splitlines() if "REST.PUT.OBJECT" in x)
    assert " watched [" in line and f" {ACCESS} " in line and " a%20b " in line and " SigV4 " in line
    client.put_bucket_logging(Bucket="watched", BucketLoggingStatus={})
    with pytest.raises(ClientError) as caught:
        client.put_bucket_logging(Bucket="watched", BucketLoggingStatus={
            "LoggingEnabled": {"TargetBucket": "nowhere", "TargetPrefix": ""}})
    assert caught.value.response["Error"]["Code"] == "InvalidTargetBucketForLogging"
