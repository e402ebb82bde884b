//! Documents with half characters, compared with JavaScript's strings.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use turnstream_json::{Piece, Seam, from_slice, from_str, has_lone_half};

const SEED: u64 = 0xD83D_DE00;

/// A JavaScript string: UTF-16 units, including halves.
type Units = Vec<u16>;

fn units() -> impl Strategy<Value = Units> {
    let unit = prop_oneof![
        3 => prop::sample::select(vec![0xD83D_u16, 0xDE00, 0xD800, 0xDBFF, 0xDC00, 0xDFFF]),
        3 => prop::sample::select(vec![b'a', b'"', b'\\', b'/', b'u', b'd', b'\n', b'\t', 1]).prop_map(u16::from),
        1 => prop::sample::select(vec![0xFC_u16, 0xFFFD, 0xE000, 0xD7FF, 0x2028]),
        1 => any::<u16>(),
    ];
    prop::collection::vec(unit, 0..12)
}

/// The string in JSON, as `JSON.stringify` writes it or with more escapes.
fn quoted(units: &[u16], escapes: &[bool]) -> String {
    let mut json = String::from("\"");
    let mut escaped = escapes.iter().copied().cycle();
    for decoded in char::decode_utf16(units.iter().copied()) {
        let (escape, upper) = (escaped.next().unwrap_or(true), escaped.next().unwrap_or(true));
        match decoded {
            Ok(character) if !escape && character >= ' ' && !['"', '\\'].contains(&character) => {
                json.push(character)
            }
            Ok('\\') if escape => json.push_str(r"\\"),
            Ok('\n') if escape => json.push_str(r"\n"),
            Ok(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    json.push_str(&hex(*unit, upper));
                }
            }
            Err(half) => json.push_str(&hex(half.unpaired_surrogate(), upper)),
        }
    }
    json + "\""
}

fn hex(unit: u16, upper: bool) -> String {
    if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") }
}

fn lossy(units: &[u16]) -> String {
    String::from_utf16_lossy(units)
}

#[derive(Clone, Debug)]
enum Tree {
    Text(Units),
    Other(Value),
    List(Vec<Tree>),
    Object(Vec<(Units, Tree)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let others =
        vec![json!(null), json!(true), json!(-1), json!(1.5e300), json!(u64::MAX), json!([]), json!({})];
    let leaf = prop_oneof![3 => units().prop_map(Tree::Text), 1 => prop::sample::select(others).prop_map(Tree::Other)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
            prop::collection::vec((units(), inner), 0..4).prop_map(Tree::Object),
        ]
    })
}

