//! Three processes of one site with a journal in a real PostgreSQL. The active one is killed, stopped, cut off from the
//! database, or loses the answer to a commit; the database is killed and restarted. Clients go on meanwhile: no
//! acknowledged promise may be lost or changed, no capacity promised twice, and a process that wakes up without its
//! lease must answer nothing.

use super::asking::{Asker, book, is_live, new_id, now, window};
use super::{PATIENCE, quick, runtime};
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::{Answer, Request, ReservationId};
use bookahead_tests::postgres::{Proxy, Server, url};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROCESSES: usize = 3;
const CAPACITY: u32 = 64;
/// Short, so that a round is. Twice the longest pause of an unoptimised process on a busy machine.
const LEASE: Duration = Duration::from_secs(1);

/// What happens to the active process or its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Stop,
    CutOff,
    CommitUnknown,
    DatabaseRestart,
}

const FAULTS: [Fault; 5] =
    [Fault::Kill, Fault::Stop, Fault::CutOff, Fault::CommitUnknown, Fault::DatabaseRestart];

impl Fault {
    /// Whether another process takes over.
    fn ends_the_active(self) -> bool {
        matches!(self, Fault::Kill | Fault::Stop | Fault::CutOff)
    }
}

/// One process of the site.
struct Member {
    folder: PathBuf,
    port: u16,
    proxy: Proxy,
    child: Option<Child>,
}

impl Member {
    fn new(folder: &TempDir, number: usize, server: &Server) -> Member {
        let folder = folder.path().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let proxy = Proxy::to(server.port());
        let state = url(proxy.port(), "site");
        let config = format!(
            "name = \"north\"\nlisten = \"127.0.0.1:{port}\"\nstate = \"{state}\"\nlease = \"{}ms\"\n\n\
             [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = {CAPACITY}\n",
            LEASE.as_millis()
        );
        std::fs::write(folder.join("north.toml"), config).unwrap();
        Member { folder, port, proxy, child: None }
    }

