//! Ends what runs in a session.

use super::history::History;
use super::turn_state::turn_of;
use turnstream_gateway::{Gateway, RequestError};
use turnstream_model::fold::{PromptStage, State};
use turnstream_model::id::SessionId;
use turnstream_model::machine::{Cancel, Refusal};

/// Ends the turn that is open when the request arrives, or the prompt that was sent. It never ends one that
/// begins later. False if nothing runs: a client may be late.
pub(crate) async fn stop(gateway: &Gateway, session: &SessionId) -> Result<bool, RequestError> {
    stop_in(gateway, session, &History::newest(gateway, session, 1).await?.state).await
}

/// The same for a client that shows the next prompt of the queue as a run. If nothing runs, that prompt is
/// withdrawn.
pub(crate) async fn stop_or_withdraw(gateway: &Gateway, session: &SessionId) -> Result<bool, RequestError> {
    let state = History::newest(gateway, session, 1).await?.state;
    let next = state.queue.first().filter(|_| running(&state).is_none());
    let Some(next) = next else { return stop_in(gateway, session, &state).await };
    match gateway.withdraw(session, &next.prompt).await {
        Ok(()) => Ok(true),
        // It was sent meanwhile.
        Err(RequestError::Refused(Refusal::NotWaiting { .. })) => stop(gateway, session).await,
        Err(error) => Err(error),
    }
}

async fn stop_in(gateway: &Gateway, session: &SessionId, state: &State) -> Result<bool, RequestError> {
    let Some(running) = running(state) else { return Ok(false) };
    let mut cancelled = gateway.cancel(session, running).await;
    if let Err(RequestError::Refused(Refusal::NotSent { prompt, .. })) = &cancelled {
        // Its turn has begun meanwhile.
        if let Some(turn) = turn_of(&History::newest(gateway, session, 1).await?.state, prompt) {
            cancelled = gateway.cancel(session, Cancel::Turn(turn)).await;
        }
    }
    match cancelled {
        Ok(_) => Ok(true),
        Err(RequestError::Refused(Refusal::TurnNotOpen { .. } | Refusal::NotSent { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a stop ends in this state.
fn running(state: &State) -> Option<Cancel> {
    let sent = state.queue.iter().find(|prompt| prompt.state == PromptStage::Sent);
    let sent = sent.map(|prompt| Cancel::Prompt(prompt.prompt.clone()));
    // A session that waits to continue a failed turn, or is about to, gives that up.
    let parked = state.session.unattended.as_ref().and_then(|unattended| unattended.parked.as_ref());
    let released = || state.queue.iter().find_map(|prompt| prompt.continues.as_ref());
    let parked = parked.map(|parked| &parked.continuation).or_else(released);
    let parked = parked.map(|continuation| Cancel::Turn(continuation.of.clone()));
    let open = state.open_turn().map(|turn| Cancel::Turn(turn.turn.clone()));
    open.or(sent).or(parked)
}

#[cfg(test)]
mod tests {
    use super::running;
    use turnstream_model::event::Event;
    use turnstream_model::fold::Fold;
    use turnstream_model::id::{PromptId, TurnId};
    use turnstream_model::machine::Cancel;

    #[test]
    fn a_stop_names_the_open_turn_or_else_the_prompt_that_was_sent_or_the_turn_to_be_continued() {
        let log = [
            r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#,
            r#"{"seq":2,"time":1,"type":"prompt.accepted","prompt":"p1","content":[]}"#,
            r#"{"seq":3,"time":1,"type":"prompt.sent","prompt":"p1"}"#,
            r#"{"seq":4,"time":1,"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
            r#"{"seq":5,"time":1,"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
            r#"{"seq":6,"time":1,"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
            r#"{"seq":7,"time":1,"type":"unattended.parked","until":9,"of":"t1","because":"limit","reason":"rate_limited","limits":1,"since":1}"#,
            r#"{"seq":8,"time":9,"type":"unattended.released","of":"t1","outcome":"due","by":"policy"}"#,
            r#"{"seq":9,"time":9,"type":"prompt.accepted","prompt":"p2","content":[]}"#,
            r#"{"seq":10,"time":9,"type":"prompt.continues","prompt":"p2","of":"t1","because":"limit","reason":"rate_limited","limits":1,"since":1}"#,
        ];
        let log: Vec<Event> = log.iter().map(|line| Event::from_json(line).unwrap()).collect();
        let of = |events: usize| running(Fold::of(&log[..events]).state());
        let (turn, prompt) = (Cancel::Turn(TurnId::from("t1")), Cancel::Prompt(PromptId::from("p1")));
        assert_eq!(
            [of(2), of(3), of(4), of(5), of(6), of(7), of(8)],
            [None, Some(prompt), Some(turn.clone()), Some(turn.clone()), None, Some(turn.clone()), None]
        );
        assert_eq!(of(10), Some(turn));
        assert_eq!(of(9), None, "a prompt of a person that waits is not stopped");
    }
}
