"""TLS sessions: a client that connects again resumes its session, whatever the number of other clients since then."""

import socket
import ssl

import pytest

from conftest import Server, one_server
from test_encryption import certificate

OTHERS = 400


@one_server
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_session_is_resumed_after_many_others(tmp_path, version):
    certificate(tmp_path / "certs")
    server = Server(tmp_path, certs=tmp_path / "certs")
    try:
        server.context.minimum_version = server.context.maximum_version = version

        def connect(session=None):
            """Sends a request; whether the session was resumed, and the session."""
            with socket.create_connection((server.host, server.port), timeout=30) as plain:
                with server.context.wrap_socket(plain, server_hostname=server.host, session=session) as stream:
                    stream.sendall(b"GET /minio/health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                    assert stream.recv(1000).startswith(b"HTTP/1.1 200 ")
                    return stream.session_reused, stream.session

        resumed, session = connect()
        assert not resumed
        for _ in range(OTHERS):
            assert not connect()[0]
        assert connect(session)[0]
    finally:
        server.stop()
