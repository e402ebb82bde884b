//! What clients choose for a session: an agent, perhaps in one of its modes, and a model. A provider of
//! opencode is an agent of ours.

use super::answer::Failure;
use crate::app::App;
use serde::Deserialize;
use turnstream_adapter::Description;
use turnstream_dialects::opencode::{DEFAULT_MODEL, MODE};
use turnstream_gateway::Change;
use turnstream_model::fold::Session;

/// A model as clients name it. The provider is the name of an agent.
#[derive(Clone, Deserialize)]
pub(super) struct ModelRef {
    #[serde(rename = "providerID")]
    pub(super) provider: String,
    #[serde(alias = "modelID")]
    pub(super) id: String,
}

/// What a client wants, in its own words.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) agent: Option<String>,
    pub(super) model: Option<ModelRef>,
}

/// The agent, mode and model of a new session.
#[derive(Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) agent: String,
    pub(super) mode: Option<String>,
    pub(super) model: Option<String>,
}

type Agents = [(String, Description)];

impl Wanted {
    /// The choice for a new session. Whoever names no agent gets that of the model, or the usual one.
    pub(super) fn for_new_session(&self, app: &App) -> Result<Chosen, Failure> {
        self.choose(&app.gateway.agents(), app.options.default_agent.as_deref())
    }

    fn choose(&self, agents: &Agents, usual: Option<&str>) -> Result<Chosen, Failure> {
        let provider = self.model.as_ref().map(|model| model.provider.as_str());
        let Some(name) = self.agent.as_deref().or(provider).or(usual) else {
            let first =
                agents.iter().find(|(_, about)| about.problem.is_none()).map(|(name, _)| name.clone());
            let agent = first.ok_or_else(|| {
                Failure::bad("the gateway has no agent that can be used; add one to its configuration")
            })?;
            return Ok(Chosen { agent, mode: None, model: None });
        };
        let (agent, mode) = named(agents, name)?;
        let model = self.model.as_ref().map(|model| of_agent(model, agent)).transpose()?;
        let model = model.filter(|model| *model != DEFAULT_MODEL);
        Ok(Chosen { agent: agent.to_owned(), mode: mode.map(str::to_owned), model: model.map(str::to_owned) })
    }

    /// What a prompt changes in its session. A session keeps its agent.
    pub(super) fn change(&self, agents: &Agents, session: &Session) -> Result<Change, Failure> {
        let ours = session.agent.as_str();
        let about = agents.iter().find(|(name, _)| name == ours).map(|(_, about)| about);
        let offers_default = |offered: fn(&Description) -> &[turnstream_adapter::Choice]| {
            about.is_some_and(|about| offered(about).iter().any(|choice| choice.id == DEFAULT_MODEL))
        };
        let mut change = Change::default();
        if let Some(name) = &self.agent {
            let is_own_mode = about.is_some_and(|about| about.modes.iter().any(|mode| mode.id == *name));
            let (agent, mode) = match is_own_mode {
                true => (ours, Some(name.as_str())),
                false => named(agents, name)?,
            };
            if agent != ours {
                return Err(Failure::bad(format!(
                    "the agent of this session is {ours}, not {agent}; create a new session"
                )));
            }
            // The name without a mode is the mode `default`, if there is one.
            let usual = || offers_default(|about| &about.modes).then_some(DEFAULT_MODEL);
            let is_changed = |mode: &&str| session.mode.as_deref().unwrap_or(DEFAULT_MODEL) != *mode;
            change.mode = mode.or_else(usual).filter(is_changed).map(str::to_owned);
        }
        if let Some(model) = &self.model {
            let model = of_agent(model, ours)?;
            // Of an agent without such a model, `default` changes nothing.
            let is_real = model != DEFAULT_MODEL || offers_default(|about| &about.models);
            let is_changed = session.model.as_deref().unwrap_or(DEFAULT_MODEL) != model;
            change.model = (is_real && is_changed).then(|| model.to_owned());
        }
        Ok(change)
    }
}

