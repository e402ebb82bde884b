//! The interface at work.

use turnstream_redact::{Held, Pattern, Rules, Stream};

fn token() -> String {
    format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5")
}

#[test]
fn a_token_is_replaced_in_any_cut() {
    let rules = Rules::standard();
    let text = format!("before {} after", token());
    assert_eq!(rules.redact(&text), "before [redacted:github] after");
    for cut in 0..=text.len() {
        let (mut stream, mut out) = (Stream::new(&rules), String::new());
        stream.push(&text[..cut], &mut out);
        stream.push(&text[cut..], &mut out);
        stream.settle(&mut out);
        assert_eq!(out, "before [redacted:github] after", "cut at {cut}");
        assert_eq!(stream.holds(), Held::Nothing);
    }
}

#[test]
fn literals_and_patterns_are_found_and_bad_ones_refused() {
    let rules = Rules::builder().literal("vault", "correct horse battery").unwrap();
    let pattern = Pattern { name: "badge".into(), regex: "B-[0-9]{4}".into(), prefix: None };
    let rules = rules.pattern(pattern).unwrap().build();
    assert_eq!(rules.redact("a correct horse battery, B-1234."), "a [redacted:vault], [redacted:badge].");
    assert!(Rules::builder().literal("short", "1234567").is_err());
    assert!(
        Rules::builder().pattern(Pattern { name: "all".into(), regex: "x*".into(), prefix: None }).is_err()
    );
}
