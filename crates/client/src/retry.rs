//! Retries: whether a request is sent again, and after which delay.
//!
//! Invariant: pure functions of the error, the attempt and a random number.
//!
//! Must not depend on: clocks, connections.

use std::time::Duration;

use http::StatusCode;

use crate::{call::Repeat, error::Error};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Whether sending the request again can help and is safe.
pub(crate) fn worth_it(error: &Error, repeat: Repeat) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        Error::Broken { .. } | Error::Timeout { .. } => repeat == Repeat::Harmless,
        Error::Service(service) => {
            // These codes mean that the server refused the request before it took effect.
            let turned_away = matches!(
                service.code.as_str(),
                "SlowDown"
                    | "ServiceUnavailable"
                    | "Busy"
                    | "TooManyRequests"
                    | "SlowDownRead"
                    | "SlowDownWrite"
            ) || service.status == StatusCode::TOO_MANY_REQUESTS;
            let failed = matches!(service.status.as_u16(), 500 | 502 | 503 | 504)
                || matches!(service.code.as_str(), "RequestTimeout" | "InternalError");
            turned_away || failed && repeat == Repeat::Harmless
        }
        _ => false,
    }
}

/// The delay before attempt `attempt + 1` (the first is 1): exponential with full jitter, at least what the
/// server requires, at most ten seconds.
pub(crate) fn pause(attempt: u32, random: u64, error: &Error) -> Duration {
    let ceiling = FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST);
    let jitter = ceiling.mul_f64(random as f64 / u64::MAX as f64);
    let asked = error.service().and_then(|e| e.retry_after).map_or(Duration::ZERO, Duration::from_secs);
    jitter.max(asked).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServiceError;

    fn service(status: u16, code: &str) -> Error {
        Error::Service(Box::new(ServiceError {
            status: StatusCode::from_u16(status).unwrap(),
            code: code.into(),
            message: String::new(),
            request_id: String::new(),
            resource: String::new(),
            region: None,
            retry_after: Some(3),
        }))
    }

    #[test]
    fn only_safe_requests_are_retried() {
        let broken = Error::Broken { endpoint: String::new(), reason: String::new() };
        assert!(worth_it(&broken, Repeat::Harmless));
        assert!(!worth_it(&broken, Repeat::OnlyIfRefused));
        assert!(worth_it(&service(503, "SlowDown"), Repeat::OnlyIfRefused));
        assert!(!worth_it(&service(500, "InternalError"), Repeat::OnlyIfRefused));
        assert!(worth_it(&service(500, "InternalError"), Repeat::Harmless));
        for (status, code) in
            [(404, "NoSuchKey"), (403, "AccessDenied"), (412, "PreconditionFailed"), (501, "NotImplemented")]
        {
            assert!(!worth_it(&service(status, code), Repeat::Harmless));
        }
    }

    #[test]
    fn retry_delay_is_bounded_and_respects_retry_after() {
        let broken = Error::Broken { endpoint: String::new(), reason: String::new() };
        assert_eq!(pause(1, u64::MAX, &broken), FIRST);
        assert_eq!(pause(3, u64::MAX / 2, &broken), Duration::from_millis(200));
        assert_eq!(pause(u32::MAX, u64::MAX, &broken), LONGEST);
        assert_eq!(pause(1, 0, &service(503, "SlowDown")), Duration::from_secs(3));
    }
}
