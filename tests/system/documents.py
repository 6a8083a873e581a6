"""Small PDF documents, made by hand (ISO 32000-1), for the preview of the console."""

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


def document(between=b"", trailer=b""):
    """Three pages: words, with a script and a link; a picture as fax machines send it, 64 black rows of 64; one in JPEG 2000, broken.

    `between`: bytes that no page needs, in the middle of the document.
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
    return pdf(objects, trailer)


def locked():
    """A document that wants a password."""
    key = b"ab" * 32
    return document(trailer=b"/ID [<00> <00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (key, key))
