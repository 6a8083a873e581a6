//! Client certificates: the common name is the name of a policy, as MinIO has it.
//!
//! TLS has verified that the client has the private key of the first certificate of its chain. This file
//! decides whether that certificate is accepted. Invariants: only the first certificate identifies the
//! client; its chain ends at an authority of the server's `CAs` folder, never at one of the system's, which
//! sign for anyone; it has the extended key usage for clients and is in its period of validity; no session
//! outlives the certificate.
//!
//! Must not depend on: sockets.

use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

use ashlar_iam::{Authenticated, DEFAULT_TARGET, Federated, Refused, Values};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::{rfc4519, rfc5280};
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::ExtendedKeyUsage;
use x509_cert::name::Name;

use crate::values::switch;
use crate::{Error, ProviderContext};

/// Names of values.
pub(crate) const NAMES: &[&str] = &["enable", "skip_verify", "comment"];
/// No value is secret.
pub(crate) const SECRETS: &[&str] = &[];

/// Most certificates between the peer's and an authority.
const BETWEEN: usize = 10;
/// Most authorities.
const AUTHORITIES: usize = 1000;

/// The authorities that are trusted for client certificates.
pub(crate) struct Provider {
    context: Arc<ProviderContext>,
    anchors: Vec<TrustAnchor<'static>>,
}

impl Provider {
    /// A provider from settings, with the authorities of the context.
    pub fn new(target: &str, values: &Values, context: &Arc<ProviderContext>) -> Result<Provider, Error> {
        let wrong = |why: &str| Error::Invalid(why.to_owned());
        if target != DEFAULT_TARGET {
            return Err(wrong("there is only one identity_tls, without a name: leave the name out"));
        }
        if switch(values, "skip_verify", false)? {
            return Err(wrong(
                "skip_verify is not supported: anyone could make a certificate for any policy",
            ));
        }
        let mut anchors = Vec::new();
        for pem in &context.authorities {
            for der in CertificateDer::pem_slice_iter(pem) {
                let der =
                    der.map_err(|e| Error::Invalid(format!("a file in CAs is not valid PEM: {e:?}")))?;
                let anchor = webpki::anchor_from_trusted_cert(&der)
                    .map_err(|e| Error::Invalid(format!("a certificate in CAs cannot be used: {e}")))?;
                anchors.push(anchor.to_owned());
            }
        }
        if anchors.is_empty() || anchors.len() > AUTHORITIES {
            return Err(Error::Invalid(format!(
                "identity_tls needs 1 to {AUTHORITIES} certificates in the folder CAs beside the server's own \
                 certificate (--certs); there are {}",
                anchors.len()
            )));
        }
        Ok(Provider { context: context.clone(), anchors })
    }

    /// See `providers`.
    pub fn trusted(&self) -> (String, Vec<String>) {
        ("certificate/_".into(), Vec::new())
    }