/// The agent and the mode of a name in the list of agents.
fn named<'a>(agents: &'a Agents, name: &'a str) -> Result<(&'a str, Option<&'a str>), Failure> {
    let (agent, mode) = name.split_once(MODE).map_or((name, None), |(agent, mode)| (agent, Some(mode)));
    match agents.iter().find(|(known, _)| known == agent) {
        Some((agent, _)) => Ok((agent, mode)),
        None => {
            let known: Vec<&str> = agents.iter().map(|(name, _)| name.as_str()).collect();
            Err(Failure::bad(format!("there is no agent {name:?}; there is {}", known.join(", "))))
        }
    }
}

/// The id of a model of this agent.
fn of_agent<'a>(model: &'a ModelRef, agent: &str) -> Result<&'a str, Failure> {
    let ModelRef { provider, id } = model;
    if provider == agent {
        return Ok(id);
    }
    Err(Failure::bad(format!(
        "the model {provider}/{id} is not of the agent {agent}; choose a model of the provider {agent}"
    )))
}

#[cfg(test)]
mod tests {
    use super::{Chosen, ModelRef, Wanted};
    use turnstream_adapter::{Choice, Description};
    use turnstream_model::fold::Session;

    fn agents() -> Vec<(String, Description)> {
        let mut claude = Description::new("claude", "");
        claude.modes = ["default", "plan"].map(Choice::new).to_vec();
        claude.models = ["default", "opus"].map(Choice::new).to_vec();
        vec![("claude".to_owned(), claude), ("demo".to_owned(), Description::new("scripted", ""))]
    }

    fn wanted(agent: Option<&str>, model: Option<(&str, &str)>) -> Wanted {
        let model = model.map(|(provider, id)| ModelRef { provider: provider.into(), id: id.into() });
        Wanted { agent: agent.map(str::to_owned), model }
    }

    fn chosen(agent: &str, mode: Option<&str>, model: Option<&str>) -> Chosen {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Chosen { agent: agent.to_owned(), mode: text(mode), model: text(model) }
    }

    #[test]
    fn a_new_session_has_the_agent_the_mode_and_the_model_that_were_picked() {
        let choose = |agent, model| wanted(agent, model).choose(&agents(), Some("demo"));
        assert_eq!(choose(None, None).unwrap(), chosen("demo", None, None));
        assert_eq!(choose(Some("claude:plan"), None).unwrap(), chosen("claude", Some("plan"), None));
        assert_eq!(choose(None, Some(("claude", "opus"))).unwrap(), chosen("claude", None, Some("opus")));
        assert_eq!(choose(Some("demo"), Some(("demo", "default"))).unwrap(), chosen("demo", None, None));
        assert!(choose(Some("build"), None).is_err());
        assert!(choose(Some("demo"), Some(("claude", "opus"))).is_err());
    }

    #[test]
    fn a_prompt_changes_mode_and_model_and_never_the_agent() {
        let mut session = Session { agent: "claude".to_owned(), ..Session::default() };
        let change = |session: &Session, agent, model| {
            let change = wanted(agent, model).change(&agents(), session)?;
            Ok::<_, super::Failure>((change.mode, change.model))
        };
        let none = (None, None);
        assert_eq!(change(&session, Some("claude"), Some(("claude", "default"))).unwrap(), none);
        let (plan, opus) = (Some("plan".to_owned()), Some("opus".to_owned()));
        let picked = change(&session, Some("claude:plan"), Some(("claude", "opus")));
        assert_eq!(picked.unwrap(), (plan.clone(), opus.clone()));
        assert_eq!(change(&session, Some("plan"), None).unwrap(), (plan.clone(), None));
        (session.mode, session.model) = (plan, opus);
        let usual = Some("default".to_owned());
        let back = change(&session, Some("claude"), Some(("claude", "default")));
        assert_eq!(back.unwrap(), (usual.clone(), usual));
        assert!(change(&session, Some("demo"), None).is_err());
        assert!(change(&session, None, Some(("demo", "x"))).is_err());
    }
}
