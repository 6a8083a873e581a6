// Makes src/api/schema.ts from the OpenAPI document of the administration API:
//
//   ashlar admin api-document | npm run api            writes the file
//   ashlar admin api-document | npm run api -- --check fails if the file differs
//
// Only successful answers are typed: every error is a `Problem`, which the client handles in one place.
import { readFileSync, writeFileSync } from "node:fs";
import { text as all } from "node:stream/consumers";
import openapiTS, { astToString } from "openapi-typescript";

const file = new URL("../src/api/schema.ts", import.meta.url);
const document = JSON.parse(await all(process.stdin));
for (const item of Object.values(document.paths)) {
  for (const operation of Object.values(item)) {
    for (const status of Object.keys(operation.responses)) {
      if (!status.startsWith("2")) delete operation.responses[status];
      else delete operation.responses[status].headers;
    }
  }
}
const head = "// Made by `npm run api` from the server's OpenAPI document: do not edit.\n";
const text = head + astToString(await openapiTS(document, { emptyObjectsUnknown: true }));
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") !== text) {
    console.error("src/api/schema.ts is not what the server describes: run `ashlar admin api-document | npm run api`");
    process.exit(1);
  }
} else {
  writeFileSync(file, text);
}
