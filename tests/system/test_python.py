"""boto3, minio-py, pyarrow, delta-rs and obstore: versions, conditions, multipart, tables."""

import hashlib
import http.client
import io
import os
import threading
import urllib.parse
import urllib.request

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ACCESS, REGION, SECRET, free_port, noise


def code(error):
    return error.value.response["Error"]["Code"]


def test_versions(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    one = s3.put_object(Bucket=bucket, Key="k", Body=b"one")["VersionId"]
    two = s3.put_object(Bucket=bucket, Key="k", Body=b"two")["VersionId"]
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert marker["DeleteMarker"] and marker["VersionId"] not in (one, two)
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k")
    assert code(error) == "NoSuchKey"
    assert error.value.response["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"] == "true"
    get = lambda v: s3.get_object(Bucket=bucket, Key="k", VersionId=v)["Body"].read()
    assert (get(one), get(two), get("null")) == (b"one", b"two", b"before")
    seen = s3.list_object_versions(Bucket=bucket)
    assert [v["VersionId"] for v in seen["Versions"]] == [two, one, "null"]
    assert [m["IsLatest"] for m in seen["DeleteMarkers"]] == [True]
    s3.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"two"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(Bucket=bucket, Key="k", Body=b"suspended")
    assert get("null") == b"suspended"
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1})
    assert [v["VersionId"] for p in pages for v in p.get("Versions", [])] == ["null", two, one]


def test_conditions(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    for arguments in ({"IfNoneMatch": "*"}, {"IfMatch": '"0123"'}):
        with pytest.raises(ClientError) as error:
            s3.put_object(Bucket=bucket, Key="k", Body=b"2", **arguments)
        assert code(error) == "PreconditionFailed"
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=etag)
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)
    assert code(error) == "PreconditionFailed"
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="absent", Body=b"x", IfMatch=etag)
    assert code(error) == "NoSuchKey"
    now = s3.head_object(Bucket=bucket, Key="k")
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="k", IfNoneMatch=now["ETag"])
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 304
    with pytest.raises(ClientError) as error:
        s3.copy_object(
            Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "k"}, CopySourceIfMatch='"no"'
        )
    assert code(error) == "PreconditionFailed"


def test_one_of_many_conditional_writes_succeeds(s3, bucket):
    won = []

    def race(i):
        try:
            s3.put_object(Bucket=bucket, Key="lock", Body=str(i).encode(), IfNoneMatch="*")
            won.append(i)
        except ClientError as e:
            assert e.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict")

    threads = [threading.Thread(target=race, args=(i,)) for i in range(24)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(won) == 1
    assert s3.get_object(Bucket=bucket, Key="lock")["Body"].read() == str(won[0]).encode()


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums(s3, bucket, algorithm):
    try:
        put = s3.put_object(Bucket=bucket, Key="k", Body=noise(100_000), ChecksumAlgorithm=algorithm)
    except Exception as e:  # botocore needs awscrt for two of them; nothing of ours to test then
        if "crt" in str(e).lower():
            pytest.skip(f"botocore without CRT cannot compute {algorithm}")
        raise
    field = f"Checksum{algorithm}"
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[field] == put[field] and len(put[field]) > 4
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == noise(100_000)
    about = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum", "ObjectSize", "ETag"])
    assert about["ObjectSize"] == 100_000 and about["Checksum"][field] == put[field]


def test_metadata_tags_copy(s3, bucket):
    meta = {"colour": "blue", "nom": "été"}
    s3.put_object(
        Bucket=bucket, Key="a/b", Body=b"x", ContentType="text/x-it", CacheControl="max-age=1",
        Metadata={"colour": "blue"}, Tagging="k1=v1&k2=v%202",
    )
    head = s3.head_object(Bucket=bucket, Key="a/b")
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]) == ("text/x-it", "max-age=1", {"colour": "blue"})
    tags = s3.get_object_tagging(Bucket=bucket, Key="a/b")["TagSet"]
    assert tags == [{"Key": "k1", "Value": "v1"}, {"Key": "k2", "Value": "v 2"}]
    s3.copy_object(Bucket=bucket, Key="a/c", CopySource={"Bucket": bucket, "Key": "a/b"})
    assert s3.head_object(Bucket=bucket, Key="a/c")["Metadata"] == {"colour": "blue"}
    s3.copy_object(
        Bucket=bucket, Key="a/c", CopySource={"Bucket": bucket, "Key": "a/b"},
        MetadataDirective="REPLACE", Metadata={"new": "1"}, TaggingDirective="REPLACE", Tagging="z=1",
    )
    assert s3.head_object(Bucket=bucket, Key="a/c")["Metadata"] == {"new": "1"}
    assert s3.get_object_tagging(Bucket=bucket, Key="a/c")["TagSet"] == [{"Key": "z", "Value": "1"}]
    with pytest.raises(ClientError) as error:
        s3.copy_object(Bucket=bucket, Key="a/b", CopySource={"Bucket": bucket, "Key": "a/b"})
    assert code(error) == "InvalidRequest"
    s3.delete_object_tagging(Bucket=bucket, Key="a/b")
    assert s3.get_object_tagging(Bucket=bucket, Key="a/b")["TagSet"] == []
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "team", "Value": "x"}]})
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == [{"Key": "team", "Value": "x"}]
    assert meta["nom"] == "été"


