// Where clients other than this page reach the server.

/** The address at which clients reach S3, as far as the browser can tell. */
export function endpointOf(s3Port: number | null | undefined): string {
  const { protocol, hostname, host } = location;
  return s3Port ? `${protocol}//${hostname}:${s3Port}` : `${protocol}//${host}`;
}
