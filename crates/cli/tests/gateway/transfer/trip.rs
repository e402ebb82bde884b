//! There and back again.

use super::{ask, exported, only_session, sessions, snapshot, talked};
use crate::support::{Home, prompt, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use turnstream_testkit::lawful::{Tail, assert_lawful};

#[test]
fn a_session_is_the_same_in_another_place_and_goes_on_there() {
    let (here, there) = (Home::new(), Home::new());
    let id = talked(&here);
    let file = here.path("session.jsonl");
    let file = file.to_str().unwrap();
    let export = here.run(&["export", &id, "-o", file]);
    assert_eq!(export.status.code(), Some(0), "{export:?}");
    assert_eq!(stderr(&export), format!("{}\nsession {id} is in {file}\n", here.hosted()));
    let check = here.run(&["check", file]);
    assert_eq!(check.status.code(), Some(0), "{check:?}");

    // The working directory of the session is there too, as if the home had moved.
    let roots = format!("roots = [{:?}]\n", here.path("work"));
    std::fs::write(there.path("turnstream.toml"), roots).unwrap();
    let config = there.path("turnstream.toml");
    let serving = there.serve(&["--config", config.to_str().unwrap()]);
    let import = there.run(&["import", file]);
    assert_eq!((import.status.code(), stdout(&import)), (Some(0), format!("{id}\n").as_str()), "{import:?}");
    let (header, events) = exported(&here, &id);
    let (copied, copy) = exported(&there, &id);
    assert_eq!(copy, events, "event by event, with their places and times");
    let same = |member: &str| assert_eq!(header[member], copied[member], "{member}");
    ["type", "format", "turnstream", "session", "agent", "first", "head"].into_iter().for_each(same);
    assert_ne!(header["generation"], copied["generation"], "its cursors are not those of the first");
    assert_lawful(copy.iter().map(String::as_str), Tail::Settled);

    let theirs = snapshot(&serving, &id);
    let ours = here.serve(&[]);
    assert_eq!(snapshot(&ours, &id), theirs);
    assert_eq!(theirs["session"]["status"], "idle");

    // It goes on, and survives a restart.
    let turn = there.play(&json!([{"do": "text", "text": "A third turn."}]), &["--session", &id]);
    assert_eq!((turn.status.code(), stdout(&turn)), (Some(0), "A third turn.\n"), "{turn:?}");
    assert!(serving.end(Signal::TERM).0.success());
    let (_, later) = exported(&there, &id);
    assert_eq!(later[..copy.len()], copy);
    assert!(later.len() > copy.len());
    assert_lawful(later.iter().map(String::as_str), Tail::Settled);
}

#[test]
fn an_id_that_is_taken_is_refused_and_a_new_one_helps() {
    let home = Home::new();
    let id = talked(&home);
    let file = home.path("s.jsonl");
    let file = file.to_str().unwrap();
    assert!(home.run(&["export", &id, "-o", file]).status.success());
    let refused = home.run(&["import", file]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains(&format!("session {id} exists")), "{refused:?}");
    assert!(stderr(&refused).contains("--new-id"), "{refused:?}");
    assert_eq!(only_session(&home), id);

    let import = home.run(&["import", file, "--new-id", "--json"]);
    assert_eq!(import.status.code(), Some(0), "{import:?}");
    let session: Value = serde_json::from_str(stdout(&import)).unwrap();
    let new = session["id"].as_str().unwrap();
    assert_ne!(new, id);
    let ((_, events), (header, copy)) = (exported(&home, &id), exported(&home, new));
    assert_eq!((&header["session"], copy.len()), (&json!(new), events.len()));
    assert_eq!(copy[0], events[0].replace(&id, new), "it is said in the first event");
    assert_eq!(copy[1..], events[1..]);
    assert_eq!(sessions(&home).len(), 2);
}

#[test]
fn an_agent_that_is_not_here_is_said_and_the_session_can_be_read() {
    let (here, there) = (Home::new(), Home::new());
    let config = here.path("turnstream.toml");
    std::fs::write(&config, "[agents.mine]\nkind = \"scripted\"\n").unwrap();
    let config = config.to_str().unwrap();
    let script = json!([{"do": "text", "text": "Mine."}]);
    let turn = here.play(&script, &["--agent", "mine", "--permissions", "allow", "--config", config]);
    assert_eq!(turn.status.code(), Some(0), "{turn:?}");
    let id = only_session(&here);
    let file = here.path("s.jsonl");
    assert!(here.run(&["export", &id, "-o", file.to_str().unwrap()]).status.success());

    let import = there.run(&["import", file.to_str().unwrap()]);
    assert_eq!(import.status.code(), Some(0), "{import:?}");
    assert!(stderr(&import).contains("there is no agent \"mine\" here"), "{import:?}");
    assert_eq!(sessions(&there)[0]["permissions"], "ask", "it does not do everything unasked here");
    assert!(stdout(&there.run(&["export", &id, "--format", "markdown"])).contains("\nMine.\n"));
    let prompted = there.play(&script, &["--session", &id]);
    assert_ne!(prompted.status.code(), Some(0), "{prompted:?}");
    assert!(
        stderr(&prompted).contains("there is no agent \"mine\" in the configuration; add it to continue"),
        "{prompted:?}"
    );
}

#[test]
fn an_imported_session_does_not_work_outside_the_roots() {
    let (here, there) = (Home::new(), Home::new());
    let id = talked(&here);
    let file = here.path("s.jsonl");
    assert!(here.run(&["export", &id, "-o", file.to_str().unwrap()]).status.success());
    assert!(there.run(&["import", file.to_str().unwrap()]).status.success());
    let script =
        json!([{"do": "tool", "title": "Write", "effect": {"write": {"path": "planted", "text": "t"}}}]);
    let prompted = there.play(&script, &["--session", &id, "--permissions", "allow"]);
    assert_ne!(prompted.status.code(), Some(0), "{prompted:?}");
    assert!(stderr(&prompted).contains("is not below a root"), "{prompted:?}");
    assert!(!here.path("work/planted").exists());
}

#[test]
fn what_is_open_is_not_exported_until_it_is_over() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let first = json!([{"do": "text", "text": "Finished."}]);
    assert!(home.play(&first, &[]).status.success());
    let id = only_session(&home);
    let (_, settled) = exported(&home, &id);

    let stalled = prompt(&json!([{"do": "text", "text": "SECRET OF THE OPEN TURN"}, {"do": "stall"}]));
    let body = json!({"content": [{"type": "text", "text": stalled}]}).to_string();
    let (status, _) = ask(&serving, "POST", &format!("/v1/sessions/{id}/prompts"), body.as_bytes());
    assert_eq!(status, 202);
    wait_for(|| {
        let log = home.run(&["tail", &id, "--json", "--no-follow"]);
        stdout(&log).contains("\"text\":\"SECRET").then_some(())
    });
    let (header, events) = exported(&home, &id);
    assert_eq!(events, settled, "up to the last moment at which nothing was open");
    assert!(header["left_out"].as_u64().unwrap() > 0, "{header}");
    assert_eq!(header["head"], events.len());
    let told = home.run(&["export", &id, "--format", "markdown"]);
    assert!(stderr(&told).contains("--wait waits for its end"), "{told:?}");
    assert!(stdout(&told).contains("unfinished part is not in it"), "{told:?}");
    assert!(!stdout(&told).contains("SECRET"), "{told:?}");

    let waiting = home.command(&["export", &id, "--wait"]).spawn().unwrap();
    let (status, _) = ask(&serving, "POST", &format!("/v1/sessions/{id}/cancel"), b"");
    assert_eq!(status, 202);
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    let lines: Vec<&str> = stdout(&waited).lines().collect();
    assert!(!lines[0].contains("left_out"), "{}", lines[0]);
    assert!(lines.last().unwrap().contains("\"idle\""), "{waited:?}");
    assert_lawful(lines, Tail::Settled);
}

