//! The turn-end matrix: every exit of a turn, with every agent that asks a model, behind the real binary.
//!
//! Each exit is described once, in [`exits`]. Each agent is one file. What is seen becomes the cells of
//! docs/turn-ends.md.

mod acp;
mod builtin;
mod claude;
mod codex;
mod drive;
mod exit;
mod exits;
mod judge;
mod opencode;
mod page;
mod readme;
mod stage;
mod subject;

pub(crate) use acp::table as acp_table;

use crate::support::is_full;
use acp::Acp;
use builtin::Builtin;
use claude::Claude;
use codex::Codex;
use drive::Play;
use exit::{Exit, Runs, StageNeeds};
use exits::EXITS;
use opencode::Opencode;
use stage::Stage;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use subject::Subject;
use turnstream_testkit::agents::{AcpAgent, ClaudeVersion};

/// The agents, in the order of the page.
const SUBJECTS: &[&dyn Subject] =
    &[&OPENCODE, &CLAUDE_2_1_197, &CLAUDE_2_1_325, &CODEX, &CLAUDE_ACP, &CODEX_ACP, &OPENCODE_ACP, &BUILTIN];

const OPENCODE: Opencode = Opencode;
const CLAUDE_2_1_197: Claude = Claude(ClaudeVersion::V2_1_197);
const CLAUDE_2_1_325: Claude = Claude(ClaudeVersion::V2_1_325);
const CODEX: Codex = Codex;
const CLAUDE_ACP: Acp = Acp(AcpAgent::Claude);
const CODEX_ACP: Acp = Acp(AcpAgent::Codex);
const OPENCODE_ACP: Acp = Acp(AcpAgent::Opencode);
const BUILTIN: Builtin = Builtin;

/// Sessions at the same time. An agent that starts uses a whole core.
const AT_ONCE: usize = 3;

#[test]
fn opencode_ends_every_turn_once() {
    matrix_of(&OPENCODE);
}

#[test]
fn claude_code_2_1_197_ends_every_turn_once() {
    matrix_of(&CLAUDE_2_1_197);
}

#[test]
fn claude_code_2_1_325_ends_every_turn_once() {
    matrix_of(&CLAUDE_2_1_325);
}

#[test]
fn codex_ends_every_turn_once() {
    matrix_of(&CODEX);
}

#[test]
fn claude_agent_acp_ends_every_turn_once() {
    matrix_of(&CLAUDE_ACP);
}

#[test]
fn codex_acp_ends_every_turn_once() {
    matrix_of(&CODEX_ACP);
}

#[test]
fn opencode_acp_ends_every_turn_once() {
    matrix_of(&OPENCODE_ACP);
}

#[test]
fn the_built_in_agent_ends_every_turn_once() {
    matrix_of(&BUILTIN);
}

/// At least so many exits of each agent run without `--full`.
const BY_DEFAULT: usize = 8;

/// Plays the exits of an agent, and compares how they ended with the page.
fn matrix_of(subject: &dyn Subject) {
    let able = EXITS.iter().filter(|exit| subject.cannot(exit.name).is_none());
    let (mut exits, others): (Vec<&Exit>, Vec<&Exit>) = able.partition(|exit| exit.runs == Runs::Always);
    // An agent to which some of them do not apply has others, which need nothing more.
    let more = BY_DEFAULT.saturating_sub(exits.len());
    let is_cheap = |exit: &&Exit| exit.stage == StageNeeds::Shared;
    match is_full() {
        true => exits.extend(others),
        false => exits.extend(others.into_iter().filter(is_cheap).take(more)),
    }
    let stage = Stage::open(subject, exits.iter().copied());
    let of_stage = |needs| exits.iter().copied().filter(|exit| exit.stage == needs).collect();
    let mut seen = play_all(&stage, of_stage(StageNeeds::Shared), AT_ONCE);
    seen.extend(play_all(&stage, of_stage(StageNeeds::Alone), 1));
    let silent: Vec<&Exit> = of_stage(StageNeeds::ShortInactivity);
    if !silent.is_empty() {
        stage.restart_with_short_inactivity();
        seen.extend(play_all(&stage, silent, 1));
    }
    let failed: Vec<&str> = seen.iter().filter(|(_, cell)| cell.is_none()).map(|(exit, _)| *exit).collect();
    let seen = seen.iter().filter_map(|(exit, cell)| Some((*exit, cell.clone()?))).collect();
    page::settle(subject.column(), &seen);
    assert!(failed.is_empty(), "failed, see above: {failed:?}");
}

/// Plays exits, so many at the same time. Nothing for one that failed: the others are still of interest.
fn play_all<'a>(stage: &Stage, exits: Vec<&'a Exit>, at_once: usize) -> BTreeMap<&'a str, Option<String>> {
    let waiting = Mutex::new(exits.into_iter());
    let seen = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some(exit) = next else { return };
                    let cell = catch_unwind(AssertUnwindSafe(|| {
                        let mut play = Play::begin(stage, exit);
                        play.play_all_acts();
                        judge::cell(&play)
                    }));
                    seen.lock().unwrap().insert(exit.name, cell.ok());
                }
            });
        }
    });
    seen.into_inner().unwrap()
}
