//! Child processes: this test binary is started again, does one thing with a journal and prints the result. The
//! child runs the test below, which does nothing unless the environment asks for it.

use crate::{Note, kind, note};
use bookahead_service::config::SiteConfig;
use bookahead_service::daemon::{self, OnLostJournal};
use bookahead_service::journal::{Journal, JournalError, Lease, LeaseTerms, Options, Store, Ticket};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const WHAT: &str = "BOOKAHEAD_JOURNAL_CHILD";
const WHERE: &str = "BOOKAHEAD_JOURNAL_PATH";
const NAME: &str = "children::what_a_child_does";
pub(crate) const WRITERS: u32 = 8;
/// Lease of a child with a journal in PostgreSQL.
pub(crate) const LEASE: Duration = Duration::from_millis(500);

/// A child that performs one of the tasks below.
pub(crate) fn child(what: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]);
    with_wish(&mut command, what, path);
    command
}

/// The same with a limit on the size of files in blocks, so that writes really fail.
#[cfg(unix)]
pub(crate) fn child_with_small_files(blocks: u32, what: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {NAME} --exact --nocapture");
    command.arg("-c").arg(script).arg(std::env::current_exe().unwrap());
    with_wish(&mut command, what, path);
    command
}

fn with_wish(command: &mut Command, what: &str, path: &Path) {
    command.env(WHAT, what).env(WHERE, path).stdout(Stdio::piped()).stderr(Stdio::null());
}

#[test]
fn what_a_child_does() {
    let Ok(what) = std::env::var(WHAT) else { return };
    let path = PathBuf::from(std::env::var_os(WHERE).unwrap());
    let store = Store::parse(&path, Path::new("")).unwrap();
    match what.as_str() {
        "open" => match Journal::<Note>::open(&path, &kind()) {
            Ok(_) => say("opened"),
            Err(error) => say(&format!("refused {error}")),
        },
        "site" => serve(&path),
        "append for ever" => append_until_it_fails(&store),
        other => panic!("unknown task {other}"),
    }
}

/// A site, until it fails. Its configuration is at this path.
fn serve(config: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let site = SiteConfig::read(config).unwrap();
        let mut running = daemon::site(&site, config.parent().unwrap(), OnLostJournal::Ask).await.unwrap();
        say(&format!("failed {}", running.failed().await));
        std::process::exit(1);
    });
}

/// Eight writers, each acknowledging its notes as soon as they are on disk.
fn append_until_it_fails(store: &Store) {
    let terms = LeaseTerms { length: LEASE, ..LeaseTerms::default() };
    let options = Options { lease: Lease::new(terms, ""), ..Options::default() };
    let (journal, replay) = Journal::<Note>::open_with(store, &kind(), &options).unwrap();
    let begins = |writer| replay.events.iter().filter(|record| record.event.writer == writer).count();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (journal, begin) = (&journal, begins(writer) as u32);
            scope.spawn(move || write(journal, writer, begin));
        }
    });
    let after = journal.append(&[note(0, 0)]).map(drop).unwrap_err();
    say(&format!("after {after}"));
    say(&format!("closed {}", journal.close().unwrap_err()));
}

/// In appends of one, two or three notes, which count as one.
fn write(journal: &Journal<Note>, writer: u32, begin: u32) {
    let mut number = begin;
    loop {
        let next = number + 1 + number % 3;
        let notes: Vec<Note> = (number..next).map(|number| note(writer, number)).collect();
        let done: Result<_, JournalError> = journal.append(&notes).and_then(Ticket::wait);
        match done {
            Ok(sequences) => {
                say(&format!("ack {writer} {number} {next} {} {}", sequences.start, sequences.end));
            }
            Err(error) => return say(&format!("failed {writer} {number} {next} {error}")),
        }
        number = next;
    }
}

/// Prints whole lines, unbuffered.
fn say(line: &str) {
    static OUT: Mutex<()> = Mutex::new(());
    let _one = OUT.lock().unwrap();
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// An acknowledgement of a child: the writer, its notes, and their numbers in the journal.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    pub(crate) writer: u32,
    pub(crate) notes: std::ops::Range<u32>,
    pub(crate) sequences: std::ops::Range<u64>,
}

pub(crate) fn acknowledged(line: &str) -> Option<Acknowledged> {
    let mut words = line.strip_prefix("ack ")?.split(' ').map(|word| word.parse::<u64>().ok());
    let mut word = || words.next().flatten();
    let (writer, first, next) = (word()? as u32, word()? as u32, word()? as u32);
    Some(Acknowledged { writer, notes: first..next, sequences: word()?..word()? })
}

/// Every acknowledged note is in its place. The notes of each writer are there once, in order and without a gap.
pub(crate) fn assert_kept(store: impl Into<Store>, acknowledged: &[Acknowledged]) -> usize {
    let (journal, replay) = Journal::<Note>::open(store, &kind()).unwrap();
    drop(journal);
    assert!(replay.events.iter().map(|record| record.sequence).eq(1..=replay.events.len() as u64));
    for ack in acknowledged {
        for (number, sequence) in ack.notes.clone().zip(ack.sequences.clone()) {
            let record = &replay.events[sequence as usize - 1];
            assert_eq!(record.event, note(ack.writer, number), "record {sequence}");
        }
    }
    for writer in 0..WRITERS {
        let of_writer = replay.events.iter().map(|record| &record.event).filter(|note| note.writer == writer);
        for (number, found) in of_writer.enumerate() {
            assert_eq!(*found, note(writer, number as u32));
        }
    }
    replay.events.len()
}