def test_unusual_keys_and_listing(s3, bucket):
    keys = ["a", "a/b", "a//b", "./x", "../y", "sp ace", "plus+", "ü/é", "per%41cent", "q?m", "h#sh", "日本/語", "x" * 1024, "tail/"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in keys:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    ordered = sorted(keys, key=lambda k: k.encode())
    for size in (1, 3, 1000):
        for call, field in (("list_objects", "Contents"), ("list_objects_v2", "Contents")):
            pages = s3.get_paginator(call).paginate(Bucket=bucket, PaginationConfig={"PageSize": size})
            assert [o["Key"] for p in pages for o in p.get(field, [])] == ordered
    top = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in top["CommonPrefixes"]] == sorted({k.split("/")[0] + "/" for k in keys if "/" in k}, key=lambda k: k.encode())
    assert s3.list_objects_v2(Bucket=bucket, Prefix="a/", StartAfter="a//b")["Contents"][0]["Key"] == "a/b"
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=bucket, Key="x" * 1025, Body=b"")
    assert code(error) == "KeyTooLongError"
    gone = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in keys]})
    assert len(gone["Deleted"]) == len(keys) and "Errors" not in gone
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_multipart(s3, bucket):
    parts = [noise(5 << 20, 1), noise(6 << 20, 2), noise(100, 3)]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", Metadata={"a": "b"})["UploadId"]
    where = {"Bucket": bucket, "Key": "m", "UploadId": upload}
    tags = {}
    for number in (3, 1, 2):
        tags[number] = s3.upload_part(**where, PartNumber=number, Body=parts[number - 1])["ETag"]
    tags[2] = s3.upload_part(**where, PartNumber=2, Body=parts[1])["ETag"]
    assert [p["PartNumber"] for p in s3.list_parts(**where)["Parts"]] == [1, 2, 3]
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
    chosen = [{"PartNumber": n, "ETag": tags[n]} for n in (1, 2, 3)]
    with pytest.raises(ClientError) as error:
        s3.complete_multipart_upload(**where, MultipartUpload={"Parts": chosen[::-1]})
    assert code(error) == "InvalidPartOrder"
    with pytest.raises(ClientError) as error:
        s3.complete_multipart_upload(**where, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": '"0"'}]})
    assert code(error) == "InvalidPart"
    done = s3.complete_multipart_upload(**where, MultipartUpload={"Parts": chosen})
    expected = hashlib.md5(b"".join(hashlib.md5(p).digest() for p in parts)).hexdigest() + "-3"
    assert done["ETag"] == f'"{expected}"'
    again = s3.complete_multipart_upload(**where, MultipartUpload={"Parts": chosen})
    assert again["ETag"] == done["ETag"]
    assert s3.get_object(Bucket=bucket, Key="m")["Body"].read() == b"".join(parts)
    second = s3.get_object(Bucket=bucket, Key="m", PartNumber=2)
    assert second["Body"].read() == parts[1] and second["PartsCount"] == 3
    ranged = s3.get_object(Bucket=bucket, Key="m", Range=f"bytes={(5 << 20) - 10}-{(5 << 20) + 9}")
    assert ranged["Body"].read() == parts[0][-10:] + parts[1][:10]
    copy = s3.create_multipart_upload(Bucket=bucket, Key="c")["UploadId"]
    part = s3.upload_part_copy(
        Bucket=bucket, Key="c", UploadId=copy, PartNumber=1,
        CopySource={"Bucket": bucket, "Key": "m"}, CopySourceRange="bytes=0-5242879",
    )
    s3.complete_multipart_upload(
        Bucket=bucket, Key="c", UploadId=copy,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]},
    )
    assert s3.get_object(Bucket=bucket, Key="c")["Body"].read() == parts[0]
    lost = s3.create_multipart_upload(Bucket=bucket, Key="l")["UploadId"]
    s3.abort_multipart_upload(Bucket=bucket, Key="l", UploadId=lost)
    with pytest.raises(ClientError) as error:
        s3.upload_part(Bucket=bucket, Key="l", UploadId=lost, PartNumber=1, Body=b"")
    assert code(error) == "NoSuchUpload"


