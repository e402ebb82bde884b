//! About how many bytes a draft will take. Counted before anything is written, and cheap where there is little to count.

use serde_json::{Map, Value};
use turnstream_model::event::{Body, Draft, Resolution, Tool, Usage};
use turnstream_model::fold::Item;

/// Its ids, type, place and time, and small members.
const ENVELOPE: usize = 192;
/// A value without text: its quotes, colon and comma, or a number.
const SCALAR: usize = 16;

/// The weight of several drafts.
pub(crate) fn of_all(drafts: &[Draft]) -> usize {
    drafts.iter().map(of).sum()
}

/// The weight of one draft.
pub(crate) fn of(draft: &Draft) -> usize {
    let outside = text(draft.native.as_deref()) + map(&draft.extra);
    ENVELOPE + outside + body(&draft.body)
}

fn body(body: &Body) -> usize {
    match body {
        Body::ItemDelta { text, .. } | Body::ItemReplaced { text, .. } => text.len(),
        Body::SessionCreated { session: _, agent, cwd, title, key } => {
            agent.len() + cwd.len() + text(title.as_deref()) + text(key.as_deref())
        }
        Body::SessionUpdated(patch) => {
            let members = [&patch.title, &patch.model, &patch.mode, &patch.native_id];
            members.into_iter().map(|member| text(member.as_deref())).sum()
        }
        Body::PromptAccepted { prompt: _, key, content } => text(key.as_deref()) + list(content),
        Body::PromptSent { prompt: _, native_id } => text(native_id.as_deref()),
        Body::TurnStarted { origin: _, prompts, native_id } => {
            prompts.len() * ENVELOPE + text(native_id.as_deref())
        }
        Body::AttemptStarted { step: _, model, native_id } => {
            text(model.as_deref()) + text(native_id.as_deref())
        }
        Body::ItemStarted { kind: _, role: _, synthetic: _, text: content, tool: of_tool, native_id } => {
            text(content.as_deref()) + tool(of_tool.as_deref()) + text(native_id.as_deref())
        }
        Body::ItemUpdated { tool: of_tool } => tool(of_tool.as_deref()),
        Body::ItemEnded { state: _, reason, incomplete: _, caused_by } => {
            text(reason.as_deref()) + text(caused_by.as_deref())
        }
        Body::ItemRevised { late: _, state: _, text: content, tool: of_tool } => {
            text(content.as_deref()) + tool(of_tool.as_deref())
        }
        Body::AttemptEnded { finish, usage: of_usage, cost: _ } => {
            text(finish.as_deref()) + usage(of_usage.as_deref())
        }
        Body::AttemptSuperseded { by: _, items } => items.len() * ENVELOPE,
        Body::ApprovalRequested { approval: _, tool: of_tool, options, native_id } => {
            let options: usize =
                options.iter().map(|option| ENVELOPE + option.name.len() + map(&option.extra)).sum();
            tool(of_tool.as_deref()) + options + text(native_id.as_deref())
        }
        Body::ApprovalResolved { approval: _, resolution } => {
            let Resolution { outcome: _, by: _, option, message, key } = &**resolution;
            [option, message, key].into_iter().map(|part| text(part.as_deref())).sum()
        }
        Body::QuestionAsked { question: _, questions, native_id } => {
            let asked = questions.iter().map(|question| {
                let options =
                    question.options.iter().map(|choice| SCALAR + choice.label.len() + map(&choice.extra));
                ENVELOPE + question.text.len() + options.sum::<usize>() + map(&question.extra)
            });
            asked.sum::<usize>() + text(native_id.as_deref())
        }
        Body::QuestionAnswered { question: _, outcome: _, answers, key } => {
            answers.as_ref().map_or(0, map) + text(key.as_deref())
        }
        Body::TurnEnded { outcome: _, stop_reason: _, usage: of_usage, cost: _, summed: _, error } => {
            let error = error.as_deref().map_or(0, |error| error.message.len() + map(&error.extra));
            usage(of_usage.as_deref()) + error
        }
        Body::Notice { code: _, message, detail } => message.len() + detail.as_ref().map_or(0, value),
        Body::SessionEnded { reason } => reason.len(),
        Body::Unknown { r#type } => r#type.len(),
        Body::SessionStatus(_)
        | Body::PromptTaken { .. }
        | Body::PromptCancelling { .. }
        | Body::TurnCancelling { .. }
        | Body::PromptWithdrawn { .. }
        | Body::ItemRemoved => 0,
    }
}

/// The weight of a tool's members.
pub(crate) fn tool(tool: Option<&Tool>) -> usize {
    let Some(Tool { name, kind: _, title, status: _, input, output, content, locations, extra }) = tool
    else {
        return 0;
    };
    let texts = text(name.as_deref()) + text(title.as_deref());
    let values = input.as_ref().map_or(0, value) + output.as_ref().map_or(0, value);
    let lists = content.as_deref().map_or(0, list) + locations.as_deref().map_or(0, list);
    texts + values + lists + map(extra)
}

fn usage(usage: Option<&Usage>) -> usize {
    usage.map_or(0, |usage| ENVELOPE + map(&usage.extra))
}

fn text(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

/// The weight of a folded item.
pub(crate) fn item(item: &Item) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    256 + length(&item.text) + length(&item.input) + length(&item.output) + tool(item.tool.as_deref())
}

pub(crate) fn list(values: &[Value]) -> usize {
    values.iter().map(value).sum()
}

fn map(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, member)| name.len() + value(member)).sum()
}

/// JSON comes from a parser that bounds its depth, so this does too.
fn value(it: &Value) -> usize {
    SCALAR
        + match it {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => list(values),
            Value::Object(members) => map(members),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnstream_model::cursor::Seq;
    use turnstream_model::event::{ItemKind, NoticeCode};
    use turnstream_model::time::Time;

    #[test]
    fn what_is_large_weighs_at_least_about_what_it_takes() {
        let long = "x".repeat(10_000);
        let with_tool = |tool: Tool| Body::ItemUpdated { tool: Some(Box::new(tool)) };
        let bodies = [
            Body::ItemReplaced { field: turnstream_model::event::Field::Output, text: long.clone() },
            with_tool(Tool { input: Some(json!({"a": {"b": [long.clone()]}})), ..Tool::default() }),
            with_tool(Tool { output: Some(json!([1, 2, long.clone()])), ..Tool::default() }),
            with_tool(Tool { content: Some(vec![json!({"text": long.clone()})]), ..Tool::default() }),
            with_tool(Tool { output: Some(json!(vec![0; 5_000])), ..Tool::default() }),
            Body::PromptAccepted {
                prompt: "p".into(),
                key: None,
                content: vec![json!({"text": long.clone()})],
            },
            Body::Notice { code: NoticeCode::Gap, message: "m".into(), detail: Some(json!([long.clone()])) },
            Body::SessionEnded { reason: long.clone() },
            Body::ItemStarted {
                kind: ItemKind::Tool,
                role: None,
                synthetic: false,
                text: None,
                tool: Some(Box::new(Tool {
                    extra: Map::from_iter([(long.clone(), json!(1))]),
                    ..Tool::default()
                })),
                native_id: None,
            },
        ];
        for body in bodies {
            let draft = Draft::new(body);
            let (weight, mut written) = (of(&draft), Vec::new());
            draft.at(Seq(1), Time(1)).write_json(&mut written);
            assert!(weight >= written.len(), "{weight} for {} bytes", written.len());
        }
    }
}
