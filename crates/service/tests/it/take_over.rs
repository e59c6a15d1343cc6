//! Three processes of one site with a journal in a real PostgreSQL. The active one is killed, stopped, cut off from the
//! database, or loses the answer to a commit; the database is killed and restarted. Clients go on meanwhile: no
//! acknowledged promise may be lost or changed, no capacity promised twice, and a process that wakes up without its
//! lease must answer nothing.

use crate::children::child;
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options, make};
use bookahead_plan::placement;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{Answer, Call, Caller, Envelope, Millis, Part, Request, ReservationId, State};
use bookahead_tests::cases::{long, quick};
use bookahead_tests::polling::PATIENCE;
use bookahead_tests::postgres::{Proxy, Server, url};
use bookahead_tests::signals::signal;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::SystemTime;
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
            let mut command = child("site", &self.folder.join("north.toml"));
            self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        }
    }

    fn signal(&self, name: &str) {
        signal(self.child.as_ref().unwrap().id(), name);
    }

    /// A client with one attempt at each call.
    fn client(&self, timeout: Duration) -> Client {
        let (user, roles) = (Some("operator".into()), vec!["user".into(), "operator".into()]);
        let options = Options { user, roles, timeout, patience: Duration::ZERO, ..Options::default() };
        Client::new(&format!("http://127.0.0.1:{}", self.port), options).unwrap()
    }

    /// One that gives up on a process that does not answer at once.
    fn hasty(&self) -> Client {
        self.client(Duration::from_millis(500))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = (child.kill(), child.wait());
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
        let id = make::reservation_id().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        let wanted = placement::Request {
            earliest_start: Time(now + 86_400),
            latest_end: Time(now + 30 * 86_400),
            duration: Seconds(600),
            capacity: Capacity(1 + self.asked % 40),
        };
        self.asked += 1;
        let request = Request::single(Part::new(wanted, "processors"));
        let call = Call::Reserve { id, request, hold_for: Millis(60_000), book: true };
        let caller = Caller { user: "operator".into(), roles: vec!["user".into(), "operator".into()] };
        let envelope = Envelope { key: make::key().unwrap(), caller, call };
        let clients: Vec<Client> = self.members.iter().map(Member::hasty).collect();
        let until = Instant::now() + PATIENCE;
        loop {
            for (at, client) in clients.iter().enumerate() {
                match client.call(&envelope, None).await {
                    Ok(Answer::Reservation(_)) => {
                        let shown = client.show(id).await;
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
    async fn check(&mut self) {
        let all = loop {
            let active = self.book_one().await;
            // On a busy machine the lease of any process may end; then another one answers.
            if let Ok(all) = all(&self.members[active].client(PATIENCE)).await {
                break all;
            }
        };
        let live: BTreeMap<_, _> = all
            .iter()
            .filter(|one| State::from(one.state).holds_capacity())
            .map(|one| (one.id, one))
            .collect();
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
            Fault::Kill => self.members[active].signal("KILL"),
            Fault::Stop => self.members[active].signal("STOP"),
            Fault::CutOff => self.members[active].proxy.block(true),
            Fault::CommitUnknown => self.members[active].proxy.cut_after_commit(),
            Fault::DatabaseRestart => {
                self.server.kill();
                self.server.start_again();
            }
        }
        // A request that waits while the process is stopped is answered after it wakes up, if at all.
        let client = self.members[active].client(PATIENCE);
        let waiting = matches!(fault, Fault::Stop | Fault::CutOff)
            .then(|| tokio::spawn(async move { client.list(&api::ListQuery::default()).await.is_ok() }));
        let now_active = self.book_one().await;
        let took = began.elapsed();
        // After a kill, a new process in its place may be the one that takes over.
        if matches!(fault, Fault::Stop | Fault::CutOff) {
            assert_ne!(now_active, active, "{fault:?}: the old process answered");
        }
        match fault {
            Fault::Stop => self.members[active].signal("CONT"),
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
                let answer = self.members[active].hasty().list(&api::ListQuery::default()).await;
                assert!(answer.is_err(), "{fault:?}: it answered without its lease");
                self.members[active].keep_running();
            }
        }
        took
    }
}

/// All reservations that a process lists.
async fn all(client: &Client) -> Result<Vec<api::Reservation>, ClientError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.list(&api::ListQuery { cursor, ..api::ListQuery::default() }).await?;
        all.extend(page.reservations);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

#[test]
fn whatever_happens_to_the_active_process_promises_are_kept_and_another_one_goes_on() {
    let rounds = match (long(), quick()) {
        (true, _) => 300,
        (false, true) => 5,
        (false, false) => 10,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::start();
        world.members.iter_mut().for_each(Member::keep_running);
        let mut took: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
        for round in 0..rounds {
            let fault = FAULTS[round % FAULTS.len()];
            for _ in 0..2 {
                world.book_one().await;
            }
            let active = world.book_one().await;
            let time = world.suffer(fault, active).await;
            took.entry(fault).or_default().push(time);
            world.members.iter_mut().for_each(Member::keep_running);
            world.check().await;
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
