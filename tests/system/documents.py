"""Small PDF documents, made by hand (ISO 32000-1), for the preview of the console."""

import hashlib
import struct

WORDS = "BT /F1 36 Tf 60 700 Td (%s) Tj ET"


def pdf(objects, trailer=b""):
    """A document of the objects 1, 2, ...; the first is its catalogue."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    out += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, table)
    return bytes(out)


def stream(entries, data):
    return b"<< %s /Length %d >>\nstream\n" % (entries, len(data)) + data + b"\nendstream"


def document(between=b"", trailer=b"", each=lambda number, content: content):
    """Three pages: words, with a script and a link; a picture as fax machines send it, 64 black rows of 64; one in JPEG 2000, broken.

    `between`: bytes that no page needs, in the middle of the document. `each`: what becomes of an object.
    """
    pages = [WORDS % "The first page", WORDS % "The second page" + " q 400 0 0 400 100 200 cm /Fax Do Q",
             WORDS % "The third page" + " q 400 0 0 400 100 200 cm /Jpx Do Q"]
    # Group 4 of fax (ITU-T T.6): each row like the one before is one bit; before the first one all is white. Then the end, twice.
    fax = b"\xff" * 8 + bytes.fromhex("001001")
    image = b"/Type /XObject /Subtype /Image /Width 64 /Height 64 /ColorSpace /DeviceGray "
    resources = b"/Resources << /Font << /F1 3 0 R >> /XObject << /Fax 4 0 R /Jpx 5 0 R >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /JavaScript /JS (app.alert\\(1\\)) >> >>",
        b"<< /Type /Pages /Count 3 /Kids [10 0 R 11 0 R 12 0 R] >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        stream(image + b"/BitsPerComponent 1 /Decode [1 0] /Filter /CCITTFaxDecode /DecodeParms << /K -1 /Columns 64 /Rows 64 >>", fax),
        stream(image + b"/BitsPerComponent 8 /Filter /JPXDecode", b"\xff\x4f\xff\x51" + bytes(60)),
        stream(b"", between),
        *(stream(b"", page.encode()) for page in pages),
        *(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Annots [13 0 R] %s >>" % (7 + i, resources) for i in range(3)),
        b"<< /Type /Annot /Subtype /Link /Rect [0 0 595 842] /A << /S /URI /URI (https://attacker.example.com/) >> >>",
    ]
    return pdf([each(number, content) for number, content in enumerate(objects, 1)], trailer)


PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")


def rc4(key, data):
    state, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def locked(password):
    """The document, which opens with a password (ISO 32000-1, 7.6.3, algorithms 1 to 4 with keys of 40 bits). Its strings are not encrypted:
    what is read of them is nonsense."""
    padded = (password + PADDING)[:32]
    owner = rc4(hashlib.md5(padded).digest()[:5], padded)
    key = hashlib.md5(padded + owner + struct.pack("<i", -4) + b"\0").digest()[:5]

    def encrypted(number, content):
        head, found, rest = content.partition(b"stream\n")
        if not found:
            return content
        data = rest[:-len(b"\nendstream")]
        own = hashlib.md5(key + struct.pack("<I", number)[:3] + b"\0\0").digest()[:10]
        return head + found + rc4(own, data) + b"\nendstream"

    trailer = b"/ID [<00> <00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (
        owner.hex().encode(), rc4(key, PADDING).hex().encode())
    return document(trailer=trailer, each=encrypted)
