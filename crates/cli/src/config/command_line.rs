//! `command` of an agent: a program, or a list of a program and its arguments.

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::path::PathBuf;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
}

impl CommandLine {
    /// The program of an agent whose arguments are known.
    pub(super) fn only_program(self, kind: &str) -> Result<PathBuf, String> {
        if self.arguments.is_empty() {
            return Ok(self.program);
        }
        Err(format!(
            "the command of an agent of kind = {kind:?} has no arguments; write the program alone, like {:?}",
            self.program.display().to_string()
        ))
    }
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CommandLineVisitor)
    }
}

struct CommandLineVisitor;

impl<'de> Visitor<'de> for CommandLineVisitor {
    type Value = CommandLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: Error>(self, program: &str) -> Result<CommandLine, E> {
        Ok(CommandLine { program: PathBuf::from(program), arguments: Vec::new() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<CommandLine, A::Error> {
        let mut words = Vec::<String>::deserialize(SeqAccessDeserializer::new(words))?.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let program = program
            .ok_or_else(|| A::Error::custom("it names no program; write it like [\"agent\", \"acp\"]"))?;
        Ok(CommandLine { program: PathBuf::from(program), arguments: words.collect() })
    }
}
