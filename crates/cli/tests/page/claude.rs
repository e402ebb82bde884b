//! The real Claude Code in the page. The provider plays a script; `web/tests/claude.test.mjs` does the rest.

use crate::run_with;
use serde_json::json;
use std::path::Path;
use turnstream_fake_provider::{Completion, Part, Pieces, Provider, Script, Step, Usage};
use turnstream_testkit::agents::{ClaudeHome, ClaudeVersion};

/// The file that Claude Code reads and changes.
const FILE: &str = "refunds.rs";
const OTHER: &str = "db.rs";
const BEFORE: &str = "/// Pays a refund out, once for each delivery.
pub fn on_webhook(db: &mut Db, delivery: &Delivery) -> Reply {
    if db.seen(&delivery.id) {
        return Reply::Ok;
    }
    db.pay_out(delivery.amount);
    Reply::Ok
}
";
/// The first words, in two pieces. The test stops the provider between them.
const BEGINNING: [&str; 2] = ["I read how refunds are paid out.", " Somebody else looks for other callers."];
/// The prompt of the subagent.
const ERRAND: &str = "Find every caller of pay_out.";
/// It writes a file: Claude Code asks only for those that do.
const TESTS: &str = r"touch tests.log; printf '\033[32m   Compiling\033[0m refunds v0.9.2\nrunning 2 tests\ntest first ... \033[32mok\033[0m\ntest replay ... \033[32mok\033[0m\n'";
const REPLY: &str = "Fixed. A replay of the same event now pays **nothing**:

- `on_webhook` asks for the *event*, which a replay repeats.
- Both tests pass.

```rust
if db.seen(&delivery.event) {
    return Reply::Ok;
}
```

| case | paid |
|---|---|
| first delivery | 1 |
| replay | 0 |
";

fn step(parts: impl IntoIterator<Item = Part>, input: u64, output: u64) -> Step {
    let usage = Usage { input, cached: 0, output, reasoning: 0 };
    Step::new(Completion { usage, ..Completion::of(parts) })
}

/// A turn with thoughts, a subagent, a change and a command, which both ask, and a reply.
fn script(work: &Path) -> Script {
    let file = work.join(FILE);
    let read = || Part::tool_call("Read", json!({"file_path": file}));
    let errand = json!({"description": "Find the callers", "prompt": ERRAND,
        "subagent_type": "general-purpose", "run_in_background": false});
    let edit = json!({"file_path": file, "old_string": "    if db.seen(&delivery.id) {",
        "new_string": "    if db.seen(&delivery.event) {"});
    let command = json!({"command": TESTS, "description": "Run the tests of refunds"});
    let of_subagent = [
        step([read(), Part::tool_call("Read", json!({"file_path": work.join(OTHER)}))], 8_000, 60),
        step([Part::text("Only `on_webhook` calls it.")], 9_000, 40),
    ];
    let of_main = [
        step(
            [
                Part::reasoning("A replay is a new delivery of the same event. What is remembered?"),
                Part::Text { text: Pieces::Given(BEGINNING.map(str::to_owned).to_vec()) },
                read(),
                Part::tool_call("Task", errand),
            ],
            41_200,
            310,
        ),
        step([Part::text("It remembers the delivery."), Part::tool_call("Edit", edit)], 43_000, 190),
        step([Part::tool_call("Bash", command)], 44_100, 80),
        step([Part::text(REPLY)], 45_000, 420),
    ];
    let of_subagent = of_subagent.map(|step| step.for_any_user_text(ERRAND));
    Script::new(of_subagent.into_iter().chain(of_main).chain([Step::text("Yes.").always()]))
}

#[test]
fn a_session_of_claude_code_is_driven_from_the_page() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let work = place.path().join("refunds");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join(FILE), BEFORE).unwrap();
    std::fs::write(work.join(OTHER), "pub struct Db;\n").unwrap();
    let provider = runtime.block_on(Provider::start(script(&work))).unwrap();
    let claude = ClaudeHome::new(ClaudeVersion::V2_1_197, &provider.base_url()).unwrap();
    let env = claude.environment().into_iter();
    let env: Vec<String> =
        env.map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap())).collect();
    let config = format!(
        "roots = [{:?}]\n[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\n\
         [agents.claude]\nkind = \"claude\"\ncommand = {:?}\nenv = {{ {} }}\n",
        place.path(),
        claude.command().unwrap(),
        env.join(", ")
    );
    let more = [
        ("CONFIG", config),
        ("PROVIDER", provider.address().to_string()),
        ("WORK", work.display().to_string()),
    ];
    run_with("web/tests", "claude.test.mjs", &more);
}
