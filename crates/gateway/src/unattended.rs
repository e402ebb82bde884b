//! Changes of the rules for unattended runs, as the configuration and clients give them.

use crate::error::RequestError;
use crate::redactor::UserInput;
use turnstream_model::event::{OnFailure, OnLimit, Unattended};
use turnstream_redact::Rules;

/// The most characters of the prompt that continues a turn.
const LONGEST_PROMPT: usize = 10_000;

/// The longest wait for limits, in milliseconds: 366 days.
const LONGEST_WINDOW: u64 = 366 * 24 * 60 * 60 * 1_000;

/// A change of the rules. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnattendedChange {
    /// What follows a limit.
    pub on_limit: Option<OnLimit>,
    /// How long the session waits for limits at most, in milliseconds.
    pub limit_window: Option<u64>,
    /// What follows another failure.
    pub on_failure: Option<OnFailure>,
    /// The text of the prompt that continues a turn.
    pub continue_with: Option<String>,
}

impl UnattendedChange {
    /// The rules after the change.
    pub fn applied_to(&self, rules: &Unattended) -> Unattended {
        let Self { on_limit, limit_window, on_failure, continue_with } = self;
        Unattended {
            on_limit: on_limit.unwrap_or(rules.on_limit),
            limit_window: limit_window.unwrap_or(rules.limit_window),
            on_failure: on_failure.unwrap_or(rules.on_failure),
            continue_with: continue_with.clone().unwrap_or_else(|| rules.continue_with.clone()),
        }
    }

    /// Refuses what no session can do.
    pub fn check(&self) -> Result<(), RequestError> {
        let bad = |member, problem: String| Err(RequestError::BadUnattended { member, problem });
        if self.limit_window.is_some_and(|window| window == 0 || window > LONGEST_WINDOW) {
            return bad("limit_window", format!("give 1 to {LONGEST_WINDOW} milliseconds"));
        }
        let Some(text) = &self.continue_with else { return Ok(()) };
        if text.trim().is_empty() {
            return bad("continue_with", "it is empty, and the agent needs a text".to_owned());
        }
        match text.chars().count() {
            length if length > LONGEST_PROMPT => {
                bad("continue_with", format!("it has {length} characters, and {LONGEST_PROMPT} are allowed"))
            }
            _ => Ok(()),
        }
    }

    /// Whether these rules are what the change asks for. Rules that it does not name may be any.
    pub(crate) fn is_in(&self, rules: &Unattended) -> bool {
        self.applied_to(rules) == *rules
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl UserInput for UnattendedChange {
    fn redact(&mut self, rules: &Rules) {
        if let Some(text) = &mut self.continue_with {
            *text = rules.redact(text).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_stays() {
        let change = UnattendedChange { on_limit: Some(OnLimit::Wait), ..UnattendedChange::default() };
        let rules = change.applied_to(&Unattended::default());
        assert_eq!(rules, Unattended { on_limit: OnLimit::Wait, ..Unattended::default() });
        assert!(change.is_in(&rules) && !change.is_in(&Unattended::default()));
        assert!(UnattendedChange::default().is_in(&rules));
    }

    #[test]
    fn what_no_session_can_do_is_refused_by_its_name() {
        let refused = |change: UnattendedChange| match change.check() {
            Err(RequestError::BadUnattended { member, .. }) => member,
            other => panic!("{other:?}"),
        };
        let window = |millis| UnattendedChange { limit_window: Some(millis), ..UnattendedChange::default() };
        let text = |text: &str| UnattendedChange {
            continue_with: Some(text.to_owned()),
            ..UnattendedChange::default()
        };
        assert_eq!(refused(window(0)), "limit_window");
        assert_eq!(refused(window(LONGEST_WINDOW + 1)), "limit_window");
        assert_eq!(refused(text(" \n")), "continue_with");
        assert_eq!(refused(text(&"x".repeat(LONGEST_PROMPT + 1))), "continue_with");
        assert_eq!(window(1).check(), Ok(()));
        assert_eq!(text("go on").check(), Ok(()));
    }
}
