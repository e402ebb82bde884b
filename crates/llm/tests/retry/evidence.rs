//! The bytes of a broken answer that may be stored.

use proptest::prelude::*;
use turnstream_fake_provider::{
    Asked, Chunk, Completion, Fault, Identity, Part, Pieces, Step, WireFormat, render,
};
use turnstream_llm::evidence::{Kind, Recorder};
use turnstream_redact::Rules;

fn body(format: WireFormat, step: &Step) -> Vec<u8> {
    let asked = Asked { model: "m".to_owned(), stream: true, ..Asked::default() };
    let answer = render(format, step, &Identity { serial: 1, created: 1, asked }).unwrap();
    let bytes = answer.chunks.into_iter().flat_map(|chunk| match chunk {
        Chunk::Write { bytes, .. } => bytes,
        Chunk::Stall(_) => Vec::new(),
    });
    bytes.collect()
}

fn kept(bytes: &[u8], kind: Kind) -> String {
    let mut recorder = Recorder::default();
    for piece in bytes.chunks(1000) {
        recorder.add(piece);
    }
    let evidence = recorder.evidence(kind, &Rules::none());
    String::from_utf8_lossy(&[evidence.head, evidence.tail].concat()).into_owned()
}

/// A text in deltas of this many letters. None of them is a word of a wire format.
fn spoken() -> Completion {
    spoken_in(&["Zurich7 ", "Kartoffel", "salat99", " QQQQ", "kleinkram", "4929123"])
}

fn spoken_in(deltas: &[&str]) -> Completion {
    let deltas: Vec<String> = deltas.iter().copied().map(str::to_owned).collect();
    Completion::of([
        Part::Text { text: Pieces::Given(deltas.clone()) },
        Part::Reasoning { text: Pieces::Given(deltas) },
        Part::tool_call("edit", serde_json::json!({"Kartoffel": "salat99"})),
    ])
}

const SPOKEN: [&str; 6] = ["Zurich", "Kartof", "salat", "QQQ", "kleinkr", "49291"];

#[test]
fn structure_ids_and_ends_stay_and_text_becomes_its_length() {
    for format in WireFormat::ALL {
        let kept = kept(&body(format, &Step::new(spoken())), Kind::Stream);
        for text in SPOKEN {
            assert!(!kept.contains(text), "{format:?}: {text} is in {kept}");
        }
        assert!(kept.contains("<9>") && kept.contains("<7>"), "{kept}");
        assert!(kept.contains("\"name\":\"<4>#"), "names are told apart by a mark: {kept}");
        let end = match format {
            WireFormat::Chat => "\"finish_reason\":\"tool_calls\"",
            WireFormat::Responses => "\"type\":\"response.completed\"",
            WireFormat::Messages => "\"stop_reason\":\"tool_use\"",
        };
        assert!(kept.contains(end), "{format:?}: no {end} in {kept}");
    }
}

#[test]
fn a_glued_event_shows_both_halves_and_both_ids() {
    let whole = body(WireFormat::Chat, &Step::new(spoken()));
    let fourth = whole.windows(6).enumerate().filter(|(_, window)| window == b"data: ").nth(3).unwrap().0;
    let glue = Fault::Splice { after: fourth + 30, second: spoken() };
    let kept = kept(&body(WireFormat::Chat, &Step::new(spoken()).fault(glue)), Kind::Stream);
    let line = kept.lines().find(|line| line.matches("data:").count() == 2).expect("the glued line");
    assert_eq!(line.matches("\"id\":\"chatcmpl-").count(), 2, "{line}");
    for text in SPOKEN {
        assert!(!kept.contains(text), "{text} is in {kept}");
    }
}

#[test]
fn the_beginning_and_the_end_of_a_long_body_are_kept() {
    let mut recorder = Recorder::default();
    for _ in 0..10_000 {
        recorder.add(b": OPENROUTER PROCESSING\n");
    }
    recorder.add(b": keepalive\n");
    let evidence = recorder.evidence(Kind::Stream, &Rules::none());
    assert!(evidence.head.starts_with(b": OPENROUTER PROCESSING\n"));
    assert!(evidence.tail.ends_with(b": keepalive\n"));
    assert_eq!(evidence.omitted, 10_000 * 24 + 12 - 64 * 1024);
    assert!(evidence.len() <= 65 * 1024);
}

