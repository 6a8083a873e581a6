//! Archives built block by block, read in pieces of every size.

use super::*;

/// A header and its content, padded.
fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    sized(name, kind, content.len() as u64, content)
}

fn sized(name: &str, kind: u8, size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(EntryType::new(kind));
    header.set_size(size);
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

fn records(list: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in list {
        let rest = key.len() + value.len() + 3;
        let length = (rest..).find(|n| n.to_string().len() + rest == *n).unwrap();
        out.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
    }
    out
}

fn pax(list: &[(&str, &str)]) -> Vec<u8> {
    entry("pax", b'x', &records(list))
}

/// What is read of an archive that comes in pieces of `piece` bytes: each entry in words.
fn read(archive: &[u8], piece: usize) -> Result<Vec<String>, String> {
    let mut reader = Reader::default();
    let mut out: Vec<String> = Vec::new();
    let mut data = Vec::new();
    let mut run = |input: &mut Bytes, reader: &mut Reader| -> Outcome<()> {
        while let Some(item) = reader.step(input)? {
            match item {
                Item::Entry(e) => {
                    let refused = e.refused.as_ref().map_or("", |f| f.message());
                    let headers: Vec<String> = e.headers.iter().map(|(n, v)| format!("{n}:{v}")).collect();
                    let name = String::from_utf8_lossy(&e.name).into_owned();
                    out.push(format!("{name}|{:?}|{}|{refused}|{}", e.kind, e.size, headers.join(",")));
                }
                Item::Data(bytes) => data.extend_from_slice(&bytes),
                Item::Finished => {
                    let last = out.last_mut().unwrap();
                    last.push('|');
                    last.push_str(&String::from_utf8_lossy(&std::mem::take(&mut data)));
                }
            }
        }
        Ok(())
    };
    let outcome = archive.chunks(piece).try_for_each(|c| run(&mut Bytes::copy_from_slice(c), &mut reader));
    outcome.and_then(|()| run(&mut Bytes::new(), &mut reader)).and_then(|()| reader.end()).map_err(|f| {
        assert!(f.status().is_client_error() || f.code().name == "NotImplemented");
        f.message().to_owned()
    })?;
    Ok(out)
}

#[track_caller]
fn reads(archive: &[u8], want: &[&str]) {
    for piece in [1, 7, 511, 512, 513, 1 << 20] {
        assert_eq!(
            read(archive, piece).as_deref(),
            Ok(&want.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]),
            "{piece}"
        );
    }
}

#[track_caller]
fn refuses(archive: &[u8], why: &str) {
    for piece in [1, 512, 1 << 20] {
        let got = read(archive, piece).expect_err(why);
        assert!(got.contains(why), "{got} is not: {why}");
    }
}

const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

#[test]
fn entries_are_read_from_pieces_of_any_size() {
    let long = "long/".repeat(60) + "name";
    let archive = [
        entry("a", b'0', b"hello"),
        entry("old", 0, &[b'x'; 512]),
        entry("empty", b'0', b""),
        entry("folder/", b'5', b""),
        entry("folder/", b'0', b""),
        entry("././@LongLink", b'L', format!("{long}\0").as_bytes()),
        entry("short", b'0', b"1"),
        pax(&[("path", "with\nline ends"), ("mtime", "1.5"), ("minio.metadata.Content-Type", "text/plain")]),
        entry("short", b'0', b"2"),
        entry("link", b'2', b""),
        entry("pipe", b'6', b""),
        entry("git", b'g', &records(&[("comment", "abc")])),
        entry("last", b'7', b"3"),
    ]
    .concat();
    let big = format!("old|File|512|||{}", "x".repeat(512));
    let long = format!("{long}|File|1|||1");
    let want = [
        "a|File|5|||hello",
        &big,
        "empty|File|0|||",
        "folder/|Folder|0|||",
        "folder/|Folder|0|||",
        &long,
        "with\nline ends|File|1||content-type:text/plain|2",
        "link|Special|0|||",
        "pipe|Special|0|||",
        "last|File|1|||3",
    ];
    reads(&[&archive[..], &END].concat(), &want);
    // Padded to whole records; without an end mark; without the padding of the last entry.
    reads(&[&archive[..], &[0; 10_240]].concat(), &want);
    reads(&archive, &want);
    reads(&archive[..archive.len() - 511], &want);
    reads(&[], &[]);
}

