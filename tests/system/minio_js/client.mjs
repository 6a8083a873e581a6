// What tests/system/test_minio_js.py runs: minio-js. Each check prints a line; the first that fails ends it.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import http from 'node:http';
import https from 'node:https';
import * as Minio from 'minio';

const [endpoint, accessKey, secretKey, bucket] = process.argv.slice(2);
const at = new URL(endpoint);

function check(holds, what) {
  if (!holds) throw new Error(`does not hold: ${what}`);
  console.log(`ok ${what}`);
}

async function collect(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

const options = { endPoint: at.hostname, port: Number(at.port), useSSL: at.protocol === 'https:', accessKey, secretKey, region: 'eu-north-1' };
// The certificate is the test's own.
if (options.useSSL) options.transportAgent = new https.Agent({ rejectUnauthorized: false });
const client = new Minio.Client(options);
await client.makeBucket(bucket, 'eu-north-1');
const read = async (key, how) => Buffer.concat(await collect(await client.getObject(bucket, key, how)));

// Small, in parts, from a file.
const small = randomBytes(1000);
const big = randomBytes(12 << 20);
await client.putObject(bucket, 'small', small, small.length, { 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip', 'X-Amz-Meta-Team': 'red' });
check(small.equals(await read('small')), 'a small object');
const stat = await client.statObject(bucket, 'small');
check(stat.metaData.team === 'red' && stat.metaData['content-encoding'] === 'gzip', 'metadata');
client.partSize = 5 << 20;
await client.putObject(bucket, 'big', big, big.length);
check(big.equals(await read('big')), 'an object in parts');
const folder = mkdtempSync(join(tmpdir(), 'minio-js-'));
writeFileSync(join(folder, 'there'), big);
await client.fPutObject(bucket, 'file', join(folder, 'there'));
await client.fGetObject(bucket, 'file', join(folder, 'back'));
check(big.equals(readFileSync(join(folder, 'back'))), 'a file there and back');
rmSync(folder, { recursive: true });

// Encryption: by the bucket's default, then by the request.
await client.setBucketEncryption(bucket, { Rule: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }] });
await client.putObject(bucket, 'sealed', big, big.length);
check(big.equals(await read('sealed')), 'encrypted by default, in parts');
await client.removeBucketEncryption(bucket);
await client.putObject(bucket, 'asked', small, small.length, { 'X-Amz-Server-Side-Encryption': 'AES256' });
check(small.equals(await read('asked')), 'encrypted by the request');

// Copies, presigned URLs, lists.
await client.copyObject(bucket, 'copy', `/${bucket}/big`);
check(big.equals(await read('copy')), 'a copy');
const seen = await collect(client.listObjectsV2(bucket, '', true));
check(seen.length === 6 && seen.some((o) => o.name === 'copy' && o.size === big.length), 'a list');
const carried = await collect(client.extensions.listObjectsV2WithMetadata(bucket, 'small', true));
check(JSON.stringify(carried[0].metadata).includes('red'), 'a list with metadata');
const url = new URL(await client.presignedGetObject(bucket, 'big', 60));
const fetched = await new Promise((done, failed) => {
  const get = url.protocol === 'https:' ? https.get : http.get;
  get(url, { agent: options.transportAgent }, (answer) => collect(answer).then((p) => done(Buffer.concat(p)), failed)).on('error', failed);
});
check(big.equals(fetched), 'a presigned URL');

// Notifications: what is put is put until the listener is told of it.
const poller = client.listenBucketNotification(bucket, 'told/', '', ['s3:ObjectCreated:*']);
const told = new Promise((done, failed) => {
  poller.on('notification', (record) => done(record.s3.object.key));
  poller.on('error', failed);
});
let key;
told.then((k) => (key = k));
for (let i = 0; i < 600 && !key; i++) {
  await client.putObject(bucket, 'told/key', 'x');
  await Promise.race([told, new Promise((done) => setTimeout(done, 100))]);
}
poller.stop();
check(decodeURIComponent(key) === 'told/key', 'a notification');

// What is refused has its code.
const code = await client.getObject(bucket, 'nothing').then(() => '', (e) => e.code);
check(code === 'NoSuchKey', 'NoSuchKey');
await client.removeObjects(bucket, [...seen.map((o) => o.name), 'told/key']);
await client.removeBucket(bucket);
check(!(await client.bucketExists(bucket)), 'many are deleted at once, and the bucket');
process.exit(0);