/// A page whose kept beginning ends after this many bytes of the secret, and whose kept end starts there.
fn page_cut_within(secret: &str, at: usize) -> Vec<u8> {
    const KEPT: usize = 32 * 1024;
    let mut page = b"<html>\n".to_vec();
    page.resize(KEPT - at, b' ');
    page.extend_from_slice(secret.as_bytes());
    page.resize(3 * KEPT, b' ');
    page.extend_from_slice(secret.as_bytes());
    page.resize(page.len() + KEPT - (secret.len() - at), b' ');
    page
}

#[test]
fn a_page_that_is_cut_within_a_secret_shows_no_piece_of_it() {
    let token = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
    let named = format!("API_KEY={}", "MssvAteINfPa541ugm5qTz8Wk3Lx9R");
    for (secret, from) in [(&token, 0), (&named, "API_KEY=".len())] {
        for at in 0..=secret.len() {
            let mut recorder = Recorder::default();
            recorder.add(&page_cut_within(secret, at));
            let evidence = recorder.evidence(Kind::Document, &Rules::standard());
            assert!(evidence.omitted > 0 && evidence.head.starts_with(b"<html>\n"));
            let kept = String::from_utf8([evidence.head, evidence.tail].join(&b'|')).unwrap();
            for piece in secret.as_bytes()[from..].windows(12) {
                let piece = std::str::from_utf8(piece).unwrap();
                assert!(!kept.contains(piece), "{piece} of {secret} cut at {at}");
            }
        }
    }
}

#[test]
fn the_end_of_a_torn_event_is_no_page_whatever_it_begins_with() {
    for torn in ["<b>Kartoffel\"}}]}\n\ndata: [DONE]\n\n", "Kartoffel\"}}]}", "<9> QQQQ\n\ndata: [DONE]\n\n"]
    {
        let kept = kept(torn.as_bytes(), Kind::Document);
        assert!(SPOKEN.iter().all(|text| !kept.contains(text)), "{kept}");
    }
}

#[test]
fn an_answer_that_holds_more_than_an_error_shows_no_text() {
    for glued in [
        serde_json::json!({"error": {"message": "Kartoffel"}, "choices": [{"text": "QQQQ"}]}),
        serde_json::json!({"error": {"message": {"role": "assistant", "content": "Kartoffel"}}}),
        serde_json::json!({"message": {"role": "assistant", "content": "Kartoffel"}}),
        serde_json::json!({"type": "message_start", "message": {"content": [{"text": "QQQQ"}]}}),
    ] {
        let kept = kept(glued.to_string().as_bytes(), Kind::Document);
        assert!(SPOKEN.iter().all(|text| !kept.contains(text)), "{kept}");
    }
}

#[test]
fn nothing_under_a_status_of_an_answer_passes_for_a_page() {
    for torn in ["<b>Kartoffel\"}}]}", "Kartoffel und QQQQ", "<html>salat99</html>"] {
        let kept = kept(torn.as_bytes(), Kind::Answer);
        assert!(SPOKEN.iter().all(|text| !kept.contains(text)), "{kept}");
    }
}

#[test]
fn a_page_and_an_error_stay_readable() {
    let page = b"<!DOCTYPE html>\n<title>502 Bad Gateway</title>\n";
    assert_eq!(kept(page, Kind::Document).as_bytes(), page);
    let error = body(
        WireFormat::Chat,
        &Step::new(turnstream_fake_provider::Refusal::new(500, "api_error", "It broke.")),
    );
    assert!(kept(&error, Kind::Document).contains("It broke."));
}

/// The bytes up to `at`, the inserted bytes, and the bytes from `cut` on.
fn assert_damage_shows_no_text(whole: &[u8], at: usize, put: &str, cut: usize) {
    let kept = kept(&[&whole[..at], put.as_bytes(), &whole[cut..]].concat(), Kind::Stream);
    for text in SPOKEN {
        assert!(!kept.contains(text), "at {at}, put {put:?}, cut {cut}: {text} is in {kept}");
    }
}

/// The values of a reported random run. They did not fail on the code before the repair; the test below did.
#[test]
fn the_damage_that_a_random_run_reported_shows_no_text() {
    let whole = body(WireFormat::ALL[2], &Step::new(spoken()));
    let (at, cut) =
        (whole.len() as f64 * 0.819_503_679_880_187_7, whole.len() as f64 * 0.313_697_813_857_079_23);
    assert_damage_shows_no_text(&whole, at as usize, "", cut as usize);
    let type_of_an_event = "\"type\":\"";
    let at = String::from_utf8_lossy(&whole).find(type_of_an_event).unwrap() + type_of_an_event.len();
    let cut = String::from_utf8_lossy(&whole).find("salat99").unwrap();
    assert_damage_shows_no_text(&whole, at, "", cut);
}

