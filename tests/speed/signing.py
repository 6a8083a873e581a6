"""Signed requests whose bodies are not part of the signature (UNSIGNED-PAYLOAD): they can be sent many times. Needs botocore."""

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


class Unsigned(S3SigV4Auth):
    def _should_sha256_sign_payload(self, request):
        return False


def signed(root, method, url, headers=None):
    """The headers of a request; `root`: access key and secret key."""
    request = AWSRequest(method, url, headers=headers or {})
    Unsigned(Credentials(*root), "s3", "us-east-1").add_auth(request)
    return dict(request.headers)
