//! What the server prints at its start: addresses, credentials (once), and settings ready to paste.

use std::net::SocketAddr;

use ashlar_iam::Root;
use ashlar_node::credentials::Origin;

/// The content of the banner.
pub struct Banner<'a> {
    /// Addresses that the server listens on.
    pub addresses: &'a [SocketAddr],
    /// Addresses of the web console; `None`: it is off.
    pub console: Option<&'a [SocketAddr]>,
    /// Whether the server speaks TLS.
    pub tls: bool,
    /// The region.
    pub region: &'a str,
    /// Root's credentials.
    pub root: &'a Root,
    /// The source of the credentials.
    pub origin: Origin,
    /// Number of drives in service here, and number of drives in the map.
    pub drives: (usize, usize),
    /// The name of the cluster and the number of this node; `None`: this machine is alone.
    pub node: Option<(&'a str, u16)>,
    /// `K+M`.
    pub code: String,
    /// How many drives of a placement group may be missing for reads, and for writes.
    pub tolerance: (u8, u8),
    /// Folders formatted by this start.
    pub formatted: usize,
    /// Warnings about the placement of the drives.
    pub warnings: Vec<String>,
}

impl Banner<'_> {
    /// A URL that works on this machine.
    pub fn endpoint(&self) -> String {
        self.url(self.addresses)
    }

    /// The address of the web console on this machine.
    pub fn console_url(&self) -> Option<String> {
        self.console.map(|addresses| format!("{}/console/", self.url(addresses)))
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let Some(first) = addresses.first() else { return format!("{scheme}://127.0.0.1:9000") };
        match first.ip() {
            ip if ip.is_unspecified() => format!("{scheme}://127.0.0.1:{}", first.port()),
            std::net::IpAddr::V6(ip) => format!("{scheme}://[{ip}]:{}", first.port()),
            std::net::IpAddr::V4(ip) => format!("{scheme}://{ip}:{}", first.port()),
        }
    }

    /// The banner as text.
    pub fn text(&self) -> String {
        use std::fmt::Write as _;
        let endpoint = self.endpoint();
        let key = &self.root.access_key;
        let secret = match self.origin {
            Origin::Generated => self.root.secret.expose(),
            Origin::Environment | Origin::Stored => "YOUR-SECRET-KEY",
        };
        let mut out = String::new();
        let (version, (here, all), code) = (env!("CARGO_PKG_VERSION"), self.drives, &self.code);
        let _ = match self.node {
            None => writeln!(out, "ashlar {version}: {here} of {all} drives in service, code {code}"),
            Some((cluster, number)) => writeln!(
                out,
                "ashlar {version}: node {number} of the cluster {cluster}, {here} of its {all} drives here, code {code}"
            ),
        };
        let _ = writeln!(
            out,
            "reads survive any {} missing drives of a placement group, writes any {}",
            self.tolerance.0, self.tolerance.1
        );
        if self.formatted > 0 {
            let _ = writeln!(out, "formatted {} blank folders", self.formatted);
        }
        let _ = writeln!(out, "\nendpoint    {endpoint}");
        for address in self.addresses.iter().filter(|a| a.ip().is_unspecified()) {
            let _ = writeln!(out, "            listening on {address}");
        }
        if let Some(console) = self.console_url() {
            let _ = writeln!(out, "console     {console}");
        }
        let _ = writeln!(out, "access key  {key}");
        match self.origin {
            Origin::Generated => {
                let _ = writeln!(out, "secret key  {secret}\n            shown this once: keep it");
            }
            Origin::Environment => {
                let _ = writeln!(out, "secret key  from the environment");
            }
            Origin::Stored => {
                let _ = writeln!(out, "secret key  as shown at the first start");
            }
        }
        let insecure = if self.tls { " --insecure" } else { "" };
        let _ = write!(
            out,
            "
aws-cli     export AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={secret} AWS_DEFAULT_REGION={region}
            aws --endpoint-url {endpoint} s3 ls
mc          mc alias set ashlar {endpoint} {key} {secret}{insecure}
rclone      rclone config create ashlar s3 provider=Other endpoint={endpoint} access_key_id={key} secret_access_key={secret} region={region}
boto3       s3 = boto3.client(\"s3\", endpoint_url=\"{endpoint}\", region_name=\"{region}\",
                aws_access_key_id=\"{key}\", aws_secret_access_key=\"{secret}\")
",
            region = self.region
        );
        out
    }

    /// The banner as one line of JSON.
    pub fn json(&self) -> String {
        let secret = (self.origin == Origin::Generated).then(|| self.root.secret.expose());
        serde_json::json!({
            "event": "started",
            "version": env!("CARGO_PKG_VERSION"),
            "endpoint": self.endpoint(),
            "addresses": self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "console": self.console_url(),
            "region": self.region,
            "access_key": self.root.access_key,
            "secret_key": secret,
            "drives": self.drives.0,
            "drives_of_map": self.drives.1,
            "cluster": self.node.map(|(cluster, _)| cluster),
            "node": self.node.map(|(_, number)| number),
            "code": self.code,
            "reads_tolerate": self.tolerance.0,
            "writes_tolerate": self.tolerance.1,
            "formatted": self.formatted,
            "warnings": self.warnings,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar_iam::Secret;

    #[test]
    fn banner_shows_only_new_secret() {
        let root = Root { access_key: "AKTEST".into(), secret: Secret::new("very-secret-indeed") };
        let address = ["127.0.0.1:9000".parse().unwrap()];
        for (origin, shown) in
            [(Origin::Generated, true), (Origin::Stored, false), (Origin::Environment, false)]
        {
            let banner = Banner {
                addresses: &address,
                console: Some(&address),
                tls: false,
                region: "us-east-1",
                root: &root,
                origin,
                drives: (4, 4),
                node: None,
                code: "2+2".into(),
                tolerance: (2, 1),
                formatted: 0,
                warnings: Vec::new(),
            };
            assert_eq!(banner.text().contains("very-secret-indeed"), shown);
            assert_eq!(banner.json().contains("very-secret-indeed"), shown);
            assert!(banner.text().contains("http://127.0.0.1:9000"));
            assert!(banner.text().contains("console     http://127.0.0.1:9000/console/"));
            let off = Banner { console: None, ..banner };
            assert!(!off.text().contains("console"));
        }
    }
}