#[test]
fn truncated_or_damaged_archives_are_refused() {
    let whole = [entry("a", b'0', b"hello"), pax(&[("path", "b")]), entry("x", b'0', &[7; 600])].concat();
    for cut in 1..whole.len() {
        // Behind an entry and in its padding is a good end.
        if (517..=1024).contains(&cut) || cut >= 2560 + 600 {
            continue;
        }
        assert!(read(&whole[..cut], 1 << 20).is_err(), "{cut}");
    }
    for at in [0, 100, 124, 148, 156, 257, 400] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        refuses(&damaged, "damaged");
    }
    refuses(b"this is not an archive at all", "breaks off");
    refuses(&[b'x'; 1024], "not a tar archive");
    refuses(&[&entry("a", b'0', b"")[..], &END, &entry("b", b'0', b"")].concat(), "bytes follow its end");
    refuses(&[&END[..], &vec![0; MAX_TRAILER as usize]].concat(), "bytes follow its end");
}

#[test]
fn ambiguous_headers_are_refused() {
    let file = || entry("a", b'0', b"hello");
    let twice = "two extension headers describe the same entry";
    refuses(&[pax(&[("path", "a")]), pax(&[("path", "b")]), file()].concat(), twice);
    refuses(&[entry("l", b'L', b"a"), entry("l", b'L', b"b"), file()].concat(), twice);
    refuses(&[entry("l", b'L', b"a"), pax(&[("path", "b")]), file()].concat(), "two names");
    // CVE-2025-62518: one size for the content, another one in front of it.
    refuses(&[pax(&[("size", "0")]), file()].concat(), "two sizes");
    refuses(&[pax(&[("size", "1024")]), file()].concat(), "two sizes");
    reads(&[pax(&[("size", "5")]), file()].concat(), &["a|File|5|||hello"]);
    refuses(&[pax(&[("path", "a"), ("path", "b")]), file()].concat(), "something twice");
    let header = "minio.metadata.x-amz-meta-a";
    refuses(
        &[pax(&[(header, "1"), ("minio.metadata.X-Amz-Meta-A", "2")]), file()].concat(),
        "something twice",
    );
    refuses(&[entry("g", b'g', &records(&[("path", "a")])), file()].concat(), "global header");
    refuses(&[entry("g", b'g', &records(&[(header, "a")])), file()].concat(), "global header");
    refuses(&[entry("dir", b'5', b"content"), file()].concat(), "no content states a size");
    refuses(&[entry("link", b'2', b"content"), file()].concat(), "no content states a size");
    refuses(&[entry("link", b'1', b"content"), file()].concat(), "no content states a size");
    refuses(&[pax(&[("path", "a")]), END.to_vec()].concat(), "no entry behind it");
    refuses(&pax(&[("path", "a")]), "breaks off");
}

#[test]
fn extension_headers_are_bounded_and_well_formed() {
    let file = entry("a", b'0', b"");
    for kind in [b'x', b'g', b'L', b'K'] {
        refuses(&sized("big", kind, MAX_EXTENSION as u64 + 1, b""), "longer than 131072 bytes");
        refuses(&sized("big", kind, u64::MAX / 2, b""), "longer than 131072 bytes");
    }
    let most = "x".repeat(MAX_EXTENSION - 30);
    reads(&[pax(&[("comment", &most)]), file.clone()].concat(), &["a|File|0|||"]);
    for bad in [
        &b"x"[..],
        b"5 a=b",
        b"6 a=b",
        b"99 a=b\n",
        b"0 a=b\n",
        b"-6 a=b\n",
        b"+6 a=b\n",
        b"6  a=b\n",
        b"6 a-b\n",
        b"6 a=bc",
        b"99999999999999999999999 a=b\n",
        b"8 \xff\xff=b\n",
        b"3 \n",
        b"4 =\n9 size=x\n",
    ] {
        let archive = [entry("pax", b'x', bad), file.clone()].concat();
        assert!(read(&archive, 1 << 20).is_err(), "{:?}", String::from_utf8_lossy(bad));
    }
    let empty = [pax(&[("path", ""), ("size", "")]), file].concat();
    reads(&empty, &["a|File|0|||"]);
}

#[test]
fn unsupported_entries_are_refused_by_name() {
    let of = |archive: &[u8]| read(archive, 1 << 20);
    let hello = |before: &[(&str, &str)], kind| [pax(before), entry("a", kind, b"hello")].concat();
    let sparse = of(&hello(&[("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "9")], b'0')).unwrap();
    assert!(sparse[0].contains("sparse") && sparse[0].ends_with("|hello"), "{sparse:?}");
    let version = of(&hello(&[("minio.versionId", "x")], b'0')).unwrap();
    assert!(version[0].contains("minio.versionId"), "{version:?}");
    for kind in [b'V', b'N', b'X', b'D', b'?'] {
        let other = of(&entry("a", kind, b"hello")).unwrap();
        assert!(other[0].contains(&format!("type '{}'", char::from(kind))), "{other:?}");
    }
    assert!(of(&entry("a", b'1', b"")).unwrap()[0].contains("hard links"));
    assert!(of(&entry("a/", b'0', b"x")).unwrap()[0].contains("folder with content"));
    refuses(&entry("a", b'S', b"x"), "sparse");
}