def test_multi_gib_multipart(s3, bucket):
    """3 GiB (over four nodes 1 GiB) through the transfer manager, compared by digest without holding it in memory."""
    block = noise(16 << 20, 11)
    total = (1 if "ASHLAR_TEST_CLUSTER" in os.environ else 3) << 30

    class Source(io.RawIOBase):
        at = 0

        def readable(self):
            return True

        def seekable(self):
            return True

        def tell(self):
            return self.at

        def seek(self, offset, whence=0):
            self.at = offset if whence == 0 else (self.at if whence == 1 else total) + offset
            return self.at

        def readinto(self, out):
            start = self.at % len(block)
            n = min(len(out), len(block) - start, total - self.at)
            out[:n] = block[start:start + n]
            self.at += n
            return n

    config = boto3.s3.transfer.TransferConfig(multipart_chunksize=64 << 20, max_concurrency=3)
    s3.upload_fileobj(io.BufferedReader(Source(), 1 << 20), bucket, "huge", Config=config)
    assert s3.head_object(Bucket=bucket, Key="huge")["ContentLength"] == total
    want, got = hashlib.blake2b(), hashlib.blake2b()
    for _ in range(total // len(block)):
        want.update(block)
    for piece in s3.get_object(Bucket=bucket, Key="huge")["Body"].iter_chunks(4 << 20):
        got.update(piece)
    assert got.digest() == want.digest()
    s3.delete_object(Bucket=bucket, Key="huge")


def test_presigned_and_post(s3, server, bucket):
    for version in ("s3v4", "s3"):
        signer = boto3.client(
            "s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
            region_name=REGION, config=Config(signature_version=version, s3={"addressing_style": "path"}),
        )
        url = signer.generate_presigned_url("put_object", {"Bucket": bucket, "Key": f"p {version}"}, 60)
        # Not urllib: it adds a Content-Type, which a version 2 signature would have to cover.
        wire = http.client.HTTPConnection("127.0.0.1", server.port)
        wire.request("PUT", url.removeprefix(server.endpoint), body=b"signed")
        assert wire.getresponse().status == 200
        wire.close()
        url = signer.generate_presigned_url(
            "get_object", {"Bucket": bucket, "Key": f"p {version}", "ResponseContentType": "text/x-y"}, 60
        )
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"signed" and answer.headers["Content-Type"] == "text/x-y"
    post = s3.generate_presigned_post(bucket, "form/${filename}", Conditions=[["content-length-range", 1, 100]])
    boundary = "ashlarboundary"
    fields = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in post["fields"].items()
    )
    def send(content):
        body = (
            fields + f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="n.txt"\r\n\r\n'
        ).encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return urllib.request.urlopen(urllib.request.Request(
            post["url"], data=body, headers={"Content-Type": f"multipart/form-data; boundary={boundary}"}
        ))
    assert send(b"posted").status == 204
    assert s3.get_object(Bucket=bucket, Key="form/n.txt")["Body"].read() == b"posted"
    with pytest.raises(urllib.error.HTTPError) as error:
        send(b"x" * 101)
    assert error.value.code == 400 and b"EntityTooLarge" in error.value.read()


