//! A slurmctld that is stopped during negotiations, until every running command has timed out, the site has noticed the
//! silence and only polls for its end, and everything that is retried has been retried more than once. And a slurmctld
//! that stops in the middle of a request for a reservation, and makes it after the site has given up.
//!
//! That requests without Slurm do not wait for it is shown elsewhere ([`slow`](super::slow)); here they get the right
//! answers.

use super::cluster::Cluster;
use crate::services::asking::{Asker, book, hold, new_id, now, part, together};
use crate::services::grid::{Grid, knows};
use crate::services::runtime;
use bookahead_api as api;
use bookahead_client::make;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{Call, Millis, Request, ReservationId, State, Why};
use bookahead_tests::polling::{until, until_async};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Timeout of a command.
const TIME_OUT: Duration = Duration::from_secs(5);

/// Lines of the configuration with this timeout, and with the time after which a request that waits for the batch
/// system is refused.
const LIMITS: &str = "time_out = \"5s\"\nanswer_within = \"10s\"";

/// Number of polls for the end of the silence that must have failed.
const POLLS: f64 = 3.0;

const SITES: [&str; 2] = ["north", "south"];

struct World {
    grid: Grid,
    north: Cluster,
    south: Cluster,
}

impl World {
    async fn new() -> World {
        let (north, south) = (Cluster::of(2, 2), Cluster::of(2, 2));
        let mut grid = Grid::new();
        for (name, cluster) in SITES.iter().zip([&north, &south]) {
            let text = cluster.site(name, LIMITS, "");
            grid.start("site", name, &text, None).await;
        }
        let text = grid.broker_of("grid", "", &SITES);
        grid.start("broker", "grid", &text, None).await;
        knows(&grid.asker("grid"), &["north/cluster", "south/cluster"]).await;
        World { grid, north, south }
    }

    /// Number of Slurm reservations for each of the two.
    fn kept(&self) -> [usize; 2] {
        [&self.north, &self.south].map(|cluster| cluster.reservations().len())
    }
}

/// A part an hour from now or later.
fn later(minutes: i64) -> Time {
    now() + Seconds(3_600 + minutes * 60)
}

/// All of both clusters together.
fn both(minutes: i64) -> Request {
    together(vec![part(4, later(minutes), 60); 2])
}

fn one(cores: u32, minutes: i64) -> Request {
    together(vec![part(cores, later(minutes), 60)])
}

/// A client that makes each call once.
async fn asked(site: &Asker, request: Request) -> Result<api::Reservation, api::Problem> {
    let reserve = api::Reserve {
        id: Some(new_id()),
        request: request.try_into().unwrap(),
        hold_for_seconds: api::FineSeconds(60_000),
        book: false,
    };
    let options = bookahead_client::Options {
        user: Some("ada".into()),
        patience: Duration::ZERO,
        ..bookahead_client::Options::default()
    };
    let client = bookahead_client::Client::new(site.client().url(), options).unwrap();
    let answer = client.reserve(&reserve, &make::key().unwrap().to_string()).await;
    answer.map_err(|why| why.problem().cloned().unwrap_or_else(|| panic!("{why:?}")))
}

/// Requests that need Slurm are refused, and all others work.
async fn while_silent(world: &World, held: ReservationId, given_up: ReservationId) {
    let north = world.grid.asker("north");
    let refused = asked(&north, one(1, 10)).await.expect_err("it cannot be granted");
    // The second if a look has noticed the silence before.
    assert!(["batch-timeout", "no-batch-system"].contains(&refused.code.as_str()), "{refused:?}");
    // Now the silence is known, and no request waits for its end.
    let refused = asked(&north, one(1, 10)).await.expect_err("it cannot be granted");
    assert_eq!(refused.code, "no-batch-system");

    let client = north.client();
    let committed = north.get(Call::Commit { id: held, jobs: Vec::new() }).await;
    assert_eq!(committed.state, State::Committed);
    assert_eq!(client.show(held).await.unwrap().state, api::State::Committed);
    north.get(Call::Cancel { id: given_up }).await;
    client.list(&api::ListQuery::default()).await.unwrap();
    client.health().await.unwrap();
    assert!(north.figure("bookahead_batch_silent_seconds").await > 0.0);
}

/// Waits until this many more commands have failed. While a controller is known to be silent the site only polls it.
async fn more_polls_fail(north: &Asker, count: f64) {
    let failed = async || north.figure("bookahead_batch_commands_failed_total{program=\"scontrol\"}").await;
    let before = failed().await;
    until_async(async || {
        let more = failed().await - before;
        if more >= count { Ok(()) } else { Err(format!("{more} polls have failed")) }
    })
    .await;
}

