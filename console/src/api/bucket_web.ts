// Settings of a bucket about browsers and events: CORS, website, notifications.
import type { Call } from "../lib/acts";
import { all, bucketPath, calls, escape, optional, text } from "./s3";

export type CorsRule = { id: string; origins: string[]; methods: string[]; headers: string[]; expose: string[]; maxAge: string };

export async function getCors(bucket: string): Promise<CorsRule[]> {
  const root = await optional(`${bucketPath(bucket)}?cors`);
  const list = (rule: Element, name: string) => all(rule, name).map((e) => e.textContent ?? "");
  return root ? all(root, "CORSRule").map((r) => ({
    id: text(r, "ID"), origins: list(r, "AllowedOrigin"), methods: list(r, "AllowedMethod"), headers: list(r, "AllowedHeader"), expose: list(r, "ExposeHeader"), maxAge: text(r, "MaxAgeSeconds"),
  })) : [];
}

/** The call that replaces the rules. */
export function corsCall(bucket: string, rules: CorsRule[]): Call {
  const target = `${bucketPath(bucket)}?cors`;
  if (rules.length === 0) return calls.remove(target);
  const element = (name: string, values: string[]) => values.map((v) => `<${name}>${escape(v)}</${name}>`).join("");
  const rows = rules.map((r) => `<CORSRule>${element("ID", r.id ? [r.id] : [])}${element("AllowedOrigin", r.origins)}${element("AllowedMethod", r.methods)}${element("AllowedHeader", r.headers)}${element("ExposeHeader", r.expose)}${element("MaxAgeSeconds", r.maxAge ? [r.maxAge] : [])}</CORSRule>`);
  return calls.put(target, `<CORSConfiguration>${rows.join("")}</CORSConfiguration>`);
}

/** A redirect of some requests. `key`: `null` keeps the key; `whole` replaces all of it, otherwise the beginning that `prefix` names. */
export type RoutingRule = { prefix: string; error: string; protocol: string; host: string; key: { whole: boolean; with: string } | null; status: string };
export type Website = { index: string; error: string; redirect: { host: string; protocol: string } | null; rules: RoutingRule[] };

export async function getWebsite(bucket: string): Promise<Website | null> {
  const root = await optional(`${bucketPath(bucket)}?website`);
  if (!root) return null;
  const to = root.querySelector(":scope > RedirectAllRequestsTo");
  return {
    index: root.querySelector("IndexDocument > Suffix")?.textContent ?? "", error: root.querySelector("ErrorDocument > Key")?.textContent ?? "",
    redirect: to ? { host: text(to, "HostName"), protocol: text(to, "Protocol") } : null,
    rules: [...root.querySelectorAll(":scope > RoutingRules > RoutingRule")].map(routingRule),
  };
}

function routingRule(rule: Element): RoutingRule {
  const of = (name: string) => rule.querySelector(name)?.textContent ?? null;
  const [whole, beginning] = [of("Redirect > ReplaceKeyWith"), of("Redirect > ReplaceKeyPrefixWith")];
  return {
    prefix: of("Condition > KeyPrefixEquals") ?? "", error: of("Condition > HttpErrorCodeReturnedEquals") ?? "",
    protocol: of("Redirect > Protocol") ?? "", host: of("Redirect > HostName") ?? "", status: of("Redirect > HttpRedirectCode") ?? "",
    key: whole !== null ? { whole: true, with: whole } : beginning !== null ? { whole: false, with: beginning } : null,
  };
}

/** The XML of a routing rule. An empty new beginning is kept: it removes the old one. */
export function routingRuleXml(rule: RoutingRule): string {
  const element = (name: string, value: string | null) => (value === null ? "" : `<${name}>${escape(value)}</${name}>`);
  const condition = element("KeyPrefixEquals", rule.prefix || null) + element("HttpErrorCodeReturnedEquals", rule.error || null);
  const redirect = element("HostName", rule.host || null) + element("Protocol", rule.protocol || null)
    + (rule.key ? element(rule.key.whole ? "ReplaceKeyWith" : "ReplaceKeyPrefixWith", rule.key.with) : "") + element("HttpRedirectCode", rule.status || null);
  return `<RoutingRule>${condition && `<Condition>${condition}</Condition>`}<Redirect>${redirect}</Redirect></RoutingRule>`;
}

