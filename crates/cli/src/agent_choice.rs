//! Chooses the agent of a new session when nobody named one.

use crate::client::{Client, ClientError};
use crate::escape::{Safe, Untrusted, safe};
use serde_json::Value;

/// The built-in demo. It is chosen only if there is no other agent.
const BUILTIN: &str = "scripted";

/// One of the agents of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// It plays scripts, without a model.
    pub(crate) scripted: bool,
    /// Why it cannot be used.
    pub(crate) problem: Option<String>,
}

/// Why no agent was chosen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChooseError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "agent {}, which is the default_agent of the gateway, cannot be used: {}; or take another one with \
         --agent NAME:{}",
        Untrusted(name),
        Untrusted(problem),
        listed(others)
    )]
    Default { name: String, problem: String, others: Vec<Candidate> },
    #[error(
        "there are several agents to choose from; name one with --agent NAME, or set default_agent in the \
         configuration:{}", listed(.0)
    )]
    Several(Vec<Candidate>),
    #[error("none of the real agents can be used{}:{}", demo_hint(.0), listed(.0))]
    Unusable(Vec<Candidate>),
    #[error(
        "the gateway has no agent; install one, for example with `npm install -g opencode-ai`, or add one to its \
         configuration, and start the gateway again"
    )]
    NoAgent,
}

/// Asks the gateway for its agents and chooses one.
pub(crate) async fn agent(client: &Client) -> Result<String, ChooseError> {
    from_list(&client.get("/v1/agents").await?)
}

/// Chooses one of the answer of `GET /v1/agents`.
pub(crate) fn from_list(listed: &Value) -> Result<String, ChooseError> {
    let candidate = |agent: &Value| Candidate {
        name: agent["name"].as_str().unwrap_or_default().to_owned(),
        scripted: agent["scripted"] == true,
        problem: agent["problem"].as_str().map(str::to_owned),
    };
    let agents: Vec<&Value> = listed["agents"].as_array().into_iter().flatten().collect();
    // A program that was found may also be an ACP agent. Its own kind is meant then.
    let is_second = |one: &Value| {
        let is_same = |other: &&Value| other["kind"] != "acp" && other["path"] == one["path"];
        one["kind"] == "acp" && one["discovered"] == true && agents.iter().any(is_same)
    };
    let candidates = agents.iter().filter(|one| !is_second(one)).map(|one| candidate(one)).collect();
    choose(listed["default"].as_str(), candidates)
}

/// The configured default. Otherwise the only usable agent with a model. The demo only if no other agent
/// exists.
pub(crate) fn choose(default: Option<&str>, candidates: Vec<Candidate>) -> Result<String, ChooseError> {
    if let Some(default) = default {
        let problem = candidates.iter().find(|one| one.name == default).and_then(|one| one.problem.clone());
        return match problem {
            None => Ok(default.to_owned()),
            Some(problem) => {
                let others = candidates.into_iter().filter(|one| one.name != default).collect();
                Err(ChooseError::Default { name: default.to_owned(), problem, others })
            }
        };
    }
    let is_real = candidates.iter().any(|one| !one.scripted);
    let several_demos = candidates.len() > 1;
    let fits = |one: &&Candidate| {
        let is_meant = if is_real { !one.scripted } else { !several_demos || one.name != BUILTIN };
        is_meant && one.problem.is_none()
    };
    let usable: Vec<&Candidate> = candidates.iter().filter(fits).collect();
    match usable.as_slice() {
        [one] => Ok(one.name.clone()),
        [] if candidates.is_empty() => Err(ChooseError::NoAgent),
        [] => Err(ChooseError::Unusable(candidates)),
        _ => Err(ChooseError::Several(candidates)),
    }
}

/// What a person can do without a real agent.
fn demo_hint(candidates: &[Candidate]) -> &'static str {
    let has_demo = candidates.iter().any(|one| one.name == BUILTIN && one.problem.is_none());
    if has_demo { "; --agent scripted plays a demo" } else { "" }
}

fn listed(candidates: &[Candidate]) -> Safe {
    let line = |one: &Candidate| {
        let state = match (&one.problem, one.scripted) {
            (Some(problem), _) => safe!["cannot be used: ", Untrusted(problem)],
            (None, true) => safe!["can be used; a demo that plays a script"],
            (None, false) => safe!["can be used"],
        };
        safe!["\n  ", Untrusted(&one.name), ": ", state]
    };
    candidates.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Candidate, ChooseError, choose};

    fn real(name: &str) -> Candidate {
        Candidate { name: name.to_owned(), scripted: false, problem: None }
    }

    fn broken(name: &str) -> Candidate {
        Candidate { problem: Some("it is not installed".to_owned()), ..real(name) }
    }

    fn demo(name: &str) -> Candidate {
        Candidate { scripted: true, ..real(name) }
    }

    #[test]
    fn the_only_real_agent_that_can_be_used_is_taken() {
        let taken = |candidates: Vec<Candidate>| choose(None, candidates).unwrap();
        assert_eq!(taken(vec![demo("scripted")]), "scripted");
        assert_eq!(taken(vec![real("b"), demo("scripted")]), "b");
        assert_eq!(taken(vec![broken("a"), real("b"), demo("scripted")]), "b");
        assert_eq!(taken(vec![demo("mine"), demo("scripted")]), "mine");
        assert_eq!(choose(Some("a"), vec![real("a"), real("b")]).unwrap(), "a");
        assert_eq!(choose(Some("scripted"), vec![real("a"), demo("scripted")]).unwrap(), "scripted");
    }

    #[test]
    fn a_choice_that_is_not_clear_is_left_to_the_person_with_what_is_wrong_with_each() {
        let several = choose(None, vec![real("a"), real("b"), demo("scripted")]).unwrap_err();
        assert!(matches!(several, ChooseError::Several(_)));
        let none = choose(None, vec![broken("a"), demo("scripted")]).unwrap_err().to_string();
        let lines =
            "\n  a: cannot be used: it is not installed\n  scripted: can be used; a demo that plays a script";
        assert!(none.starts_with("none of the real agents can be used") && none.ends_with(lines), "{none}");
        let none = choose(None, vec![broken("a")]).unwrap_err().to_string();
        assert!(!none.contains("scripted"), "{none}");
        assert!(matches!(choose(None, Vec::new()), Err(ChooseError::NoAgent)));
        let default = choose(Some("a"), vec![broken("a"), real("b")]).unwrap_err().to_string();
        assert!(
            default.contains("cannot be used: it is not installed")
                && default.ends_with("\n  b: can be used")
        );
        assert!(matches!(
            choose(None, vec![demo("a"), demo("b"), demo("scripted")]),
            Err(ChooseError::Several(_))
        ));
    }
}
