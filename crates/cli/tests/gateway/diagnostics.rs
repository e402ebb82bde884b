//! Log lines: which are printed where, in which form, and what they never do to a terminal.

use crate::support::{Home, read, send, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// Serves once with this configuration, and returns what was written to standard error.
fn served(home: &Home, file: &str, variables: &[(&str, &str)]) -> String {
    let config = home.path("turnstream.toml");
    std::fs::write(&config, file).unwrap();
    let serving = home.serve_armed(&["--config", config.to_str().unwrap()], |command| {
        command.envs(variables.iter().copied());
    });
    serving.screen();
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success(), "{status}");
    read(&home.path("serve.err"))
}

#[test]
fn a_gateway_logs_its_start_and_its_end_and_nothing_above_info() {
    let home = Home::new();
    let log = served(&home, "", &[]);
    assert!(log.contains(" INFO turnstream::serve: listening address="), "{log}");
    assert!(log.contains(" gateway stopped "), "{log}");
    assert!(!log.contains(" WARN ") && !log.contains(" ERROR ") && !log.contains('\x1b'), "{log}");
    assert!(!read(&home.path("serve.out")).contains("INFO"));
}

#[test]
fn log_lines_are_json_where_the_configuration_says_so() {
    let home = Home::new();
    let log = served(&home, "log_format = \"json\"\n", &[]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let started = lines.iter().find(|line| line["message"] == "gateway started").expect(&log);
    assert_eq!(
        (&started["level"], &started["target"]),
        (&"INFO".into(), &"turnstream_gateway::gateway".into())
    );
    assert_eq!(started["path"], home.path("data").display().to_string());
}

#[test]
fn the_variable_wins_over_the_configuration() {
    let home = Home::new();
    assert_eq!(served(&home, "log = \"info\"\n", &[("RUST_LOG", "off")]), "");
    assert_eq!(served(&home, "log = \"error\"\n", &[]), "");
    assert!(served(&home, "log = \"off\"\n", &[("RUST_LOG", "turnstream=info")]).contains("listening"));
}

#[test]
fn a_filter_that_cannot_be_used_is_refused_with_the_way_out() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    for (file, told) in [
        ("log = \"loud\"\n", "1 | log = \"loud\""),
        ("log = \"info,turnstream_log=loud\"\n", "for example info,turnstream_log=debug"),
        ("log_format = \"xml\"\n", "`xml` is not known; it must be `human` or `json`"),
        ("otlp = \"127.0.0.1:4318\"\n", "write it like http://127.0.0.1:4318"),
    ] {
        std::fs::write(&config, file).unwrap();
        let refused = home.run(&["serve", "--config", config.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains(told), "{refused:?}");
    }
    for command in ["serve", "sessions"] {
        for filter in ["turnstream=loud", "verbose"] {
            let refused = home.command(&[command]).env("RUST_LOG", filter).output().unwrap();
            assert_eq!(refused.status.code(), Some(2), "{refused:?}");
            let told = format!("RUST_LOG = {filter:?} cannot be used: ");
            assert!(stderr(&refused).contains(&told), "{refused:?}");
        }
    }
    let variable = home.command(&["serve"]).env("TURNSTREAM_LOG_FORMAT", "xml").output().unwrap();
    let told = "TURNSTREAM_LOG_FORMAT = \"xml\" cannot be used: it must be human or json";
    assert!(stderr(&variable).contains(told), "{variable:?}");
}

#[test]
fn a_command_prints_no_log_lines_unless_it_is_asked_to_and_never_on_standard_output() {
    let home = Home::new();
    let quiet = home.run(&["sessions"]);
    assert_eq!(stderr(&quiet), format!("{}\n", home.hosted()), "{quiet:?}");
    let asked = home.command(&["sessions", "--json"]).env("RUST_LOG", "trace").output().unwrap();
    assert_eq!((asked.status.code(), stdout(&asked)), (Some(0), ""), "{asked:?}");
    assert!(stderr(&asked).lines().count() > 1, "{asked:?}");
}

#[test]
fn text_in_a_field_cannot_act_on_a_terminal() {
    for format in ["human", "json"] {
        let home = Home::new();
        let data = home.path("da\x1b[2J\u{202e}ta");
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--data"]);
        let mut serving = command.arg(&data).env("TURNSTREAM_LOG_FORMAT", format).spawn().unwrap();
        // The first screen comes last.
        let mut screen = BufReader::new(serving.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(screen.any(|line| line.contains("Ctrl-C")));
        send(&serving, Signal::TERM);
        let output = serving.wait_with_output().unwrap();
        let log = stderr(&output);
        assert!(log.contains("1b[2J") || log.contains("1b}[2J"), "the directory is named in it: {log}");
        assert!(!log.contains('\x1b') && !log.contains('\u{202e}'), "{log}");
    }
}
