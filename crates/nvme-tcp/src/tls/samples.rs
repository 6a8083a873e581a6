//! What clients of TLS send that this repository did not write, for the fuzzer and tests.
//!
//! Must not depend on: anything.

/// Bodies of `ClientHello` messages, in base 64.
pub(super) const OPENSSL: &str = "AwMEzcviMZXGgl0ppRjTt3E6SBczM2CvBI14RkA7TAgzAyCtWm7+OLPIF3/yKPqg9Q9yFSPyGZXJeRkEJ+1u7lk83AAEEwEA/wEAAREACwAEAwABAgAKABYAFAAdABcAHgAZABgBAAEBAQIBAwEEACMAAAAWAAAAFwAAAA0AHgAcBAMFAwYDCAcICAgJCAoICwgECAUIBgQBBQEGAQArAAMCAwQALQACAQEAMwAmACQAHQAghNd6EzNha9qe27/l4ze8MxDZlR0jzvmMjtyv3eidKlkAKQCGAGEAW05WTWUxUjAxIG5xbi5wc2stdGVzdC1ob3N0IG5xbi5wc2stdGVzdC1zdWJzeXMgaVNiamlTdHdKLzFUclR2RGx0MmZqRm16dnN5dE9KZWxpZE5uQStYNWxFVT0AAAAAACEgwiZ+k8kUATFLMZGEBGB7/FZSxIbJQdnQJ1JDb9IkLQo=";
pub(super) const GNUTLS: &str = "AwOSzvn/rD6OqWEoF3djr/TPbe+jS1fNje4fVIePxlIqbiCxl2qabkjThSdl8RuY7vbm+5m34EuDdc1cNBLgWLYRJgBOEwITAxMBEwTALMypwK3ACsArwKzACcAwzKjAFMAvwBMAncCdADUAnMCcAC8An8yqwJ8AOQCewJ4AM8yswDbANQCpzKvApQCNAKjApACMAQABFgAFAAUBAAAAAAAKAAQAAgAdAAsAAgEAAA0AIgAgBAEICQgEBAMIBwUBCAoIBQUDCAgGAQgLCAYGAwIBAgMAFgAAABcAAAAjAAAAMwAmACQAHQAgB3vLHKLU0F3tm9QbB3JGiv3WSFerrVxZXZlJ2pkCGE4AKwADAgME/wEAAQAALQADAgEAABwAAkABACkAhgBhAFtOVk1lMVIwMSBucW4ucHNrLXRlc3QtaG9zdCBucW4ucHNrLXRlc3Qtc3Vic3lzIDY2R3VxVjA4VHNBR0lJMzl0ZVdVZndRd2l6anYwNkp5OGpPY1gzTkFBek09AAAAAAAhIOELMz6V+3lP4grPgeC+gJEB8gbV3QHVCKHsPkAHco8w";
/// The first of these keys is that of both messages, for the names [`HOST`] and [`SUBSYSTEM`]: derived as RFC 8446 has it in that of OpenSSL
/// 3.0, and as libnvme 1.13 does in that of GnuTLS 3.7.
pub(super) const KEY_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
pub(super) const KEY_384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
pub(super) const HOST: &str = "nqn.psk-test-host";
pub(super) const SUBSYSTEM: &str = "nqn.psk-test-subsys";
