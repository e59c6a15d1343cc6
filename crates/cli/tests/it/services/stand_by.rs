//! A broker or site with two processes and one journal in a real PostgreSQL. After a take-over peers refuse the process
//! that was replaced, and clients, watchers and receivers of notices continue with the other one.

use super::asking::{Asker, now, part};
use super::grid::{Grid, SITES, Shape, knows, site};
use super::notices::Hook;
use super::process::Process;
use super::runtime;
use super::stopping::{is_held_everywhere, is_under_way, three_parts};
use super::watching::{live_through, written};
use super::witness::check_journal;
use crate::folder::{binary, shared_folder};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options};
use bookahead_plan::Seconds;
use bookahead_protocol::{Answer, Call, Request, ReservationId, State};
use bookahead_tests::polling::until_async;
use bookahead_tests::postgres::Server;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Name of the database.
const JOURNAL: &str = "journal";

/// Two processes of one party.
struct Pair {
    processes: [Process; 2],
    urls: [String; 2],
    server: Server,
    name: String,
    _folder: TempDir,
}

impl Pair {
    /// Starts both. The first one is active, the second one stands by.
    async fn start(role: &'static str, name: &str, lease: &str, text: &str) -> Pair {
        let (server, folder) = (Server::start(&[]), shared_folder());
        let state = server.database(JOURNAL);
        let urls = [0, 1].map(|_| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            format!("http://{}", free.local_addr().unwrap())
        });
        let processes = [0, 1].map(|at: usize| {
            let folder = folder.path().join(at.to_string());
            std::fs::create_dir(&folder).unwrap();
            let listen = urls[at].trim_start_matches("http://");
            let own = format!("listen = \"{listen}\"\nstate = \"{state}\"\nlease = \"{lease}\"\n");
            Process::new(&folder, None, role, name, &(own + text))
        });
        let mut pair = Pair { processes, urls, server, name: name.to_owned(), _folder: folder };
        pair.processes[0].start(None).await;
        pair.processes[0].share_keys(&pair.processes[1]);
        pair.stand_by(1).await;
        pair
    }

    /// Starts a process while the other one is active.
    async fn stand_by(&mut self, at: usize) {
        self.processes[at].launch(&[], None);
        let process = &self.processes[at];
        until_async(async || {
            let said = process.said_now();
            if said.contains("standing by") { Ok(()) } else { Err(format!("it stands by: {said}")) }
        })
        .await;
    }

    /// Both addresses.
    fn server(&self) -> String {
        self.urls.join(",")
    }

    /// A client with both addresses, which soon leaves one that does not answer.
    fn asker(&self) -> Asker {
        Asker::with_time_out(&self.server(), "ada", Duration::from_secs(2))
    }

    fn journal(&self) -> PathBuf {
        format!("{}?party={}", bookahead_tests::postgres::url(self.server.port(), JOURNAL), self.name).into()
    }

    fn epoch(&self) -> u64 {
        self.server.sql(JOURNAL, "SELECT epoch FROM bookahead.party").parse().unwrap()
    }
}

/// A process with this epoch is refused by a site, and changes nothing there.
async fn is_superseded(site: &Asker, epoch: u64) {
    let [part] = &site.live().await.unwrap()[..] else { panic!("one part is there") };
    let replaced = site.client().with_epoch(&"grid".into(), epoch);
    let refused = replaced.cancel(part.id).await.unwrap_err();
    let ClientError::Refused(problem) = &refused else { panic!("{refused:?}") };
    assert_eq!((problem.status, problem.code.as_str()), (409, "superseded"), "{problem:?}");
    assert_eq!(site.live().await.unwrap().len(), 1, "nothing was done");
}

#[test]
fn a_broker_that_is_replaced_during_a_negotiation_answers_nothing_and_is_refused_by_its_sites() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        for name in SITES {
            grid.start("site", name, &site(name, ""), None).await;
        }
        let patient =
            "[security]\ntrust_local_users = true\n[rules]\nsurvey_time = \"10m\"\nhold_time = \"10m\"";
        let text = grid.broker_of("grid", patient, &SITES);
        let mut pair = Pair::start("broker", "grid", "2s", &text).await;
        let broker = pair.asker();
        knows(&broker, &Shape::Flat.offered()).await;
        let replaced = pair.epoch();
        // One site is asleep, so that the negotiation does not end.
        grid.of("west").signal("STOP");
        let call = three_parts(&broker);
        let asking = tokio::spawn({
            let (broker, call) = (broker.clone(), call.clone());
            async move { broker.insist(&call).await }
        });
        is_under_way(&grid).await;
        pair.processes[0].signal("STOP");
        grid.of("west").signal("CONT");
        let once = Options { user: Some("ada".into()), patience: Duration::ZERO, ..Options::default() };
        let late = Client::new(&pair.urls[0], once).unwrap();
        let late = tokio::spawn(async move { late.list(&api::ListQuery::default()).await });
        // The other process takes over, and answers the same call.
        let answer = asking.await.unwrap();
        assert!(matches!(&answer, Answer::Reservation(held) if held.state == State::Held), "{answer:?}");
        assert!(pair.epoch() > replaced);
        pair.processes[0].signal("CONT");
        let (status, said) = pair.processes[0].ended().await;
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("lease"), "{said}");
        let late = late.await.unwrap();
        assert!(late.is_err(), "it answered without its lease: {late:?}");

        let committed = broker.get(Call::Commit { id: call.call.id().unwrap(), jobs: Vec::new() }).await;
        assert_eq!(committed.state, State::Committed);
        is_held_everywhere(&grid).await;
        for name in SITES {
            is_superseded(&grid.asker(name), replaced).await;
        }
        // A site remembers the process of its broker over a restart.
        grid.of_mut("north").restart().await;
        let north = grid.asker("north");
        is_superseded(&north, replaced).await;
        let active = north.client().with_epoch(&"grid".into(), pair.epoch());
        active.list(&api::ListQuery::default()).await.unwrap();
        grid.check_journals();
        check_journal(&pair.journal());
    });
}

