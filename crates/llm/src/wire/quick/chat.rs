//! Chat chunks with one choice.

use super::{Nullable, Quick};
use crate::wire::chat::{Choice, Choices, Chunk, Content, Delta, FunctionDelta, ToolDelta};
use crate::wire::{Count, ShortList, Str};

/// Reads a chunk with text, reasoning or a tool delta.
pub(crate) fn chat(data: &str) -> Option<Chunk<'_>> {
    let mut quick = Quick::new(data);
    let mut chunk = Chunk::default();
    quick.object(|quick, name| match name {
        "id" => quick.text_or_null_into(&mut chunk.id, Nullable::Id),
        "object" => quick.text_or_null_into(&mut chunk.object, Nullable::Object),
        "model" => quick.text_or_null_into(&mut chunk.model, Nullable::Model),
        "system_fingerprint" => quick.text_or_null_into(&mut chunk.system_fingerprint, Nullable::Fingerprint),
        "created" if chunk.created == Count(None) => {
            chunk.created = Count(Some(quick.number()?));
            Some(())
        }
        "choices" if matches!(chunk.choices, Choices::Absent) => {
            let mut choice = Choice::default();
            quick.eat(b'[')?;
            self::choice(quick, &mut choice)?;
            quick.eat(b']')?;
            chunk.choices = Choices::Of(ShortList::one(choice));
            Some(())
        }
        "usage" => quick.null(Nullable::Usage),
        "created" | "choices" | "x_groq" | "error" => None,
        _ => quick.skip(),
    })?;
    quick.end()?;
    Some(chunk)
}

fn choice<'a>(quick: &mut Quick<'a>, choice: &mut Choice<'a>) -> Option<()> {
    quick.object(|quick, name| match name {
        "index" => quick.number_into(&mut choice.index),
        "delta" if choice.delta.is_none() => delta(quick, choice.delta.insert(Delta::default())),
        "finish_reason" => quick.text_or_null_into(&mut choice.finish_reason, Nullable::FinishReason),
        "usage" | "delta" | "message" | "text" | "error" => None,
        _ => quick.skip(),
    })
}

fn delta<'a>(quick: &mut Quick<'a>, delta: &mut Delta<'a>) -> Option<()> {
    quick.object(|quick, name| match name {
        "role" => quick.text_or_null_into(&mut delta.role, Nullable::Role),
        "content" if delta.content.is_some() || quick.was_null(Nullable::Content) => None,
        "content" if quick.peek()? == b'n' => quick.null(Nullable::Content),
        "content" => {
            delta.content = Some(Content::Text(Str::whole(quick.text()?)));
            Some(())
        }
        "refusal" => quick.null(Nullable::Refusal),
        "reasoning_content" => {
            quick.text_or_null_into(&mut delta.reasoning_content, Nullable::ReasoningContent)
        }
        "reasoning" => quick.text_or_null_into(&mut delta.reasoning, Nullable::Reasoning),
        "tool_calls" if delta.tool_calls.is_none() && quick.peek()? == b'[' => {
            let mut call = ToolDelta::default();
            quick.eat(b'[')?;
            tool(quick, &mut call)?;
            quick.eat(b']')?;
            delta.tool_calls = Some(ShortList::one(call));
            Some(())
        }
        "tool_calls" | "reasoning_details" | "function_call" => None,
        _ => quick.skip_without_content(),
    })
}

fn tool<'a>(quick: &mut Quick<'a>, call: &mut ToolDelta<'a>) -> Option<()> {
    quick.object(|quick, name| match name {
        "index" => quick.number_into(&mut call.index),
        "id" => quick.text_or_null_into(&mut call.id, Nullable::CallId),
        "function" if call.function.is_none() => {
            let function = call.function.insert(FunctionDelta::default());
            quick.object(|quick, name| match name {
                "name" => quick.text_or_null_into(&mut function.name, Nullable::Name),
                "arguments" => quick.text_or_null_into(&mut function.arguments, Nullable::Arguments),
                _ => quick.skip_without_content(),
            })
        }
        "function" => None,
        "type" => quick.skip(),
        _ => quick.skip_without_content(),
    })
}