fn written(tree: &Tree, escapes: &[bool]) -> String {
    match tree {
        Tree::Text(units) => quoted(units, escapes),
        Tree::Other(value) => value.to_string(),
        Tree::List(list) => {
            let list: Vec<String> = list.iter().map(|entry| written(entry, escapes)).collect();
            format!("[ {} ]", list.join(" ,\n"))
        }
        Tree::Object(members) => {
            let member = |(name, value): &(Units, Tree)| {
                format!("{}\t: {}", quoted(name, escapes), written(value, escapes))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
    }
}

fn meant(tree: &Tree) -> Value {
    match tree {
        Tree::Text(units) => Value::String(lossy(units)),
        Tree::Other(value) => value.clone(),
        Tree::List(list) => list.iter().map(meant).collect(),
        Tree::Object(members) => Value::Object(
            members.iter().map(|(name, value)| (lossy(name), meant(value))).collect::<Map<_, _>>(),
        ),
    }
}

/// Fragments of JSON that make halves and invalid documents.
fn rubble() -> impl Strategy<Value = String> {
    let bits = [
        "\"",
        "\\",
        "\\\\",
        "\\u",
        "\\ud83d",
        "\\uDE00",
        "d83d",
        "\\n",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "1",
        "true",
        "a",
        "\"a\"",
        "\"\\ud83d\"",
        " ",
        "\n",
        "\u{1}",
        "ü",
        "\"a\":",
        "-",
        "e9",
    ];
    prop::collection::vec(prop::sample::select(bits.to_vec()), 0..14).prop_map(|bits| bits.concat())
}

/// The document with `\ufffd` for each half, computed from strings instead of escapes.
fn repaired(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let unit = |text: &str| {
            let digits = text.strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
        };
        let text = &rest[at..];
        let length = match unit(text) {
            Some(high @ 0xD800..0xE000) => {
                let low = text.get(6..).and_then(unit);
                if high < 0xDC00 && low.is_some_and(|low| (0xDC00..0xE000).contains(&low)) {
                    out.push_str(&text[..12]);
                    12
                } else {
                    out.push_str("\\ufffd");
                    6
                }
            }
            Some(_) | None => {
                let length = text.chars().take(2).map(char::len_utf8).sum();
                out.push_str(&text[..length]);
                length
            }
        };
        rest = &text[length..];
    }
    out + rest
}

#[derive(Debug, Deserialize, PartialEq)]
struct Name(String);

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Plain,
    With(String),
    Both { one: String, two: u8 },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Tagged {
    Text {
        text: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Typed<'a> {
    name: Name,
    #[serde(borrow)]
    raw: &'a RawValue,
    kinds: Vec<Kind>,
    tagged: Tagged,
    map: HashMap<Name, Option<f64>>,
    none: Option<u8>,
    #[serde(borrow)]
    piece: Piece<'a>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl std::cmp::Eq for Name {}
impl std::hash::Hash for Name {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn every_shape_of_type_can_be_read_beside_a_half() {
    let json = r#" {"name": "\ud83d!", "raw": [ "\udE00" ,1 ], "kinds": ["plain", {"with": "\ud83d"}, {"both": {"one":"\\ud83d","two":2}}],
        "tagged": {"type":"text","text":"\ud83d\ude00\ude00"}, "map": {"\ud83d": 1.5, "b": null}, "none": null,
        "piece": "\ude00 and \ud83d", "more": {"deep": [["\ud83d\ud83d\ude00"]]}} "#;
    let typed: Typed<'_> = from_str(json).unwrap();
    assert_eq!(typed.name, Name("\u{FFFD}!".to_owned()));
    assert_eq!(typed.raw.get(), r#"[ "\udE00" ,1 ]"#, "what is kept as it came is as it came");
    let both = Kind::Both { one: "\\ud83d".to_owned(), two: 2 };
    assert_eq!(typed.kinds, [Kind::Plain, Kind::With("\u{FFFD}".to_owned()), both]);
    assert_eq!(typed.tagged, Tagged::Text { text: "\u{1F600}\u{FFFD}".to_owned() });
    assert_eq!(typed.map[&Name("\u{FFFD}".to_owned())], Some(1.5));
    assert_eq!((typed.map[&Name("b".to_owned())], typed.none), (None, None));
    assert_eq!((&*typed.piece, typed.piece.has_halves()), ("\u{FFFD} and \u{FFFD}", true));
    assert_eq!(Value::Object(typed.rest), json!({"more": {"deep": [["\u{FFFD}\u{1F600}"]]}}));
}

#[test]
fn what_is_wrong_besides_is_still_wrong() {
    let refused = |json: &str| from_str::<Typed<'_>>(json).unwrap_err().to_string();
    assert_eq!(refused(r#"{"name": "\ud83d"}"#), "missing field `raw`");
    assert_eq!(refused(r#"{"name": 1, "raw": "\ud83d"}"#), "invalid type: integer `1`, expected a string");
    for broken in [
        r#"{"a":"\ud83d""#,
        r#"["\ud83d",]"#,
        r#"["\ud83d"] 1"#,
        "[\"\\ud83d\n\"]",
        r#""\ud83""#,
        r#"\ud83d"#,
    ] {
        assert!(from_str::<Value>(broken).is_err(), "{broken}");
        assert!(from_slice::<Value>(broken.as_bytes()).is_err(), "{broken}");
    }
    let deep = format!("{}\"\\ud83d\"{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(from_str::<Value>(&deep).unwrap_err().to_string(), "too many levels");
    let shallow = format!("{}\"\\ud83d\"{}", "[".repeat(100), "]".repeat(100));
    assert!(from_str::<Value>(&shallow).is_ok());
    assert!(
        from_slice::<Value>(b"[\"\\ud83d\xED\xA0\xBD\"]").is_err(),
        "bytes that are no UTF-8 are no halves"
    );
}

#[test]
fn a_document_without_halves_is_borrowed_and_not_copied() {
    let json = r#"{"piece":"as it is"}"#;
    #[derive(Deserialize)]
    struct Only<'a> {
        #[serde(borrow)]
        piece: Piece<'a>,
    }
    let only: Only<'_> = from_str(json).unwrap();
    assert!(json.as_bytes().as_ptr_range().contains(&only.piece.as_ptr()));
    assert_eq!(size_of::<Piece<'_>>(), size_of::<std::borrow::Cow<'_, str>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::default() })]

    #[test]
    fn a_document_reads_as_it_does_in_javascript(tree in tree(), escapes in prop::collection::vec(any::<bool>(), 1..9)) {
        let json = written(&tree, &escapes);
        let wanted = meant(&tree);
        prop_assert_eq!(&from_str::<Value>(&json).unwrap(), &wanted);
        prop_assert_eq!(&from_slice::<Value>(json.as_bytes()).unwrap(), &wanted);
        prop_assert_eq!(has_lone_half(&json), serde_json::from_str::<Value>(&json).is_err());
    }

    #[test]
    fn pieces_make_the_text_that_they_were_cut_from(texts in prop::collection::vec(units(), 0..8), escapes in prop::collection::vec(any::<bool>(), 1..9)) {
        let mut seam = Seam::default();
        let mut text = String::new();
        for units in &texts {
            let json = quoted(units, &escapes);
            text.push_str(&seam.join(from_str::<Piece<'_>>(&json).unwrap()));
        }
        text.extend(seam.end());
        let whole = texts.concat();
        prop_assert_eq!(&text, &lossy(&whole));
        prop_assert_eq!(seam.has_lost(), String::from_utf16(&whole).is_err());
    }

    #[test]
    fn rubble_is_read_as_it_would_be_without_its_halves(json in rubble()) {
        let wanted = serde_json::from_str::<Value>(&repaired(&json)).ok();
        prop_assert_eq!(&from_str::<Value>(&json).ok(), &wanted, "{}", json);
        prop_assert_eq!(&from_slice::<Value>(json.as_bytes()).ok(), &wanted, "{}", json);
    }
}