/// `bookahead watch`, and the events that it prints.
struct Watching {
    child: Child,
    lines: Receiver<api::Event>,
}

impl Watching {
    /// From the first event on.
    fn start(server: &str) -> Watching {
        let mut command = binary();
        command.args(["watch", "--after", "0", "--json", "--user", "ada", "--server", server]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // The test may have ended.
                let _ = send.send(serde_json::from_str(&line).unwrap());
            }
        });
        Watching { child, lines }
    }

    /// Events up to one with this number.
    async fn until(&self, last: u64) -> Vec<(u64, String, ReservationId)> {
        let mut told: Vec<(u64, String, ReservationId)> = Vec::new();
        until_async(async || {
            for event in self.lines.try_iter() {
                let Some(id) = event.reservation else { panic!("an event was missed: {event:?}") };
                told.push((event.sequence, event.kind, id));
            }
            if told.last().is_some_and(|event| event.0 >= last) { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
        told
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn commands_and_watchers_with_both_addresses_continue_over_take_overs_without_missing_or_repeating_an_event()
{
    runtime().block_on(async {
        let mut pair = Pair::start("site", "north", "2s", &site("north", "")).await;
        let (ada, journal) = (pair.asker(), pair.journal());
        let watching = Watching::start(&pair.server());
        let mut told = Vec::new();
        for active in [0, 1, 0] {
            live_through(&ada).await;
            let written = written(&journal);
            told.extend(watching.until(written.last().unwrap().0).await);
            assert_eq!(told, written, "every event once, in order");
            pair.processes[active].kill9();
            let mut command = binary();
            command.args(["list", "--json", "--user", "ada", "--server", &pair.server()]);
            until_async(async || {
                let listed = command.output().unwrap();
                let why = String::from_utf8_lossy(&listed.stderr).into_owned();
                if listed.status.success() { Ok(()) } else { Err(why) }
            })
            .await;
            pair.stand_by(active).await;
        }
        live_through(&ada).await;
        let written = written(&journal);
        told.extend(watching.until(written.last().unwrap().0).await);
        assert_eq!((told.len(), &told), (24, &written));
        check_journal(&journal);
    });
}

#[test]
fn the_process_that_takes_over_delivers_the_notices_that_wait() {
    runtime().block_on(async {
        let Some(hook) = Hook::new() else { return eprintln!("left out: there is no python3") };
        let mut pair = Pair::start("site", "north", "2s", &site("north", &hook.config())).await;
        let ada = pair.asker();
        let request = Request::single(part(1, now() + Seconds(3_600), 60));
        let id = hook.book(&ada, request).await;
        pair.processes[0].kill9();
        let mut receiver = hook.receive();
        let notice = receiver.notice();
        assert_eq!((notice.reservation, notice.what.as_str()), (id, "committed"));
        ada.get(Call::Cancel { id }).await;
        // The receiver drops repeated notices, so this is the next one.
        assert_eq!(receiver.notice().what, "cancelled");
        // Nothing is delivered again by the process after that.
        pair.stand_by(0).await;
        pair.processes[1].kill9();
        let again = hook.book(&ada, Request::single(part(1, now() + Seconds(7_200), 60))).await;
        let notice = receiver.notice();
        assert_eq!((notice.reservation, notice.what.as_str()), (again, "committed"));
        check_journal(&pair.journal());
    });
}

#[test]
fn a_broker_whose_journal_is_moved_to_another_database_is_not_taken_for_an_old_process() {
    runtime().block_on(async {
        let mut grid = Grid::new();
        grid.start("site", "north", &site("north", ""), None).await;
        let (server, folder) = (Server::start(&[]), shared_folder());
        let urls = ["before", "after"].map(|name| server.database(name));
        let text =
            |url: &str| grid.broker_of("grid", &format!("state = \"{url}\"\nlease = \"1s\""), &["north"]);
        let mut broker = Process::new(folder.path(), None, "broker", "grid", &text(&urls[0]));
        for _ in 0..3 {
            broker.start(None).await;
            knows(&Asker::new(&broker.url(), "ada"), &["north/cluster"]).await;
            broker.signal("TERM");
            assert!(broker.ended().await.0.success());
        }
        let copied = binary().args(["journal", "copy", &urls[0], &urls[1]]).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let mut moved = Process::new(folder.path(), None, "broker", "grid", &text(&urls[1]));
        moved.start(None).await;
        let ada = Asker::new(&moved.url(), "ada");
        knows(&ada, &["north/cluster"]).await;
        let request = Request::single(part(1, now() + Seconds(3_600), 60));
        let id = super::asking::new_id();
        assert_eq!(ada.get(super::asking::book(id, request)).await.state, State::Committed);
    });
}