#[test]
fn a_file_appears_whole_and_none_is_replaced_unasked() {
    let home = Home::new();
    let id = talked(&home);
    let file = home.path("out/s.md");
    std::fs::create_dir(home.path("out")).unwrap();
    let run = |more: &[&str]| {
        let path = file.to_str().unwrap();
        home.run(&[&["export", &id, "--format", "markdown", "-o", path], more].concat())
    };
    assert!(run(&[]).status.success());
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("# ") && page.contains("An answer with \u{1F600}"), "{page}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&file, "mine").unwrap();
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("--force replaces it"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert!(run(&["--force"]).status.success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), page, "the same session gives the same page");

    let unknown = home.run(&["export", "ses_nope", "-o", home.path("out/x").to_str().unwrap()]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(stderr(&unknown).contains("there is no session ses_nope"), "{unknown:?}");
    let left: Vec<_> =
        std::fs::read_dir(home.path("out")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["s.md"], "nothing half is left");
}

#[test]
fn others_go_on_while_a_session_is_imported() {
    let (here, there) = (Home::new(), Home::new());
    let id = talked(&here);
    let file = here.path("s.jsonl");
    assert!(here.run(&["export", &id, "-o", file.to_str().unwrap()]).status.success());
    let _serving = there.serve(&[]);
    let words: Vec<Value> =
        (0..200).map(|number| json!({"do": "text", "text": format!("{number} ")})).collect();
    let talk = json!({"script": words, "pace_ms": 2}).to_string();
    let talking: Vec<_> = (0..3).map(|_| there.command(&["run", &talk]).spawn().unwrap()).collect();
    for _ in 0..10 {
        let import = there.run(&["import", file.to_str().unwrap(), "--new-id"]);
        assert_eq!(import.status.code(), Some(0), "{import:?}");
    }
    for talking in talking {
        let said = talking.wait_with_output().unwrap();
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        assert!(stdout(&said).contains("199"), "{said:?}");
    }
    let listed = sessions(&there);
    assert_eq!(listed.len(), 13);
    for session in listed {
        let (_, events) = exported(&there, session["id"].as_str().unwrap());
        assert_lawful(events.iter().map(String::as_str), Tail::Settled);
    }
}

#[test]
fn a_session_that_has_ended_is_one_that_has_ended() {
    let (here, there) = (Home::new(), Home::new());
    let id = talked(&here);
    let (mut header, mut events) = exported(&here, &id);
    // A log of an earlier version, which kept sessions that had ended.
    let head = header["head"].as_u64().unwrap() + 1;
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    let end = json!({"seq": head, "time": last["time"], "type": "session.ended", "reason": "deleted"});
    header["head"] = json!(head);
    events.push(end.to_string());
    let file = format!("{header}\n{}\n", events.join("\n"));
    let serving = there.serve(&[]);
    let (status, session) = ask(&serving, "POST", "/v1/import", file.as_bytes());
    assert_eq!((status, &session["ended"]), (201, &json!("deleted")), "{session}");
    assert_eq!(exported(&there, &id).1, events);
}

#[test]
fn how_large_a_file_may_be_is_configured() {
    let (here, there) = (Home::new(), Home::new());
    here.play(&json!([{"do": "burst", "count": 1100, "bytes": 1024}]), &[]);
    let file = here.path("s.jsonl");
    let id = sessions(&here)[0]["id"].as_str().unwrap().to_owned();
    assert!(here.run(&["export", &id, "-o", file.to_str().unwrap()]).status.success());
    let _serving = there.serve(&["--import-mib", "1"]);
    let refused = there.run(&["import", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("may have 1048576 bytes"), "{refused:?}");
    assert!(sessions(&there).is_empty());
}
