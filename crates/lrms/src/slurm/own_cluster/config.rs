//! Files of the private cluster: folders, key and slurm.conf, written anew at each start.

use super::{OwnClusterError, OwnClusterSettings, private_folder};
use crate::command::{Command, Runner};
use crate::error::LrmsError;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Longest path of a socket on Linux, in bytes.
const LONGEST_SOCKET: usize = 107;

/// A port of OpenPBS, which may run on the same machine.
const NOT_THIS_PORT: u16 = 17001;

/// A sanity limit: all nodes run on this machine.
const MOST_NODES: u32 = 500;

pub(super) struct Ports {
    controller: u16,
    nodes: Vec<u16>,
}

impl Ports {
    /// Ports that are free now, all different.
    pub(super) fn free(nodes: u32) -> Result<Ports, OwnClusterError> {
        let mut listeners = Vec::new();
        let mut ports = Vec::new();
        // One more than there are nodes, for the controller.
        while ports.len() <= nodes as usize {
            let cannot = |source| LrmsError::files("find a free port for", Path::new("slurmd"))(source);
            // On all addresses, because the daemons of Slurm listen on all of them.
            let listener = TcpListener::bind(("0.0.0.0", 0)).map_err(cannot)?;
            let port = listener.local_addr().map_err(cannot)?.port();
            if port != NOT_THIS_PORT {
                ports.push(port);
            }
            // Stay open until all ports are found, so that no port is found twice.
            listeners.push(listener);
        }
        let nodes = ports.split_off(1);
        Ok(Ports { controller: ports[0], nodes })
    }
}

pub(super) fn check(settings: &OwnClusterSettings) -> Result<(), OwnClusterError> {
    let malformed = |why: String| Err(OwnClusterError::Malformed(why));
    let name = &settings.name;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return malformed(format!("its name is {name:?}; use letters and digits"));
    }
    if settings.nodes == 0 || settings.nodes > MOST_NODES {
        return malformed(format!("it has {} nodes; use 1 to {MOST_NODES}", settings.nodes));
    }
    if !(1..=1024).contains(&settings.cores_per_node) || !(1..=8).contains(&settings.threads_per_core) {
        return malformed("a node has 1 to 1024 cores with 1 to 8 threads each".into());
    }
    if settings.extra.iter().any(|line| line.contains('\n')) {
        return malformed("an extra line of its configuration contains a line break".into());
    }
    let path = settings.folder.to_str().filter(|path| !path.contains([' ', '\t', '\n', '#', '%', '"']));
    if path.is_none_or(|path| !path.starts_with('/')) {
        return malformed(format!(
            "its folder is {}; use an absolute path without blanks and %",
            settings.folder.display()
        ));
    }
    // The longest socket belongs to a job step on a node.
    let longest = format!("/spool/n{0}/n{0}_4294967295.4294967295", settings.nodes);
    match (settings.folder.as_os_str().len() + longest.len()).checked_sub(LONGEST_SOCKET) {
        None | Some(0) => Ok(()),
        Some(by) => Err(OwnClusterError::FolderTooLong { folder: settings.folder.clone(), by }),
    }
}

pub(super) fn make_folders(folder: &Path) -> Result<(), OwnClusterError> {
    ["state", "spool", "log", "run"].iter().try_for_each(|name| private_folder(&folder.join(name)))
}

pub(super) fn conf(folder: &Path) -> PathBuf {
    folder.join("slurm.conf")
}

pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("munge.socket")
}

pub(super) fn key(folder: &Path) -> PathBuf {
    folder.join("munge.key")
}

pub(super) fn account(runner: &Runner) -> Result<String, OwnClusterError> {
    let command = Command::new("id").arg("-un");
    let outcome = runner.run(&command)?;
    let name = outcome.out.trim();
    if outcome.is_success() && !name.is_empty() {
        return Ok(name.to_owned());
    }
    Err(OwnClusterError::Malformed(
        "the account that runs it has no name; run it as an account with a name".into(),
    ))
}

