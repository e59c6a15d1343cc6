//! The effect of a reservation on jobs that wait in Slurm: none, if local jobs are preferred; and what-if with a thousand
//! waiting jobs.

use super::cluster::Cluster;
use crate::services::asking::{Asker, book, new_id, now, part, together, window};
use crate::services::grid::Grid;
use crate::services::runtime;
use bookahead_api as api;
use bookahead_plan::placement::Relaxation;
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::problem::{Basis, Why};
use bookahead_protocol::{Answer, State};
use bookahead_tests::polling::{until, until_async};
use std::time::Instant;

/// Planned starts of the waiting jobs.
async fn planned(site: &Asker) -> Vec<Time> {
    let schedule = site.client().schedule(&api::ScheduleQuery::default()).await.unwrap();
    let blocks = schedule.resources.into_iter().flat_map(|resource| resource.blocks);
    let waiting = blocks.filter(|block| block.kind == api::BlockKind::WaitingJob);
    waiting.map(|block| block.begin.time()).collect()
}

#[test]
fn where_local_jobs_are_preferred_no_job_that_waits_in_slurm_is_planned_later_for_a_reservation() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        // One job runs for a minute; two that need all cores wait for it and for each other.
        for _ in 0..3 {
            cluster.tell(&["sbatch", "--ntasks=4", "--time=1", "--wrap=sleep 60"]);
        }
        until(|| match cluster.jobs().iter().filter(|job| job.state == "RUNNING").count() {
            1 => Ok(()),
            _ => Err(format!("{:?}", cluster.jobs())),
        });
        let began = now();
        let mut grid = Grid::new();
        let resource = "method = \"local-jobs-preferred\"\npolicy = \"conservative\"";
        grid.start("site", "north", &cluster.site("north", "", resource), None).await;
        let ada = grid.asker("north");
        let before = planned(&ada).await;
        assert_eq!(before.len(), 2, "{before:?}");

        let in_their_way = together(vec![part(1, began + Seconds(90), 30)]);
        let refused = ada.ask(book(new_id(), in_their_way)).await;
        assert!(matches!(refused, Answer::Problem(_)), "{refused:?}");
        let flexible = together(vec![window(4, began + Seconds(5), 30, began + Seconds(900))]);
        let granted = ada.get(book(new_id(), flexible)).await;
        assert_eq!(granted.state, State::Committed);
        let begin = granted.slots[0].interval.begin;
        eprintln!("jobs are planned at {before:?}, the reservation begins at {begin:?}");
        assert!(begin >= before[1] + Seconds(60), "{begin:?} after {before:?}");
        let after = planned(&ada).await;
        let later = before.iter().zip(&after).map(|(before, after)| (*after - *before).0).max();
        // The minute of the running job is counted from the start that Slurm reports.
        assert!(before.len() == after.len() && later <= Some(1), "{before:?} and then {after:?}");
    });
}

#[test]
fn the_notice_of_a_site_on_slurm_is_predicted_from_the_waits_of_its_jobs() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        let mut grid = Grid::new();
        // The factor makes minutes out of the seconds that the jobs of a test wait.
        let resource = "notice = { predicted = \"mean\", factor = 100 }";
        grid.start("site", "north", &cluster.site("north", "", resource), None).await;
        let ada = grid.asker("north");
        let soon = || book(new_id(), together(vec![part(1, now() + Seconds(90), 30)]));
        assert_eq!(ada.get(soon()).await.state, State::Committed, "without history every notice is enough");
        // The second waits for the first, for at least three seconds.
        for _ in 0..2 {
            cluster.tell(&["sbatch", "--ntasks=4", "--time=1", "--wrap=sleep 3"]);
        }
        let problem = until_async(async || match ada.ask(soon()).await {
            Answer::Problem(problem) => match problem.why {
                Why::TooSoon { jobs: 2, .. } => Ok(problem),
                why => Err(format!("{why:?}")),
            },
            other => Err(format!("{other:?}")),
        })
        .await;
        let Why::TooSoon { not_before, wait, basis, .. } = problem.why else { panic!("{problem:?}") };
        assert_eq!(basis, Basis::Mean);
        assert!(wait >= Seconds(2) && not_before > now() + Seconds(190), "{problem:?}");
        assert!(matches!(problem.relaxations[..], [Relaxation::Later(_), ..]), "{problem:?}");
    });
}

/// Submits this number of jobs that need all cores, from several threads.
fn submit(cluster: &Cluster, count: usize) {
    const AT_ONCE: usize = 4;
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                for _ in 0..count / AT_ONCE {
                    cluster.tell(&["sbatch", "--ntasks=4", "--time=10", "--wrap=sleep 600"]);
                }
            });
        }
    });
}

/// The time is printed and not checked; what must not grow with the number of jobs is the number of commands.
#[test]
fn with_a_thousand_jobs_waiting_in_slurm_what_if_needs_no_command_for_each() {
    runtime().block_on(async {
        let cluster = Cluster::of(2, 2);
        submit(&cluster, 1_004);
        let waiting = cluster.jobs().iter().filter(|job| job.state == "PENDING").count();
        assert!(waiting >= 1_000, "{waiting}");
        let mut grid = Grid::new();
        let batch = "look_every = \"10m\"";
        let text = cluster.site("north", "", "method = \"what-if\"").replace("look_every = \"1s\"", batch);
        grid.start("site", "north", &text, None).await;
        let ada = grid.asker("north");
        let begin = now() + Seconds(1_200);
        let request = together(vec![window(2, begin, 600, begin + Seconds(86_400))]);
        let probe = api::Probe { request: request.try_into().unwrap(), most: None, starts: Vec::new() };
        let began = Instant::now();
        let offers = ada.client().probe(&probe).await.unwrap();
        eprintln!("with {waiting} jobs waiting a probe took {:?}", began.elapsed());
        let impact = &offers.offers[0].slots[0].impact;
        assert!(impact.is_some(), "{offers:?}");
        // One at the start of the site, and some to keep it recent.
        let looks = ada.figure("bookahead_batch_commands_total{program=\"squeue\"}").await;
        assert!(looks < 100.0, "{looks}");
    });
}
