//! What a person does with the TUI, the same for every agent. Each agent brings a model that plays along.

use crate::opencode_clients::{Clients, Tui};
use crate::opencode_events::Watch;
use crate::support::{Home, Serving, ask, stdout, wait_for};
use serde_json::{Value, json};
use turnstream_fake_provider::{Fault, Step};

/// A gateway with one agent, and how that agent is spoken to.
pub(crate) struct Scene<'a> {
    pub(crate) home: &'a Home,
    pub(crate) serving: &'a Serving,
    /// Its name, as the TUI writes it.
    pub(crate) agent: &'a str,
    /// How prompts begin.
    pub(crate) mark: &'a str,
}

/// The answers of a model to [`Scene::play`]. `shell` calls a shell that needs a permission, after the words
/// "I run it.".
pub(crate) fn steps(shell: impl Fn(&str) -> Step) -> Vec<Step> {
    // Codex shows nothing of the first bytes.
    let stalled = Fault::Stall { after: 9_000, lasts_ms: None, comment_every_ms: None };
    vec![
        Step::text("Hello, I am the model."),
        shell("touch first.txt"),
        Step::text("The first is there."),
        shell("touch second.txt"),
        Step::text("Then not."),
        Step::text(&"I go on and on. ".repeat(400)).fault(stalled),
    ]
}

impl Scene<'_> {
    pub(crate) fn clients(&self) -> Clients {
        Clients::new(self.home, &self.serving.token())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/opencode", self.serving.address)
    }

    pub(crate) fn attach<'c>(&self, clients: &'c Clients, more: &str) -> Tui<'c> {
        clients.attach(&self.url(), more)
    }

    pub(crate) fn say(&self, tui: &Tui<'_>, text: &str) {
        tui.say(format!("{} {text}", self.mark).trim());
    }

    /// Attach, prompt, approve on a second TUI, reject, interrupt. In the end both show the same, and each
    /// turn was busy once and idle once.
    pub(crate) fn play(&self) {
        let (clients, watch) = (self.clients(), Watch::default());
        watch.open(&self.serving.address);
        let tui = self.attach(&clients, "");
        // The demo agent comes with every gateway; the configured one is the first of the list.
        tui.until(&[self.agent]);
        self.say(&tui, "Who are you");
        tui.until(&["Who are you", "Hello, I am the model."]);
        self.say(&tui, "Make the first");
        tui.until(&["I run it.", "Permission required", "touch first.txt"]);
        // History, and what waits.
        let second = self.attach(&clients, "--continue");
        second.until(&["Hello, I am the model.", "Make the first", "Permission required", "touch first.txt"]);
        second.keys(&["Enter"]);
        for tui in [&tui, &second] {
            tui.until(&["The first is there."]);
            tui.until_without("Permission required");
        }
        assert!(self.home.path("work/first.txt").exists());
        self.say(&tui, "Make the second");
        tui.until(&["Permission required", "touch second.txt"]);
        tui.keys(&["Right", "Right", "Enter"]);
        tui.until(&["Then not."]);
        assert!(!self.home.path("work/second.txt").exists());
        self.say(&tui, "Talk");
        tui.until(&["I go on and on.", "esc interrupt"]);
        tui.interrupt();
        second.until(&["interrupted"]);
        let told = ["Who are you", "Hello, I am", "touch first.txt", "The first", "Then not.", "interrupted"];
        second.until_same(&tui, &told);
        watch.assert_idle_once(&self.serving.address, &self.session(), 4);
    }

    /// A question of the agent on two screens, answered on one of them.
    pub(crate) fn answer_a_question(&self, tui: &Tui<'_>, clients: &Clients) {
        self.say(tui, "Ask me");
        tui.until(&["Tea or coffee?", "Tea", "Coffee"]);
        let second = self.attach(clients, "--continue");
        second.until(&["Tea or coffee?"]);
        tui.keys(&["Down", "Enter"]);
        tui.until(&["Then it is that one."]);
        second.until(&["Then it is that one."]);
    }

    /// `opencode run --attach`, which rejects permissions, and the list of messages over the API.
    pub(crate) fn run(&self, text: &str, answer: &str) {
        let clients = self.clients();
        let mut run = clients.command(&clients.program());
        run.args(["run", "--attach", &self.url(), format!("{} {text}", self.mark).trim()]);
        let output = run.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(stdout(&output).contains(answer), "{output:?}");
        let (_, listed) = ask(&self.serving.address, "GET", "/opencode/session?limit=1", &json!({}));
        let id = listed[0]["id"].as_str().unwrap();
        let path = format!("/opencode/session/{id}/message?limit=2");
        let last = wait_for(|| {
            let (_, messages) = ask(&self.serving.address, "GET", &path, &json!({}));
            messages[1]["info"]["time"]["completed"].is_number().then_some(messages)
        });
        let texts = |part: &Value| part["text"].as_str().unwrap_or_default().contains(answer);
        let messages = last.as_array().unwrap().iter();
        let mut parts = messages.flat_map(|message| message["parts"].as_array().unwrap());
        assert!(parts.any(texts), "{last}");
    }

    /// The gateway's id of the session that was used last.
    fn session(&self) -> String {
        let (_, listed) = ask(&self.serving.address, "GET", "/v1/sessions?limit=1", &json!({}));
        listed["sessions"][0]["id"].as_str().unwrap().to_owned()
    }
}
