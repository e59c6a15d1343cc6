//! Metrics as an operator uses them: promtool accepts them, a real Prometheus scrapes the demo, and every query of the
//! dashboard and every metric of the alert rules in `examples` has data.

use crate::folder::Folder;
use crate::service::{Service, connect};
use bookahead_tests::polling::until;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process that is killed when the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).canonicalize().unwrap()
}

fn get(url: &str, path: &str, headers: &str) -> String {
    let mut stream = connect(url);
    // HTTP/1.0: Prometheus would answer in chunks otherwise.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n{headers}\r\n").unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {text}")).1.to_owned()
}

#[track_caller]
fn promtool(words: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool, from the Debian package prometheus");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {words:?}: {said}\n{input}");
}

/// The demo, and the URLs of its broker and sites.
fn demo(folder: &Folder) -> (Killed, Vec<String>) {
    let mut command = folder.command("demo --no-tour --port 0 --speed 600 --visitors 600");
    let mut child = Killed(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let url = lines.find_map(|line| Some(line.unwrap().split_once(" is at ")?.1.trim().to_owned())).unwrap();
    // Its output must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    let sites: Value = serde_json::from_str(&get(&url, "/v1/sites", "")).unwrap();
    let urls = sites["sites"].as_array().unwrap().iter().map(|site| site["url"].as_str().unwrap().to_owned());
    (child, urls.collect())
}

/// A site with everything that the demo has not: a batch system and an identity provider, both silent, and a command
/// for notices.
fn edge(folder: &Folder) -> Service {
    folder.write("slurm.conf", "ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n");
    folder.write(
        "edge.toml",
        "name = \"edge\"\nlisten = \"127.0.0.1:0\"\n\n[batch]\nsystem = \"slurm\"\nconf = \"slurm.conf\"\n\
         look_every = \"1s\"\ntime_out = \"2s\"\n\n\
         [[resource]]\nname = \"cluster\"\nkind = \"processors\"\ncapacity = 8\n\
         batch = { partition = \"main\" }\n\n[notify]\ncommand = [\"/bin/true\"]\n\n[security]\n\
         issuer = \"http://127.0.0.1:1\"\naudience = \"edge\"\n",
    );
    Service::start(folder, "site --config edge.toml")
}

/// A Prometheus that scrapes these services, and its URL.
fn prometheus(folder: &Folder, urls: &[String]) -> (Killed, String) {
    let targets: Vec<&str> = urls.iter().map(|url| url.strip_prefix("http://").unwrap()).collect();
    let config = format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [{:?}]\n\
         scrape_configs:\n  - job_name: bookahead\n    static_configs: [{{ targets: {targets:?} }}]\n",
        example("alerts.yml")
    );
    folder.write("prometheus.yml", config);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(folder.path("prometheus.yml"));
    command.arg("--storage.tsdb.path").arg(folder.path("tsdb"));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let log = std::fs::File::create(folder.path("prometheus.log")).unwrap();
    let child =
        Killed(command.stdout(Stdio::null()).stderr(log).spawn().expect("the Debian package prometheus"));
    let url = format!("http://127.0.0.1:{port}");
    // It listens before it can answer.
    let connects = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    until(|| match connects() && get(&url, "/-/ready", "").contains("is Ready") {
        true => Ok(()),
        false => Err(folder.text("prometheus.log")),
    });
    (child, url)
}

/// The result of a query, or why it failed.
fn query(prometheus: &str, expression: &str) -> Result<usize, String> {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let text = get(prometheus, &format!("/api/v1/query?query={encoded}"), "");
    let answer: Value = serde_json::from_str(&text).map_err(|why| format!("{why}: {text}"))?;
    match answer["data"]["result"].as_array() {
        Some(result) => Ok(result.len()),
        None => Err(answer.to_string()),
    }
}

/// Queries of the dashboard, with its variables as Grafana fills them in for everything.
fn dashboard_queries() -> Vec<String> {
    let text = std::fs::read_to_string(example("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let filled = targets.map(|target| {
        let expression = target["expr"].as_str().unwrap();
        let filled = expression.replace("$instance", ".*").replace("$resource", ".*");
        let filled = filled.replace("$__rate_interval", "1m");
        assert!(!filled.contains('$'), "{filled}");
        filled
    });
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let of_variables = variables.filter_map(|variable| variable["definition"].as_str()).map(|definition| {
        let (metric, label) = definition.strip_prefix("label_values(").unwrap().rsplit_once(", ").unwrap();
        let metric = metric.replace("$instance", ".*");
        format!("count by ({}) ({metric})", label.strip_suffix(')').unwrap())
    });
    filled.chain(of_variables).collect()
}

/// Metrics that the alert rules name, as words of the file.
fn metrics_of_rules() -> BTreeSet<String> {
    let text = std::fs::read_to_string(example("alerts.yml")).unwrap();
    let words = text.split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_');
    let metrics = words.filter(|word| word.starts_with("bookahead_") || word.starts_with("process_"));
    let metrics: BTreeSet<String> = metrics.map(ToOwned::to_owned).collect();
    assert!(metrics.len() >= 15, "{metrics:?}");
    metrics
}

#[test]
fn every_query_of_the_dashboard_and_the_alerts_has_data() {
    let folder = Folder::new();
    let edge = edge(&folder);
    let (_demo, mut urls) = demo(&folder);
    urls.push(edge.url());
    assert_eq!(urls.len(), 6, "a broker, four sites, and one with a batch system");
    for url in &urls {
        let metrics = get(url, "/metrics", "Accept: text/plain\r\n");
        promtool(&["check", "metrics"], &metrics);
    }
    let (_prometheus, prometheus) = prometheus(&folder, &urls);
    let mut missing: Vec<String> = dashboard_queries();
    assert!(missing.len() >= 40, "{missing:?}");
    missing.extend(metrics_of_rules());
    until(|| {
        missing
            .retain(|expression| query(&prometheus, expression).unwrap_or_else(|why| panic!("{why}")) == 0);
        if missing.is_empty() { Ok(()) } else { Err(format!("no data: {missing:#?}")) }
    });
    // The rules are evaluated, and one of them sees the batch system that does not answer.
    let rules: Value = serde_json::from_str(&get(&prometheus, "/api/v1/rules", "")).unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    let health: BTreeSet<&str> = rules.iter().map(|rule| rule["health"].as_str().unwrap()).collect();
    assert_eq!(health, BTreeSet::from(["ok"]), "{rules:#?}");
    // All metrics have bounded labels: no series names a user or a reservation.
    for url in &urls {
        let text = get(url, "/metrics", "");
        assert!(text.lines().count() < 1_500, "{} lines at {url}", text.lines().count());
        assert!(!text.contains("rsv_") && !text.contains("user="), "{text}");
    }
}

#[test]
fn every_alert_fires_on_its_trouble_and_not_without() {
    let (rules, tests) = (example("alerts.yml"), example("alerts-test.yml"));
    promtool(&["check", "rules", rules.to_str().unwrap()], "");
    promtool(&["test", "rules", tests.to_str().unwrap()], "");
    let tested = std::fs::read_to_string(&tests).unwrap();
    let text = std::fs::read_to_string(&rules).unwrap();
    let alerts: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() >= 15);
    for alert in alerts {
        assert!(tested.contains(&format!("- alertname: {alert}\n")), "{alert} has no test");
    }
}
