//! GetObjectAttributes: properties of an object without its bytes.

use ashlar_object::Object;
use http::header;

use super::{Answer, Call, Context, STORAGE_CLASS};
use crate::date;
use crate::fault::{Code, Fault, Outcome};
use crate::headers::{self, checksum_text, checksum_type};
use crate::sse::{self, Allowed, Found};
use crate::xml::Xml;

const NAMES: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];

/// `GetObjectAttributes`.
pub async fn get_attributes(cx: &Context, call: &mut Call) -> Outcome<Answer> {
    sse::refuse(&call.headers, &cx.owner_id, Allowed::Customer)?;
    let version = call.version()?;
    let wanted = wanted(call)?;
    let most = header_number(call, "x-amz-max-parts", 1000)?.min(1000);
    let marker = header_number(call, "x-amz-part-number-marker", 0)?;
    let mut object = cx.store.get(&call.open()?, &call.key, version).await.map_err(|e| call.fault(e))?;
    let found = Found::of(cx, call, &mut object, wanted.contains(&"Checksum")).await?;
    crate::notifications::accessed(cx, call, ashlar_object::feed::Kind::Attributes, &object);
    let mut xml = Xml::new();
    xml.root("GetObjectAttributesResponse");
    for name in wanted {
        match name {
            "ETag" => {
                xml.plain("ETag", object.etag());
            }
            "Checksum" => checksum(&mut xml, &object),
            "ObjectParts" => parts(&mut xml, &object, marker, most),
            "StorageClass" => {
                let class = object.version().meta.iter().find(|(n, _)| n == STORAGE_CLASS.as_str());
                xml.leaf("StorageClass", class.map_or("STANDARD", |(_, v)| v.as_str()));
            }
            _ => {
                xml.plain("ObjectSize", object.size());
            }
        }
    }
    xml.close();
    let mut answer = Answer::document(xml);
    answer.set(header::LAST_MODIFIED, date::format_http(object.version().modified_ms.div_euclid(1000)));
    answer.version(object.version_id());
    found.show(&mut answer);
    Ok(answer)
}

/// The attributes asked for, in the order of the document.
fn wanted(call: &Call) -> Outcome<Vec<&'static str>> {
    let all: Vec<String> = call
        .headers
        .get_all("x-amz-object-attributes")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .map(|v| v.trim().to_owned())
        .filter(|v| !v.is_empty())
        .collect();
    if all.is_empty() {
        return Err(Fault::with(
            Code::INVALID_REQUEST,
            "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty",
        ));
    }
    if let Some(unknown) = all.iter().find(|v| !NAMES.contains(&v.as_str())) {
        return Err(Fault::argument("x-amz-object-attributes", unknown, "Invalid attribute name specified."));
    }
    Ok(NAMES.into_iter().filter(|n| all.iter().any(|v| v == n)).collect())
}

fn header_number(call: &Call, name: &'static str, default: u32) -> Outcome<u32> {
    match headers::ascii(&call.headers, name) {
        None | Some("") => Ok(default),
        Some(text) => text.parse().map_err(|_| Fault::argument(name, text, "It must be an integer.")),
    }
}

fn checksum(xml: &mut Xml, object: &Object) {
    let version = object.version();
    let Some(stored) = &version.checksum else { return };
    if let Some((algorithm, text)) = checksum_text(stored, version.parts_count) {
        xml.open("Checksum")
            .leaf(&format!("Checksum{algorithm}"), &text)
            .leaf("ChecksumType", checksum_type(stored.composite))
            .close();
    }
}

fn parts(xml: &mut Xml, object: &Object, marker: u32, most: u32) {
    let version = object.version();
    if version.parts_count == 0 {
        return;
    }
    let listed: Vec<_> = version.parts.iter().filter(|p| u32::from(p.number) > marker).collect();
    let shown = &listed[..listed.len().min(most as usize)];
    xml.open("ObjectParts");
    xml.plain("IsTruncated", shown.len() < listed.len()).plain("MaxParts", most);
    xml.plain("NextPartNumberMarker", shown.last().map_or(0, |p| p.number));
    xml.plain("PartNumberMarker", marker);
    // AWS lists parts only where they carry checksums.
    for part in shown {
        let Some((algorithm, text)) = part.checksum.as_ref().and_then(|c| checksum_text(c, 0)) else {
            continue;
        };
        xml.open("Part")
            .leaf(&format!("Checksum{algorithm}"), &text)
            .plain("PartNumber", part.number)
            .plain("Size", part.size)
            .close();
    }
    xml.plain("PartsCount", version.parts_count).close();
}
