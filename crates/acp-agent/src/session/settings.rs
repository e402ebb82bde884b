//! What an editor can choose for a session: its agent, model and mode.

use agent_client_protocol_schema::v1::{
    AvailableCommand, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
    SessionMode, SessionModeState,
};
use serde_json::Value;
use turnstream_model::fold::State;

/// The value of an option that nobody has chosen: the agent decides.
pub(super) const DEFAULT: &str = "default";

/// Settings of one session.
#[derive(Debug, Default)]
pub(super) struct Settings {
    agents: Vec<Agent>,
    pub(super) agent: String,
    pub(super) cwd: String,
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
    /// Whether the session has a prompt. Then its agent cannot change.
    pub(super) has_begun: bool,
    /// The names of its MCP servers.
    pub(super) mcp: Vec<String>,
}

/// An agent of the gateway.
#[derive(Debug)]
struct Agent {
    name: String,
    about: Option<String>,
    is_usable: bool,
    models: Vec<Choice>,
    modes: Vec<Choice>,
    commands: Vec<Choice>,
}

#[derive(Clone, Debug)]
struct Choice {
    id: String,
    about: Option<String>,
}

impl Settings {
    /// Settings of a session, and the answer of `GET /v1/agents`.
    pub(super) fn new(state: &State, agents: &Value) -> Self {
        let session = &state.session;
        Self {
            agents: agents["agents"].as_array().into_iter().flatten().map(Agent::read).collect(),
            agent: session.agent.clone(),
            cwd: session.cwd.clone(),
            model: session.model.clone(),
            mode: session.mode.clone(),
            has_begun: !(state.turns.is_empty() && state.queue.is_empty() && state.prompts.is_empty()),
            mcp: session.mcp.clone(),
        }
    }

    fn own(&self) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == self.agent)
    }

    /// All options. `session/set_config_option` takes their ids.
    pub(super) fn options(&self) -> Vec<SessionConfigOption> {
        let is_offered = |agent: &&Agent| agent.name == self.agent || (agent.is_usable && !self.has_begun);
        let mut agents: Vec<SessionConfigSelectOption> = self
            .agents
            .iter()
            .filter(is_offered)
            .map(|agent| {
                let name = agent.name.clone();
                SessionConfigSelectOption::new(name.clone(), name).description(agent.about.clone())
            })
            .collect();
        if self.own().is_none() {
            agents.push(SessionConfigSelectOption::new(self.agent.clone(), self.agent.clone()));
        }
        let agent = SessionConfigOption::select("agent", "Agent", self.agent.clone(), agents)
            .description("Which agent works in this session. It is fixed with the first prompt.".to_owned());
        let model = select("model", "Model", &self.model, self.own().map(|own| &own.models));
        let mode = select("mode", "Mode", &self.mode, self.own().map(|own| &own.modes));
        let model = model.map(|model| model.category(SessionConfigOptionCategory::Model));
        let mode = mode.map(|mode| mode.category(SessionConfigOptionCategory::Mode));
        [Some(agent), model, mode].into_iter().flatten().collect()
    }

    /// The modes, for editors that do not know options.
    pub(super) fn modes(&self) -> Option<SessionModeState> {
        let (current, choices) = choices(&self.mode, self.own().map(|own| &own.modes))?;
        let mode = |Choice { id, about }: Choice| SessionMode::new(id.clone(), title(&id)).description(about);
        Some(SessionModeState::new(current, choices.into_iter().map(mode).collect()))
    }

    /// What a prompt can begin with after a slash.
    pub(super) fn commands(&self) -> Vec<AvailableCommand> {
        let commands = self.own().map(|own| own.commands.as_slice()).unwrap_or_default();
        let command = |command: &Choice| {
            AvailableCommand::new(command.id.clone(), command.about.clone().unwrap_or_default())
        };
        commands.iter().map(command).collect()
    }

    /// Why this agent cannot be chosen now, if it cannot.
    pub(super) fn refuses_agent(&self, name: &str) -> Option<String> {
        if name == self.agent {
            return None;
        }
        if self.has_begun {
            let agent = &self.agent;
            return Some(format!(
                "the agent of a session is fixed with its first prompt, and this one is with {agent}; \
                 `turnstream run --from SESSION --agent {name}` goes on from it with another agent"
            ));
        }
        match self.agents.iter().find(|agent| agent.name == name) {
            Some(agent) if agent.is_usable => None,
            Some(_) => Some(format!("agent {name} cannot be used; `turnstream agents` says why")),
            None => Some(format!("there is no agent {name}")),
        }
    }
}

