//! Two processes of a site on a real Slurm, with its journal in a real PostgreSQL. The active one is stopped while its
//! commands are on their way, the other takes over, and only then the commands reach Slurm: none of them may take
//! effect.

use super::cluster::Cluster;
use super::gate::{Gate, Kind};
use super::jobs::Traces;
use crate::services::asking::{Asker, book, new_id, now, part, together};
use crate::services::runtime;
use bookahead_api as api;
use bookahead_client::make;
use bookahead_plan::Seconds;
use bookahead_protocol::{Answer, Call, Envelope};
use bookahead_tests::polling::until_async;
use bookahead_tests::postgres::Server;
use bookahead_tests::signals::signal;
use serde_json::json;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Waits until these commands have ended.
async fn have_ended(commands: &[String]) {
    until_async(async || {
        // One that has ended stays without a command line while its parent is stopped.
        let line = |pid: &String| fs::read(Path::new("/proc").join(pid).join("cmdline"));
        let runs = commands.iter().any(|pid| line(pid).is_ok_and(|line| !line.is_empty()));
        if runs { Err("the commands have ended") } else { Ok(()) }
    })
    .await;
}

/// One process of the site.
struct Member {
    child: Child,
    asker: Asker,
    log: PathBuf,
}

impl Member {
    fn start(folder: &Path, name: &str, config: &str) -> Member {
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = folder.join("north.toml");
        fs::write(&path, format!("listen = \"127.0.0.1:{port}\"\n{config}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bookahead"));
        command.args(["site", "--config"]).arg(&path).stdin(Stdio::null()).stdout(Stdio::null());
        let log = folder.join("log");
        command.stderr(fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        Member { child, asker: Asker::new(&format!("http://127.0.0.1:{port}"), "ada"), log }
    }

    async fn answers(&self) {
        until_async(async || self.asker.all().await.map(drop).map_err(|why| why.to_string())).await;
    }

    /// Stops it when the commands for a job and a reservation are on their way, and returns these.
    async fn stop_while_it_orders(
        &self,
        gate: &Gate,
        (job, key): (&api::SubmitJob, &str),
        booking: &Envelope,
    ) -> Vec<String> {
        let (client, job, key) = (self.asker.client().clone(), job.clone(), key.to_owned());
        let submitting = tokio::spawn(async move { client.submit(&job, &key).await });
        let (client, booking) = (self.asker.client().clone(), booking.clone());
        let booking = tokio::spawn(async move { client.call(&booking, None).await });
        let commands = gate.has_waiting(Kind::Orders, 2).await;
        self.signal("STOP");
        submitting.abort();
        booking.abort();
        commands
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
        let _ = (self.child.kill(), self.child.wait());
    }
}

fn submission(traces: &Traces) -> api::SubmitJob {
    let job = json!({
        "id": make::job_id().unwrap(), "capacity": 1, "limit_seconds": 60,
        "work": {"type": "script", "text": traces.short()}
    });
    serde_json::from_value(job).unwrap()
}

#[test]
fn what_a_stopped_process_had_ordered_takes_no_effect_after_another_took_over() {
    let mut cluster = Cluster::of(2, 2);
    let server = Server::start(&[]);
    let url = server.database("north");
    let gate = Gate::of(&mut cluster);
    let plain = cluster.site("north", "time_out = \"5s\"", "");
    let plain = format!("state = \"{url}\"\nlease = \"1s\"\n{plain}\n[security]\ntrust_local_users = true\n");
    let gated = plain.replace("time_out =", &format!("commands = \"{}\"\ntime_out =", gate.path().display()));
    runtime().block_on(async {
        let first = Member::start(cluster.folder(), "first", &gated);
        first.answers().await;
        // The second one looks at Slurm only if it has a reason, so that it does not find a second job before that runs.
        let rarely = plain.replace("look_every = \"1s\"", "look_every = \"10s\"");
        let second = Member::start(cluster.folder(), "second", &rarely);
        // A job on hold is released, and runs.
        let before = Traces::new(cluster.folder(), "before");
        let key = make::key().unwrap().to_string();
        first.asker.client().submit(&submission(&before), &key).await.unwrap();
        before.began();
        // A job and a reservation whose commands are on their way when the process is stopped.
        let closed = gate.close(Kind::Orders);
        let (traces, key) = (Traces::new(cluster.folder(), "once"), make::key().unwrap().to_string());
        let job = submission(&traces);
        let id = new_id();
        let envelope = first.asker.envelope(book(id, together(vec![part(2, now() + Seconds(3_600), 600)])));
        let commands = first.stop_while_it_orders(&gate, (&job, &key), &envelope).await;
        // The second one takes over, does both, and cancels the reservation again.
        second.answers().await;
        until_async(async || second.asker.client().submit(&job, &key).await.map_err(|why| why.to_string()))
            .await;
        let answer = second.asker.insist(&envelope).await;
        assert!(matches!(answer, Answer::Reservation(_)), "{answer:?}");
        traces.began();
        assert!(matches!(second.asker.ask(Call::Cancel { id }).await, Answer::Reservation(_)));
        until_async(async || match second.asker.client().job(job.id.unwrap()).await.map(|job| job.state) {
            Ok(api::JobState::Done) => Ok(()),
            other => Err(format!("it is done: {other:?}")),
        })
        .await;
        until_async(async || match cluster.kept_for("north", id)[..] {
            [] => Ok(()),
            ref kept => Err(format!("it is cancelled: {kept:?}")),
        })
        .await;
        // Now the commands of the first one reach Slurm.
        drop(closed);
        have_ended(&commands).await;
        first.signal("CONT");
        let client = first.asker.client();
        assert!(client.jobs(&api::JobsQuery::default()).await.is_err(), "it answers without its lease");
        // A job that was submitted later has run: that of the first one would have run before.
        let later = cluster.tell(&["sbatch", "--parsable", "--output=/dev/null", "--wrap=true"]);
        let of = |native: &str| cluster.jobs().into_iter().find(|job| job.native == native).unwrap().state;
        until_async(async || match of(later.trim()).as_str() {
            "COMPLETED" => Ok(()),
            state => Err(format!("it has run: {state}")),
        })
        .await;
        assert_eq!((before.begins().len(), traces.begins().len()), (1, 1));
        // Whatever they made is removed when the second one looks: a third job, and perhaps a reservation.
        let (last, key) = (Traces::new(cluster.folder(), "last"), make::key().unwrap().to_string());
        second.asker.client().submit(&submission(&last), &key).await.unwrap();
        last.began();
        until_async(async || {
            let (jobs, kept) = (cluster.jobs(), cluster.kept_for("north", id));
            let over = jobs.iter().all(|job| ["COMPLETED", "CANCELLED"].contains(&job.state.as_str()));
            if jobs.len() == 5 && over && kept.is_empty() {
                Ok(())
            } else {
                Err(format!("{jobs:?} {kept:?}"))
            }
        })
        .await;
        assert_eq!((before.begins().len(), traces.begins().len()), (1, 1));
    });
}
