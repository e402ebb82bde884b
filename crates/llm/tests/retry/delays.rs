//! When a provider wants to be asked again, in all forms of row 41.

use serde_json::{Value, json};
use std::time::Duration;
use turnstream_llm::delay::{Headers, longest, read};
use turnstream_model::time::Time;

/// 2026-11-16T06:07:35Z.
const NOW: Time = Time(1_794_809_255_000);

fn of(headers: &[(&str, &str)], status: u16, body: Option<Value>) -> Option<Duration> {
    longest(&read(&Headers::new(headers.iter().copied()), Some(status), body.as_ref(), NOW))
}

#[test]
fn headers_in_all_their_forms() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    type RootCause<'a> = (&'a [(&'a str, &'a str)], Option<Duration>);
    let cases: &[RootCause<'_>] = &[
        (&[("retry-after", "55852")], seconds(55_852)),
        (&[("Retry-After", "1.5")], Some(Duration::from_millis(1500))),
        (&[("retry-after-ms", "1500")], Some(Duration::from_millis(1500))),
        (&[("retry-after", "Mon, 16 Nov 2026 06:08:35 GMT")], seconds(60)),
        // The provider's clock is an hour ahead, and both of its dates use that clock.
        (
            &[("retry-after", "Mon, 16 Nov 2026 07:08:35 GMT"), ("date", "Mon, 16 Nov 2026 07:07:35 GMT")],
            seconds(60),
        ),
        (&[("retry-after", "Mon, 16 Nov 2026 06:00:00 GMT")], seconds(0)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], seconds(360)),
        (&[("x-ratelimit-remaining-tokens", "17"), ("x-ratelimit-reset-tokens", "6m0s")], None),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-11-16T06:08:35Z"),
            ],
            seconds(60),
        ),
        (
            &[
                ("anthropic-ratelimit-unified-status", "rejected"),
                ("anthropic-ratelimit-unified-reset", "1794812855"),
            ],
            seconds(3600),
        ),
        (
            &[
                ("anthropic-ratelimit-unified-status", "allowed"),
                ("anthropic-ratelimit-unified-reset", "1794812855"),
            ],
            None,
        ),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794812855000")], seconds(3600)),
        // The same for times in other headers.
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-11-16T07:08:35Z"),
                ("date", "Mon, 16 Nov 2026 07:07:35 GMT"),
            ],
            seconds(60),
        ),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "-5")], None),
        (&[], None),
    ];
    for (headers, expected) in cases {
        assert_eq!(of(headers, 429, None), *expected, "{headers:?}");
    }
}

#[test]
fn bodies_in_all_their_forms() {
    let cases = [
        (
            json!({"error": {"details": [{"retryDelay": "45.837906927s"}]}}),
            Some(Duration::from_nanos(45_837_906_927)),
        ),
        (json!({"error": {"resets_in_seconds": 90}}), Some(Duration::from_secs(90))),
        (json!({"error": {"resets_at": 1_794_812_855}}), Some(Duration::from_secs(3600))),
        (json!({"error": {"retry_after_ms": 250}}), Some(Duration::from_millis(250))),
        (
            json!({"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1794812855000"}}}}),
            Some(Duration::from_secs(3600)),
        ),
        (
            json!({"error": {"message": "Rate limit reached. Please try again in 11.054s. Visit …"}}),
            Some(Duration::from_millis(11_054)),
        ),
        (json!({"error": {"message": "Please try again in 1m26.4s."}}), Some(Duration::from_millis(86_400))),
        (json!({"error": {"delay": 55_763_274}}), None),
        (json!({"error": {"message": "try again later"}}), None),
    ];
    for (body, expected) in cases {
        assert_eq!(of(&[], 429, Some(body.clone())), expected, "{body}");
    }
    let prose = json!({"error": {"message": "Please try again in 11.054s"}});
    assert_eq!(of(&[], 400, Some(prose)), None, "only the message of a 429 is read");
}

#[test]
fn the_longest_counts_and_what_cannot_be_is_left_out() {
    let body = json!({"error": {"message": "try again in 11s", "retry_after": 55_763_274}});
    assert_eq!(of(&[("retry-after", "7")], 429, Some(body)), Some(Duration::from_secs(11)));
    assert_eq!(of(&[("retry-after", "99999999")], 429, None), None);
    let twice = [("retry-after", "1"), ("retry-after", "60"), ("retry-after", "soon")];
    assert_eq!(of(&twice, 429, None), Some(Duration::from_secs(60)), "a proxy's and the provider's");
}

#[test]
fn numbers_that_are_no_length_of_time_are_left_out() {
    for odd in ["-1", "NaN", "inf", "1e400", "18446744073709551616", "", "0x10", "99999999999999999999999999"]
    {
        for name in ["retry-after", "retry-after-ms"] {
            assert_eq!(of(&[(name, odd)], 429, None), None, "{name}: {odd:?}");
        }
        let limit = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", odd)];
        assert_eq!(of(&limit, 429, None), None, "{odd:?}");
        for name in ["retry_after", "retry_after_ms", "resets_in_seconds", "resets_at", "retryDelay"] {
            assert_eq!(of(&[], 429, Some(json!({"error": {name: odd}}))), None, "{name}: {odd:?}");
        }
    }
    for number in [json!(-1), json!(-1e300), json!(1e300), json!(u64::MAX), json!(i64::MIN)] {
        for name in ["retry_after", "retry_after_ms", "resets_in_seconds", "resets_at", "X-RateLimit-Reset"] {
            let body = json!({"error": {name: number}});
            assert_eq!(of(&[], 429, Some(body.clone())), None, "{body}");
        }
    }
}