pub(super) fn write(
    settings: &OwnClusterSettings,
    ports: &Ports,
    runner: &Runner,
) -> Result<(), OwnClusterError> {
    let folder = &settings.folder;
    write_key(&key(folder))?;
    let text = text(settings, ports, &account(runner)?, &host()?);
    put(&conf(folder), &text)?;
    write_gpus(settings)
}

/// `gres.conf`, and the files that stand for the devices.
fn write_gpus(settings: &OwnClusterSettings) -> Result<(), OwnClusterError> {
    let Some(most) = settings.gpus.values().map(|(_, count)| *count).max() else { return Ok(()) };
    let folder = settings.folder.join("run");
    (0..most).try_for_each(|gpu| put(&folder.join(format!("gpu{gpu}")), ""))?;
    let line = |(node, (kind, count)): (&u32, &(String, u32))| {
        let files = format!("{}/gpu[0-{}]", folder.display(), count.saturating_sub(1));
        format!("NodeName=n{node} Name=gpu Type={kind} File={files}\n")
    };
    let lines: String = settings.gpus.iter().map(line).collect();
    put(&settings.folder.join("gres.conf"), &lines)
}

/// For versions that use control groups unless they are disabled.
pub(super) fn disable_control_groups(folder: &Path) -> Result<(), OwnClusterError> {
    put(&folder.join("cgroup.conf"), "CgroupPlugin=disabled\n")
}

fn put(path: &Path, text: &str) -> Result<(), OwnClusterError> {
    fs::write(path, text).map_err(|source| LrmsError::files("write", path)(source).into())
}

/// A fresh munge key, known only to this cluster.
fn write_key(path: &Path) -> Result<(), OwnClusterError> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut secret = [0; 1024];
    let random = Path::new("/dev/urandom");
    let drawn = fs::File::open(random).and_then(|mut random| random.read_exact(&mut secret));
    drawn.map_err(LrmsError::files("read", random))?;
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(LrmsError::files("remove", path)(source).into());
        }
        _ => {}
    }
    let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o400).open(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, &secret));
    written.map_err(|source| LrmsError::files("write", path)(source).into())
}

/// The host name as Slurm compares it: up to the first dot.
fn host() -> Result<String, OwnClusterError> {
    let path = Path::new("/proc/sys/kernel/hostname");
    let name = fs::read_to_string(path).map_err(LrmsError::files("read", path))?;
    Ok(name.trim().split('.').next().unwrap_or("localhost").to_owned())
}

/// A configuration that starts within a second or two and needs no control groups, accounting or privileges.
fn text(settings: &OwnClusterSettings, ports: &Ports, account: &str, host: &str) -> String {
    let OwnClusterSettings { name, folder, nodes, cores_per_node, threads_per_core, extra, gpus, .. } =
        settings;
    let (folder, socket) = (folder.display(), socket(folder));
    let cpus = cores_per_node.saturating_mul(*threads_per_core);
    let mut text = format!(
        "\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={socket}
CredType=cred/munge
SlurmUser={account}
SlurmdUser={account}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,bf_resolution=1,bf_window=43200,sched_interval=2,sched_min_interval=0,batch_sched_delay=0
PriorityType=priority/multifactor
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=60
InactiveLimit=0
KillWait=2
MinJobAge=120
MaxJobCount=20000
ResvOverRun=0
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
NodeName=DEFAULT CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores_per_node} \
ThreadsPerCore={threads_per_core} RealMemory=16000 State=UNKNOWN
",
        controller = ports.controller,
        socket = socket.display(),
    );
    if !gpus.is_empty() {
        text += "GresTypes=gpu\n";
    }
    for (number, port) in (1_u32..).zip(&ports.nodes) {
        text += &format!(
            "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} Feature=n{number}{}\n",
            gpus.get(&number).map(|(kind, count)| format!(" Gres=gpu:{kind}:{count}")).unwrap_or_default()
        );
    }
    let all = if *nodes == 1 { "n1".to_owned() } else { format!("n[1-{nodes}]") };
    text += &format!(
        "PartitionName=main Nodes={all} Default=YES MaxTime=INFINITE DefaultTime=10 State=UP OverSubscribe=NO\n"
    );
    extra.iter().for_each(|line| text += &format!("{line}\n"));
    text
}
