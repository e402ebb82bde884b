//! Turns with the real server, through the client library.

use crate::support::{ANSWER, SOON, client, opencode, provider, work};
use turnstream_agents::opencode::{Turn, TurnSettings};
use turnstream_dialects::acp::{AcpEvent, ChunkKind};

/// What the model said, and how the turn ended in ACP's words.
pub(crate) async fn answer(turn: &mut Turn) -> (String, String) {
    let mut text = String::new();
    loop {
        let event = tokio::time::timeout(SOON, turn.next()).await.expect("nothing comes");
        match event.expect("a terminator") {
            AcpEvent::Chunk(chunk) if chunk.kind == ChunkKind::Agent => text.push_str(&chunk.text),
            AcpEvent::End(end) => {
                let stop = serde_json::to_value(end.response.stop_reason).unwrap();
                return (text, stop.as_str().unwrap().to_owned());
            }
            AcpEvent::Error(fault) => return (text, format!("{}: {}", fault.code, fault.message)),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_messages_one_after_the_other() {
    let provider = provider().await;
    let opencode = opencode(&provider).await;
    let (client, directory) = (client(opencode.base_url()), work(&opencode));
    let session = client.ensure_session(None, &directory, None).await.unwrap().at;
    for number in 1..=3 {
        let mut turn = client.send_message(&session, &format!("Number {number}"), TurnSettings::default());
        assert_eq!(answer(&mut turn).await, (ANSWER.to_owned(), "end_turn".to_owned()));
        assert_eq!(turn.next().await, None);
    }
}