impl Agent {
    fn read(agent: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let choices = |member: &str| {
            let list = agent[member].as_array().into_iter().flatten();
            list.filter_map(|choice| Some(Choice { id: text(&choice["id"])?, about: text(&choice["about"]) }))
                .collect()
        };
        Self {
            name: text(&agent["name"]).unwrap_or_default(),
            about: text(&agent["about"]),
            is_usable: agent["problem"].is_null(),
            models: choices("models"),
            modes: choices("modes"),
            commands: choices("commands"),
        }
    }
}

/// The current value and all choices. None if nothing is known.
fn choices(current: &Option<String>, known: Option<&Vec<Choice>>) -> Option<(String, Vec<Choice>)> {
    let mut all = known.cloned().unwrap_or_default();
    if all.is_empty() && current.is_none() {
        return None;
    }
    let value = current.clone().unwrap_or_else(|| DEFAULT.to_owned());
    if !all.iter().any(|choice| choice.id == value) {
        all.insert(0, Choice { id: value.clone(), about: None });
    }
    Some((value, all))
}

fn select(
    id: &'static str,
    name: &str,
    current: &Option<String>,
    known: Option<&Vec<Choice>>,
) -> Option<SessionConfigOption> {
    let (current, all) = choices(current, known)?;
    let option = |Choice { id, about }: Choice| {
        SessionConfigSelectOption::new(id.clone(), title(&id)).description(about)
    };
    let all: Vec<SessionConfigSelectOption> = all.into_iter().map(option).collect();
    Some(SessionConfigOption::select(id, name.to_owned(), current, all))
}

/// The name that a person sees.
fn title(id: &str) -> String {
    if id == DEFAULT { "Default".to_owned() } else { id.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use serde_json::{Value, json};
    use turnstream_model::fold::State;

    fn settings() -> Settings {
        let agents = json!({"agents": [
            {"name": "a", "kind": "x", "about": "A", "models": [{"id": "m1"}, {"id": "m2", "about": "big"}]},
            {"name": "b", "kind": "x", "about": "B"},
            {"name": "c", "kind": "x", "about": "C", "problem": "not installed"},
        ]});
        let settings = Settings::new(&State::default(), &agents);
        Settings { agent: "a".to_owned(), ..settings }
    }

    fn values(settings: &Settings, id: &str) -> (Value, Vec<Value>) {
        let options = serde_json::to_value(settings.options()).unwrap();
        let one = options.as_array().unwrap().iter().find(|option| option["id"] == id).unwrap().clone();
        let all = one["options"].as_array().unwrap().iter().map(|option| option["value"].clone()).collect();
        (one["currentValue"].clone(), all)
    }

    #[test]
    fn the_current_value_is_always_one_of_the_choices() {
        let mut settings = settings();
        assert_eq!(values(&settings, "agent"), (json!("a"), vec![json!("a"), json!("b")]));
        assert_eq!(
            values(&settings, "model"),
            (json!("default"), vec![json!("default"), json!("m1"), json!("m2")])
        );
        settings.model = Some("m2".to_owned());
        assert_eq!(values(&settings, "model"), (json!("m2"), vec![json!("m1"), json!("m2")]));
        assert!(settings.modes().is_none(), "nothing is known about modes");
    }

    #[test]
    fn after_the_first_prompt_the_agent_is_fixed() {
        let mut settings = settings();
        assert_eq!(settings.refuses_agent("b"), None);
        assert!(settings.refuses_agent("c").unwrap().contains("cannot be used"));
        assert!(settings.refuses_agent("d").unwrap().contains("no agent d"));
        settings.has_begun = true;
        assert!(settings.refuses_agent("b").unwrap().contains("first prompt"));
        assert_eq!(settings.refuses_agent("a"), None);
        assert_eq!(values(&settings, "agent"), (json!("a"), vec![json!("a")]));
    }
}
