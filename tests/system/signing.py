"""Signed calls of the admin API, with botocore's signer."""

import json
import urllib.request

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from conftest import ACCESS, REGION, SECRET


def admin(server, method, path, body=None):
    """The decoded JSON answer; an HTTP error is raised."""
    data = None if body is None else json.dumps(body).encode()
    request = AWSRequest(method, server.endpoint + path, data=data)
    S3SigV4Auth(Credentials(ACCESS, SECRET), "s3", REGION).add_auth(request)
    real = urllib.request.Request(server.endpoint + path, data=data, method=method, headers=dict(request.headers))
    with urllib.request.urlopen(real, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")