    /// Starts it, or starts it again after it has ended, as systemd does.
    fn keep_running(&mut self) {
        let ended = self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
        if ended {
            let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
            command.args(["site", "--config"]).arg(self.folder.join("north.toml"));
            command.env_remove("BOOKAHEAD_LOG").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            self.child = Some(command.spawn().unwrap());
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    fn asker(&self) -> Asker {
        Asker::hasty(&format!("http://127.0.0.1:{}", self.port))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = (child.kill(), child.wait());
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            eprintln!("== {}\n{log}", self.folder.display());
        }
    }
}

struct World {
    server: Server,
    members: Vec<Member>,
    /// Slots of all acknowledged promises.
    promised: BTreeMap<ReservationId, Vec<api::Slot>>,
    asked: u32,
    _folder: TempDir,
}

impl World {
    fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&[]);
        server.database("site");
        let members = (0..PROCESSES).map(|number| Member::new(&folder, number, &server)).collect();
        World { server, members, promised: BTreeMap::new(), asked: 0, _folder: folder }
    }

    /// Books one more slot at whichever process answers, and returns it. Repeats the call with its key.
    async fn book_one(&mut self) -> usize {
        let (id, begin) = (new_id(), now() + Seconds(86_400));
        let capacity = 1 + self.asked % 40;
        self.asked += 1;
        let part = window(capacity, begin, 600, begin + Seconds(30 * 86_400));
        let askers: Vec<Asker> = self.members.iter().map(Member::asker).collect();
        let envelope = askers[0].envelope(book(id, Request::single(part)));
        let until = Instant::now() + PATIENCE;
        loop {
            for (at, asker) in askers.iter().enumerate() {
                match asker.client().call(&envelope, None).await {
                    Ok(Answer::Reservation(_)) => {
                        let shown = asker.client().show(id).await;
                        // Another process may be active already; the next round compares.
                        if let Ok(shown) = shown {
                            self.promised.insert(id, shown.slots);
                        }
                        return at;
                    }
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => self.members[at].keep_running(),
                }
            }
            assert!(Instant::now() < until, "no process answers");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everything that was promised is there, with its terms, and fits.
    async fn check(&mut self, active: usize) {
        let all = self.members[active].asker().all().await.unwrap();
        let live: BTreeMap<_, _> =
            all.iter().filter(|one| is_live(one.state)).map(|one| (one.id, one)).collect();
        for (id, slots) in &self.promised {
            let shown = live.get(id).unwrap_or_else(|| panic!("{id} was acknowledged, and is lost"));
            assert_eq!(&shown.slots, slots, "{id} was changed");
        }
        let slots: Vec<_> = live.values().flat_map(|one| &one.slots).collect();
        for at in slots.iter().map(|slot| slot.begin) {
            let taken =
                slots.iter().filter(|slot| slot.begin <= at && at < slot.end).map(|slot| slot.capacity);
            assert!(taken.sum::<u32>() <= CAPACITY, "too much is promised at {at:?}");
        }
    }

    /// Lets something happen, and returns how long no call was answered.
    async fn suffer(&mut self, fault: Fault, active: usize) -> Duration {
        let began = Instant::now();
        match fault {
            Fault::Kill => self.members[active].signal("-KILL"),
            Fault::Stop => self.members[active].signal("-STOP"),
            Fault::CutOff => self.members[active].proxy.block(true),
            Fault::CommitUnknown => self.members[active].proxy.cut_after_commit(),
            Fault::DatabaseRestart => {
                self.server.kill();
                self.server.start_again();
            }
        }
        // A request that waits while the process is stopped is answered after it wakes up, if at all.
        let asker = Asker::new(&format!("http://127.0.0.1:{}", self.members[active].port), "operator");
        let waiting = matches!(fault, Fault::Stop | Fault::CutOff).then(|| {
            tokio::spawn(async move { asker.client().list(&api::ListQuery::default()).await.is_ok() })
        });
        let now_active = self.book_one().await;
        let took = began.elapsed();
        if fault.ends_the_active() {
            assert_ne!(now_active, active, "{fault:?}: the old process answered");
        }
        match fault {
            Fault::Stop => self.members[active].signal("-CONT"),
            Fault::CutOff => self.members[active].proxy.block(false),
            _ => {}
        }
        if let Some(waiting) = waiting {
            // While it was cut off, its lease lasted for a moment, and reads were right.
            assert!(
                !waiting.await.unwrap() || fault == Fault::CutOff,
                "{fault:?}: it answered without its lease"
            );
            for _ in 0..20 {
                let answer = self.members[active].asker().client().list(&api::ListQuery::default()).await;
                assert!(answer.is_err(), "{fault:?}: it answered without its lease");
                self.members[active].keep_running();
            }
        }
        took
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[test]
fn whatever_happens_to_the_active_process_promises_are_kept_and_another_one_goes_on() {
    let rounds = match std::env::var_os("BOOKAHEAD_TEST_LONG") {
        Some(_) => 300,
        None if quick() => 5,
        None => 10,
    };
    runtime().block_on(async {
        let mut world = World::start();
        world.members.iter_mut().for_each(Member::keep_running);
        let mut active = world.book_one().await;
        let mut took: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
        for round in 0..rounds {
            let fault = FAULTS[round % FAULTS.len()];
            for _ in 0..3 {
                active = world.book_one().await;
            }
            let time = world.suffer(fault, active).await;
            took.entry(fault).or_default().push(time);
            world.members.iter_mut().for_each(Member::keep_running);
            active = world.book_one().await;
            world.check(active).await;
        }
        for (fault, times) in &mut took {
            times.sort();
            let (p50, p99) = (percentile(times, 50), percentile(times, 99));
            println!("{fault:?}: {} rounds, no answer for p50 {p50:?} p99 {p99:?}", times.len());
        }
        let ended = took.iter().filter(|(fault, _)| fault.ends_the_active());
        let mut all: Vec<Duration> = ended.flat_map(|(_, times)| times).copied().collect();
        all.sort();
        println!(
            "take-over with a lease of {LEASE:?}: p50 {:?} p99 {:?}",
            percentile(&all, 50),
            percentile(&all, 99)
        );
        println!("{} promises kept", world.promised.len());
    });
}
