// The messages in English. Its type is that of every other language.
import type { Failure } from "../api/client";
import type { Finding } from "../lib/policy_lint";

const s = (n: number, one: string, many = `${one}s`) => (n === 1 ? one : many);

export const en = {
  // Errors: what happened, and what to do.
  explain: (e: Failure): { text: string; advice?: string | undefined; id?: string | undefined } => {
    const id = e.requestId;
    switch (e.code) {
      case "Unreachable": return { text: "The server does not answer.", advice: "Check the network and whether the server runs, then try again." };
      case "SessionEnded": return { text: "Your session has ended.", advice: "Sign in again." };
      case "AccessDenied": return { text: e.message || "You have no permission for this.", advice: "Ask an administrator; “Why denied?” shows which statement decides.", id };
      case "NoSuchBucket": return { text: "This bucket does not exist.", advice: "It may have been removed meanwhile; look at the list of buckets.", id };
      case "NoSuchKey": return { text: "This object does not exist.", advice: "It may have been deleted meanwhile; refresh the list.", id };
      case "BucketNotEmpty": return { text: "The bucket is not empty.", advice: "Delete its objects first, with all their versions and unfinished uploads.", id };
      case "BucketAlreadyExists": case "BucketAlreadyOwnedByYou": return { text: "There is a bucket of this name already.", advice: "Choose another name.", id };
      case "ConfirmFirst": return { text: "This destroys something, and you have not confirmed that it is you.", advice: "Try again, and enter your secret key." };
      case "SignInAgain": return { text: "This destroys something, so it needs a new sign-in.", advice: "Sign out and in again, then do it within five minutes." };
      case "ProviderEnded": return { text: e.message === "access_denied" ? "The identity provider refused the sign-in, or it was cancelled there." : `The identity provider ended the sign-in${e.message ? ` (${e.message})` : ""}.`, advice: "Try again, or ask whoever runs the provider." };
      case "HTTP403": return { text: "You have no permission for this.", advice: "Ask an administrator; “Why denied?” shows which statement decides.", id };
      case "HTTP404": return { text: "This does not exist, or not any more.", advice: "Refresh the list.", id };
      case "SlowDown": case "ServiceUnavailable": return { text: e.message || "The server is busy.", advice: "Try again in a moment.", id };
      case "QuotaExceeded": case "XMinioAdminBucketQuotaExceeded": return { text: e.message, advice: "Delete objects, or have the quota raised.", id };
      default: return { text: e.message || `The request failed (${e.code}).`, id };
    }
  },
  loading: "Loading…", loadingMore: "Loading more…", retry: "Try again", refresh: "Refresh", close: "Close", cancel: "Cancel", save: "Save", saved: "Saved.", done: "Done.",
  create: "Create", remove: "Delete", edit: "Edit", enable: "Enable", disable: "Disable", enabled: "Enabled", disabled: "Disabled", state: "State", name: "Name", size: "Size",
  created: "Created", modified: "Last modified", objects: "Objects", actions: "Actions", description: "Description", search: "Search", next: "Next", previous: "Previous", unit: "Unit", key: "Address", type: "Content type",
  copy: "Copy", copied: "Copied", never: "Never", expires: "Expires", expired: "Expired", lastUsed: "Last used", settings: "Settings", details: "Details", preview: "Preview", download: "Download", upload: "Upload files",
  uploadFolder: "Upload folder", browse: "Browse objects", select: "Select", current: "Current", versions: "Versions", versionId: "Version", menu: "Menu", language: "Language", skip: "Skip to the content",
  user: "User", root: "Root", federated: "From an identity provider", signOut: "Sign out", licences: "Licences", unchanged: "Nothing is changed.", nameFirst: "Enter a name first.", numberFirst: "Enter a number first.",
  requestId: "Request id", nothingMatches: "Nothing matches.", nothingToChoose: "There is nothing to choose.",
  copyThis: (label: string) => `Copy ${label}`,
  actionsFor: (name: string) => `Actions for ${name}`,
  countOf: (n: string, all: string) => `${n} of ${all}`,
  pageOf: (n: string, all: string) => `Page ${n} of ${all}`,
  usedOf: (used: string, all: string) => `${used} of ${all} used`,
  needs: (action: string) => `This needs a policy that allows ${action}.`,
  typeName: (name: string) => `Type “${name}” to confirm`,
  typeFirst: (name: string) => `Type “${name}” first.`,
  version: (v: string) => `Version ${v}`,
  uptime: (time: string) => `up ${time}`,
  node: (n: number) => `Node ${n}`,
  thisServer: "This server",
  notFound: "There is no such page",
  notFoundText: "The address may be old or mistyped.",
  theme: { label: "Theme", system: "System", light: "Light", dark: "Dark" },
  nav: { overview: "Overview", connect: "Connect a client", data: "Data", buckets: "Buckets", access: "Access", users: "Users", groups: "Groups", keys: "Access keys", policies: "Policies", why: "Why denied?", system: "System", drives: "Drives", trace: "Trace", logs: "Log", targets: "Event targets", encryption: "Encryption keys", providers: "Identity providers", audit: "Audit log", config: "Settings", commands: "Commands" },
  login: {
    title: "Sign in to Ashlar", accessKey: "Access key", secretKey: "Secret key", submit: "Sign in",
    how: "Ways to sign in", ways: { keys: "Access key", ldap: "Directory" }, ldapUser: "User name", ldapPassword: "Password", ldapHint: "The name and the password of your account in the directory (LDAP).",
    or: "or", with: (name: string) => `Continue with ${name}`, stillThere: (name: string) => `You are signed out here, and still signed in at ${name}.`, signOutThere: "Sign out there too", certificate: "Continue with a certificate", noCertificate: "This browser showed no certificate when it connected.", returning: "Completing the sign-in with your identity provider…",
    first: "First time here? The server printed an access key and a secret key when it was first started. A user's name and secret work too.",
  },
  connect: {
    title: "Connect a client", about: "Settings to paste into a terminal. They work with any S3 client.", endpoint: "Endpoint", endpointHint: "The address at which clients reach S3. Change it if they come through a proxy or by another name.",
    secret: "SECRET-KEY stands for the secret of your access key, which the server never shows again. For programs, make a key of their own:",
  },
  // Overview
  overviewDenied: "You can still use:",
  capacity: "Capacity", stored: "Stored", healing: "Healing", counting: "Counting…", healIdle: "Idle", healQueued: "objects wait to be healed", largestBuckets: "Largest buckets", deployment: "Deployment",
  history: {
    title: "History", range: "Time shown", ranges: ["1 h", "24 h", "7 d", "30 d", "400 d"], table: "As a table", charts: "As charts", requests: "Requests", bytes: "Throughput", errors: "Errors", latency: "Time to the first byte",
    reads: "Reads", writes: "Writes", lists: "Lists", deletes: "Deletions", rest: "Lists, deletions, others", in: "In", out: "Out", client: "Refused (4xx)", server: "Failed (5xx)", median: "Median", used: "Used", all: "Capacity", from: "From",
    soon: "The charts begin twenty seconds after the first start.",
    perSecond: (n: string) => `${n}/s`, chartOf: (what: string) => `Chart: ${what}`, without: (why: string) => `Sums without some nodes: ${why}.`,
    grows: (size: string) => `grows by ${size} a day`, shrinks: (size: string) => `shrinks by ${size} a day`, full: (time: string) => `full in about ${time}`,
  },
  rateChart: (now: string) => `Chart of requests per second; now ${now}`,
  shareOf: (name: string) => `Share of ${name}`,
  objectsIn: (objects: string, n: number, buckets: string, b: number) => `${objects} ${s(n, "object")} in ${buckets} ${s(b, "bucket")}, without parity`,
  protection: (k: number, m: number) => `online; each object in ${k} data and ${m} parity shards`,
  rebuildEta: (time: string | null) => (time === null ? "rebuilding a drive" : `rebuilding a drive, about ${time} left`),
  verified: (when: string) => `All data verified ${when}`,
  neverVerified: "Never verified as a whole yet",
  health: {
    good: "Everything is healthy",
    goodText: (reads: number, writes: number) => `All drives are online. Reads survive the loss of any ${reads}, writes of any ${writes} ${s(writes, "drive")} of a placement group.`,
    degraded: "Working, with less protection than intended", badWrites: "Writes are not possible", badReads: "Some data cannot be read",
    unreadable: "Too many drives of a placement group are missing to read all data.", unwritable: "Too many drives of a placement group are missing to accept writes. Bring drives back, or replace them.",
    lost: (n: number) => `${n} ${s(n, "object")} cannot be restored.`,
    nodes: (list: string) => `Not reachable: node ${list}.`,
    drives: (n: number, all: number) => `${n} of ${all} drives ${s(n, "is", "are")} not in service.`,
    spare: (n: number) => `${n} more ${s(n, "drive")} of the weakest placement group may fail before data becomes unavailable.`,
    rebuilding: (n: number) => `${n} ${s(n, "drive is", "drives are")} being rebuilt.`,
    control: "The control store cannot be changed now: users, policies and buckets cannot be changed.",
    full: "Less than a tenth of the capacity is free. Add drives, or delete data.",
  },
  driveState: { online: "Online", joining: "Rebuilding", "read-only": "Read-only", fenced: "Fenced after an error", offline: "Offline", held: "Taken out of service", unknown: "Unknown" },
  // Buckets
  buckets: {
    about: "Each bucket holds objects under their keys.", create: "Create bucket", none: "No buckets yet", noneText: "Create a bucket to store objects in. If others made buckets that you should see, your policies may not allow s3:ListAllMyBuckets.", filter: "Find a bucket",
    nameHint: "3 to 63 lower-case letters, digits, dots and hyphens.", badName: "Use 3 to 63 lower-case letters, digits, dots and hyphens; begin and end with a letter or digit.",
    removeThis: "Delete bucket", removeText: "Only an empty bucket can be deleted. This cannot be undone.", noSizes: "Sizes need a policy that allows admin:DataUsageInfo.",
    copyFrom: "Copy settings from", copyHint: "A bucket whose settings this one gets: versioning, lock, quota, encryption, lifecycle, notifications, policy, CORS, website, access log, tags. Empty: none.", notCopied: (name: string, what: string) => `${name} is created, but not every setting is copied: ${what}`,
    made: (name: string) => `${name} is created.`, removed: (name: string) => `${name} is deleted.`, removeTitle: (name: string) => `Delete the bucket ${name}?`,
  },
  settingsOf: (name: string) => `Settings of ${name}`,
  versioning: {
    title: "Versioning", hint: "Keeps older versions of objects, so that overwriting and deleting can be undone.", about: "With versioning, overwriting or deleting an object keeps the older version. Versions take space until they are deleted or a lifecycle rule removes them.",
    state: { Enabled: "Enabled", Suspended: "Suspended", Off: "Off" }, enable: "Enable versioning", suspend: "Suspend versioning",
  },
  lock: {
    title: "Object lock", hint: "Versions can be protected from deletion. It can only be chosen now, and turns versioning on.", about: "Object lock protects versions from deletion for a time. It is chosen when the bucket is created.", off: "Off. It can only be turned on when a bucket is created.",
    default: "Retention of new objects", days: "Days", badDays: "Enter 1 to 36,500 days.", modeNone: "None", modeGovernance: "Governance", modeCompliance: "Compliance",
    none: "Objects are locked only when a client asks for it.", governance: "Who may s3:BypassGovernanceRetention can still delete them.", compliance: "Nobody can delete them before the time is over, root neither.",
  },
  quota: {
    title: "Quota", about: "A hard limit for all versions in the bucket. Uploads that would exceed it are refused.", none: "No quota.", limit: "New limit", set: "Set quota", remove: "Remove quota", bad: "Enter a number greater than 0.", of: (size: string) => `Limit: ${size}`,
  },
  encryption: {
    title: "Encryption", about: "How objects are encrypted at rest when a client does not say. Objects that are there already stay as they are.", default: "Default encryption", none: "None", s3: "SSE-S3: the server's key", kms: "SSE-KMS: the default key", kmsKey: (name: string) => `SSE-KMS: key ${name}`,
  },
  lifecycle: {
    title: "Lifecycle", about: "Rules that delete objects, older versions and unfinished uploads after some days.", none: "No rules: nothing is deleted by itself.", add: "Add rule", unnamed: "Rule without a name", whole: "The whole bucket", prefix: "Prefix", prefixHint: "Keys that begin with this; empty for all.",
    daysLabel: "Delete objects after … days", noncurrentLabel: "Delete older versions after … days", abortLabel: "Delete unfinished uploads after … days", nothing: "Enter days for at least one of the three.", badDays: "Days are whole numbers from 1.",
    below: (prefix: string) => `Keys that begin with ${prefix}`, expire: (n: number) => `Deletes objects after ${n} ${s(n, "day")}`, noncurrent: (n: number) => `Deletes older versions after ${n} ${s(n, "day")}`, abort: (n: number) => `Deletes unfinished uploads after ${n} ${s(n, "day")}`,
    more: (list: string) => `Has more, which this page keeps but does not show: ${list}`,
  },
  bucketPolicy: {
    title: "Bucket policy", about: "Who may use this bucket beside those whose own policies allow it, also people without an account.", none: "No policy: only users whose policies allow it reach this bucket.", example: "Insert an example: everybody may download", remove: "Remove policy",
    open: "A statement of this policy allows “*”: people without an account can use the bucket as far as its conditions permit.", openTitle: "Open the bucket to everybody?", openAction: "Save and open it",
  },
  tags: {
    title: "Tags", about: "Names with values, for policies, lifecycle rules and your own order.", none: "No tags.", add: "Add tag", keyHint: "Name", valueHint: "Value", unnamed: "A tag has no name.", key: (n: number) => `Name of tag ${n}`, value: (n: number) => `Value of tag ${n}`, drop: (name: string) => `Drop the tag ${name}`, most: (n: number) => `At most ${n} tags.`,
  },
  json: {
    completions: "How it goes on", findings: "What is probably not meant",
    finding: (statement: number, what: Finding["what"], name: string) => `Statement ${statement}: ${({
      effect: "its Effect has to be Allow or Deny.", "no-action": "it names no action.", "no-resource": "it names no resource.", action: `there is no action ${name}.`, arn: `${name} is no resource: buckets are arn:aws:s3:::BUCKET, objects arn:aws:s3:::BUCKET/*.`,
      "needs-objects": `${name} concerns objects, and no resource is an object: add arn:aws:s3:::BUCKET/*.`, "needs-bucket": `${name} concerns buckets, and no resource is a bucket: add arn:aws:s3:::BUCKET.`,
    })[what]}`,
    good: "Valid JSON", fix: "The document is not valid JSON.", wrongAt: (line: number, why: string) => `Line ${line}: ${why}` },
  // Objects
  breadcrumb: "Folders", goTo: "Go to a path", goToHint: "folder/ or the beginning of a key", searchPrefix: "Search by beginning", clearSearch: "Clear search", emptyBucket: "This bucket is empty", emptyFolder: "Nothing here", emptyText: "Drop files or folders here, or choose them.",
  browseTitle: (bucket: string) => `Objects of ${bucket}`,
  loadedSoFar: (n: string) => `${n} loaded, more below`,
  entries: (n: number, text: string) => `${text} ${s(n, "entry", "entries")}`,
  noPrefix: (prefix: string) => `No key begins with “${prefix}”.`,
  chosen: (n: number) => `${n} selected`, unselect: "Clear", selectThis: (name: string) => `Select ${name}`, tooManyDownloads: "At most 20 files at once; use a client for more.",
  deleted: (n: number) => `${n} ${s(n, "object is", "objects are")} deleted.`, deleteTitle: (n: number) => (n === 1 ? "Delete this object?" : `Delete ${n} objects?`),
  deleteText: "With versioning, older versions stay and this can be undone. Without, it cannot.",
  notDeleted: (n: number, key: string, why: string) => `${n} ${s(n, "object")} could not be deleted: ${key}: ${why}`,
  deleteMarker: "Deleted", undelete: "Undelete", undeleteText: "Removes the mark of the deletion: the version before it is current again.", removeVersion: "Delete this version", removeVersionText: (when: string) => `The version of ${when} is deleted for good.`, versionRemoved: "Done.",
  noPreview: "No preview", noPreviewText: (type: string) => `There is no preview of ${type || "this type"}; download the object.`, previewCut: (shown: string, all: string) => `The first ${shown} of ${all}.`,
  share: {
    action: "Share", title: (name: string) => `Share ${name}`, about: "Whoever has the link can download this object until it ends, without an account.", life: "The link works for", endpoint: "Address in the link", endpointHint: "The S3 address that the other person can reach.", save: "The browser saves the file instead of opening it", make: "Make link", link: "Link",
    until: (when: string) => `Works until ${when}.`, withSession: "It ends with your session, because the access key that you signed in with is gone.", withKey: "Disabling the access key that you signed in with ends it sooner.", withProvider: "It ends with your session, because an identity provider vouched for you; a link that lasts longer needs an access key.",
  },
  unfinished: {
    title: "Unfinished uploads", action: (n: number) => `${n} unfinished ${s(n, "upload")}`, about: "The server keeps the parts that arrived. Choose the file again: only what is missing is sent. Unfinished uploads take space until they are completed or removed.", none: "There are none any more.",
    begun: (when: string) => `Begun ${when}`, choose: "Choose the file and go on", foreign: "It was begun by another client, which has to complete it.",
  },
  uploads: {
    title: "Uploads", waiting: "Waiting", cancelled: "Cancelled", clear: "Clear the list", fold: "Fold", unfold: "Unfold",
    running: (n: number, share: string) => `Uploading ${n} ${s(n, "file")}, ${share}`, done: (n: number) => `${n} ${s(n, "file")} uploaded`, failed: (n: number) => `${n} ${s(n, "upload")} failed`, cancel: (name: string) => `Cancel ${name}`, progress: (name: string) => `Progress of ${name}`,
  },
  // Access
  secretOnce: "The secret is shown this once. Copy it now.", secretKept: "I have kept it",
  users: {
    about: "People and programs with a name and a secret. Policies say what they may do.", create: "Create user", none: "No users yet", noneText: "Root can do everything, so nobody should work as root. Create a user for each person.", filter: "Find a user",
    noPolicy: "None", noGroup: "None", nameHint: "At least 3 characters, without spaces.", secret: "Secret key", secretHint: "Leave it empty, and the server makes one.", policiesHint: "Without a policy, a user can do nothing.", newSecret: "New secret key", newSecretHint: "Leave it empty to keep the present one.",
    revoke: "End all sessions", self: "You are signed in as this user.", removeText: "Its access keys and sessions end at once. Objects stay.", notAttached: "The user is created, but the policies are not attached:",
    made: (name: string) => `${name} is created`, removed: (name: string) => `${name} is deleted.`, enabled: (name: string) => `${name} is enabled.`, disabled: (name: string) => `${name} is disabled.`, revoked: (name: string) => `The sessions of ${name} have ended.`, removeTitle: (name: string) => `Delete the user ${name}?`,
  },
  groups: {
    about: "What is attached to a group applies to all its members.", create: "Create group", none: "No groups yet", noneText: "Put users into a group to give them the same policies.", filter: "Find a group", members: "Members", noMembers: "None", memberFirst: "Choose at least one member.",
    removeText: "Its members lose what the group allowed.", removed: (name: string) => `${name} is deleted.`, removeTitle: (name: string) => `Delete the group ${name}?`,
  },
  keys: {
    about: "Credentials for programs. A key can do at most what its user can, and can be restricted further.", create: "Create access key", none: "No access keys yet", noneText: "Each program should have a key of its own, so that each can be ended alone.", filter: "Find a key", nameHint: "For instance the program that uses it.", expiresHint: "A key that expires cannot be forgotten.",
    expiresNow: (when: string) => `Now: ${when}`, asIs: "As it is", inDays: (n: number) => `In ${n} ${s(n, "day")}`, policy: "Restriction", policyHint: "A policy document; the key can do only what this and its user's policies both allow. Empty: all that its user can.", restricted: "Restricted", restrictedSession: "You signed in with a restricted key, which makes and changes no keys. Sign in with the user's own name and secret.",
    owner: "User", ownerHint: "Who the key belongs to: it can do at most what this user can.", mine: (user: string) => `${user} (you)`,
    confirm: "Confirm that it is you", confirmText: (key: string) => `This outlives your session or cannot be undone. Enter the secret key of ${key}, with which you signed in; you are not asked again for five minutes.`, confirmAction: "Confirm",
    rotate: "New secret", rotateText: "The present secret stops working at once.", removeText: "Programs that use it are refused at once.", made: "The access key is created",
    rotated: (key: string) => `New secret of ${key}`, rotateTitle: (key: string) => `Make a new secret for ${key}?`, removed: (key: string) => `${key} is deleted.`, removeTitle: (key: string) => `Delete the access key ${key}?`,
  },
  policies: {
    about: "Documents in AWS's policy language that say what users and groups may do.", create: "Create policy", none: "No policies", filter: "Find a policy", all: "All policies", builtIn: "Built in", builtInStays: "Built-in policies cannot be changed.", inUse: "It is attached to users or groups; detach it first.", document: "Policy document", attachedTo: "Attached to", nobody: "Nobody",
    attachHint: "Attach it on the pages of users and groups.", help: "How it decides", removeText: "This cannot be undone.", removed: (name: string) => `${name} is deleted.`, removeTitle: (name: string) => `Delete the policy ${name}?`,
    helpText: ["A request is allowed if a statement with the effect Allow matches its action and resource, and no Deny does.", "Buckets are arn:aws:s3:::BUCKET, objects arn:aws:s3:::BUCKET/KEY; * stands for anything.", "The server checks the document when you save. “Why denied?” tries it out."],
  },
  // Drives
  drives: {
    bays: "Bays", bay: (n: number, path: string, state: string) => `Bay ${n}: ${path}, ${state}`, slow: (times: string, common: string) => `${times}× as slow as its peers (${common})`,
    about: (code: string, reads: number, writes: number) => `Code ${code}: reads survive ${reads}, writes ${writes} missing ${s(writes, "drive")} of a placement group.`,
    count: (n: number) => `${n} ${s(n, "drive")}`, rebuild: "Rebuild", errors: (n: number) => `${n} read ${s(n, "error")}`, work: (reads: string, writes: string, commit: string) => `${reads} reads · ${writes} writes · commit ${commit}`,
    offline: "Take out of service", offlineText: "The drive stops serving until it is brought back. Its data stays on it, and what is written meanwhile is caught up then.", online: "Bring back", onlineText: "The drive catches up with what was written meanwhile and serves again.", replace: "Replace by a blank drive", replaceText: "The folder must be blank. A new drive takes the place of the lost one and is rebuilt from the others.",
  },
  scrub: {
    start: "Verify all data", running: "Verifying…", started: "Verification has begun.", queue: "Waiting to be healed", healed: "Healed since the start", rate: "Rate, in the last minute", measuring: "being measured", lost: "Cannot be restored", last: "Last verification", damages: "Damage found", repaired: "Repaired", waiting: "Not yet",
    rateText: (shards: string) => `${shards} shards per minute`, healedText: (records: string, shards: string) => `${records} records, ${shards} shards`, lastText: (when: string, bytes: string, damaged: string, took: string) => `${when}: ${bytes} read in ${took}, ${damaged} damaged`,
  },
  limits: {
    title: "Limits of healing and verification", change: "Limits", set: "Set limits", reset: "Use each server's own options", none: "No limit", rate: (bytes: string) => `${bytes} per second`, heal: "Healing rate limit", scrub: "Verification rate limit", busy: "Busy share",
    about: "For all nodes, from the next piece of work on. Healing that is slower leaves data with less redundancy for longer.", healHint: "What each node writes at most for healing and rebuilds. Empty: no limit.", scrubHint: "What each node reads at most to verify data. Empty: no limit.", busyHint: "How much of the time a task of healing or verification works while clients' requests are in flight.",
    bad: "Correct the fields first.", unchanged: "Change a limit first.", badRate: "Enter at least 0.0625, or nothing.", badShare: "Enter a whole number from 1 to 100.",
  },
  stream: {
    live: "Live", connecting: "Connecting…", paused: "Paused", pause: "Pause", resume: "Go on", clear: "Clear", skipped: (n: string) => `${n} more came faster than they can be shown`,
    broken: (seconds: number) => `The connection broke off. It is tried again in ${seconds} ${s(seconds, "second")}; what happens meanwhile is missing here.`,
    held: "Nothing arrives from the server, or a proxy in between holds its answers back. It is tried again.",
    every: (seconds: number) => `Every ${seconds} s`, polling: (seconds: number) => `A proxy in between collects the answer, so the page asks every ${seconds} seconds, and what happens between two answers may be missing here. Switch the buffering off there (nginx: proxy_buffering off).`,
  },
  trace: {
    about: "Requests as they end, at all nodes, and where their time went. Nothing is kept.", bucket: "Bucket", operation: "Operation", slower: "Took at least", any: "Any time", errorsOnly: "Errors only", none: "No request yet", noneText: "Requests appear here when they have ended. Change the filter if some are missing.", list: "Requests, the newest first",
    parts: { body_micros: "Client", drives_micros: "Drives", server_micros: "Server", answer_micros: "Answer" }, status: "Status", cut: "not sent completely", total: "Time", totalText: (all: string, first: string) => `${all}, first byte after ${first}`, bytes: "In / out", request: "Request", nobody: "none", arrived: "Arrived",
    shown: (n: number, text: string) => `${text} ${s(n, "request")}`,
  },
  logs: {
    about: "What the server writes to its log, of all nodes, the newest first.", filter: "Find in these lines", level: "Level", levels: { error: "Errors", warn: "Warnings and errors", info: "All" }, none: "No lines", noneText: "Lines appear here when the server writes them.", list: "Lines of the log, the newest first",
  },
  targets: {
    about: "Where bucket notifications go. Which bucket sends which events is a setting of the bucket.", none: "No event targets", noneText: "A target is a webhook, a message broker or a database that receives what happens to objects. Configure one with a command:", command: "Command", filter: "Find a letter",
    unused: "Nothing sent yet", test: "Send a test event", accepted: (ms: string) => `The target accepted a test event in ${ms} ms.`, refused: (why: string) => `The target did not accept a test event: ${why}`, online: "Delivers", offline: "Does not deliver", waiting: "Waiting", sent: "Sent", failed: "Failed tries", deadCount: "Dead letters", lost: "Lost", dead: "Dead letters", deadAbout: "Events that a target refused for good. They can be sent again after the target was mended.", noDead: "No dead letters", noDeadText: "Every event that a target took up was delivered.",
    when: "When", target: "Target", event: "Event", why: "Reason", replay: "Send again", removeAll: "Delete all", replayText: "What the target takes is removed from the dead letters; what it refuses comes back.", removeText: "The events are gone for good.", removeOneTitle: "Delete this dead letter?",
    lostEvents: (n: number, text: string) => `${text} lost ${s(n, "event")}`, replayTitle: (id: string) => `Send the dead letters of ${id} again?`, removeTitle: (id: string) => `Delete all dead letters of ${id}?`, replayed: (n: number) => `${n} ${s(n, "event is", "events are")} sent again.`, removed: (n: number) => `${n} ${s(n, "dead letter is", "dead letters are")} deleted.`,
  },
  kms: {
    about: "Keys that encrypt objects at rest (SSE-KMS, SSE-S3). The keys themselves never leave the server or the key server.", create: "Create key", none: "No keys", noneText: "Create a key to encrypt objects under a name of their own.", filter: "Find a key", off: "Encryption is off", offText: "This server has no source of keys. Give it a root key, HashiCorp Vault or KES: docs/encryption.md.",
    works: "Encryption works", broken: "Encryption does not work", default: "Default", rotate: "New version", rotateText: "New objects use the new version. Objects that are there stay readable, and can be sealed again with: ashlar admin kms rewrap.", nameHint: "1 to 128 letters, digits, dots, hyphens and underscores.",
    drivers: { builtin: "Built in", vault: "HashiCorp Vault", kes: "MinIO KES" }, source: (driver: string, endpoint: string, key: string) => `${driver}${endpoint && ` at ${endpoint}`}; the default key is ${key}.`,
    made: (name: string) => `${name} is created.`, rotated: (name: string, version: number) => `${name} has version ${version} now.`, rotateTitle: (name: string) => `Make a new version of ${name}?`,
  },
  providers: {
    about: "People of an OpenID Connect provider, a directory (LDAP) or with client certificates can sign in without being users here. Policies are attached to them, or named by their claims.", add: "Add provider", none: "No identity providers", noneText: "Connect Keycloak, Entra ID, Okta or your directory, so that nobody needs another password.", kind: "Kind",
    kinds: { openid: "OpenID Connect", ldap: "Directory (LDAP)", tls: "Client certificates" }, unusable: "Cannot be used", hidden: "(kept secret)", fixed: "set by the server's environment", keepSecret: "Unchanged", nameHint: "A short name that policies can refer to, for instance keycloak.", checkAndAdd: "Check and add", more: "Another setting", moreHint: "Its name as in docs/identity-openid.md and docs/identity-ldap.md.", addValue: "Add this setting",
    facts: { issuer: "Issuer", role_arn: "Role" }, hints: { config_url: "The issuer with /.well-known/openid-configuration", redirect_uri: "https://THIS-HOST/oauth_callback; must be allowed at the provider", redirect_uri_dynamic: "on: the redirect is /oauth_callback at the address in the browser", server_addr: "HOST or HOST:PORT", tls_ca: "Certificates in PEM; empty: those of the system", claim_name: "The claim that names policies; policy if empty", role_policy: "Policies that all its users get", user_dn_search_filter: "%s stands for the name", group_search_filter: "%d stands for the user's DN", enable: "on or off" },
    removeText: "Sessions and access keys of its users end at once.", removeTitle: (name: string) => `Remove the provider ${name}?`, editTitle: (name: string) => `Settings of ${name}`,
  },
  cors: {
    title: "Cross-origin access (CORS)", about: "Which web pages of other sites may use this bucket from a browser. It gives no permission: requests need credentials or a bucket policy as well.", none: "No rules: the server's own setting applies (--cors-origin; all origins unless it says otherwise).", add: "Add rule", edit: "Edit rule", origins: "Origins", originsHint: "One per line, for instance https://app.example.com; * stands for anything.", methods: "Methods",
    headers: "Request headers", headersHint: "One per line; * for all.", expose: "Headers that pages may read", exposeHint: "One per line.", maxAge: "Seconds that browsers remember the answer", maxAgeHint: "Empty: as the browser likes.", originFirst: "Enter an origin.", methodFirst: "Choose a method.",
  },
  website: {
    title: "Website", about: "Serves the bucket as a website at the host BUCKET.DOMAIN, if the server has a --website-domain.", serves: "What it serves", kinds: { off: "No website", pages: "The objects as pages", redirect: "A redirect to another host" }, index: "Index document", indexHint: "Served for folders.", error: "Error document", errorHint: "Served when something is missing; empty: a plain message.",
    rules: "Redirects", noRules: "None.", addRule: "Add redirect", editRule: "Edit redirect", everyKey: "Every key", onError: (code: string) => `if the answer would be ${code}`, prefix: "Key begins with", prefixHint: "Empty: every key.", code: "Error", codeHint: "Only where this would be answered; empty: always.", badError: "Enter a code from 400 to 599.",
    hostHint: "Empty: the host of the request.", key: "Key", keys: { same: "Stays as it is", beginning: "Gets another beginning", whole: "Is replaced" }, newKeys: { beginning: "New beginning", whole: "New key" }, beginningHint: "Empty: the old beginning is removed.", keep: "Keep", status: "Status", defaultStatus: "301", targetFirst: "Choose another host, protocol or key.", keyFirst: "Enter the new key.",
    host: "Host", protocol: "Protocol", sameProtocol: "As in the request", indexFirst: "Enter the index document.", hostFirst: "Enter a host.", needs: "Visitors are anonymous: the bucket policy has to allow everybody s3:GetObject.",
  },
  notifications: {
    title: "Notifications", about: "Sends events about objects to a target: a webhook, a message broker or a database.", none: "No rules: no events are sent.", add: "Add rule", targetFirst: "Choose a target.", eventFirst: "Choose an event.", what: "Events", prefix: "Key begins with", prefixHint: "Empty: all keys.", suffix: "Key ends with", targetHint: "The target gets a test event when you save.", noTargets: "No event target is configured yet; add one in:", arnHint: "The list of targets needs a policy that allows admin:ServerInfo; enter the target's ARN.",
    events: { "s3:ObjectCreated:*": "Created", "s3:ObjectRemoved:*": "Deleted", "s3:ObjectAccessed:*": "Read", "s3:ObjectTagging:*": "Tags changed", "s3:LifecycleExpiration:*": "Expired", "s3:ObjectAcl:Put": "Access list changed" },
    filter: (prefix: string, suffix: string) => `Keys${prefix ? ` that begin with ${prefix}` : ""}${prefix && suffix ? " and" : ""}${suffix ? ` that end with ${suffix}` : ""}`,
  },
  simulator: {
    action: "Simulate", before: "Simulate with this rule", about: "What the rules do to the versions as they are now; nothing is changed. That a version becomes an older one when it expires, and is due again later, is not followed.", span: "Until", spans: { 0: "Now", 7: "In 7 days", 30: "In 30 days", 90: "In 90 days", 365: "In a year", 3650: "In ten years" }, nothing: "Nothing becomes due.", byDay: "By day (UTC)", byMonth: "By month (UTC)", byRule: "By rule", isLocked: "Locked",
    will: { expire: "Expires", remove: "Older version is deleted", "remove-marker": "Delete marker is removed" },
    did: { expire: (n: number, text: string) => `${text} ${s(n, "object")} ${s(n, "expires", "expire")}`, remove_versions: (n: number, text: string) => `${text} older ${s(n, "version")} deleted`, remove_markers: (n: number, text: string) => `${text} delete ${s(n, "marker")} removed`, abort_uploads: (n: number, text: string) => `${text} ${s(n, "upload")} aborted` },
    title: (bucket: string) => `Simulation of the rules of ${bucket}`, looked: (n: number, text: string) => `${text} ${s(n, "key or upload", "keys and uploads")} examined`, locked: (n: number, text: string) => `${text} due and locked: ${s(n, "it stays", "they stay")}`, examples: (n: string) => `The first ${n} versions`,
  },
  placement: {
    title: "Placement", verify: "Verify every byte", heal: "Heal", body: "Body", inline: "in the journals", encrypted: "encrypted", noBytes: "Nothing to place", noBytesText: "The object has no bytes; its record is on every drive of its placement group.", reading: "Every byte is read on its drive.", unreadable: "Too few shards are left to read it now.",
    state: { good: "Good", missing: "Missing", damaged: "Damaged", unknown: "Unknown" }, data: (n: number) => `Data ${n}`, parity: (n: number) => `Parity ${n}`, part: (n: string) => `Part ${n}`, code: (k: number, m: number, size: string) => `${k} data and ${m} parity shards of ${size}`, more: (n: string, all: string) => `More parts (${n} of ${all})`,
    verified: (n: number, text: string) => `${text} ${s(n, "shard")} read and verified`, present: (n: number, text: string) => (n === 1 ? "The shard is in its place" : `All ${text} shards are in their places`), bad: (n: number, text: string, all: string) => `${text} of ${all} shards ${s(n, "is", "are")} not good`,
    spare: (n: number) => `${n} more ${s(n, "shard")} may be lost before it cannot be read.`, healed: (n: number) => (n === 0 ? "Nothing had to be healed." : `${n} ${s(n, "piece is", "pieces are")} made again.`), lost: (n: number) => `${n} ${s(n, "part has", "parts have")} too few shards left.`, stillMissing: (n: number) => `${n} ${s(n, "shard is", "shards are")} still missing.`, scrubbed: (when: string) => `Verified ${when}`, notScrubbed: "Not verified by a scrub yet", facts: (group: string, version: string) => `Placement group ${group}${version && ` · version ${version}`}`,
  },
  zip: { action: "Download as ZIP", begun: "The download begins when the folder has been listed." },
  signInTest: {
    action: "Try a sign-in", again: "Try again", about: "Shows what the provider says about a person, and which policies would apply. Nobody is signed in.", passwordFirst: "Enter the password.", enableFirst: "Enable the provider first.", refused: "Refused", admitted: "They could sign in", admittedText: "At least one policy applies.", notAdmitted: "They could not sign in", notAdmittedText: "The provider knows them, but no policy is attached to them or their groups, nor named by a claim.",
    name: "Name for policies", subject: "Name at the provider", unknown: "Named, but not there", title: (name: string) => `Try a sign-in with ${name}`, goTo: (name: string) => `Go to ${name}`,
  },
  shown: {
    first: (n: number) => `The first ${n} rows.`, columns: "Columns", type: "Type", optional: "optional", repeated: "repeated",
    parquet: (n: number, rows: string, groups: string, by: string) => `Parquet: ${rows} ${s(n, "row")} in row groups: ${groups}${by ? `; made by ${by}` : ""}.`,
    values: "Values", rows: (from: string, to: string, all: string) => `Rows ${from} to ${to} of ${all}`, firstColumns: (n: string, all: string) => `Values of the first ${n} of ${all} columns.`,
    noParquet: "This Parquet file cannot be read: it is broken or encrypted, or its metadata is longer than 4 MiB. Download the object.",
    left: (columns: string, why: string) => `Values not shown of: ${columns}. ${why}`,
    compression: (what: string) => `The compression ${what} is not supported here; SNAPPY and GZIP are.`, large: (limit: string) => `For these rows more than ${limit} of such a column would have to be fetched.`, broken: "They are broken or encrypted, or of a kind that is not supported here.",
  },
  pdf: {
    controls: "Pages and size", page: "Page", of: (n: string) => `of ${n}`, pageOf: (n: number, all: number, name: string) => `Page ${n} of ${all} of ${name}`, previous: "Previous page", next: "Next page",
    smaller: "Smaller", larger: "Larger", fit: (percent: string) => `${percent}: fit the width`, fits: "Fits the width",
    broken: "This is not a PDF document that can be read: it is broken, or another kind of file. Download the object.", encrypted: "This document is encrypted in a way that this preview does not know. Download the object.", locked: "This document is encrypted with a password.", lockedHint: "It stays in this page.", wrong: "This is not the password.", open: "Open",
    large: (limit: string) => `Documents of more than ${limit} are not opened here. Download the object.`, brokenPage: "This page cannot be drawn. Download the document to see it.",
    missing: "Pictures are missing here: they are broken, or of a kind (JPEG 2000) that is not supported in this preview. Download the document to see them.",
  },
  rewind: {
    action: "Rewind", about: "Shows this folder as it was at an instant, from the versions that are kept. Nothing is changed; single objects can be downloaded or made current again.", at: "Instant", go: "Show", now: "Back to now", restore: "Make this version current", past: "This is the past: go back to now first.", timeFirst: "Choose a date and a time.", future: "Choose an instant in the past.",
    empty: "Nothing was here", emptyText: "No version that is kept is as old. Without versioning only what is there now is known.", shown: (when: string) => `As it was on ${when}`, restored: (name: string) => `${name} is current again.`,
  },
  bar: {
    title: "Go to…", label: "Screen, bucket or path", hint: "Screen, bucket, or BUCKET/FOLDER/", key: "Ctrl K", keys: "Arrows choose, Enter opens, Escape closes.", goTo: (place: string) => `Go to ${place}`, audit: (user: string) => `Requests of the user ${user}`,
  },
  keysHelp: {
    title: "Keys", control: "Ctrl", bar: "Go to a screen, a bucket or a path", search: "Search on this screen", help: "Show these keys", tab: "Next control", arrows: "Within menus, tabs and lists", escape: "Close what is open",
  },
  ledger: {
    title: "Redundancy", unreadable: "Cannot be read now", unwritable: "Can only be read now",
    about: (reads: number) => `How many more drives each placement group can lose and still take writes. Data can be read while at most ${reads} ${s(reads, "drive")} of its group ${s(reads, "is", "are")} missing.`,
    canLose: (n: number) => (n === 0 ? "No more drive" : `${n} more ${s(n, "drive")}`),
  },
  objectLock: {
    title: "Protection", none: "No object lock", noneText: "This bucket was made without object lock, so its versions cannot be protected.", about: "Until it ends, the current version cannot be deleted. Newer versions can still be written.",
    hold: "Legal hold", holdHint: "Protects until somebody takes it off.", retention: "Retention", lastDay: "Last day", lastDayHint: "To the end of this day (UTC).", noRetention: "No retention.", past: "Choose a day in the future.", onlyLonger: "In compliance mode it can only be made longer.", forGood: "Nobody can shorten this, not even root.", bypass: "Shorten in spite of governance",
    until: (mode: string, when: string) => `${mode} until ${when}`, over: (when: string) => `Ended ${when}`,
  },
  accessLog: {
    title: "Access log", about: "A line for each request to this bucket, in AWS's format, delivered as objects to a bucket every few minutes. Delivery is best effort; the audit log loses nothing.", none: "No access log.", target: "Deliver to bucket", prefix: "Keys begin with", prefixHint: "Empty: nothing in front.", stop: "Stop logging", targetFirst: "Enter a bucket.",
    goesTo: (bucket: string, prefix: string) => `Goes to ${bucket}/${prefix}`,
  },
  config: {
    about: "Event targets and identity providers, with what each setting means. The server tries a change before it keeps it.", restart: "A change applies at once, on all nodes, without a restart. Only what the server is told at its start needs one: addresses, drives, certificates, root's credentials, the audit log, the source of encryption keys (docs/operating.md).", history: "Who changed what",
    export: "Export", import: "Import…", filter: "Find a setting", events: "Event targets", identity: "Identity providers", others: "Others", add: "Add target", configure: "Configure", only: "The only one", fromEnvironment: "Set by the environment", environmentStays: "It is set by the server's environment; change it there.", empty: "empty", apply: "Try and apply", applied: "The settings apply now.",
    nameHint: "Letters, digits, dots, hyphens and underscores; it becomes part of the ARN that buckets name.", badName: "Use letters, digits, dots, hyphens and underscores.", nameTaken: "There is a target of this name already.", enableHint: "Off keeps the settings without using them.", changes: "What changes", importTitle: "Import settings", importText: "Settings that the file does not name stay. Hidden secrets stay as they are. Each line is tried and applied by itself.", unknown: "Unknown here",
    removeText: "Buckets that name this target stop sending it events; what waits for it is lost.", noMatch: (text: string) => `No setting has “${text}” in its name or its description.`, changed: (when: string) => `changed ${when}`, addTitle: (name: string) => `Add to ${name}`, removeTitle: (name: string) => `Delete the settings of ${name}?`, withoutEffect: (n: number) => `${n} more without effect here`,
    applyAll: (n: number) => `Apply ${n} ${s(n, "change")}`, appliedSome: (n: number, failed: number) => `${n} applied, ${failed} refused.`, badFile: (line: string) => (line ? `The line of “${line}” is not understood.` : "A quote is not closed."),
  },
  audit: {
    about: "Who did what, when, from where, and which policy decided. The newest requests come first.", none: "No record meets the conditions", noneText: "Drop a condition, or search a longer time.", noneAtAll: "Without an audit log, only refused requests are kept, and none was refused yet. Start the server with --audit-file to record everything.",
    end: "that is all", stop: "Stop searching", more: "Show more", save: "Save as JSON", moreFields: "More conditions", fewer: "Fewer conditions", clear: "Clear", command: "The same search in a terminal:", when: "Arrived", took: "Duration", anonymous: "without an account", unknown: "unknown",
    fields: { range: "Time", since: "From", until: "Until", status: "Answer", user: "User", bucket: "Bucket", prefix: "Key begins with", operation: "Operation", api: "Interface", source: "Address or network", access_key: "Access key", error: "Error code", request_id: "Request id" },
    ranges: { all: "Any time", "1h": "The last hour", "24h": "The last 24 hours", "7d": "The last 7 days", "30d": "The last 30 days", own: "A period…" }, apis: { all: "All", s3: "S3", sts: "Sign-in (STS)", admin: "Administration" },
    statuses: { all: "Any answer", "400-599": "All errors (4xx, 5xx)", "2xx": "Successful (2xx)", "3xx": "Not changed, moved (3xx)", "403": "Not permitted (403)", "4xx": "Refused (4xx)", "5xx": "Failed (5xx)" },
    shown: (n: number, text: string) => `${text} ${s(n, "record")}`, back: (when: string) => `searched back to ${when}`, allOf: (what: string) => `All requests of ${what}`,
    silent: (why: string) => `Some nodes do not answer, so their records are missing here: ${why}`, refusalsOnly: (names: string) => `${names}: no audit file, so only the last refused requests are kept, until the next start. Record all requests with --audit-file (docs/audit.md).`,
  },
  removal: {
    rule: { title: "Remove this rule?", text: "What it would still have removed stays.", action: "Remove rule" },
    corsRule: { title: "Remove this rule?", text: "Web pages that only this rule allows can no longer use the bucket.", action: "Remove rule" },
    eventRule: { title: "Remove this rule?", text: "The target no longer receives these events.", action: "Remove rule" },
    policy: { title: "Remove the policy?", text: "Whoever may use the bucket only because of this policy no longer may.", action: "Remove policy" },
    quota: { title: "Remove the quota?", text: "The bucket can then grow until the drives are full.", action: "Remove quota" },
    log: { title: "Stop the access log?", text: "Requests are no longer logged. What was delivered stays.", action: "Stop logging" },
  },
  commands: {
    show: "Show the command", about: "What you changed since this page was opened, as commands that do it again. It is forgotten when you sign out or close the page.", none: "Nothing is changed yet", noneText: "Whatever you change in this console is shown here as commands for a terminal.",
    secrets: "Secrets and values that may be one are not shown: put them where “…”, SECRET-KEY or FILE is. “it” is an alias (ashlar alias set); curl takes the credentials from the environment.",
  },
  reach: {
    title: "Who can reach this bucket", about: "What the server would answer now to requests of each user, and of somebody without an account, from your network address. Each answer leads to the statements that decide it.",
    key: "For an object with this key", keyHint: "Policies can permit some keys only.", keyFirst: "Enter a key.", ask: "Check", who: "Who", everybody: "Everybody, without an account", yes: "yes", no: "no", more: "Check more users", disabled: (n: string) => `${n} disabled, who reach nothing`,
    may: { list: "List", read: "Read", write: "Write", remove: "Delete", rule: "Change the policy" },
    limits: "Root may do everything. Not covered: people from identity providers, access keys and sessions with a policy of their own, shared links, access control lists, and conditions on other addresses, times or headers. A group is covered by its members.",
  },
  why: {
    about: "Find out why a request was refused, or whether one would be.", byRequest: "A request that was sent", requestHint: "Every answer has it in the header x-amz-request-id. The last refusals are kept without an audit log.", idFirst: "Enter the id first.", explain: "Explain", simulate: "A request that somebody might send",
    who: "User or access key", whoHint: "Empty: somebody without an account.", action: "Action", resource: "Bucket or object", allowed: "Allowed", denied: "Denied", noStatements: "No attached statement is about this action, so it is not allowed.", applies: "Applies", statement: (n: number) => `statement ${n}`, doesNot: (why: string) => `Does not apply: ${why}`,
    fields: { ip: "From", user: "User", access_key: "Access key", bucket: "Bucket", key: "Key", action: "Action", decision: "Decision", policy: "Policy", statement: "Statement", why: "Reason", error: "Error", user_agent: "Program", account: "Account", sid: "Statement id", by: "Decided by", node: "Node", version: "Version", api: "Interface", decided_by: "Decision", headers: "Headers", kind: "Kind of account", tls: "TLS", parent: "Belongs to", provider: "Identity provider", query: "Query", cut: "Cut off" },
  },
};
