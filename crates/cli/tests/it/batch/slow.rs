//! A Slurm whose commands take seconds, or whose controller is suspended for half a minute, while fifty reservations
//! are requested: requests without a batch command are answered at once, and the others get what fits.

use super::cluster::Cluster;
use crate::services::asking::{Asker, hold, new_id, now, part, together};
use crate::services::grid::{Grid, site};
use crate::services::runtime;
use bookahead_api as api;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Answer, Call, Request, ReservationId, State};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Number of concurrent requests.
const ASKED: usize = 50;

/// Minimum number of granted requests.
const GRANTED: usize = 45;

/// Time within which they are granted.
const WITHIN: Duration = Duration::from_secs(60);

/// Maximum 99th percentile of requests without a batch command. The same requests go to an idle site without a batch
/// system at the same time: where even that one is slow, because another program uses the processors or the disk, three
/// times its figure is the limit. A site that waits for its batch system is slower by seconds.
const PROMPT: Duration = Duration::from_millis(100);

/// Number of holds made before, which are committed meanwhile.
const HELD: u32 = 24;

/// Wrappers of Slurm's commands, which first sleep for the seconds in a file.
struct Slowed {
    folder: TempDir,
}

impl Slowed {
    fn commands_of(cluster: &mut Cluster) -> Slowed {
        let folder = tempfile::tempdir().unwrap();
        let commands = cluster.daemons().commands().unwrap_or_else(|| "/usr/bin".into());
        let delay = folder.path().join("delay");
        for name in ["scontrol", "squeue", "sbatch", "scancel"] {
            let (real, script) = (commands.join(name), folder.path().join(name));
            let text = format!(
                "#!/bin/sh\nsleep \"$(cat '{}')\"\nexec '{}' \"$@\"\n",
                delay.display(),
                real.display()
            );
            fs::write(&script, text).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let slowed = Slowed { folder };
        slowed.by("0");
        slowed
    }

    /// From now on each command takes this many seconds longer.
    fn by(&self, seconds: &str) {
        fs::write(self.folder.path().join("delay"), seconds).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

struct World {
    cluster: Cluster,
    slowed: Slowed,
    grid: Grid,
    /// Holds at the site with the batch system, and at the idle one.
    held: [Vec<ReservationId>; 2],
}

fn one(begin: Time) -> Request {
    together(vec![part(1, begin, 60)])
}

/// Holds that wait for their commit.
async fn holds_at(ada: &Asker) -> Vec<ReservationId> {
    let mut held = Vec::new();
    for number in 0..HELD {
        // One after another, so that a small site has room for all.
        let begin = now() + Seconds(7_200 + 60 * i64::from(number));
        let (id, request) = (new_id(), one(begin));
        let hold_for = bookahead_protocol::Millis::seconds(280);
        held.push(ada.get(Call::Reserve { id, request, hold_for, book: false }).await.id);
    }
    held
}

impl World {
    async fn new() -> World {
        let mut cluster = Cluster::of(4, 16);
        let slowed = Slowed::commands_of(&mut cluster);
        let mut grid = Grid::new();
        let batch = format!("commands = \"{}\"", slowed.path().display());
        grid.start("site", "north", &cluster.site("north", &batch, ""), None).await;
        grid.start("site", "idle", &site("idle", ""), None).await;
        let held = [holds_at(&grid.asker("north")).await, holds_at(&grid.asker("idle")).await];
        World { cluster, slowed, grid, held }
    }

    /// Makes all requests at once; returns the answers with their times.
    fn ask_for_fifty(&self) -> Vec<JoinHandle<(Answer, Duration)>> {
        let begin = now() + Seconds(3_600);
        let asks = |_| {
            let asker = self.grid.asker("north");
            let call = hold(new_id(), one(begin));
            tokio::spawn(async move {
                let began = Instant::now();
                (asker.ask(call).await, began.elapsed())
            })
        };
        (0..ASKED).map(asks).collect()
    }
}

type Times = Vec<(&'static str, Duration)>;

/// One request of each kind that needs no batch command.
async fn ask_each(ada: &Asker, shown: ReservationId, held: Option<ReservationId>, took: &mut Times) {
    let client = ada.client();
    let mut note = |what, since: Instant| took.push((what, since.elapsed()));
    let since = Instant::now();
    client.list(&api::ListQuery::default()).await.unwrap();
    note("list", since);
    let since = Instant::now();
    client.show(shown).await.unwrap();
    note("show", since);
    let since = Instant::now();
    client.health().await.unwrap();
    note("health", since);
    let since = Instant::now();
    client.metrics().await.unwrap();
    note("metrics", since);
    if let Some(id) = held {
        let since = Instant::now();
        let committed = ada.get(Call::Commit { id, jobs: Vec::new() }).await;
        note("commit", since);
        assert_eq!(committed.state, State::Committed);
    }
}

/// Times of such requests at the slow site and at the idle one, in turn, until all others have been answered.
async fn meanwhile(
    askers: [&Asker; 2],
    held: &[Vec<ReservationId>; 2],
    asked: &[JoinHandle<(Answer, Duration)>],
) -> [Times; 2] {
    let mut took = [Times::new(), Times::new()];
    let began = Instant::now();
    for turn in 0.. {
        if asked.iter().all(JoinHandle::is_finished) || began.elapsed() > 2 * WITHIN {
            break;
        }
        for (place, took) in took.iter_mut().enumerate() {
            ask_each(askers[place], held[place][0], held[place].get(turn).copied(), took).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    took
}

/// The 99th percentile and the longest, of one kind.
fn p99(took: &Times, what: &str) -> (Duration, Duration) {
    let mut of: Vec<Duration> = took.iter().filter(|(one, _)| *one == what).map(|(_, took)| *took).collect();
    assert!(!of.is_empty(), "{what} was never asked");
    of.sort_unstable();
    (of[(of.len() - 1) * 99 / 100], of[of.len() - 1])
}

#[track_caller]
fn assert_prompt([slow, idle]: &[Times; 2]) {
    for what in ["list", "show", "health", "metrics", "commit"] {
        let ((took, longest), (usual, _)) = (p99(slow, what), p99(idle, what));
        eprintln!("{what}: p99 {took:?}, longest {longest:?}; idle site p99 {usual:?}");
        assert!(took < PROMPT.max(3 * usual), "{what} took {took:?}, at the idle site {usual:?}");
    }
}

/// Number of requests granted in time; the others must have a reason.
async fn granted(asked: Vec<JoinHandle<(Answer, Duration)>>) -> usize {
    let (mut granted, mut slowest) = (0, Duration::ZERO);
    for one in asked {
        let (answer, took) = one.await.unwrap();
        match answer {
            Answer::Reservation(held) if held.state == State::Held => {
                granted += usize::from(took <= WITHIN);
                slowest = slowest.max(took);
            }
            Answer::Problem(problem) => {
                eprintln!("refused after {took:?}: {}", problem.why);
                assert!(matches!(problem.why.code(), "batch-timeout" | "no-batch-system" | "not-granted"));
            }
            other => panic!("{other:?}"),
        }
    }
    eprintln!("{granted} of {ASKED} granted, the last after {slowest:?}");
    granted
}

#[test]
fn a_slow_slurm_keeps_nobody_waiting_who_does_not_need_it_and_grants_what_fits() {
    runtime().block_on(async {
        let world = World::new().await;
        let (ada, idle) = (world.grid.asker("north"), world.grid.asker("idle"));
        world.slowed.by("3");
        let asked = world.ask_for_fifty();
        let took = meanwhile([&ada, &idle], &world.held, &asked).await;
        assert!(granted(asked).await >= GRANTED);
        assert_prompt(&took);
        world.slowed.by("0");
        world.grid.check_journals();
    });
}

#[test]
fn a_controller_that_stands_still_for_half_a_minute_costs_nobody_else_anything() {
    runtime().block_on(async {
        let mut world = World::new().await;
        let (ada, idle) = (world.grid.asker("north"), world.grid.asker("idle"));
        world.cluster.daemons().stop_controller();
        let asked = world.ask_for_fifty();
        let going_on = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
        };
        let held = world.held.clone();
        let watch = async { meanwhile([&ada, &idle], &held, &asked).await };
        let ((), took) = tokio::join!(
            async {
                going_on.await;
                world.cluster.daemons().start_controller().unwrap();
            },
            watch
        );
        assert!(granted(asked).await >= GRANTED);
        assert_prompt(&took);
        world.grid.check_journals();
    });
}
