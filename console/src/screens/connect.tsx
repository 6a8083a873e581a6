// Settings of clients, ready to paste.
import { useState } from "react";
import { useT } from "../i18n";
import { endpointOf } from "../lib/endpoint";
import { useSession } from "../lib/session";
import { Card, CopyBox, Field, Head, Input } from "../ui";
import { Link } from "@tanstack/react-router";

export function Connect() {
  const t = useT();
  const session = useSession();
  const [endpoint, setEndpoint] = useState(() => endpointOf(session?.s3_port));
  const key = session?.signed_in_with || "ACCESS-KEY";
  const region = session?.region ?? "us-east-1";
  const secret = "SECRET-KEY";
  const clients: [string, string][] = [
    ["ashlar", `ashlar alias set it ${endpoint} ${key} ${secret}\nashlar ls it`],
    ["aws-cli", `export AWS_ACCESS_KEY_ID=${key} AWS_SECRET_ACCESS_KEY=${secret} AWS_DEFAULT_REGION=${region}\naws --endpoint-url ${endpoint} s3 ls`],
    ["mc", `mc alias set ashlar ${endpoint} ${key} ${secret}\nmc ls ashlar`],
    ["rclone", `rclone config create ashlar s3 provider=Other endpoint=${endpoint} access_key_id=${key} secret_access_key=${secret} region=${region}\nrclone lsd ashlar:`],
    ["boto3", `import boto3\ns3 = boto3.client("s3", endpoint_url="${endpoint}", region_name="${region}",\n                  aws_access_key_id="${key}", aws_secret_access_key="${secret}")\nprint([b["Name"] for b in s3.list_buckets()["Buckets"]])`],
    ["restic", `export AWS_ACCESS_KEY_ID=${key} AWS_SECRET_ACCESS_KEY=${secret}\nrestic -r s3:${endpoint}/BUCKET init`],
  ];
  return (
    <>
      <Head title={t.connect.title} about={t.connect.about} />
      <Card className="mb-4 p-4 sm:p-5">
        <div className="max-w-md">
          <Field label={t.connect.endpoint} hint={t.connect.endpointHint}>{(p) => <Input {...p} value={endpoint} spellCheck={false} onChange={(e) => setEndpoint(e.target.value.replace(/\/+$/, ""))} />}</Field>
        </div>
        <p className="mt-3 text-sm text-soft">{t.connect.secret} <Link to="/keys" className="text-accent-text underline">{t.nav.keys}</Link></p>
      </Card>
      <div className="grid grid-cols-1 gap-4 xl:grid-cols-2">
        {clients.map(([name, text]) => (
          <Card key={name} title={name}><div className="p-3"><CopyBox block text={text} label={name} /></div></Card>
        ))}
      </div>
    </>
  );
}