#[test]
fn a_silent_controller_holds_up_only_what_needs_it_and_all_agrees_again_when_it_is_back() {
    runtime().block_on(async {
        let mut world = World::new().await;
        let (broker, north) = (world.grid.asker("grid"), world.grid.asker("north"));
        let held = north.get(hold(new_id(), one(2, 0))).await.id;
        let given_up = north.get(hold(new_id(), one(1, 0))).await.id;
        let co = broker.get(hold(new_id(), both(5))).await.id;
        assert_eq!(world.kept(), [3, 1]);
        // Expires during the silence.
        let fleeting =
            Call::Reserve { id: new_id(), request: one(1, 0), hold_for: Millis::seconds(8), book: false };
        let fleeting = north.get(fleeting).await.id;

        world.north.daemons().stop_controller();
        while_silent(&world, held, given_up).await;
        // A commit of parts that both sites hold needs no new capacity; new requests are held nowhere in the end.
        let committed = broker.get(Call::Commit { id: co, jobs: Vec::new() }).await;
        assert_eq!(committed.state, State::Committed);
        let why = broker.refused(hold(new_id(), both(20))).await;
        eprintln!("a co-reservation is refused in silence: {why:?}");
        assert!(!matches!(why, Why::Unknown(_)), "{why:?}");
        until(|| match world.south.reservations().len() {
            1 => Ok(()),
            more => Err(format!("{more} at the other cluster")),
        });
        until_async(async || match north.client().show(fleeting).await.unwrap().state {
            api::State::Expired => Ok(()),
            state => Err(format!("it is {state:?}")),
        })
        .await;
        more_polls_fail(&north, POLLS).await;

        world.north.daemons().start_controller().unwrap();
        // The committed one, and the part of the co-reservation; cancelled and expired ones are gone.
        until(|| match world.kept() {
            [2, 1] => Ok(()),
            kept => Err(format!("{kept:?}: {:?}", world.north.reservations())),
        });
        assert_eq!(world.north.kept_for("north", held).len(), 1);
        let again = broker.get(hold(new_id(), both(20))).await;
        assert_eq!((again.state, world.kept()), (State::Held, [3, 2]));
        for asker in SITES.map(|name| world.grid.asker(name)) {
            let live = asker.live().await.unwrap();
            assert!(live.iter().all(|one| one.missing == [0]), "{live:?}");
        }
        world.grid.check_journals();
    });
}

/// Wrappers of Slurm's commands: the next one that makes a reservation stops the controller first.
struct Ambush {
    folder: TempDir,
    controller: u32,
}

impl Ambush {
    fn before(cluster: &mut Cluster) -> Ambush {
        let folder = tempfile::tempdir().unwrap();
        let daemons = cluster.daemons();
        let commands = daemons.commands().unwrap_or_else(|| "/usr/bin".into());
        for name in ["squeue", "sbatch", "scancel"] {
            symlink(commands.join(name), folder.path().join(name)).unwrap();
        }
        let pid_file = daemons.folder().join("run/slurmctld.pid");
        let pid: u32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let (real, laid) = (commands.join("scontrol"), folder.path().join("laid"));
        let (real, laid) = (real.display(), laid.display());
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = create ] && rm '{laid}' 2>/dev/null; then kill -STOP {pid}; fi\nexec '{real}' \"$@\"\n"
        );
        let scontrol = folder.path().join("scontrol");
        fs::write(&scontrol, script).unwrap();
        fs::set_permissions(&scontrol, fs::Permissions::from_mode(0o755)).unwrap();
        Ambush { folder, controller: pid }
    }

    fn lay(&self) {
        fs::write(self.folder.path().join("laid"), "").unwrap();
    }

    /// Continues the controller, which must have been stopped.
    #[track_caller]
    fn end(&self) {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.controller)).unwrap();
        assert!(state.contains(") T "), "it was not stopped: {state}");
        let status = Command::new("kill").args(["-CONT", &self.controller.to_string()]).status().unwrap();
        assert!(status.success());
    }
}

#[test]
fn what_slurm_makes_when_its_asker_has_given_up_is_promised_to_nobody_and_does_not_stay() {
    runtime().block_on(async {
        let mut cluster = Cluster::of(2, 2);
        let ambush = Ambush::before(&mut cluster);
        let mut grid = Grid::new();
        let batch = format!("{LIMITS}\ncommands = \"{}\"", ambush.folder.path().display());
        grid.start("site", "north", &cluster.site("north", &batch, ""), None).await;
        let ada = grid.asker("north");
        let stays = ada.get(book(new_id(), one(1, 0))).await.id;

        ambush.lay();
        let began = Instant::now();
        let refused = asked(&ada, one(3, 0)).await.expect_err("it is unknown whether it was granted");
        assert_eq!((refused.status, refused.code.as_str()), (409, "batch-timeout"));
        assert!(began.elapsed() >= TIME_OUT, "the command was under way");
        ambush.end();
        let log = cluster.daemons().folder().join("log/slurmctld.log");
        until(|| match fs::read_to_string(&log).unwrap().matches("Created reservation=ba.north.").count() {
            2 => Ok(()),
            count => Err(format!("{count} were made")),
        });
        until(|| match &cluster.tags("north")[..] {
            [one] if one.id == stays => Ok(()),
            tags => Err(format!("{tags:?}")),
        });
        let live = ada.live().await.unwrap();
        assert_eq!(live.iter().map(|one| one.id).collect::<Vec<_>>(), [stays]);
        // The released capacity can be reserved again.
        let granted = ada.get(book(new_id(), one(3, 0))).await;
        assert_eq!((granted.state, cluster.reservations().len()), (State::Committed, 2));
        grid.check_journals();
    });
}
