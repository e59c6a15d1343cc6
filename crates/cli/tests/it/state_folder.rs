//! The state folder of a service: its permissions, and journals that are read-only.
#![cfg(unix)]

use crate::folder::Folder;
use crate::service::{PROGRAMS, Service};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Output;

const NORTH: &str = "name = \"north\"\n[[resource]]\n\
                     name = \"cluster\"\nkind = \"processors\"\ncapacity = 64\n";

/// An account without rights.
const NOBODY: u32 = 65_534;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// All files and folders below a folder, and the folder itself.
fn all_below(path: &Path) -> Vec<std::path::PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        let inside = std::fs::read_dir(path).unwrap();
        all.extend(inside.flat_map(|entry| all_below(&entry.unwrap().path())));
    }
    all
}

#[test]
fn nobody_else_can_look_into_the_state_of_a_site() {
    let folder = Folder::with("north.toml", format!("{PROGRAMS}\n{NORTH}"));
    let site = Service::start(&folder, "site --config north.toml");
    assert_eq!(site.book(1).status, 201);
    for name in ["", "/jobs"] {
        let path = folder.path(&format!("bookahead-north{name}"));
        assert_eq!(mode(&path) & 0o066, 0, "{name} has mode {:o}: at most others may pass", mode(&path));
    }
    for name in ["/journal.db", "/journal.db-wal", "/journal.db-shm"] {
        let path = folder.path(&format!("bookahead-north{name}"));
        assert_eq!(mode(&path) & 0o077, 0, "{name} has mode {:o}", mode(&path));
    }
    site.signal("TERM");
    let said = site.ended().1;
    assert!(!said.contains("state_folder_exposed"), "{said}");
}

#[test]
fn a_state_folder_that_others_can_enter_is_told() {
    let folder = Folder::with("north.toml", NORTH);
    Service::start(&folder, "site --config north.toml").stop();
    let state = folder.path("bookahead-north");
    assert!(!folder.succeed("site --config north.toml --check").err.contains("chmod"));
    set_mode(&state, 0o750);
    let checked = folder.succeed("site --config north.toml --check");
    assert!(checked.err.contains("mode 750") && checked.err.contains("chmod 700"), "{checked:?}");
    let site = Service::start(&folder, "site --config north.toml");
    site.signal("TERM");
    let said = site.ended().1;
    assert!(said.contains("state_folder_exposed") && said.contains("chmod 700"), "{said}");
    assert_eq!(mode(&state), 0o750, "it is the operator's");
    let doctor = folder.run("site doctor --config north.toml");
    assert!(doctor.out.contains("chmod 700"), "{doctor:?}");
}

/// Runs a command as an account that may not write to the folder.
fn as_nobody(folder: &Folder, line: &str) -> Output {
    let mut command = folder.command(line);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

/// A journal that cannot be written, in a folder that cannot be written.
fn read_only(folder: &Folder) {
    let state = folder.path("bookahead-north");
    set_mode(state.parent().unwrap(), 0o755);
    for path in all_below(&state) {
        set_mode(&path, if path.is_dir() { 0o555 } else { 0o444 });
    }
}

fn writable_again(folder: &Folder) {
    set_mode(&folder.path("bookahead-north"), 0o755);
    all_below(&folder.path("bookahead-north")).iter().for_each(|path| set_mode(path, 0o755));
}

#[test]
fn a_journal_on_a_disk_that_can_only_be_read_is_checked_and_exported() {
    let folder = Folder::with("north.toml", NORTH);
    let site = Service::start(&folder, "site --config north.toml");
    assert_eq!(site.book(1).status, 201);
    site.stop();
    read_only(&folder);
    let before = all_below(&folder.path("bookahead-north"));
    let checked = as_nobody(&folder, "journal check bookahead-north");
    let exported = as_nobody(&folder, "journal export bookahead-north");
    assert_eq!(all_below(&folder.path("bookahead-north")), before, "nothing is written");
    writable_again(&folder);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.contains("checksums are correct"), "{checked:?}");
    assert!(exported.status.success() && !exported.stdout.is_empty(), "{exported:?}");
}

#[test]
fn a_killed_journal_on_a_disk_that_can_only_be_read_loses_nothing_silently() {
    let folder = Folder::with("north.toml", NORTH);
    let site = Service::start(&folder, "site --config north.toml");
    assert_eq!(site.book(1).status, 201);
    site.signal("KILL");
    site.ended();
    let path = |name: &str| folder.path(&format!("bookahead-north/{name}"));
    assert!(path("journal.db-wal").metadata().unwrap().len() > 0, "what was booked is in the log");
    std::fs::create_dir(folder.path("copy")).unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        std::fs::copy(path(name), folder.path(&format!("copy/{name}"))).unwrap();
    }
    let all = folder.succeed("journal export copy").out;
    assert!(all.lines().count() > 0);

    read_only(&folder);
    let exported = as_nobody(&folder, "journal export bookahead-north");
    assert_eq!(String::from_utf8_lossy(&exported.stdout), all, "{exported:?}");
    writable_again(&folder);
    std::fs::remove_file(path("journal.db-shm")).unwrap();
    read_only(&folder);
    let refused = as_nobody(&folder, "journal check bookahead-north");
    writable_again(&folder);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("write-ahead log") && said.contains("copy"), "{said}");
}
