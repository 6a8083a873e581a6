// Die Texte auf Deutsch.
import type { Messages } from ".";
import { ERRORS } from "./errors.de";

const s = (n: number, one: string, many: string) => (n === 1 ? one : many);

export const de: Messages = {
  explain: (e) => {
    const id = e.requestId;
    const ask = "Bitten Sie einen Administrator; „Warum verweigert?“ zeigt, welche Anweisung entscheidet.";
    switch (e.code) {
      case "Unreachable": return { text: "Der Server antwortet nicht.", advice: "Prüfen Sie das Netz und ob der Server läuft, und versuchen Sie es erneut." };
      case "SessionEnded": return { text: "Ihre Sitzung ist beendet.", advice: "Melden Sie sich erneut an." };
      case "WrongKeys": return { text: "Der Zugriffsschlüssel oder der geheime Schlüssel ist falsch, oder der Schlüssel ist deaktiviert oder abgelaufen." };
      case "WrongPassword": return { text: "Das Verzeichnis kennt diesen Namen mit diesem Passwort nicht." };
      case "ConfirmFirst": return { text: "Das zerstört etwas, und Sie haben nicht bestätigt, dass Sie es sind.", advice: "Versuchen Sie es erneut, und geben Sie Ihren geheimen Schlüssel ein." };
      case "SignInAgain": return { text: "Das zerstört etwas und verlangt deshalb eine neue Anmeldung.", advice: "Melden Sie sich ab und wieder an, und tun Sie es innerhalb von fünf Minuten." };
      case "ProviderEnded": return { text: e.message === "access_denied" ? "Der Identitätsanbieter hat die Anmeldung abgelehnt, oder sie wurde dort abgebrochen." : `Der Identitätsanbieter hat die Anmeldung beendet${e.message ? ` (${e.message})` : ""}.`, advice: "Versuchen Sie es erneut, oder fragen Sie, wer den Anbieter betreibt." };
      case "AccessDenied": case "HTTP403": return { text: "Dafür fehlt Ihnen die Berechtigung.", advice: e.message ? `${e.message} ${ask}` : ask, id };
      case "NoSuchBucket": return { text: "Diesen Bucket gibt es nicht.", advice: "Vielleicht wurde er inzwischen gelöscht; sehen Sie in die Liste der Buckets.", id };
      case "NoSuchKey": return { text: "Dieses Objekt gibt es nicht.", advice: "Vielleicht wurde es inzwischen gelöscht; laden Sie die Liste neu.", id };
      case "BucketNotEmpty": return { text: "Der Bucket ist nicht leer.", advice: "Löschen Sie zuerst seine Objekte mit allen Versionen und unvollendeten Uploads.", id };
      case "BucketAlreadyExists": case "BucketAlreadyOwnedByYou": return { text: "Einen Bucket dieses Namens gibt es schon.", advice: "Wählen Sie einen anderen Namen.", id };
      case "HTTP404": return { text: "Das gibt es nicht oder nicht mehr.", advice: "Laden Sie die Liste neu.", id };
      case "SlowDown": case "ServiceUnavailable": return { text: "Der Server ist gerade ausgelastet oder nicht bereit.", advice: e.message ? `${e.message} Versuchen Sie es gleich noch einmal.` : "Versuchen Sie es gleich noch einmal.", id };
      case "QuotaExceeded": case "XMinioAdminBucketQuotaExceeded": return { text: "Das Kontingent des Buckets reicht dafür nicht.", advice: "Löschen Sie Objekte, oder lassen Sie das Kontingent erhöhen.", id };
      default: {
        const known = Object.hasOwn(ERRORS, e.code) ? ERRORS[e.code] : undefined;
        return known ? { text: known, advice: e.message ? `Der Server meldet: ${e.message}` : undefined, id } : { text: e.message || `Die Anfrage ist fehlgeschlagen (${e.code}).`, id };
      }
    }
  },
  loading: "Lädt…", loadingMore: "Lädt weiter…", retry: "Erneut versuchen", refresh: "Neu laden", close: "Schließen", cancel: "Abbrechen", save: "Speichern", saved: "Gespeichert.", done: "Erledigt.",
  create: "Anlegen", remove: "Löschen", edit: "Bearbeiten", enable: "Aktivieren", disable: "Deaktivieren", enabled: "Aktiv", disabled: "Inaktiv", state: "Zustand", name: "Name", size: "Größe",
  created: "Angelegt", modified: "Zuletzt geändert", objects: "Objekte", actions: "Aktionen", description: "Beschreibung", search: "Suchen", next: "Weiter", previous: "Zurück", unit: "Einheit", key: "Adresse", type: "Inhaltstyp",
  copy: "Kopieren", copied: "Kopiert", never: "Nie", expires: "Läuft ab", expired: "Abgelaufen", lastUsed: "Zuletzt benutzt", settings: "Einstellungen", details: "Details", preview: "Vorschau", download: "Herunterladen", upload: "Dateien hochladen",
  uploadFolder: "Ordner hochladen", browse: "Objekte ansehen", select: "Auswählen", current: "Aktuell", versions: "Versionen", versionId: "Version", menu: "Menü", language: "Sprache", skip: "Zum Inhalt springen",
  user: "Benutzer", root: "Root", federated: "Von einem Identitätsanbieter", signOut: "Abmelden", licences: "Lizenzen", unchanged: "Es ist nichts geändert.", nameFirst: "Geben Sie zuerst einen Namen ein.", numberFirst: "Geben Sie zuerst eine Zahl ein.",
  requestId: "Anfrage-ID", nothingMatches: "Nichts passt.", nothingToChoose: "Es gibt nichts zur Auswahl.",
  copyThis: (label) => `${label} kopieren`,
  actionsFor: (name) => `Aktionen für ${name}`,
  countOf: (n, all) => `${n} von ${all}`,
  pageOf: (n, all) => `Seite ${n} von ${all}`,
  usedOf: (used, all) => `${used} von ${all} belegt`,
  needs: (action) => `Dafür muss eine Richtlinie ${action} erlauben.`,
  typeName: (name) => `Zum Bestätigen „${name}“ eingeben`,
  typeFirst: (name) => `Geben Sie zuerst „${name}“ ein.`,
  version: (v) => `Version ${v}`,
  uptime: (time) => `läuft seit ${time}`,
  node: (n) => `Knoten ${n}`,
  thisServer: "Dieser Server",
  notFound: "Diese Seite gibt es nicht",
  notFoundText: "Die Adresse ist vielleicht alt oder vertippt.",
  theme: { label: "Darstellung", system: "System", light: "Hell", dark: "Dunkel" },
  nav: { overview: "Übersicht", connect: "Client verbinden", data: "Daten", buckets: "Buckets", access: "Zugriff", users: "Benutzer", groups: "Gruppen", keys: "Zugriffsschlüssel", policies: "Richtlinien", why: "Warum verweigert?", system: "System", drives: "Laufwerke", trace: "Anfragen live", logs: "Protokoll", targets: "Ereignisziele", encryption: "Verschlüsselung", providers: "Identitätsanbieter", audit: "Audit-Protokoll", config: "Einstellungen", commands: "Befehle" },
  login: {
    title: "Bei Ashlar anmelden", accessKey: "Zugriffsschlüssel", secretKey: "Geheimer Schlüssel", submit: "Anmelden",
    how: "Arten der Anmeldung", ways: { keys: "Zugriffsschlüssel", ldap: "Verzeichnis" }, ldapUser: "Benutzername", ldapPassword: "Passwort", ldapHint: "Name und Passwort Ihres Kontos im Verzeichnis (LDAP).",
    or: "oder", with: (name) => `Weiter mit ${name}`, stillThere: (name) => `Sie sind hier abgemeldet, bei ${name} aber noch angemeldet.`, signOutThere: "Auch dort abmelden", certificate: "Weiter mit einem Zertifikat", noCertificate: "Dieser Browser hat beim Verbinden kein Zertifikat gezeigt.", returning: "Die Anmeldung über Ihren Identitätsanbieter wird abgeschlossen…",
    first: "Zum ersten Mal hier? Der Server hat beim ersten Start einen Zugriffsschlüssel und einen geheimen Schlüssel ausgegeben. Name und Geheimnis eines Benutzers gehen auch.",
  },
  connect: {
    title: "Client verbinden", about: "Einstellungen zum Einfügen in ein Terminal. Sie gelten für jeden S3-Client.", endpoint: "Endpunkt", endpointHint: "Die Adresse, unter der Clients S3 erreichen. Ändern Sie sie, wenn sie über einen Proxy oder einen anderen Namen kommen.",
    secret: "SECRET-KEY steht für das Geheimnis Ihres Zugriffsschlüssels, das der Server nie wieder zeigt. Geben Sie jedem Programm einen eigenen Schlüssel:",
  },
  overviewDenied: "Das können Sie trotzdem benutzen:",
  capacity: "Kapazität", stored: "Gespeichert", healing: "Heilung", counting: "Wird gezählt…", healIdle: "Nichts zu tun", healQueued: "Objekte warten auf Heilung", largestBuckets: "Größte Buckets", deployment: "Installation",
  history: {
    title: "Verlauf", range: "Gezeigte Zeit", ranges: ["1 Std.", "24 Std.", "7 T.", "30 T.", "400 T."], table: "Als Tabelle", charts: "Als Diagramme", requests: "Anfragen", bytes: "Durchsatz", errors: "Fehler", latency: "Zeit bis zum ersten Byte",
    reads: "Lesen", writes: "Schreiben", lists: "Listen", deletes: "Löschen", rest: "Listen, Löschen, andere", in: "Eingang", out: "Ausgang", client: "Abgewiesen (4xx)", server: "Fehlgeschlagen (5xx)", median: "Median", used: "Belegt", all: "Kapazität", from: "Von",
    soon: "Die Diagramme beginnen zwanzig Sekunden nach dem ersten Start.",
    perSecond: (n) => `${n}/s`, chartOf: (what) => `Diagramm: ${what}`, without: (why) => `Summen ohne manche Knoten: ${why}.`,
    grows: (size) => `wächst um ${size} am Tag`, shrinks: (size) => `schrumpft um ${size} am Tag`, full: (time) => `voll in etwa ${time}`,
  },
  rateChart: (now) => `Diagramm der Anfragen je Sekunde; jetzt ${now}`,
  shareOf: (name) => `Anteil von ${name}`,
  objectsIn: (objects, n, buckets, b) => `${objects} ${s(n, "Objekt", "Objekte")} in ${buckets} ${s(b, "Bucket", "Buckets")}, ohne Parität`,
  protection: (k, m) => `online; jedes Objekt in ${k} Daten- und ${m} Paritätsteilen`,
  rebuildEta: (time) => (time === null ? "ein Laufwerk wird wiederhergestellt" : `ein Laufwerk wird wiederhergestellt, noch etwa ${time}`),
  verified: (when) => `Alle Daten geprüft am ${when}`,
  neverVerified: "Noch nie wurden alle Daten geprüft",
  health: {
    good: "Alles ist in Ordnung",
    goodText: (reads, writes) => `Alle Laufwerke sind online. Je Platzierungsgruppe dürfen zum Lesen ${reads} und zum Schreiben ${writes} beliebige Laufwerke ausfallen.`,
    degraded: "In Betrieb, mit weniger Schutz als vorgesehen", badWrites: "Schreiben ist nicht möglich", badReads: "Manche Daten können nicht gelesen werden",
    unreadable: "Einer Platzierungsgruppe fehlen zu viele Laufwerke, um alle Daten zu lesen.", unwritable: "Einer Platzierungsgruppe fehlen zu viele Laufwerke, um zu schreiben. Bringen Sie Laufwerke zurück, oder ersetzen Sie sie.",
    lost: (n) => `${n} ${s(n, "Objekt kann", "Objekte können")} nicht wiederhergestellt werden.`,
    nodes: (list) => `Nicht erreichbar: Knoten ${list}.`,
    drives: (n, all) => `${n} von ${all} Laufwerken ${s(n, "ist", "sind")} nicht in Betrieb.`,
    spare: (n) => `Von der schwächsten Platzierungsgruppe ${s(n, "darf", "dürfen")} noch ${n} ${s(n, "Laufwerk", "Laufwerke")} ausfallen, bevor Daten nicht erreichbar sind.`,
    rebuilding: (n) => `${n} ${s(n, "Laufwerk wird", "Laufwerke werden")} wiederhergestellt.`,
    control: "Der Kontrollspeicher lässt sich jetzt nicht ändern: Benutzer, Richtlinien und Buckets bleiben, wie sie sind.",
    full: "Weniger als ein Zehntel der Kapazität ist frei. Fügen Sie Laufwerke hinzu, oder löschen Sie Daten.",
  },
  driveState: { online: "Online", joining: "Wird wiederhergestellt", "read-only": "Nur lesbar", fenced: "Nach Fehler gesperrt", offline: "Offline", held: "Außer Betrieb genommen", unknown: "Unbekannt" },
  buckets: {
    about: "Jeder Bucket enthält Objekte unter ihren Schlüsseln.", create: "Bucket anlegen", none: "Noch keine Buckets", noneText: "Legen Sie einen Bucket an, um Objekte zu speichern. Falls andere Buckets angelegt haben, die Sie sehen sollten, erlauben Ihre Richtlinien vielleicht s3:ListAllMyBuckets nicht.", filter: "Bucket suchen",
    nameHint: "3 bis 63 Kleinbuchstaben, Ziffern, Punkte und Bindestriche.", badName: "3 bis 63 Kleinbuchstaben, Ziffern, Punkte und Bindestriche; am Anfang und Ende ein Buchstabe oder eine Ziffer.",
    removeThis: "Bucket löschen", removeText: "Nur ein leerer Bucket lässt sich löschen. Das lässt sich nicht rückgängig machen.", noSizes: "Für Größen muss eine Richtlinie admin:DataUsageInfo erlauben.",
    copyFrom: "Einstellungen übernehmen von", copyHint: "Ein Bucket, dessen Einstellungen dieser bekommt: Versionierung, Sperre, Kontingent, Verschlüsselung, Lebenszyklus, Benachrichtigungen, Richtlinie, CORS, Website, Zugriffsprotokoll, Tags. Leer: keine.", notCopied: (name, what) => `${name} ist angelegt, aber nicht jede Einstellung ist übernommen: ${what}`,
    made: (name) => `${name} ist angelegt.`, removed: (name) => `${name} ist gelöscht.`, removeTitle: (name) => `Bucket ${name} löschen?`,
  },
  settingsOf: (name) => `Einstellungen von ${name}`,
  versioning: {
    title: "Versionierung", hint: "Bewahrt ältere Versionen auf, sodass Überschreiben und Löschen rückgängig zu machen sind.", about: "Mit Versionierung bleibt beim Überschreiben oder Löschen die ältere Version erhalten. Versionen belegen Platz, bis sie gelöscht werden oder eine Lebenszyklus-Regel sie entfernt.",
    state: { Enabled: "Ein", Suspended: "Ausgesetzt", Off: "Aus" }, enable: "Versionierung einschalten", suspend: "Versionierung aussetzen",
  },
  lock: {
    title: "Objektsperre", hint: "Versionen lassen sich vor dem Löschen schützen. Das geht nur jetzt und schaltet die Versionierung ein.", about: "Die Objektsperre schützt Versionen eine Zeit lang vor dem Löschen. Man wählt sie, wenn man den Bucket anlegt.", off: "Aus. Sie lässt sich nur beim Anlegen eines Buckets einschalten.",
    default: "Aufbewahrung neuer Objekte", days: "Tage", badDays: "Geben Sie 1 bis 36.500 Tage ein.", modeNone: "Keine", modeGovernance: "Governance", modeCompliance: "Compliance",
    none: "Objekte sind nur gesperrt, wenn ein Client es verlangt.", governance: "Wer s3:BypassGovernanceRetention darf, kann sie trotzdem löschen.", compliance: "Niemand kann sie vor Ablauf der Zeit löschen, auch Root nicht.",
  },
  quota: {
    title: "Kontingent", about: "Eine feste Grenze für alle Versionen im Bucket. Uploads, die sie überschreiten würden, werden abgewiesen.", none: "Kein Kontingent.", limit: "Neue Grenze", set: "Kontingent setzen", remove: "Kontingent entfernen", bad: "Geben Sie eine Zahl größer als 0 ein.", of: (size) => `Grenze: ${size}`,
  },
  encryption: {
    title: "Verschlüsselung", about: "Wie Objekte gespeichert werden, wenn der Client nichts sagt. Vorhandene Objekte bleiben, wie sie sind.", default: "Verschlüsselung als Vorgabe", none: "Keine", s3: "SSE-S3: Schlüssel des Servers", kms: "SSE-KMS: der Standardschlüssel", kmsKey: (name) => `SSE-KMS: Schlüssel ${name}`,
  },
  lifecycle: {
    title: "Lebenszyklus", about: "Regeln, die Objekte, ältere Versionen und unvollendete Uploads nach einigen Tagen löschen.", none: "Keine Regeln: Nichts wird von selbst gelöscht.", add: "Regel hinzufügen", unnamed: "Regel ohne Namen", whole: "Der ganze Bucket", prefix: "Präfix", prefixHint: "Schlüssel, die so beginnen; leer für alle.",
    daysLabel: "Objekte löschen nach … Tagen", noncurrentLabel: "Ältere Versionen löschen nach … Tagen", abortLabel: "Unvollendete Uploads löschen nach … Tagen", nothing: "Geben Sie für mindestens eines der drei Tage ein.", badDays: "Tage sind ganze Zahlen ab 1.",
    below: (prefix) => `Schlüssel, die mit ${prefix} beginnen`, expire: (n) => `Löscht Objekte nach ${n} ${s(n, "Tag", "Tagen")}`, noncurrent: (n) => `Löscht ältere Versionen nach ${n} ${s(n, "Tag", "Tagen")}`, abort: (n) => `Löscht unvollendete Uploads nach ${n} ${s(n, "Tag", "Tagen")}`,
    more: (list) => `Enthält mehr, was diese Seite bewahrt, aber nicht zeigt: ${list}`,
  },
  bucketPolicy: {
    title: "Bucket-Richtlinie", about: "Wer diesen Bucket benutzen darf außer denen, deren eigene Richtlinien es erlauben, auch Leute ohne Konto.", none: "Keine Richtlinie: Nur Benutzer, deren Richtlinien es erlauben, erreichen diesen Bucket.", example: "Beispiel einfügen: Alle dürfen herunterladen", remove: "Richtlinie entfernen",
    open: "Eine Anweisung dieser Richtlinie erlaubt „*“: Leute ohne Konto können den Bucket benutzen, soweit ihre Bedingungen es zulassen.", openTitle: "Den Bucket für alle öffnen?", openAction: "Speichern und öffnen",
  },
  tags: {
    title: "Tags", about: "Namen mit Werten, für Richtlinien, Lebenszyklus-Regeln und Ihre eigene Ordnung.", none: "Keine Tags.", add: "Tag hinzufügen", keyHint: "Name", valueHint: "Wert", unnamed: "Ein Tag hat keinen Namen.", key: (n) => `Name von Tag ${n}`, value: (n) => `Wert von Tag ${n}`, drop: (name) => `Tag ${name} weglassen`, most: (n) => `Höchstens ${n} Tags.`,
  },
  json: {
    completions: "Wie es weitergeht", findings: "Was wohl nicht gemeint ist",
    finding: (statement, what, name) => `Anweisung ${statement}: ${({
      effect: "Effect muss Allow oder Deny sein.", "no-action": "Sie nennt keine Aktion.", "no-resource": "Sie nennt keine Ressource.", action: `Eine Aktion ${name} gibt es nicht.`, arn: `${name} ist keine Ressource: Buckets sind arn:aws:s3:::BUCKET, Objekte arn:aws:s3:::BUCKET/*.`,
      "needs-objects": `${name} betrifft Objekte, aber keine Ressource ist ein Objekt: Fügen Sie arn:aws:s3:::BUCKET/* hinzu.`, "needs-bucket": `${name} betrifft Buckets, aber keine Ressource ist ein Bucket: Fügen Sie arn:aws:s3:::BUCKET hinzu.`,
    })[what]}`,
    good: "Gültiges JSON", fix: "Das Dokument ist kein gültiges JSON.", wrongAt: (line, why) => `Zeile ${line}: ${why}` },
  breadcrumb: "Ordner", goTo: "Zu einem Pfad gehen", goToHint: "ordner/ oder der Anfang eines Schlüssels", searchPrefix: "Nach dem Anfang suchen", clearSearch: "Suche leeren", emptyBucket: "Dieser Bucket ist leer", emptyFolder: "Hier ist nichts", emptyText: "Ziehen Sie Dateien oder Ordner hierher, oder wählen Sie sie aus.",
  browseTitle: (bucket) => `Objekte von ${bucket}`,
  loadedSoFar: (n) => `${n} geladen, unten mehr`,
  entries: (n, text) => `${text} ${s(n, "Eintrag", "Einträge")}`,
  noPrefix: (prefix) => `Kein Schlüssel beginnt mit „${prefix}“.`,
  chosen: (n) => `${n} ausgewählt`, unselect: "Aufheben", selectThis: (name) => `${name} auswählen`, tooManyDownloads: "Höchstens 20 Dateien auf einmal; nehmen Sie für mehr einen Client.",
  deleted: (n) => `${n} ${s(n, "Objekt ist", "Objekte sind")} gelöscht.`, deleteTitle: (n) => (n === 1 ? "Dieses Objekt löschen?" : `${n} Objekte löschen?`),
  deleteText: "Mit Versionierung bleiben ältere Versionen, und es lässt sich rückgängig machen. Ohne nicht.",
  notDeleted: (n, key, why) => `${n} ${s(n, "Objekt ließ", "Objekte ließen")} sich nicht löschen: ${key}: ${why}`,
  deleteMarker: "Gelöscht", undelete: "Wiederherstellen", undeleteText: "Entfernt die Löschmarke: Die Version davor ist wieder aktuell.", removeVersion: "Diese Version löschen", removeVersionText: (when) => `Die Version vom ${when} wird endgültig gelöscht.`, versionRemoved: "Erledigt.",
  noPreview: "Keine Vorschau", noPreviewText: (type) => `Für ${type || "diesen Typ"} gibt es keine Vorschau; laden Sie das Objekt herunter.`, previewCut: (shown, all) => `Die ersten ${shown} von ${all}.`,
  share: {
    action: "Teilen", title: (name) => `${name} teilen`, about: "Wer den Link hat, kann dieses Objekt bis zu seinem Ende ohne Konto herunterladen.", life: "Der Link gilt", endpoint: "Adresse im Link", endpointHint: "Die S3-Adresse, die die andere Person erreicht.", save: "Der Browser speichert die Datei, statt sie zu öffnen", make: "Link erzeugen", link: "Link",
    until: (when) => `Gilt bis ${when}.`, withSession: "Er endet mit Ihrer Sitzung, weil es den Zugriffsschlüssel nicht mehr gibt, mit dem Sie angemeldet sind.", withKey: "Er endet früher, wenn der Zugriffsschlüssel deaktiviert wird, mit dem Sie angemeldet sind.", withProvider: "Er endet mit Ihrer Sitzung, weil ein Identitätsanbieter für Sie bürgt; ein Link, der länger gilt, braucht einen Zugriffsschlüssel.",
  },
  unfinished: {
    title: "Unvollendete Uploads", action: (n) => `${n} ${s(n, "unvollendeter Upload", "unvollendete Uploads")}`, about: "Der Server behält die Teile, die angekommen sind. Wählen Sie die Datei noch einmal: Nur was fehlt, wird gesendet. Unvollendete Uploads belegen Platz, bis sie vollendet oder entfernt sind.", none: "Es gibt keine mehr.",
    begun: (when) => `Begonnen ${when}`, choose: "Datei wählen und fortsetzen", foreign: "Ein anderes Programm hat ihn begonnen und muss ihn vollenden.",
  },
  uploads: {
    title: "Uploads", waiting: "Wartet", cancelled: "Abgebrochen", clear: "Liste leeren", fold: "Einklappen", unfold: "Ausklappen",
    running: (n, share) => `${n} ${s(n, "Datei wird", "Dateien werden")} hochgeladen, ${share}`, done: (n) => `${n} ${s(n, "Datei", "Dateien")} hochgeladen`, failed: (n) => `${n} ${s(n, "Upload", "Uploads")} fehlgeschlagen`, cancel: (name) => `${name} abbrechen`, progress: (name) => `Fortschritt von ${name}`,
  },
  secretOnce: "Das Geheimnis wird nur dieses eine Mal gezeigt. Kopieren Sie es jetzt.", secretKept: "Ich habe es aufbewahrt",
  users: {
    about: "Personen und Programme mit Name und Geheimnis. Richtlinien sagen, was sie dürfen.", create: "Benutzer anlegen", none: "Noch keine Benutzer", noneText: "Root darf alles, deshalb sollte niemand als Root arbeiten. Legen Sie für jede Person einen Benutzer an.", filter: "Benutzer suchen",
    noPolicy: "Keine", noGroup: "Keine", nameHint: "Mindestens 3 Zeichen, ohne Leerzeichen.", secret: "Geheimer Schlüssel", secretHint: "Leer lassen, dann erzeugt der Server einen.", policiesHint: "Ohne Richtlinie darf ein Benutzer nichts.", newSecret: "Neuer geheimer Schlüssel", newSecretHint: "Leer lassen, um den jetzigen zu behalten.",
    revoke: "Alle Sitzungen beenden", self: "Sie sind als dieser Benutzer angemeldet.", removeText: "Seine Zugriffsschlüssel und Sitzungen enden sofort. Objekte bleiben.", notAttached: "Der Benutzer ist angelegt, aber die Richtlinien sind nicht zugewiesen:",
    made: (name) => `${name} ist angelegt`, removed: (name) => `${name} ist gelöscht.`, enabled: (name) => `${name} ist aktiv.`, disabled: (name) => `${name} ist inaktiv.`, revoked: (name) => `Die Sitzungen von ${name} sind beendet.`, removeTitle: (name) => `Benutzer ${name} löschen?`,
  },
  groups: {
    about: "Was einer Gruppe zugewiesen ist, gilt für alle Mitglieder.", create: "Gruppe anlegen", none: "Noch keine Gruppen", noneText: "Fassen Sie Benutzer zusammen, um ihnen dieselben Richtlinien zu geben.", filter: "Gruppe suchen", members: "Mitglieder", noMembers: "Keine", memberFirst: "Wählen Sie mindestens ein Mitglied.",
    removeText: "Ihre Mitglieder verlieren, was die Gruppe erlaubt hat.", removed: (name) => `${name} ist gelöscht.`, removeTitle: (name) => `Gruppe ${name} löschen?`,
  },
  keys: {
    about: "Zugangsdaten für Programme. Ein Schlüssel darf höchstens, was sein Benutzer darf, und lässt sich weiter einschränken.", create: "Zugriffsschlüssel anlegen", none: "Noch keine Zugriffsschlüssel", noneText: "Jedes Programm sollte einen eigenen Schlüssel haben, damit jeder einzeln enden kann.", filter: "Schlüssel suchen", nameHint: "Zum Beispiel das Programm, das ihn benutzt.", expiresHint: "Was abläuft, kann man nicht vergessen.",
    expiresNow: (when) => `Jetzt: ${when}`, asIs: "Wie es ist", inDays: (n) => `In ${n} ${s(n, "Tag", "Tagen")}`, policy: "Einschränkung", policyHint: "Ein Richtliniendokument; der Schlüssel darf nur, was dieses und die Richtlinien seines Benutzers erlauben. Leer: alles, was sein Benutzer darf.", restricted: "Eingeschränkt", restrictedSession: "Sie haben sich mit einem eingeschränkten Schlüssel angemeldet, der keine Schlüssel anlegt und ändert. Melden Sie sich mit Name und Geheimnis des Benutzers an.",
    owner: "Benutzer", ownerHint: "Wem der Schlüssel gehört: Er darf höchstens, was dieser Benutzer darf.", mine: (user) => `${user} (Sie)`,
    confirm: "Bestätigen Sie, dass Sie es sind", confirmText: (key) => `Das überdauert Ihre Sitzung oder lässt sich nicht rückgängig machen. Geben Sie den geheimen Schlüssel von ${key} ein, mit dem Sie sich angemeldet haben; fünf Minuten lang werden Sie nicht wieder gefragt.`, confirmAction: "Bestätigen",
    rotate: "Neues Geheimnis", rotateText: "Das jetzige Geheimnis gilt sofort nicht mehr.", removeText: "Programme, die ihn benutzen, werden sofort abgewiesen.", made: "Der Zugriffsschlüssel ist angelegt",
    rotated: (key) => `Neues Geheimnis von ${key}`, rotateTitle: (key) => `Neues Geheimnis für ${key} erzeugen?`, removed: (key) => `${key} ist gelöscht.`, removeTitle: (key) => `Zugriffsschlüssel ${key} löschen?`,
  },
  policies: {
    about: "Dokumente in der Richtliniensprache von AWS, die sagen, was Benutzer und Gruppen dürfen.", create: "Richtlinie anlegen", none: "Keine Richtlinien", filter: "Richtlinie suchen", all: "Alle Richtlinien", builtIn: "Eingebaut", builtInStays: "Eingebaute Richtlinien lassen sich nicht ändern.", inUse: "Sie ist Benutzern oder Gruppen zugewiesen; lösen Sie das zuerst.", document: "Richtliniendokument", attachedTo: "Zugewiesen an", nobody: "Niemanden",
    attachHint: "Zuweisen kann man sie auf den Seiten der Benutzer und Gruppen.", help: "Wie sie entscheidet", removeText: "Das lässt sich nicht rückgängig machen.", removed: (name) => `${name} ist gelöscht.`, removeTitle: (name) => `Richtlinie ${name} löschen?`,
    helpText: ["Eine Anfrage ist erlaubt, wenn eine Anweisung mit der Wirkung Allow auf Aktion und Ressource passt und kein Deny.", "Buckets sind arn:aws:s3:::BUCKET, Objekte arn:aws:s3:::BUCKET/KEY; * steht für alles.", "Beim Speichern prüft der Server das Dokument. „Warum verweigert?“ probiert es aus."],
  },
  drives: {
    bays: "Schächte", bay: (n, path, state) => `Schacht ${n}: ${path}, ${state}`, slow: (times, common) => `${times}-mal so langsam wie die anderen (${common})`,
    about: (code, reads, writes) => `Code ${code}: Je Platzierungsgruppe dürfen zum Lesen ${reads}, zum Schreiben ${writes} Laufwerke fehlen.`,
    count: (n) => `${n} ${s(n, "Laufwerk", "Laufwerke")}`, rebuild: "Wiederherstellung", errors: (n) => `${n} Lesefehler`, work: (reads, writes, commit) => `${reads} gelesen · ${writes} geschrieben · Commit ${commit}`,
    offline: "Außer Betrieb nehmen", offlineText: "Das Laufwerk arbeitet nicht, bis es zurückgebracht wird. Seine Daten bleiben darauf; was inzwischen geschrieben wird, holt es dann nach.", online: "Zurückbringen", onlineText: "Das Laufwerk holt nach, was inzwischen geschrieben wurde, und arbeitet wieder.", replace: "Durch ein leeres Laufwerk ersetzen", replaceText: "Der Ordner muss leer sein. Ein neues Laufwerk nimmt den Platz des verlorenen ein und wird aus den anderen wiederhergestellt.",
  },
  scrub: {
    start: "Alle Daten prüfen", running: "Prüfung läuft…", started: "Die Prüfung hat begonnen.", queue: "Wartet auf Heilung", healed: "Geheilt seit dem Start", rate: "Tempo der letzten Minute", measuring: "wird gemessen", lost: "Nicht wiederherstellbar", last: "Letzte Prüfung", damages: "Gefundene Schäden", repaired: "Behoben", waiting: "Noch nicht",
    rateText: (shards) => `${shards} Teile je Minute`, healedText: (records, shards) => `${records} Einträge, ${shards} Teile`, lastText: (when, bytes, damaged, took) => `${when}: ${bytes} gelesen in ${took}, ${damaged} beschädigt`,
  },
  limits: {
    title: "Grenzen für Heilung und Prüfung", change: "Grenzen", set: "Grenzen setzen", reset: "Eigene Optionen jedes Servers benutzen", none: "Keine Grenze", rate: (bytes) => `${bytes} je Sekunde`, heal: "Höchstes Tempo der Heilung", scrub: "Höchstes Tempo der Prüfung", busy: "Anteil unter Last",
    about: "Für alle Knoten, ab dem nächsten Stück Arbeit. Langsamere Heilung lässt Daten länger mit weniger Redundanz.", healHint: "Was jeder Knoten für Heilung und Wiederherstellung höchstens schreibt. Leer: keine Grenze.", scrubHint: "Was jeder Knoten zum Prüfen der Daten höchstens liest. Leer: keine Grenze.", busyHint: "Welchen Teil der Zeit eine Aufgabe der Heilung oder Prüfung arbeitet, während Anfragen von Clients laufen.",
    bad: "Zuerst die Felder berichtigen.", unchanged: "Zuerst eine Grenze ändern.", badRate: "Mindestens 0,0625 eingeben, oder nichts.", badShare: "Eine ganze Zahl von 1 bis 100 eingeben.",
  },
  stream: {
    live: "Live", connecting: "Verbindet…", paused: "Angehalten", pause: "Anhalten", resume: "Weiter", clear: "Leeren", skipped: (n) => `${n} weitere kamen schneller, als sie sich zeigen lassen`,
    broken: (seconds) => `Die Verbindung ist abgebrochen. In ${seconds} ${s(seconds, "Sekunde", "Sekunden")} folgt der nächste Versuch; was inzwischen geschieht, fehlt hier.`,
    held: "Vom Server kommt nichts an, oder ein Proxy dazwischen hält seine Antworten zurück. Es wird wieder versucht.",
    every: (seconds) => `Alle ${seconds} s`, polling: (seconds) => `Ein Proxy dazwischen sammelt die Antwort. Deshalb fragt die Seite alle ${seconds} Sekunden; was zwischen zwei Antworten geschieht, kann hier fehlen. Schalten Sie dort das Puffern ab (nginx: proxy_buffering off).`,
  },
  trace: {
    about: "Anfragen aller Knoten, wie sie enden, und wo ihre Zeit geblieben ist. Nichts davon wird aufbewahrt.", bucket: "Bucket", operation: "Operation", slower: "Dauerte mindestens", any: "Beliebig", errorsOnly: "Nur Fehler", none: "Noch keine Anfrage", noneText: "Anfragen erscheinen hier, wenn sie beendet sind. Ändern Sie den Filter, falls welche fehlen.", list: "Anfragen, die neuesten zuerst",
    parts: { body_micros: "Client", drives_micros: "Laufwerke", server_micros: "Server", answer_micros: "Antwort" }, status: "Status", cut: "nicht ganz gesendet", total: "Zeit", totalText: (all, first) => `${all}, erstes Byte nach ${first}`, bytes: "Ein / aus", request: "Anfrage", nobody: "keiner", arrived: "Eingegangen",
    shown: (n, text) => `${text} ${s(n, "Anfrage", "Anfragen")}`,
  },
  logs: {
    about: "Was der Server in sein Protokoll schreibt, von allen Knoten, das Neueste zuerst.", filter: "In diesen Zeilen suchen", level: "Stufe", levels: { error: "Fehler", warn: "Warnungen und Fehler", info: "Alles" }, none: "Keine Zeilen", noneText: "Zeilen erscheinen hier, wenn der Server sie schreibt.", list: "Zeilen des Protokolls, die neuesten zuerst",
  },
  targets: {
    about: "Wohin Benachrichtigungen der Buckets gehen. Welcher Bucket welche Ereignisse sendet, ist eine Einstellung des Buckets.", none: "Keine Ereignisziele", noneText: "Ein Ziel ist ein Webhook, ein Nachrichtendienst oder eine Datenbank und erfährt, was mit Objekten geschieht. Richten Sie eines mit einem Befehl ein:", command: "Befehl", filter: "Ereignis suchen",
    unused: "Noch nichts gesendet", test: "Testereignis senden", accepted: (ms) => `Das Ziel hat ein Testereignis in ${ms} ms angenommen.`, refused: (why) => `Das Ziel hat ein Testereignis nicht angenommen: ${why}`, online: "Stellt zu", offline: "Stellt nicht zu", waiting: "Warten", sent: "Gesendet", failed: "Fehlversuche", deadCount: "Unzustellbar", lost: "Verloren", dead: "Unzustellbare Ereignisse", deadAbout: "Ereignisse, die ein Ziel endgültig abgelehnt hat. Sie lassen sich erneut senden, wenn das Ziel in Ordnung gebracht ist.", noDead: "Nichts ist unzustellbar", noDeadText: "Jedes Ereignis, das ein Ziel annahm, ist zugestellt.",
    when: "Wann", target: "Ziel", event: "Ereignis", why: "Grund", replay: "Erneut senden", removeAll: "Alle löschen", replayText: "Was das Ziel annimmt, ist nicht mehr unzustellbar; was es ablehnt, kommt zurück.", removeText: "Die Ereignisse sind endgültig weg.", removeOneTitle: "Dieses Ereignis löschen?",
    lostEvents: (n, text) => `${text} ${s(n, "verlorenes Ereignis", "verlorene Ereignisse")}`, replayTitle: (id) => `Unzustellbares von ${id} erneut senden?`, removeTitle: (id) => `Alles Unzustellbare von ${id} löschen?`, replayed: (n) => `${n} ${s(n, "Ereignis wird", "Ereignisse werden")} erneut gesendet.`, removed: (n) => `${n} ${s(n, "Ereignis ist", "Ereignisse sind")} gelöscht.`,
  },
  kms: {
    about: "Schlüssel, mit denen gespeicherte Objekte verschlüsselt sind (SSE-KMS, SSE-S3). Die Schlüssel selbst verlassen den Server oder Schlüsselserver nie.", create: "Schlüssel anlegen", none: "Keine Schlüssel", noneText: "Legen Sie einen Schlüssel an, um Objekte unter einem eigenen Namen zu verschlüsseln.", filter: "Schlüssel suchen", off: "Verschlüsselung ist aus", offText: "Dieser Server hat keine Quelle für Schlüssel. Geben Sie ihm einen Wurzelschlüssel, HashiCorp Vault oder KES: docs/encryption.md.",
    works: "Die Verschlüsselung arbeitet", broken: "Die Verschlüsselung arbeitet nicht", default: "Vorgabe", rotate: "Neue Version", rotateText: "Neue Objekte benutzen die neue Version. Vorhandene bleiben lesbar und lassen sich neu versiegeln mit: ashlar admin kms rewrap.", nameHint: "1 bis 128 Buchstaben, Ziffern, Punkte, Bindestriche und Unterstriche.",
    drivers: { builtin: "Eingebaut", vault: "HashiCorp Vault", kes: "MinIO KES" }, source: (driver, endpoint, key) => `${driver}${endpoint && ` unter ${endpoint}`}; der Standardschlüssel ist ${key}.`,
    made: (name) => `${name} ist angelegt.`, rotated: (name, version) => `${name} hat jetzt Version ${version}.`, rotateTitle: (name) => `Neue Version von ${name} erzeugen?`,
  },
  providers: {
    about: "Leute eines OpenID-Connect-Anbieters, eines Verzeichnisses (LDAP) oder mit Client-Zertifikaten können sich anmelden, ohne hier Benutzer zu sein. Richtlinien sind ihnen zugeordnet oder stehen in ihren Claims.", add: "Anbieter hinzufügen", none: "Keine Identitätsanbieter", noneText: "Verbinden Sie Keycloak, Entra ID, Okta oder Ihr Verzeichnis, damit niemand ein weiteres Passwort braucht.", kind: "Art",
    kinds: { openid: "OpenID Connect", ldap: "Verzeichnis (LDAP)", tls: "Client-Zertifikate" }, unusable: "Nicht benutzbar", hidden: "(geheim)", fixed: "durch die Umgebung des Servers gesetzt", keepSecret: "Unverändert", nameHint: "Ein kurzer Name, auf den sich Richtlinien beziehen können, zum Beispiel keycloak.", checkAndAdd: "Prüfen und hinzufügen", more: "Weitere Einstellung", moreHint: "Ihr Name wie in docs/identity-openid.md und docs/identity-ldap.md.", addValue: "Diese Einstellung hinzufügen",
    facts: { issuer: "Aussteller", role_arn: "Rolle" }, hints: { config_url: "Der Aussteller mit /.well-known/openid-configuration", redirect_uri: "https://DIESER-HOST/oauth_callback; muss beim Anbieter erlaubt sein", redirect_uri_dynamic: "on: /oauth_callback unter der Adresse im Browser", server_addr: "HOST oder HOST:PORT", tls_ca: "Zertifikate in PEM; leer: die des Systems", claim_name: "Der Claim, der Richtlinien nennt; leer: policy", role_policy: "Richtlinien, die alle seine Benutzer bekommen", user_dn_search_filter: "%s steht für den Namen", group_search_filter: "%d steht für den DN des Benutzers", enable: "on oder off" },
    removeText: "Sitzungen und Zugriffsschlüssel seiner Benutzer enden sofort.", removeTitle: (name) => `Anbieter ${name} entfernen?`, editTitle: (name) => `Einstellungen von ${name}`,
  },
  cors: {
    title: "Zugriff von anderen Seiten (CORS)", about: "Welche Webseiten anderer Herkunft diesen Bucket im Browser benutzen dürfen. Das gibt keine Berechtigung: Anfragen brauchen außerdem Zugangsdaten oder eine Bucket-Richtlinie.", none: "Keine Regeln: Es gilt die Einstellung des Servers (--cors-origin; ohne sie jede Herkunft).", add: "Regel hinzufügen", edit: "Regel bearbeiten", origins: "Herkunft", originsHint: "Eine je Zeile, zum Beispiel https://app.example.com; * steht für alles.", methods: "Methoden",
    headers: "Kopfzeilen der Anfrage", headersHint: "Eine je Zeile; * für alle.", expose: "Kopfzeilen, die Seiten lesen dürfen", exposeHint: "Eine je Zeile.", maxAge: "Sekunden, die Browser die Antwort behalten", maxAgeHint: "Leer: wie der Browser will.", originFirst: "Geben Sie eine Herkunft ein.", methodFirst: "Wählen Sie eine Methode.",
  },
  website: {
    title: "Website", about: "Zeigt den Bucket als Website unter dem Host BUCKET.DOMAIN, wenn der Server eine --website-domain hat.", serves: "Was gezeigt wird", kinds: { off: "Keine Website", pages: "Die Objekte als Seiten", redirect: "Weiterleitung zu einem anderen Host" }, index: "Indexdokument", indexHint: "Wird für Ordner gezeigt.", error: "Fehlerdokument", errorHint: "Wird gezeigt, wenn etwas fehlt; leer: eine einfache Meldung.",
    rules: "Weiterleitungen", noRules: "Keine.", addRule: "Weiterleitung hinzufügen", editRule: "Weiterleitung bearbeiten", everyKey: "Jeder Schlüssel", onError: (code) => `wenn die Antwort ${code} wäre`, prefix: "Schlüssel beginnt mit", prefixHint: "Leer: jeder Schlüssel.", code: "Fehler", codeHint: "Nur wo dies geantwortet würde; leer: immer.", badError: "Geben Sie eine Zahl von 400 bis 599 ein.",
    hostHint: "Leer: der Host der Anfrage.", key: "Schlüssel", keys: { same: "Bleibt, wie er ist", beginning: "Bekommt einen anderen Anfang", whole: "Wird ersetzt" }, newKeys: { beginning: "Neuer Anfang", whole: "Neuer Schlüssel" }, beginningHint: "Leer: Der alte Anfang fällt weg.", keep: "Übernehmen", status: "Status", defaultStatus: "301", targetFirst: "Wählen Sie einen anderen Host, ein Protokoll oder einen Schlüssel.", keyFirst: "Geben Sie den neuen Schlüssel ein.",
    host: "Host", protocol: "Protokoll", sameProtocol: "Wie in der Anfrage", indexFirst: "Geben Sie das Indexdokument ein.", hostFirst: "Geben Sie einen Host ein.", needs: "Besucher sind anonym: Die Bucket-Richtlinie muss allen s3:GetObject erlauben.",
  },
  notifications: {
    title: "Benachrichtigungen", about: "Sendet Ereignisse über Objekte an ein Ziel: einen Webhook, einen Nachrichtenvermittler oder eine Datenbank.", none: "Keine Regeln: Es werden keine Ereignisse gesendet.", add: "Regel hinzufügen", targetFirst: "Wählen Sie ein Ziel.", eventFirst: "Wählen Sie ein Ereignis.", what: "Ereignisse", prefix: "Schlüssel beginnt mit", prefixHint: "Leer: alle Schlüssel.", suffix: "Schlüssel endet mit", targetHint: "Beim Speichern bekommt das Ziel ein Testereignis.", noTargets: "Noch ist kein Ereignisziel eingerichtet; fügen Sie eines hinzu in:", arnHint: "Für die Liste der Ziele muss eine Richtlinie admin:ServerInfo erlauben; geben Sie die ARN des Ziels ein.",
    events: { "s3:ObjectCreated:*": "Angelegt", "s3:ObjectRemoved:*": "Gelöscht", "s3:ObjectAccessed:*": "Gelesen", "s3:ObjectTagging:*": "Tags geändert", "s3:LifecycleExpiration:*": "Abgelaufen", "s3:ObjectAcl:Put": "Zugriffsliste geändert" },
    filter: (prefix, suffix) => `Schlüssel, die${prefix ? ` mit ${prefix} beginnen` : ""}${prefix && suffix ? " und" : ""}${suffix ? ` auf ${suffix} enden` : ""}`,
  },
  simulator: {
    action: "Simulieren", before: "Mit dieser Regel simulieren", about: "Was die Regeln mit den Versionen tun, wie sie jetzt sind; nichts wird geändert. Dass eine ablaufende Version zu einer älteren wird und später noch einmal fällig ist, wird nicht verfolgt.", span: "Bis", spans: { 0: "Jetzt", 7: "In 7 Tagen", 30: "In 30 Tagen", 90: "In 90 Tagen", 365: "In einem Jahr", 3650: "In zehn Jahren" }, nothing: "Nichts wird fällig.", byDay: "Nach Tagen (UTC)", byMonth: "Nach Monaten (UTC)", byRule: "Nach Regeln", isLocked: "Gesperrt",
    will: { expire: "Läuft ab", remove: "Ältere Version wird gelöscht", "remove-marker": "Löschmarkierung wird entfernt" },
    did: { expire: (n, text) => `${text} ${s(n, "Objekt läuft", "Objekte laufen")} ab`, remove_versions: (n, text) => `${text} ältere ${s(n, "Version", "Versionen")} gelöscht`, remove_markers: (n, text) => `${text} ${s(n, "Löschmarkierung", "Löschmarkierungen")} entfernt`, abort_uploads: (n, text) => `${text} ${s(n, "Upload", "Uploads")} abgebrochen` },
    title: (bucket) => `Simulation der Regeln von ${bucket}`, looked: (n, text) => `${text} ${s(n, "Schlüssel oder Upload", "Schlüssel und Uploads")} untersucht`, locked: (n, text) => `${text} fällig und gesperrt: ${s(n, "bleibt", "bleiben")}`, examples: (n) => `Die ersten ${n} Versionen`,
  },
  placement: {
    title: "Verteilung", verify: "Jedes Byte prüfen", heal: "Heilen", body: "Inhalt", inline: "in den Journalen", encrypted: "verschlüsselt", noBytes: "Nichts zu verteilen", noBytesText: "Das Objekt hat keine Bytes; sein Eintrag ist auf jedem Laufwerk seiner Platzierungsgruppe.", reading: "Jedes Byte wird auf seinem Laufwerk gelesen.", unreadable: "Es sind zu wenige Teile übrig, um es jetzt zu lesen.",
    state: { good: "Gut", missing: "Fehlt", damaged: "Beschädigt", unknown: "Unbekannt" }, data: (n) => `Daten ${n}`, parity: (n) => `Parität ${n}`, part: (n) => `Teil ${n}`, code: (k, m, size) => `${k} Daten- und ${m} Paritätsteile zu ${size}`, more: (n, all) => `Weitere Teile (${n} von ${all})`,
    verified: (n, text) => `${text} ${s(n, "Teil", "Teile")} gelesen und geprüft`, present: (n, text) => (n === 1 ? "Das Teil ist an seinem Platz" : `Alle ${text} Teile sind an ihrem Platz`), bad: (n, text, all) => `${text} von ${all} Teilen ${s(n, "ist", "sind")} nicht in Ordnung`,
    spare: (n) => `Noch ${n} ${s(n, "Teil darf", "Teile dürfen")} verloren gehen, bevor es nicht mehr lesbar ist.`, healed: (n) => (n === 0 ? "Es gab nichts zu heilen." : `${n} ${s(n, "Stück ist", "Stücke sind")} neu gemacht.`), lost: (n) => `Von ${n} ${s(n, "Teil", "Teilen")} ist zu wenig übrig.`, stillMissing: (n) => `${n} ${s(n, "Teil fehlt", "Teile fehlen")} noch.`, scrubbed: (when) => `Geprüft am ${when}`, notScrubbed: "Noch von keinem Durchgang geprüft", facts: (group, version) => `Platzierungsgruppe ${group}${version && ` · Version ${version}`}`,
  },
  zip: { action: "Als ZIP herunterladen", begun: "Der Download beginnt, wenn der Ordner aufgelistet ist." },
  signInTest: {
    action: "Anmeldung ausprobieren", again: "Noch einmal", about: "Zeigt, was der Anbieter über jemanden sagt und welche Richtlinien gelten würden. Niemand wird angemeldet.", passwordFirst: "Geben Sie das Passwort ein.", enableFirst: "Aktivieren Sie zuerst den Anbieter.", refused: "Abgelehnt", admitted: "Die Anmeldung wäre möglich", admittedText: "Mindestens eine Richtlinie gilt.", notAdmitted: "Die Anmeldung wäre nicht möglich", notAdmittedText: "Der Anbieter kennt die Person, aber weder ihr noch ihren Gruppen ist eine Richtlinie zugewiesen, und kein Claim nennt eine.",
    name: "Name für Richtlinien", subject: "Name beim Anbieter", unknown: "Genannt, aber nicht vorhanden", title: (name) => `Anmeldung mit ${name} ausprobieren`, goTo: (name) => `Zu ${name}`,
  },
  shown: {
    first: (n) => `Die ersten ${n} Zeilen.`, columns: "Spalten", type: "Typ", optional: "optional", repeated: "mehrfach",
    parquet: (n, rows, groups, by) => `Parquet: ${rows} ${s(n, "Zeile", "Zeilen")}, Zeilengruppen: ${groups}${by ? `; erzeugt von ${by}` : ""}.`,
    values: "Werte", rows: (from, to, all) => `Zeilen ${from} bis ${to} von ${all}`, firstColumns: (n, all) => `Werte der ersten ${n} von ${all} Spalten.`,
    noParquet: "Diese Parquet-Datei lässt sich nicht lesen: Sie ist beschädigt oder verschlüsselt, oder ihre Metadaten sind länger als 4 MiB. Laden Sie das Objekt herunter.",
    left: (columns, why) => `Werte nicht gezeigt von: ${columns}. ${why}`,
    compression: (what) => `Die Kompression ${what} wird hier nicht unterstützt; SNAPPY und GZIP werden es.`, large: (limit) => `Für diese Zeilen müssten mehr als ${limit} einer solchen Spalte geladen werden.`, broken: "Sie sind beschädigt oder verschlüsselt, oder von einer Art, die hier nicht unterstützt wird.",
  },
  pdf: {
    controls: "Seiten und Größe", page: "Seite", of: (n) => `von ${n}`, pageOf: (n, all, name) => `Seite ${n} von ${all} von ${name}`, previous: "Vorige Seite", next: "Nächste Seite",
    smaller: "Kleiner", larger: "Größer", fit: (percent) => `${percent}: auf die Breite einpassen`, fits: "Auf die Breite eingepasst",
    broken: "Das ist kein PDF-Dokument, das sich lesen lässt: Es ist beschädigt oder eine andere Art von Datei. Laden Sie das Objekt herunter.", encrypted: "Dieses Dokument ist auf eine Weise verschlüsselt, die diese Vorschau nicht kennt. Laden Sie das Objekt herunter.", locked: "Dieses Dokument ist mit einem Passwort verschlüsselt.", lockedHint: "Es bleibt auf dieser Seite.", wrong: "Das ist nicht das Passwort.", open: "Öffnen",
    large: (limit) => `Dokumente von mehr als ${limit} werden hier nicht geöffnet. Laden Sie das Objekt herunter.`, brokenPage: "Diese Seite lässt sich nicht zeichnen. Laden Sie das Dokument herunter, um sie zu sehen.",
    missing: "Hier fehlen Bilder: Sie sind beschädigt oder von einer Art (JPEG 2000), die diese Vorschau nicht unterstützt. Laden Sie das Dokument herunter, um sie zu sehen.",
  },
  rewind: {
    action: "Zurückspulen", about: "Zeigt diesen Ordner, wie er zu einem Zeitpunkt war, aus den aufbewahrten Versionen. Nichts wird geändert; einzelne Objekte lassen sich herunterladen oder wieder zur aktuellen Version machen.", at: "Zeitpunkt", go: "Zeigen", now: "Zurück zu jetzt", restore: "Zur aktuellen Version machen", past: "Das ist die Vergangenheit: Gehen Sie zuerst zurück zu jetzt.", timeFirst: "Wählen Sie Datum und Uhrzeit.", future: "Wählen Sie einen Zeitpunkt in der Vergangenheit.",
    empty: "Hier war nichts", emptyText: "Keine aufbewahrte Version ist so alt. Ohne Versionierung ist nur bekannt, was jetzt da ist.", shown: (when) => `Stand vom ${when}`, restored: (name) => `${name} ist wieder aktuell.`,
  },
  bar: {
    title: "Gehe zu…", label: "Seite, Bucket oder Pfad", hint: "Seite, Bucket oder BUCKET/ORDNER/", key: "Strg K", keys: "Pfeile wählen, Enter öffnet, Escape schließt.", goTo: (place) => `Gehe zu ${place}`, audit: (user) => `Anfragen des Benutzers ${user}`,
  },
  keysHelp: {
    title: "Tasten", control: "Strg", bar: "Zu einer Seite, einem Bucket oder einem Pfad gehen", search: "Auf dieser Seite suchen", help: "Diese Tasten zeigen", tab: "Nächstes Bedienelement", arrows: "In Menüs, Reitern und Listen", escape: "Schließen, was offen ist",
  },
  ledger: {
    title: "Redundanz", unreadable: "Jetzt nicht lesbar", unwritable: "Jetzt nur lesbar",
    about: (reads) => `Wie viele Laufwerke jeder Platzierungsgruppe noch ausfallen dürfen, sodass sie weiter Daten annimmt. Lesen lassen sie sich, solange höchstens ${reads} ${s(reads, "Laufwerk", "Laufwerke")} der Gruppe ${s(reads, "fehlt", "fehlen")}.`,
    canLose: (n) => (n === 0 ? "Kein weiteres Laufwerk" : `${n} ${s(n, "weiteres Laufwerk", "weitere Laufwerke")}`),
  },
  objectLock: {
    title: "Schutz", none: "Keine Objektsperre", noneText: "Dieser Bucket wurde ohne Objektsperre angelegt, deshalb lassen sich seine Versionen nicht schützen.", about: "Bis zum Ende lässt sich die aktuelle Version nicht löschen. Neuere Versionen lassen sich weiterhin schreiben.",
    hold: "Rechtliche Sperre (Legal Hold)", holdHint: "Schützt, bis jemand sie aufhebt.", retention: "Aufbewahrung", lastDay: "Letzter Tag", lastDayHint: "Bis zum Ende dieses Tages (UTC).", noRetention: "Keine Aufbewahrung.", past: "Wählen Sie einen Tag in der Zukunft.", onlyLonger: "Im Modus Compliance lässt sie sich nur verlängern.", forGood: "Niemand kann das verkürzen, auch Root nicht.", bypass: "Trotz Governance verkürzen",
    until: (mode, when) => `${mode} bis ${when}`, over: (when) => `Beendet ${when}`,
  },
  accessLog: {
    title: "Zugriffsprotokoll", about: "Eine Zeile für jede Anfrage an diesen Bucket, im Format von AWS, alle paar Minuten als Objekte in einem Bucket abgelegt. Zeilen können verloren gehen; das Audit-Protokoll verliert nichts.", none: "Kein Zugriffsprotokoll.", target: "In diesem Bucket ablegen", prefix: "Schlüssel beginnen mit", prefixHint: "Leer: nichts davor.", stop: "Protokoll beenden", targetFirst: "Geben Sie einen Bucket ein.",
    goesTo: (bucket, prefix) => `Geht nach ${bucket}/${prefix}`,
  },
  config: {
    about: "Ereignisziele und Identitätsanbieter, mit der Bedeutung jeder Einstellung. Der Server probiert eine Änderung aus, bevor er sie behält.", restart: "Eine Änderung gilt sofort, auf allen Knoten, ohne Neustart. Nur was der Server beim Start erfährt, braucht einen: Adressen, Laufwerke, Zertifikate, Roots Zugangsdaten, das Audit-Protokoll, die Quelle der Verschlüsselungsschlüssel (docs/operating.md).", history: "Wer was geändert hat",
    export: "Exportieren", import: "Importieren…", filter: "Einstellung suchen", events: "Ereignisziele", identity: "Identitätsanbieter", others: "Andere", add: "Ziel hinzufügen", configure: "Einrichten", only: "Das einzige", fromEnvironment: "Aus der Umgebung", environmentStays: "Es ist durch die Umgebung des Servers gesetzt; ändern Sie es dort.", empty: "leer", apply: "Prüfen und anwenden", applied: "Die Einstellungen gelten jetzt.",
    nameHint: "Buchstaben, Ziffern, Punkte, Bindestriche und Unterstriche; der Name wird Teil der ARN, die Buckets nennen.", badName: "Verwenden Sie Buchstaben, Ziffern, Punkte, Bindestriche und Unterstriche.", nameTaken: "Ein Ziel dieses Namens gibt es schon.", enableHint: "Aus behält die Einstellungen, ohne sie zu benutzen.", changes: "Was sich ändert", importTitle: "Einstellungen importieren", importText: "Einstellungen, die die Datei nicht nennt, bleiben. Verborgene Geheimnisse bleiben, wie sie sind. Jede Zeile wird für sich geprüft und angewendet.", unknown: "Hier unbekannt",
    removeText: "Buckets, die dieses Ziel nennen, senden ihm keine Ereignisse mehr; was darauf wartet, geht verloren.", noMatch: (text) => `Keine Einstellung hat „${text}“ in ihrem Namen oder ihrer Beschreibung.`, changed: (when) => `geändert ${when}`, addTitle: (name) => `Zu ${name} hinzufügen`, removeTitle: (name) => `Die Einstellungen von ${name} löschen?`, withoutEffect: (n) => `${n} weitere ohne Wirkung hier`,
    applyAll: (n) => `${n} ${s(n, "Änderung", "Änderungen")} anwenden`, appliedSome: (n, failed) => `${n} angewendet, ${failed} abgelehnt.`, badFile: (line) => (line ? `Die Zeile von „${line}“ wird nicht verstanden.` : "Ein Anführungszeichen ist nicht geschlossen."),
  },
  audit: {
    about: "Wer was wann von wo getan hat, und welche Richtlinie entschied. Die neuesten Anfragen stehen oben.", none: "Kein Eintrag erfüllt die Bedingungen", noneText: "Lassen Sie eine Bedingung weg, oder suchen Sie in einem längeren Zeitraum.", noneAtAll: "Ohne Audit-Protokoll werden nur abgewiesene Anfragen behalten, und es wurde noch keine abgewiesen. Starten Sie den Server mit --audit-file, um alles aufzuzeichnen.",
    end: "das ist alles", stop: "Suche anhalten", more: "Mehr zeigen", save: "Als JSON speichern", moreFields: "Mehr Bedingungen", fewer: "Weniger Bedingungen", clear: "Zurücksetzen", command: "Dieselbe Suche in einem Terminal:", when: "Eingegangen", took: "Dauer", anonymous: "ohne Konto", unknown: "unbekannt",
    fields: { range: "Zeit", since: "Von", until: "Bis", status: "Antwort", user: "Benutzer", bucket: "Bucket", prefix: "Schlüssel beginnt mit", operation: "Operation", api: "Schnittstelle", source: "Adresse oder Netz", access_key: "Zugriffsschlüssel", error: "Fehlercode", request_id: "Anfrage-ID" },
    ranges: { all: "Jederzeit", "1h": "Letzte Stunde", "24h": "Letzte 24 Stunden", "7d": "Letzte 7 Tage", "30d": "Letzte 30 Tage", own: "Zeitraum…" }, apis: { all: "Alle", s3: "S3", sts: "Anmeldung (STS)", admin: "Verwaltung" },
    statuses: { all: "Jede Antwort", "400-599": "Alle Fehler (4xx, 5xx)", "2xx": "Erfolgreich (2xx)", "3xx": "Unverändert, verschoben (3xx)", "403": "Nicht erlaubt (403)", "4xx": "Abgewiesen (4xx)", "5xx": "Fehlgeschlagen (5xx)" },
    shown: (n, text) => `${text} ${s(n, "Eintrag", "Einträge")}`, back: (when) => `gesucht bis ${when}`, allOf: (what) => `Alle Anfragen von ${what}`,
    silent: (why) => `Manche Knoten antworten nicht, ihre Einträge fehlen hier: ${why}`, refusalsOnly: (names) => `${names}: keine Audit-Datei, deshalb werden nur die letzten abgewiesenen Anfragen behalten, bis zum nächsten Start. Mit --audit-file zeichnen Sie alle Anfragen auf (docs/audit.md).`,
  },
  removal: {
    rule: { title: "Diese Regel entfernen?", text: "Was sie noch entfernt hätte, bleibt.", action: "Regel entfernen" },
    corsRule: { title: "Diese Regel entfernen?", text: "Webseiten, die nur diese Regel erlaubt, können den Bucket nicht mehr benutzen.", action: "Regel entfernen" },
    eventRule: { title: "Diese Regel entfernen?", text: "Das Ziel erhält diese Ereignisse nicht mehr.", action: "Regel entfernen" },
    policy: { title: "Die Richtlinie entfernen?", text: "Wer den Bucket nur wegen dieser Richtlinie benutzen darf, darf es dann nicht mehr.", action: "Richtlinie entfernen" },
    quota: { title: "Das Kontingent entfernen?", text: "Der Bucket kann dann wachsen, bis die Laufwerke voll sind.", action: "Kontingent entfernen" },
    log: { title: "Zugriffsprotokoll beenden?", text: "Anfragen werden nicht mehr protokolliert. Was abgelegt wurde, bleibt.", action: "Protokoll beenden" },
  },
  commands: {
    show: "Befehl zeigen", about: "Was Sie geändert haben, seit diese Seite geöffnet wurde, als Befehle, die es wieder tun. Es wird vergessen, wenn Sie sich abmelden oder die Seite schließen.", none: "Noch ist nichts geändert", noneText: "Was Sie in dieser Konsole ändern, steht hier als Befehl für ein Terminal.",
    secrets: "Geheimnisse und Werte, die eines sein können, stehen hier nicht: Setzen Sie sie ein, wo „…“, SECRET-KEY oder FILE steht. „it“ ist ein Alias (ashlar alias set); curl nimmt die Zugangsdaten aus der Umgebung.",
  },
  reach: {
    title: "Wer diesen Bucket erreicht", about: "Was der Server jetzt auf Anfragen jedes Benutzers und von jemandem ohne Konto antworten würde, von Ihrer Netzadresse aus. Jede Antwort führt zu den Anweisungen, die sie entscheiden.",
    key: "Für ein Objekt mit diesem Schlüssel", keyHint: "Richtlinien können nur manche Schlüssel erlauben.", keyFirst: "Geben Sie einen Schlüssel ein.", ask: "Prüfen", who: "Wer", everybody: "Jeder, ohne Konto", yes: "ja", no: "nein", more: "Weitere Benutzer prüfen", disabled: (n) => `${n} deaktiviert, die nichts erreichen`,
    may: { list: "Auflisten", read: "Lesen", write: "Schreiben", remove: "Löschen", rule: "Richtlinie ändern" },
    limits: "Root darf alles. Nicht erfasst: Personen von Identitätsanbietern, Zugriffsschlüssel und Sitzungen mit eigener Richtlinie, geteilte Links, Zugriffslisten (ACL) und Bedingungen an andere Adressen, Zeiten oder Header. Eine Gruppe ist durch ihre Mitglieder erfasst.",
  },
  why: {
    about: "Finden Sie heraus, warum eine Anfrage abgewiesen wurde, oder ob eine abgewiesen würde.", byRequest: "Eine Anfrage, die gesendet wurde", requestHint: "Jede Antwort nennt sie im Header x-amz-request-id. Die letzten Abweisungen bleiben auch ohne Audit-Log bekannt.", idFirst: "Geben Sie zuerst die ID ein.", explain: "Erklären", simulate: "Eine Anfrage, die jemand senden könnte",
    who: "Benutzer oder Zugriffsschlüssel", whoHint: "Leer: jemand ohne Konto.", action: "Aktion", resource: "Bucket oder Objekt", allowed: "Erlaubt", denied: "Verweigert", noStatements: "Keine zugewiesene Anweisung betrifft diese Aktion, also ist sie nicht erlaubt.", applies: "Trifft zu", statement: (n) => `Anweisung ${n}`, doesNot: (why) => `Trifft nicht zu: ${why}`,
    fields: { ip: "Von", user: "Benutzer", access_key: "Zugriffsschlüssel", bucket: "Bucket", key: "Schlüssel", action: "Aktion", decision: "Entscheidung", policy: "Richtlinie", statement: "Anweisung", why: "Grund", error: "Fehler", user_agent: "Programm", account: "Konto", sid: "Anweisungs-ID", by: "Entschieden durch", node: "Knoten", version: "Version", api: "Schnittstelle", decided_by: "Entscheidung", headers: "Kopfzeilen", kind: "Art des Kontos", tls: "TLS", parent: "Gehört zu", provider: "Identitätsanbieter", query: "Abfrage", cut: "Abgebrochen" },
  },
};
