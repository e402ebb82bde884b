//! Names in directories: durable only after a sync of the directory.

use super::{after, child, directory, disk, files, run_to_done};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use turnstream_failpoint::reach;
use turnstream_testkit::crash::{KillPoint, role};
use turnstream_testkit::disk::{DiskError, FaultDisk, PowerCut};

const CHILD: &str = "names::naming_child";

#[test]
fn naming_child() {
    let Some(role) = role() else { return };
    let here = directory();
    let sync_directory = || File::open(&here).unwrap().sync_all().unwrap();
    let synced_file = |name: &str, text: &[u8]| {
        let mut file = File::create(here.join(name)).unwrap();
        file.write_all(text).unwrap();
        file.sync_all().unwrap();
    };
    match role.as_str() {
        "create" => synced_file("new", b"text"),
        "replace" | "replace and sync" => {
            synced_file("config.tmp", b"new");
            std::fs::rename(here.join("config.tmp"), here.join("config")).unwrap();
            if role == "replace and sync" {
                sync_directory();
            }
        }
        "remove" => std::fs::remove_file(here.join("config")).unwrap(),
        "remove and make again" => {
            std::fs::remove_file(here.join("config")).unwrap();
            synced_file("config", b"again");
        }
        "in a new directory" => {
            std::fs::create_dir(here.join("sub")).unwrap();
            synced_file("sub/file", b"text");
            File::open(here.join("sub")).unwrap().sync_all().unwrap();
        }
        "symlink" => std::os::unix::fs::symlink("config", here.join("link")).unwrap(),
        _ => return,
    }
    reach("done");
}

/// A disk that durably holds `config` with the text `old`.
fn disk_with_config() -> (tempfile::TempDir, FaultDisk) {
    let (directory, mut disk) = disk();
    std::fs::write(disk.directory().join("config"), b"old").unwrap();
    disk.settle().unwrap();
    (directory, disk)
}

fn one(name: &str, text: &[u8]) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([(name.to_owned(), text.to_owned())])
}

#[test]
fn a_new_file_is_lost_without_a_sync_of_its_directory_even_if_it_was_synced_itself() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "create");
    assert!(after(&disk, PowerCut::Nothing).0.is_empty());
    assert_eq!(after(&disk, PowerCut::Everything).0, one("new", b"text"));
}

#[test]
fn a_rename_without_a_sync_of_the_directory_can_be_lost() {
    let (_directory, disk) = disk_with_config();
    run_to_done(&disk, CHILD, "replace");
    assert_eq!(after(&disk, PowerCut::Nothing).0, one("config", b"old"));
    assert_eq!(after(&disk, PowerCut::Everything).0, one("config", b"new"));
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..30 {
        outcomes.insert(after(&disk, PowerCut::Subset(seed)).0);
    }
    let between =
        BTreeMap::from([("config".to_owned(), b"old".to_vec()), ("config.tmp".to_owned(), b"new".to_vec())]);
    let expected = [one("config", b"new"), one("config", b"old"), between];
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_rename_is_durable_after_a_sync_of_the_directory() {
    let (_directory, disk) = disk_with_config();
    run_to_done(&disk, CHILD, "replace and sync");
    assert_eq!(after(&disk, PowerCut::Nothing).0, one("config", b"new"));
}

#[test]
fn a_removed_file_comes_back_if_the_directory_was_not_synced() {
    let (_directory, disk) = disk_with_config();
    run_to_done(&disk, CHILD, "remove");
    assert!(files(disk.directory()).is_empty());
    assert_eq!(after(&disk, PowerCut::Nothing).0, one("config", b"old"));
}

#[test]
fn a_file_made_again_under_an_old_name_is_another_file() {
    let (_directory, disk) = disk_with_config();
    run_to_done(&disk, CHILD, "remove and make again");
    assert_eq!(after(&disk, PowerCut::Nothing).0, one("config", b"old"));
    assert_eq!(after(&disk, PowerCut::Everything).0, one("config", b"again"));
}

#[test]
fn a_file_is_lost_with_the_name_of_its_directory() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "in a new directory");
    assert!(after(&disk, PowerCut::Nothing).0.is_empty());
    assert_eq!(after(&disk, PowerCut::Everything).0, one("sub/file", b"text"));
}

#[test]
fn after_a_power_cut_the_child_goes_on_with_what_was_left() {
    let (_directory, mut disk) = disk_with_config();
    run_to_done(&disk, CHILD, "replace");
    disk.power_cut(PowerCut::Nothing).unwrap();
    assert_eq!(files(disk.directory()), one("config", b"old"));
    run_to_done(&disk, CHILD, "replace and sync");
    disk.power_cut(PowerCut::Nothing).unwrap();
    assert_eq!(files(disk.directory()), one("config", b"new"));
}

#[test]
fn what_the_disk_does_not_model_is_an_error_and_not_a_wrong_image() {
    let (_directory, disk) = disk_with_config();
    run_to_done(&disk, CHILD, "symlink");
    let image = tempfile::tempdir().unwrap();
    let error = disk.image(PowerCut::Nothing, image.path()).unwrap_err();
    assert!(matches!(&error, DiskError::Unmodelled { path, .. } if path == "link"), "{error}");
}

#[test]
fn a_child_without_the_shim_is_an_error_and_not_an_empty_journal() {
    let (_directory, disk) = disk();
    let mut unarmed = child(&disk, CHILD, "create");
    unarmed.command_mut().env_remove("LD_PRELOAD");
    unarmed.run(&KillPoint::failpoint("done", 1)).unwrap();
    let image = tempfile::tempdir().unwrap();
    let error = disk.image(PowerCut::Nothing, image.path()).unwrap_err();
    assert!(matches!(error, DiskError::NotAttached), "{error}");
}