    /// Always succeeds: there is no server to ask.
    pub fn probe(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { Ok(()) })
    }

    /// See `providers`.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("authorities", self.anchors.len().to_string())]
    }

    /// The user of a chain of certificates.
    pub fn authenticator(&self, chain: &[Vec<u8>], now_ms: i64) -> Result<Authenticated, Refused> {
        let denied = |why: String| Refused::Denied(why);
        let Some((first, between)) = chain.split_first() else {
            return Err(denied("no client certificate was sent over TLS".into()));
        };
        if between.len() > BETWEEN {
            return Err(denied(format!("more than {BETWEEN} certificates lie between it and an authority")));
        }
        self.verify(first, between, now_ms).map_err(|e| denied(format!("the certificate: {e}")))?;
        // Refuses bytes that follow it.
        let certificate =
            Certificate::from_der(first).map_err(|e| denied(format!("the certificate: {e}")))?;
        let certificate = certificate.tbs_certificate();
        // A certificate without the extension is not restricted to a use, so it is not meant for clients.
        let usage = certificate.get_extension::<ExtendedKeyUsage>().ok().flatten();
        if !usage.is_some_and(|(_, u)| u.0.contains(&rfc5280::ID_KP_CLIENT_AUTH)) {
            return Err(denied("the certificate is not made for clients (extended key usage)".into()));
        }
        let [name] = &texts(certificate.subject(), rfc4519::CN)[..] else {
            return Err(denied("the certificate must have exactly one common name".into()));
        };
        let until = certificate.validity().not_after.to_unix_duration();
        let until_ms = i64::try_from(until.as_millis()).unwrap_or(i64::MAX);
        let issuer = texts(certificate.issuer(), rfc4519::CN).join(",");
        let organizations = texts(certificate.subject(), rfc4519::O);
        let mut claims =
            vec![("sub".to_owned(), vec![name.clone()]), ("iss".to_owned(), vec![issuer.clone()])];
        if !organizations.is_empty() {
            claims.push(("aud".to_owned(), organizations.clone()));
        }
        let exists = self.context.iam.policy(name).is_some();
        let who = Federated {
            provider: self.trusted().0,
            id: format!("certificate/{name}"),
            policies: if exists { vec![name.clone()] } else { Vec::new() },
            claims,
            ..Federated::default()
        };
        who.check().map_err(|e| denied(e.to_string()))?;
        let audience = organizations.join(",");
        Ok(Authenticated { who, subject: name.clone(), audience, issuer, until_ms: Some(until_ms) })
    }

    fn verify(&self, first: &[u8], between: &[Vec<u8>], now_ms: i64) -> Result<(), webpki::Error> {
        let first = CertificateDer::from(first);
        let between: Vec<CertificateDer<'_>> = between.iter().map(|c| CertificateDer::from(&c[..])).collect();
        let now = UnixTime::since_unix_epoch(Duration::from_millis(u64::try_from(now_ms).unwrap_or(0)));
        let certificate = EndEntityCert::try_from(&first)?;
        certificate
            .verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &self.anchors,
                &between,
                now,
                KeyUsage::client_auth(),
                None,
                None,
            )
            .map(|_| ())
    }
}

