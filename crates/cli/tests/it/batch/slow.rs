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

/// Maximum 99th percentile of requests without a batch command. An idle site without a batch system is measured at the
/// same time: if it is slow too, another program used the processors.
const PROMPT: Duration = Duration::from_millis(100);

/// Number of holds made before, which are committed meanwhile.
const HELD: usize = 24;

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
    held: Vec<ReservationId>,
}

fn one(begin: Time) -> Request {
    together(vec![part(1, begin, 60)])
}

impl World {
    /// A site with some holds that wait for their commit.
    async fn new() -> World {
        let mut cluster = Cluster::of(4, 16);
        let slowed = Slowed::commands_of(&mut cluster);
        let mut grid = Grid::new();
        let batch = format!("commands = \"{}\"", slowed.path().display());
        grid.start("site", "north", &cluster.site("north", &batch, ""), None).await;
        grid.start("site", "idle", &site("idle", ""), None).await;
        let ada = grid.asker("north");
        let mut held = Vec::new();
        let begin = now() + Seconds(7_200);
        for _ in 0..HELD {
            let id = new_id();
            let request = one(begin);
            let hold_for = bookahead_protocol::Millis::seconds(280);
            held.push(ada.get(Call::Reserve { id, request, hold_for, book: false }).await.id);
        }
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

/// Times of requests without a batch command, until all others have been answered.
async fn meanwhile(
    (ada, idle): (&Asker, &Asker),
    held: &[ReservationId],
    asked: &[JoinHandle<(Answer, Duration)>],
) -> Vec<(&'static str, Duration)> {
    let (client, mut took, mut held) = (ada.client(), Vec::new(), held.iter().copied());
    let shown = held.clone().next().unwrap();
    let began = Instant::now();
    while asked.iter().any(|one| !one.is_finished()) && began.elapsed() < 2 * WITHIN {
        let mut note = |what, since: Instant| took.push((what, since.elapsed()));
        let since = Instant::now();
        idle.client().list(&api::ListQuery::default()).await.unwrap();
        note("idle", since);
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
        if let Some(id) = held.next() {
            let since = Instant::now();
            let committed = ada.get(Call::Commit { id, jobs: Vec::new() }).await;
            note("commit", since);
            assert_eq!(committed.state, State::Committed);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    took
}

/// The 99th percentile.
fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 99 / 100).min(took.len() - 1)]
}

#[track_caller]
fn assert_prompt(took: &[(&'static str, Duration)]) {
    for what in ["idle", "list", "show", "health", "metrics", "commit"] {
        let of: Vec<Duration> = took.iter().filter(|(one, _)| *one == what).map(|(_, took)| *took).collect();
        assert!(!of.is_empty(), "{what} was never asked");
        let (count, longest) = (of.len(), of.iter().max().copied().unwrap_or_default());
        let p99 = p99(of);
        eprintln!("{what}: {count} times, p99 {p99:?}, longest {longest:?}");
        assert!(what == "idle" || p99 < PROMPT, "{what} took {p99:?}");
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
        let took = meanwhile((&ada, &idle), &world.held, &asked).await;
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
        let watch = async { meanwhile((&ada, &idle), &held, &asked).await };
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
