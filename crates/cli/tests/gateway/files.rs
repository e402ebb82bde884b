//! Who may read the files of a gateway, and who owns its directory.

use crate::support::{Home, prompt, read, stderr};
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        }
        found.push(path);
    }
    found
}

/// A command as a shell with a usual umask starts it.
fn with_usual_umask(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "umask 022 && exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap());
    shell
}

#[test]
fn files_of_the_gateway_are_for_its_user_and_those_of_the_project_are_as_usual() {
    let home = Home::new();
    let script = json!([{"do": "tool", "effect": {"write": {"path": "a.txt", "text": "x"}}}]);
    let played = with_usual_umask(&home.command(&["run", &prompt(&script)])).output().unwrap();
    assert!(played.status.success(), "{played:?}");
    assert_eq!(mode(&home.path("work/a.txt")), 0o644);
    let data = home.path("data");
    assert_eq!(mode(&data), 0o700);
    let files = files_below(&data);
    assert!(files.iter().any(|path| path.ends_with("log.db")), "{files:?}");
    for path in files {
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn a_data_directory_that_others_can_enter_is_refused() {
    let home = Home::new();
    home.make_data();
    std::fs::set_permissions(home.path("data"), Permissions::from_mode(0o755)).unwrap();
    for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["run", "Hello"]] {
        let refused = home.run(args);
        assert!(!refused.status.success(), "{refused:?}");
        let fix = format!("chmod 700 {}", home.path("data").display());
        assert!(stderr(&refused).contains(&fix), "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(home.path("data")).unwrap().count(), 0);
}

#[test]
fn a_directory_stays_locked_when_its_files_are_removed() {
    let home = Home::new();
    let serving = home.serve(&[]);
    std::fs::remove_file(home.path("data/lock")).unwrap();
    let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(!refused.status.success(), "{refused:?}");
    let told = format!("the gateway with process id {} serves it", serving.child.id());
    assert!(stderr(&refused).contains(&told), "{refused:?}");
}

#[test]
fn a_configuration_with_a_token_that_others_can_read_is_a_warning_and_errors_do_not_show_it() {
    let home = Home::new();
    let file = home.path("turnstream.toml");
    std::fs::write(&file, "token = \"open-sesame-0123456789abcdef\"\n").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let serving = home.serve(&["--config", file.to_str().unwrap()]);
    serving.screen();
    let told = read(&home.path("serve.err"));
    assert!(told.contains(&format!("Run: chmod 600 {}", file.display())), "{told}");
    drop(serving);
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let serving = home.serve(&["--config", file.to_str().unwrap()]);
    serving.screen();
    let told = read(&home.path("serve.err"));
    assert!(!told.contains("chmod"), "{told}");
    drop(serving);

    std::fs::write(&file, "token = \"open-sesame-0123456789abcdef\n").unwrap();
    let refused = home.run(&["serve", "--config", file.to_str().unwrap()]);
    assert!(!refused.status.success(), "{refused:?}");
    assert!(stderr(&refused).contains("1 | token = ***"), "{refused:?}");
    assert!(!stderr(&refused).contains("sesame"), "{refused:?}");
}