/// The values of an attribute of a name that are text and not empty.
fn texts(name: &Name, attribute: ObjectIdentifier) -> Vec<String> {
    let of = name.iter().filter(|a| a.oid == attribute).map(|a| &a.value);
    // UTF-8, or a subset of it in which every character is a byte.
    let text = of.filter(|v| matches!(v.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String));
    let text = text.filter_map(|v| String::from_utf8(v.value().to_vec()).ok());
    text.filter(|t| !t.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use ashlar_iam::Authenticator as _;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };

    use super::*;
    use crate::Subsystem;
    use crate::testing::{World, values};

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn params(names: &[&str]) -> CertificateParams {
        let mut p = CertificateParams::new(Vec::new()).unwrap();
        for name in names {
            p.distinguished_name.push(DnType::CommonName, *name);
        }
        p.distinguished_name.push(DnType::OrganizationName, "house");
        p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        // `START_S` is in January 2027.
        (p.not_before, p.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2028, 1, 1));
        p
    }

    fn authority(name: &str) -> Authority {
        let mut p = params(&[name]);
        p.extended_key_usages.clear();
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(p, KeyPair::generate().unwrap()).unwrap()
    }

    fn client(ca: &Authority, p: &CertificateParams) -> Vec<u8> {
        p.signed_by(&KeyPair::generate().unwrap(), ca).unwrap().der().to_vec()
    }

    async fn world(ca: &Authority) -> World {
        let world = World::new(vec![ca.pem().into_bytes()]).await;
        let policy =
            br#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}"#;
        world.iam.put_policy("job", policy).await.unwrap();
        world.put("identity_tls", "_", &[("enable", "on")]).await;
        world
    }

    #[tokio::test]
    async fn certificate_of_a_trusted_authority_names_its_policy() {
        let ca = authority("ca");
        let world = world(&ca).await;
        let got = world.idp.certificate(&[client(&ca, &params(&["job"]))]).await.unwrap();
        assert_eq!((got.who.id.as_str(), got.subject.as_str()), ("certificate/job", "job"));
        assert_eq!((got.who.policies.as_slice(), got.issuer.as_str()), (&["job".to_owned()][..], "ca"));
        assert_eq!(got.audience, "house");
        assert_eq!(got.until_ms, Some(1_830_297_600_000), "2028-01-01");
        let unknown = world.idp.certificate(&[client(&ca, &params(&["nobody"]))]).await.unwrap();
        assert!(unknown.who.policies.is_empty(), "no such policy");
        // With one intermediate authority.
        let mut p = params(&["between"]);
        p.extended_key_usages.clear();
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let between = CertifiedIssuer::signed_by(p, KeyPair::generate().unwrap(), &ca).unwrap();
        let leaf = client(&between, &params(&["job"]));
        world.idp.certificate(&[leaf.clone(), between.der().to_vec()]).await.unwrap();
        assert!(world.idp.certificate(&[leaf]).await.is_err(), "a link is missing");
        assert!(world.idp.wants_certificates().load(std::sync::atomic::Ordering::Acquire));
        world.put("identity_tls", "_", &[("enable", "off")]).await;
        assert!(!world.idp.wants_certificates().load(std::sync::atomic::Ordering::Acquire));
        assert_eq!(world.idp.certificate(&[]).await.unwrap_err(), Refused::Unconfigured);
    }

    #[tokio::test]
    async fn untrusted_or_unsuitable_certificates_are_refused() {
        let (ca, stranger) = (authority("ca"), authority("ca"));
        let world = world(&ca).await;
        let changed = |f: &dyn Fn(&mut CertificateParams)| {
            let mut p = params(&["job"]);
            f(&mut p);
            client(&ca, &p)
        };
        let good = client(&ca, &params(&["job"]));
        let mut longer = good.clone();
        longer.push(0);
        let mut flipped = good.clone();
        let at = flipped.len() / 2;
        flipped[at] ^= 1;
        let own = params(&["job"]).self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        for (what, chain) in [
            ("none", vec![]),
            ("no certificate", vec![b"x".to_vec()]),
            ("of another authority of the same name", vec![client(&stranger, &params(&["job"]))]),
            ("signed by itself", vec![own]),
            ("the authority itself", vec![ca.der().to_vec()]),
            ("another's behind the authority", vec![ca.der().to_vec(), good.clone()]),
            ("another's behind a stranger's", vec![client(&stranger, &params(&["job"])), good.clone()]),
            (
                "no common name",
                vec![changed(&|p| {
                    p.distinguished_name.remove(DnType::CommonName);
                })],
            ),
            (
                "for servers",
                vec![changed(&|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])],
            ),
            ("for anything", vec![changed(&|p| p.extended_key_usages.clear())]),
            ("expired", vec![changed(&|p| p.not_after = date_time_ymd(2026, 12, 31))]),
            ("not yet", vec![changed(&|p| p.not_before = date_time_ymd(2027, 12, 31))]),
            ("an authority", vec![changed(&|p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))]),
            ("bytes behind it", vec![longer]),
            ("a changed bit", vec![flipped]),
            ("a long chain", [vec![good.clone()], vec![ca.der().to_vec(); BETWEEN + 1]].concat()),
        ] {
            let got = world.idp.certificate(&chain).await;
            assert!(matches!(got, Err(Refused::Denied(_))), "{what}: {got:?}");
        }
        world.idp.certificate(&[good]).await.unwrap();
    }

    #[tokio::test]
    async fn unsupported_settings_are_refused_with_their_name() {
        let ca = authority("ca");
        let world = world(&ca).await;
        let check = async |target: &str, pairs: &[(&str, &str)]| {
            world.idp.check(Subsystem::Tls, target, &values(pairs)).await.unwrap_err().to_string()
        };
        assert!(check("_", &[("enable", "on"), ("skip_verify", "on")]).await.contains("skip_verify"));
        assert!(check("second", &[("enable", "on")]).await.contains("only one"));
        let bare = World::new(Vec::new()).await;
        let got = bare.idp.check(Subsystem::Tls, "_", &values(&[("enable", "on")])).await;
        assert!(got.unwrap_err().to_string().contains("CAs"));
    }
}