/// Every place of a body joined with the beginning of every delta, once per member. Lines are handled one
/// by one, so the joined line alone is enough.
#[test]
fn no_join_with_the_beginning_of_a_delta_brings_it_to_light() {
    for format in WireFormat::ALL {
        let whole = body(format, &Step::new(spoken()));
        let text = String::from_utf8_lossy(&whole);
        let deltas = SPOKEN.iter().flat_map(|delta| text.match_indices(delta).map(|(cut, _)| cut));
        for cut in deltas {
            let end = cut + text[cut..].find('\n').unwrap();
            for at in 0..whole.len() {
                let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
                let line = [&whole[start..at], &whole[cut..end]].concat();
                assert_damage_shows_no_text(&line, line.len(), "", line.len());
            }
        }
    }
}

proptest! {
    /// For any cut and any insertion, no text of a delta is stored.
    #[test]
    fn no_damage_brings_text_to_light(format in 0..3_usize, at in 0.0_f64..1.0, cut in 0.0_f64..1.0, put in "[\"{}:,\\\\\n ]{0,6}") {
        let whole = body(WireFormat::ALL[format], &Step::new(spoken()));
        let (at, cut) = ((whole.len() as f64 * at) as usize, (whole.len() as f64 * cut) as usize);
        assert_damage_shows_no_text(&whole, at, &put, cut);
    }
}

/// An answer that was not streamed, although the request asked for a stream, and that is too long to be
/// kept whole.
fn unstreamed(text: &str) -> Vec<u8> {
    let filling = "Kartoffel salat99 ".repeat(10_000);
    let call = serde_json::json!({"id": "call_1", "type": "function", "function": {"name": "edit", "arguments": "{}"}});
    let message =
        serde_json::json!({"role": "assistant", "content": format!("{filling}{text}"), "tool_calls": [call]});
    serde_json::json!({"id": "chatcmpl-1", "choices": [{"index": 0, "message": message}]})
        .to_string()
        .into_bytes()
}

#[test]
fn the_end_of_a_long_answer_that_was_not_streamed_shows_no_text() {
    let kept = kept(&unstreamed("QQQQ"), Kind::Document);
    for text in SPOKEN {
        assert!(!kept.contains(text), "{text} is in {}", &kept[kept.len() - 500..]);
    }
}

#[test]
fn names_and_numbers_that_a_model_gives_as_input_are_not_kept() {
    let input = serde_json::json!({"Kartoffel": 4_111_111, "QQQQ": {"salat99": [true, 7_222_222]}});
    let start = serde_json::json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "edit", "input": input}});
    let kept = kept(format!("data: {start}\n\n").as_bytes(), Kind::Stream);
    for text in SPOKEN.into_iter().chain(["4111111", "7222222"]) {
        assert!(!kept.contains(text), "{text} is in {kept}");
    }
    assert!(kept.contains("\"id\":\"toolu_<1>#"), "{kept}");
}

/// `code` is a word in errors, and a program in the items of a code interpreter.
#[test]
fn a_program_is_no_name() {
    let done = serde_json::json!({"type": "response.code_interpreter_call_code.done", "item_id": "ci_1",
        "code": "open('Kartoffel').write('QQQQ')"});
    let kept = kept(format!("data: {done}\n\n").as_bytes(), Kind::Stream);
    assert!(!kept.contains("Kartoffel") && !kept.contains("QQQ"), "{kept}");
    assert!(kept.contains("\"item_id\":\"<2>_<1>#"), "{kept}");
}

#[test]
fn a_stream_that_was_not_read_as_one_shows_no_text() {
    for format in WireFormat::ALL {
        let stream = body(format, &Step::new(spoken()));
        for bytes in [stream.clone(), [b"ok\n".to_vec(), stream].concat()] {
            let kept = kept(&bytes, Kind::Document);
            for text in SPOKEN {
                assert!(!kept.contains(text), "{format:?}: {text} is in {kept}");
            }
        }
    }
}

#[test]
fn packed_bytes_are_not_kept_as_they_are() {
    let packed: Vec<u8> =
        b"\x1F\x8B\x08\x00".iter().copied().chain((0..4000_u32).map(|at| (at * 37 % 251) as u8)).collect();
    let mut recorder = Recorder::default();
    recorder.add(&packed);
    let evidence = recorder.evidence(Kind::Document, &Rules::none());
    assert!(!evidence.head.windows(16).any(|kept| packed.windows(16).any(|window| window == kept)));
}
