//! The interface at work.

use turnstream_redact::{Held, Pattern, Rules, Stream, kinds};

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

/// The list in the page about privacy is made from the rules. `TURNSTREAM_UPDATE=1` writes it anew.
#[test]
fn the_page_about_privacy_lists_every_kind_there_is() {
    const BEGIN: &str = "<!-- kinds: made from the rules by crates/redact/tests/interface.rs -->\n";
    const END: &str = "<!-- end of kinds -->\n";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/privacy.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let lines: Vec<String> = kinds().chunks(8).map(|row| row.join(" ")).collect();
    let made = format!("```text\n{}\n```\n", lines.join("\n"));
    if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(listed, made, "TURNSTREAM_UPDATE=1 writes it anew");
    // Every one of them can be left alone by its name.
    for kind in kinds() {
        assert!(Rules::builder().without(kind).is_ok(), "{kind}");
    }
}
