"""AWS's own encryption clients: objects encrypted by the client round trip, with their metadata.

AES-CBC and AES-GCM by the client of SDK 1, with the key in the metadata and in an instruction file; AES-GCM by the
client of SDK 2, which also reads what the other wrote in AES-CBC, as it is and as a copy.
"""

import os
from pathlib import Path

from conftest import ACCESS, SECRET

PROGRAM = Path(__file__).parent / "encryption_client" / "RoundTrip.java"


def test_objects_of_encryption_clients_round_trip(server, s3, bucket, run):
    jars = os.environ["CLIENT_ENCRYPTION"]
    done = run(
        "java", "-Daws.java.v1.disableDeprecationAnnouncement=true", "-cp", f"{jars}/*", PROGRAM,
        server.endpoint, ACCESS, SECRET, bucket,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4 * 5 + 5 * 3 + 2, done.stdout
    # The server keeps ciphertext, and the headers that the clients put beside it.
    head = s3.head_object(Bucket=bucket, Key="v1/EncryptionOnly/ObjectMetadata/70000")
    assert {"x-amz-iv", "x-amz-key", "x-amz-matdesc", "mine"} <= set(head["Metadata"])
    assert head["ContentLength"] == 70_000 // 16 * 16 + 16
    assert s3.get_object(Bucket=bucket, Key="v1/EncryptionOnly/InstructionFile/16.instruction")["Body"].read()
