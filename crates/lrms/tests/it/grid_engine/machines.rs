//! Virtual machines on this one: each is a process with its own namespaces for network, mounts and host name, so a
//! daemon in it has its own name, address and ports. Nothing outside of them changes, and they are gone with their
//! process. This needs root with the right to create namespaces, and Debian's package iproute2.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Sets its name, mounts its own list of hosts, and stays until its input ends.
const HOLD: &str = "set -e\necho \"$0\" > /proc/sys/kernel/hostname\nmount --bind \"$1\" /etc/hosts\n\
                    ip link set lo up\necho ready\nexec cat\n";

/// A machine; it ends when dropped.
pub(super) struct Machine(Child);

impl Machine {
    fn start(name: &str, hosts: &Path) -> Machine {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--uts", "sh", "-c", HOLD, name]).arg(hosts);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(
            said, "ready\n",
            "no machine of its own (see stderr): that needs root with CAP_SYS_ADMIN and CAP_NET_ADMIN (in a \
             container: --privileged), and iproute2"
        );
        Machine(holder)
    }

    /// Prefix for a command that runs on it.
    pub(super) fn prefix(&self) -> Vec<String> {
        let of = self.process().to_string();
        ["nsenter", "--net", "--mount", "--uts", "--target", &of, "--"].map(String::from).into()
    }

    /// The process that owns its namespaces.
    pub(super) fn process(&self) -> u32 {
        self.0.id()
    }

    fn run(&self, words: &[&str]) {
        let prefix = self.prefix();
        let status = Command::new(&prefix[0]).args(&prefix[1..]).args(words).status().unwrap();
        assert!(status.success(), "{words:?} failed");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// Two machines with a cable between them.
pub(super) fn two(names: [&str; 2], folder: &Path) -> [Machine; 2] {
    let addresses = ["10.0.0.1", "10.0.0.2"];
    let lines = addresses.iter().zip(names).map(|(address, name)| format!("{address} {name}\n"));
    let hosts = folder.join("hosts");
    std::fs::write(&hosts, format!("127.0.0.1 localhost\n{}", lines.collect::<String>())).unwrap();
    let machines = names.map(|name| Machine::start(name, &hosts));
    let far = machines[1].process().to_string();
    machines[0].run(&["ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", &far]);
    for (machine, address) in machines.iter().zip(addresses) {
        machine.run(&["ip", "address", "add", &format!("{address}/24"), "dev", "cable"]);
        machine.run(&["ip", "link", "set", "cable", "up"]);
    }
    machines
}