def test_virtual_host_style(server, bucket):
    """`--domain s3.test`: the bucket in the host name, by a client that believes in it."""
    request = urllib.request.Request(f"{server.endpoint}/", headers={"Host": f"{bucket}.s3.test:{server.port}"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    assert error.value.code == 403 and b"AccessDenied" in error.value.read()
    s3 = boto3.client(
        "s3", endpoint_url=f"http://s3.test:{server.port}", aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET, region_name=REGION,
        config=Config(s3={"addressing_style": "virtual"}, proxies={"http": server.endpoint}),
    )
    s3.put_object(Bucket=bucket, Key="in/host", Body=b"v")
    assert s3.get_object(Bucket=bucket, Key="in/host")["Body"].read() == b"v"


def test_minio_py(server, s3, bucket):
    from minio import Minio
    from minio.commonconfig import Tags

    client = Minio(server.endpoint.replace("http://", ""), ACCESS, SECRET, secure=False)
    assert client.bucket_exists(bucket) and not client.bucket_exists(bucket + "-not")
    data = noise(20 << 20, 12)
    client.put_object(bucket, "big", io.BytesIO(data), len(data), part_size=5 << 20)
    answer = client.get_object(bucket, "big")
    assert answer.read() == data
    answer.close()
    answer.release_conn()
    assert [o.object_name for o in client.list_objects(bucket, recursive=True)] == ["big"]
    tags = Tags.new_object_tags()
    tags["a"] = "b"
    client.set_object_tags(bucket, "big", tags)
    assert client.get_object_tags(bucket, "big") == {"a": "b"}
    with urllib.request.urlopen(client.presigned_get_object(bucket, "big")) as got:
        assert got.read() == data
    client.remove_object(bucket, "big")


def test_pyarrow_parquet(server, bucket):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    place = fs.S3FileSystem(
        access_key=ACCESS, secret_key=SECRET, region=REGION, endpoint_override=server.endpoint
    )
    table = pa.table({"n": list(range(300_000)), "s": [f"row {i}" for i in range(300_000)]})
    pq.write_to_dataset(table, f"{bucket}/data", filesystem=place, partition_cols=None)
    pq.write_table(table, f"{bucket}/one.parquet", filesystem=place)
    back = pq.read_table(f"{bucket}/one.parquet", filesystem=place, columns=["n"], filters=[("n", ">", 299_990)])
    assert back["n"].to_pylist() == list(range(299_991, 300_000))
    assert pq.read_table(f"{bucket}/data", filesystem=place).num_rows == 300_000


def test_delta_table(server, bucket):
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    options = {
        "AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag",
    }
    uri = f"s3://{bucket}/table"
    for i in range(5):
        write_deltalake(uri, pa.table({"i": [i] * 1000}), mode="append", storage_options=options)
    table = DeltaTable(uri, storage_options=options)
    assert table.version() == 4 and table.to_pyarrow_table().num_rows == 5000
    assert DeltaTable(uri, version=1, storage_options=options).to_pyarrow_table().num_rows == 2000


def test_obstore_conditional_put(server, bucket):
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        bucket, endpoint=server.endpoint, access_key_id=ACCESS, secret_access_key=SECRET,
        region=REGION, client_options={"allow_http": True},
    )
    first = obstore.put(store, "k", b"1", mode="create")
    with pytest.raises(Exception, match="(?i)already exists"):
        obstore.put(store, "k", b"2", mode="create")
    obstore.put(store, "k", b"2", mode={"e_tag": first["e_tag"]})
    with pytest.raises(Exception, match="(?i)precondition"):
        obstore.put(store, "k", b"3", mode={"e_tag": first["e_tag"]})
    assert bytes(obstore.get(store, "k").bytes()) == b"2"


def test_anonymous_and_wrong_secret(server, bucket):
    for path in ("/", f"/{bucket}", f"/{bucket}/k"):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(server.endpoint + path)
        body = error.value.read()
        assert error.value.code == 403 and b"<Code>AccessDenied</Code>" in body
        assert error.value.headers["x-amz-request-id"]
    bad = boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=ACCESS, aws_secret_access_key="wrong" * 5,
        region_name=REGION,
    )
    with pytest.raises(ClientError) as error:
        bad.list_buckets()
    assert code(error) == "SignatureDoesNotMatch"
    assert urllib.parse.urlparse(server.endpoint).port != free_port()


def test_absent_features_are_reported(s3, bucket):
    for call in (
        lambda: s3.put_bucket_accelerate_configuration(Bucket=bucket, AccelerateConfiguration={"Status": "Enabled"}),
        lambda: s3.restore_object(Bucket=bucket, Key="a", RestoreRequest={"Days": 1}),
        lambda: s3.select_object_content(Bucket=bucket, Key="a", Expression="SELECT 1", ExpressionType="SQL",
                                         InputSerialization={"JSON": {}}, OutputSerialization={"JSON": {}}),
    ):
        with pytest.raises(ClientError) as error:
            call()
        assert code(error) == "NotImplemented"
