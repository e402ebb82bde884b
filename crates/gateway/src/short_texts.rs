//! How long titles, names, keys and other short texts may be, in characters. Texts of clients and of imported
//! files are refused if they are longer, texts of agents are cut.

use crate::create::NewSession;
use crate::error::RequestError;
use crate::request::{AnswerQuestion, Change, NewPrompt, ResolveApproval};
use crate::settings::TextLengths;
use serde_json::Value;
use turnstream_model::event::{Body, SessionPatch};
use turnstream_model::fold::{Session, State};

/// A path: the longest that the system knows.
const PATH: usize = 4_096;
/// The id of an offered option.
const OPTION: usize = 1_000;
/// A message to the agent with an answer.
const MESSAGE: usize = 10_000;
/// All answers to a question together.
const ANSWERS: usize = 100_000;

/// A text that is longer than it may be.
struct LongText {
    what: &'static str,
    length: usize,
    most: usize,
}

/// The first text that is too long, of those that are checked one by one.
type Checked = Result<(), LongText>;

/// Input with short texts.
pub(crate) trait ShortTexts {
    /// Refuses the input if one of its texts is too long.
    fn check_lengths(&self, most: &TextLengths) -> Result<(), RequestError>;
}

impl ShortTexts for NewSession {
    fn check_lengths(&self, most: &TextLengths) -> Result<(), RequestError> {
        let Self {
            agent,
            cwd,
            title,
            model,
            permissions: _,
            redact_prompts: _,
            mcp: _,
            from: _,
            budget: _,
            unattended: _,
            key,
        } = self;
        check("agent", Some(agent), most.agent)?;
        check("cwd", cwd.to_str(), PATH)?;
        check("title", title.as_deref(), most.title)?;
        check("model", model.as_deref(), most.model)?;
        Ok(check("key", key.as_deref(), most.key)?)
    }
}

impl ShortTexts for Change {
    fn check_lengths(&self, most: &TextLengths) -> Result<(), RequestError> {
        let Self { title, model, mode, permissions: _, unattended: _ } = self;
        check("title", title.as_deref(), most.title)?;
        check("model", model.as_deref(), most.model)?;
        Ok(check("mode", mode.as_deref(), most.mode)?)
    }
}

impl ShortTexts for NewPrompt {
    fn check_lengths(&self, most: &TextLengths) -> Result<(), RequestError> {
        let Self { content: _, key, budget: _ } = self;
        Ok(check("key", key.as_deref(), most.key)?)
    }
}

impl ShortTexts for ResolveApproval {
    fn check_lengths(&self, most: &TextLengths) -> Result<(), RequestError> {
        let Self { outcome: _, option, message, stop: _, key } = self;
        check("option", option.as_deref(), OPTION)?;
        check("message", message.as_deref(), MESSAGE)?;
        Ok(check("key", key.as_deref(), most.key)?)
    }
}

impl ShortTexts for AnswerQuestion {
    fn check_lengths(&self, most: &TextLengths) -> Result<(), RequestError> {
        let Self { outcome: _, answers, key } = self;
        let lengths = answers.iter().flatten().map(|(id, answer)| characters(id) + length_of(answer));
        check_length("answers", lengths.sum(), ANSWERS)?;
        Ok(check("key", key.as_deref(), most.key)?)
    }
}

/// The texts of an imported event.
pub(crate) fn check_event(body: &Body, most: &TextLengths) -> Result<(), String> {
    let checked = if let Body::SessionCreated { session: _, agent, cwd, title, key } = body {
        check_session(Some(agent), Some(cwd), title.as_deref(), key.as_deref(), most)
    } else if let Body::SessionUpdated(patch) = body {
        check_patch(patch, most)
    } else if let Body::PromptAccepted { key, .. } | Body::QuestionAnswered { key, .. } = body {
        check("key", key.as_deref(), most.key)
    } else if let Body::ApprovalResolved { resolution, .. } = body {
        check("option", resolution.option.as_deref(), OPTION)
            .and_then(|()| check("message", resolution.message.as_deref(), MESSAGE))
            .and_then(|()| check("key", resolution.key.as_deref(), most.key))
    } else {
        Ok(())
    };
    checked.map_err(|long| long.to_string())
}

