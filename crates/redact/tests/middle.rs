//! Texts of which the beginning is not known.

mod support;

use support::{BASE64, Sample, leaks, random, samples};
use turnstream_redact::{Held, Rules, Stream};

fn from_the_middle<'a>(rules: &Rules, pieces: impl IntoIterator<Item = &'a str>) -> String {
    let (mut stream, mut out) = (Stream::in_the_middle(rules), String::new());
    for piece in pieces {
        stream.push(piece, &mut out);
    }
    stream.finish(&mut out);
    out
}

#[test]
fn the_rest_of_a_token_is_no_text() {
    let rules = Rules::standard();
    let long = |sample: &Sample| {
        !matches!(sample.kind, "password" | "private_key" | "url_password") && sample.secret.len() > 30
    };
    let (mut cuts, mut missed) = (0, Vec::new());
    for sample in (0..4).flat_map(samples).filter(long) {
        let text = sample.text();
        for cut in sample.before.len() + 1..sample.before.len() + sample.secret.len() - 24 {
            let out = from_the_middle(&rules, [&text[cut..]]);
            cuts += 1;
            if leaks(&sample, &out).is_some() {
                missed.push(format!("{:?} became {out:?}", &text[cut..]));
            }
        }
    }
    println!("{} of {cuts} missed", missed.len());
    assert!(
        missed.len() * 500 < cuts,
        "{} of {cuts} missed, such as {:#?}",
        missed.len(),
        &missed[..missed.len().min(8)]
    );
}

#[test]
fn lines_of_a_key_are_known_without_their_begin_line() {
    let rules = Rules::standard();
    let rng = &mut fastrand::Rng::with_seed(7);
    for newline in ["\n", "\r\n", "\\n"] {
        let lines: Vec<String> = [64, 64, 64, 64, 22].map(|length| random(rng, BASE64, length)).into();
        let key = format!("{}{newline}-----END RSA PRIVATE KEY-----\nafter", lines.join(newline));
        for cut in 0..150 {
            let text = &key[cut..];
            let whole = from_the_middle(&rules, [text]);
            let redacted = whole.trim_start_matches(['\r', '\n', '\\', 'n']);
            assert_eq!(redacted, "[redacted:fragment]\nafter", "{text:?}");
            let chars: Vec<String> = text.chars().map(String::from).collect();
            assert_eq!(from_the_middle(&rules, chars.iter().map(String::as_str)), whole);
        }
    }
}

#[test]
fn ordinary_beginnings_stay_what_they_are() {
    let rules = Rules::standard();
    for text in [
        "lo world, how are you",
        "fn main() { println!(\"x\"); }",
        "ocalhost:8080/index.html is up",
        "turnstream_redact::Stream::in_the_middle(&rules)",
        "/usr/share/doc/readme.txt",
        "AndroidManifestMergerTask ran",
        "\nnext line",
        "",
        "ok",
    ] {
        assert_eq!(from_the_middle(&rules, [text]), text);
        let chars: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(from_the_middle(&rules, chars.iter().map(String::as_str)), text);
    }
}

#[test]
fn a_first_word_is_given_out_by_time_and_a_random_run_is_not() {
    let rules = Rules::standard();
    let (mut stream, mut out) = (Stream::in_the_middle(&rules), String::new());
    stream.push("ing", &mut out);
    assert_eq!((stream.holds(), &out[..]), (Held::Brief, ""));
    stream.release(&mut out);
    assert_eq!((stream.holds(), &out[..]), (Held::Nothing, "ing"));

    let (mut stream, mut out) = (Stream::in_the_middle(&rules), String::new());
    stream.push("x7Kq9Zt2", &mut out);
    stream.release(&mut out);
    assert_eq!((stream.holds(), &out[..]), (Held::Firm, ""));
    stream.push("Lm4Wp8 then", &mut out);
    assert_eq!(out, "[redacted:fragment] then");
}