/** The call that replaces the website; null: that removes it. */
export function websiteCall(bucket: string, site: Website | null): Call {
  const target = `${bucketPath(bucket)}?website`;
  if (!site) return calls.remove(target);
  const rules = site.rules.length > 0 ? `<RoutingRules>${site.rules.map(routingRuleXml).join("")}</RoutingRules>` : "";
  const body = site.redirect
    ? `<RedirectAllRequestsTo><HostName>${escape(site.redirect.host)}</HostName>${site.redirect.protocol ? `<Protocol>${escape(site.redirect.protocol)}</Protocol>` : ""}</RedirectAllRequestsTo>`
    : `<IndexDocument><Suffix>${escape(site.index)}</Suffix></IndexDocument>${site.error ? `<ErrorDocument><Key>${escape(site.error)}</Key></ErrorDocument>` : ""}${rules}`;
  return calls.put(target, `<WebsiteConfiguration>${body}</WebsiteConfiguration>`);
}

/** `xml`: the rule as it is stored. */
export type EventRule = { arn: string; events: string[]; prefix: string; suffix: string; xml: string };

export async function getEventRules(bucket: string): Promise<EventRule[]> {
  const root = await optional(`${bucketPath(bucket)}?notification`);
  return root ? [...root.children].filter((r) => /Configuration$/.test(r.localName)).map((r) => {
    const filter = (name: string) => [...r.querySelectorAll("FilterRule")].find((f) => text(f, "Name").toLowerCase() === name);
    const value = (name: string) => { const rule = filter(name); return rule ? text(rule, "Value") : ""; };
    return {
      arn: text(r, "Queue") || text(r, "Topic") || text(r, "CloudFunction"), events: all(r, "Event").map((e) => e.textContent ?? ""),
      prefix: value("prefix"), suffix: value("suffix"), xml: new XMLSerializer().serializeToString(r),
    };
  }) : [];
}

export function eventRuleXml(rule: Omit<EventRule, "xml">): string {
  const filters = [["prefix", rule.prefix], ["suffix", rule.suffix]].filter(([, v]) => v).map(([n, v]) => `<FilterRule><Name>${n}</Name><Value>${escape(v!)}</Value></FilterRule>`);
  const filter = filters.length > 0 ? `<Filter><S3Key>${filters.join("")}</S3Key></Filter>` : "";
  return `<QueueConfiguration><Queue>${escape(rule.arn)}</Queue>${rule.events.map((e) => `<Event>${escape(e)}</Event>`).join("")}${filter}</QueueConfiguration>`;
}

/** The call that replaces the rules. */
export function eventRulesCall(bucket: string, rules: string[]): Call {
  return calls.put(`${bucketPath(bucket)}?notification`, `<NotificationConfiguration>${rules.join("")}</NotificationConfiguration>`);
}

/** `format`: how keys are made, as it is stored; empty: as the server does. */
export type Logging = { target: string; prefix: string; format: string };

/** Where the access log of a bucket goes; null: there is none. */
export async function getLogging(bucket: string): Promise<Logging | null> {
  const on = (await optional(`${bucketPath(bucket)}?logging`))?.querySelector("LoggingEnabled");
  if (!on) return null;
  const format = on.querySelector("TargetObjectKeyFormat");
  return { target: text(on, "TargetBucket"), prefix: text(on, "TargetPrefix"), format: format ? new XMLSerializer().serializeToString(format) : "" };
}

/** The call that changes where the access log goes; null: that stops it. */
export function loggingCall(bucket: string, to: Logging | null): Call {
  const on = to ? `<LoggingEnabled><TargetBucket>${escape(to.target)}</TargetBucket><TargetPrefix>${escape(to.prefix)}</TargetPrefix>${to.format}</LoggingEnabled>` : "";
  return calls.put(`${bucketPath(bucket)}?logging`, `<BucketLoggingStatus xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${on}</BucketLoggingStatus>`);
}