/// The texts of the state that an imported file begins with.
pub(crate) fn check_state(state: &State, most: &TextLengths) -> Result<(), String> {
    let Session { agent, cwd, title, model, mode, key, .. } = &state.session;
    let names = [("model", model, most.model), ("mode", mode, most.mode)];
    let checked = check_session(Some(agent), Some(cwd), title.as_deref(), key.as_deref(), most)
        .and_then(|()| {
            names.into_iter().try_for_each(|(what, name, most)| check(what, name.as_deref(), most))
        })
        .and_then(|()| {
            let prompts = state.prompts.iter().chain(&state.queue).map(|prompt| prompt.key.as_deref());
            let spent = state.spent.iter().map(|spent| Some(spent.key.as_str()));
            prompts.chain(spent).try_for_each(|key| check("key", key, most.key))
        });
    checked.map_err(|long| long.to_string())
}

fn check_session(
    agent: Option<&str>,
    cwd: Option<&str>,
    title: Option<&str>,
    key: Option<&str>,
    most: &TextLengths,
) -> Checked {
    check("agent", agent, most.agent)?;
    check("cwd", cwd, PATH)?;
    check("title", title, most.title)?;
    check("key", key, most.key)
}

fn check_patch(patch: &SessionPatch, most: &TextLengths) -> Checked {
    check("title", patch.title.as_deref(), most.title)?;
    check("model", patch.model.as_deref(), most.model)?;
    check("mode", patch.mode.as_deref(), most.mode)
}

/// Cuts the texts of a session that an agent has changed.
pub(crate) fn cut(body: &mut Body, most: &TextLengths) {
    let Body::SessionUpdated(patch) = body else { return };
    let texts =
        [(&mut patch.title, most.title), (&mut patch.model, most.model), (&mut patch.mode, most.mode)];
    for (text, most) in texts {
        if let Some(text) = text
            && let Some((end, _)) = text.char_indices().nth(most)
        {
            let last = text[..end].char_indices().next_back().map_or(0, |(place, _)| place);
            text.truncate(last);
            text.push('…');
        }
    }
}

fn check(what: &'static str, text: Option<&str>, most: usize) -> Checked {
    check_length(what, text.map_or(0, characters), most)
}

fn check_length(what: &'static str, length: usize, most: usize) -> Checked {
    if length > most { Err(LongText { what, length, most }) } else { Ok(()) }
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn length_of(answer: &Value) -> usize {
    match answer {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => characters(text),
        Value::Array(values) => values.iter().map(length_of).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| characters(name) + length_of(value)).sum()
        }
    }
}

impl From<LongText> for RequestError {
    fn from(LongText { what, length, most }: LongText) -> Self {
        Self::TooLong { what, length, most }
    }
}

impl std::fmt::Display for LongText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, length, most } = self;
        write!(f, "the {what} has {length} characters, and at most {most} are allowed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_an_agent_is_cut_at_a_character_and_a_short_one_stays() {
        let most = TextLengths { title: 7, model: 5, ..TextLengths::default() };
        let patch = SessionPatch {
            title: Some("é".repeat(most.title + 1)),
            model: Some("m".repeat(most.model)),
            ..SessionPatch::default()
        };
        let mut body = Body::SessionUpdated(Box::new(patch.clone()));
        cut(&mut body, &most);
        let title = Some(format!("{}…", "é".repeat(most.title - 1)));
        assert_eq!(body, Body::SessionUpdated(Box::new(SessionPatch { title, ..patch })));
        assert_eq!(check_event(&body, &most), Ok(()));
    }

    #[test]
    fn answers_count_together() {
        let answer = |text: String| AnswerQuestion {
            outcome: turnstream_model::event::QuestionOutcome::Answered,
            answers: serde_json::json!({"0": [text], "1": ["x"]}).as_object().cloned(),
            key: None,
        };
        assert_eq!(answer("é".repeat(ANSWERS - 3)).check_lengths(&TextLengths::default()), Ok(()));
        let (what, length, most) = ("answers", ANSWERS + 1, ANSWERS);
        let refused = answer("é".repeat(ANSWERS - 2)).check_lengths(&TextLengths::default());
        assert_eq!(refused, Err(RequestError::TooLong { what, length, most }));
    }
}
