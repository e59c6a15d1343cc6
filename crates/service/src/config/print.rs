//! The complete configuration of a site or broker, with what it takes for granted and comments: what `--print-config` says.
//! Read as a file it means the same.

use super::broker::BrokerConfig;
use super::clock::ClockConfig;
use super::links::{BrokerLink, Calls};
use super::local_jobs::LocalJobs;
use super::page::{Page, Written, inline};
use super::practice::{Adaptive, Holds, Limits, Reveal};
use super::resource::Resource;
use super::server::Server;
use super::site::SiteConfig;
use crate::security::{Role, Security};
use bookahead_api::Timestamp;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

const HEAD: &str = "Paths are from the folder of this file; lengths of time are texts such as \"50ms\", \"90s\", \"2h30m\".\n\
                    A line with a field that begins with # says what could stand there.";

/// Of a site.
pub fn print_site(config: &SiteConfig) -> String {
    let mut page = Page::default();
    page.remark(&format!(
        "The configuration of the site {}, complete.\n{HEAD}\n",
        config.name.escape_debug()
    ));
    page.set("name", &config.name, "What it is called");
    place(&mut page, config.listen, config.url.as_ref(), &config.state(Path::new("")));
    page.set("retention", &config.retention, "How long it remembers what is over");
    page.set("most_answers", &config.most_answers, "It remembers at most so many answers to repeated calls");
    page.set("heartbeat", &config.heartbeat, "How often it tells its brokers that it is there");
    page.set(
        "attributes",
        &config.attributes,
        "What else there is to know of it, for those who choose among sites",
    );
    clock(&mut page, &config.clock);
    page.table("jobs", "How jobs are run that are submitted to it");
    let about = "Whether they are programs that run on this machine, with the rights of the service; else they are pretended";
    page.set("processes", &config.jobs.processes, about);
    if let Some(batch) = &config.batch {
        super::batch::print(&mut page, batch);
    }
    holds(&mut page, &config.holds);
    reveal(&mut page, &config.reveal);
    limits(&mut page, "limits", "What everybody may have of whom nothing else is said", &config.limits);
    named_limits(&mut page, "role_limits", "What those may have who have the role", &config.role_limits);
    named_limits(&mut page, "user_limits", "What the user may have, whatever his roles", &config.user_limits);
    config.resources.iter().for_each(|one| resource(&mut page, one));
    brokers(&mut page, &config.brokers);
    calls(&mut page, &config.calls);
    server(&mut page, &config.server);
    security(&mut page, &config.security);
    page.text()
}

/// Of a broker.
pub fn print_broker(config: &BrokerConfig) -> String {
    let mut page = Page::default();
    page.remark(&format!(
        "The configuration of the broker {}, complete.\n{HEAD}\n",
        config.name.escape_debug()
    ));
    page.set("name", &config.name, "What it is called");
    place(&mut page, config.listen, config.url.as_ref(), &config.state(Path::new("")));
    page.set("retention", &config.retention, "How long it remembers what is over");
    page.set("open", &config.is_open(), "Whether sites and brokers that are not named here may register");
    page.set("heartbeat", &config.heartbeat, "How often it asks its peers how they are");
    let about = "A job that is given to it without a latest end must have ended so long after that";
    page.set("job_window", &config.job_window, about);
    let about = "A reservation that it finds for a job begins no sooner than after this";
    page.set("job_notice", &config.job_notice, about);
    let about = "How often it looks whether a copy of a job that waits at several sites has started";
    page.set("job_look", &config.job_look, about);
    page.set("attributes", &config.attributes, "What else there is to know of it");
    clock(&mut page, &config.clock);
    rules(&mut page, config);
    for peer in &config.peers {
        page.table("[peer]", "A site or broker that it asks");
        page.set("name", &peer.name, "What it is called here");
        page.set("url", &peer.url, "Where it is");
        page.may_set(
            "token_file",
            peer.token_file.as_ref(),
            "\"peer.token\"",
            "A file with the token for it",
        );
    }
    brokers(&mut page, &config.brokers);
    calls(&mut page, &config.calls);
    server(&mut page, &config.server);
    security(&mut page, &config.security);
    page.text()
}

fn place(page: &mut Page, listen: SocketAddr, url: Option<&String>, state: &Path) {
    page.set(
        "listen",
        &listen.to_string(),
        "Where it listens: an IP address and a port; port 0 is any that is free",
    );
    page.may_set(
        "url",
        url,
        "\"https://north.example.org\"",
        "Where others reach it, if that is not where it listens",
    );
    page.set("state", state, "The folder of its journal, and of its jobs");
}

fn clock(page: &mut Page, clock: &ClockConfig) {
    page.table("clock", "The time that it lives in; all parties that talk to each other need the same");
    page.set("speed", &clock.speed, "How many times as fast as the time of day");
    let origin = clock.origin.as_ref().map(Timestamp::to_string);
    page.may_set(
        "origin",
        origin.as_ref(),
        "\"2026-11-16T00:00:00Z\"",
        "Where a faster one agrees with the time of day",
    );
}

fn holds(page: &mut Page, holds: &Holds) {
    page.table("holds", "How long it holds what is not committed yet, in real time");
    page.set("longest", &holds.longest, "No hold is longer");
    page.set(
        "late_commits",
        &holds.late_commits,
        "Whether a late commit is accepted where the room is still free",
    );
    let about = "Holds as short as it takes to grant so many per cent of requests";
    page.may_set("adaptive", holds.adaptive.as_ref(), "{ target = 80.0, shortest = \"5s\" }", about);
}

impl Written for Adaptive {
    fn written(&self) -> String {
        let fields = [("target", self.target.written()), ("shortest", self.shortest.written())];
        inline(fields.into_iter().map(|(field, value)| (field.to_owned(), value)))
    }
}

fn reveal(page: &mut Page, reveal: &Reveal) {
    page.table("reveal", "How much it tells");
    page.set("slots", &reveal.slots, "At most so many slots to a probe");
    page.set("ratings", &reveal.ratings, "How well slots suit the site");
    page.set("impacts", &reveal.impacts, "What slots would do to waiting jobs");
    page.set("blockers", &reveal.blockers, "What stands in the way of a request that is refused");
    page.set("free", &reveal.free, "What is free beside a slot");
    page.set("slack", &reveal.slack, "How much later a slot may begin");
}

fn named_limits(page: &mut Page, table: &str, about: &str, named: &BTreeMap<String, Limits>) {
    for (name, one) in named {
        limits(page, &format!("{table}.{}", name.written()), about, one);
    }
}

fn limits(page: &mut Page, table: &str, about: &str, limits: &Limits) {
    page.table(table, about);
    page.may_set("count", limits.count.as_ref(), "10", "So many live reservations, holds included");
    page.may_set(
        "unit_hours",
        limits.unit_hours.as_ref(),
        "1000",
        "So many hours of one unit in all of them",
    );
    page.may_set(
        "horizon",
        limits.horizon.as_ref(),
        "\"30d\"",
        "They must end so long after they were asked for",
    );
    page.may_set(
        "notice",
        limits.notice.as_ref(),
        "\"1h\"",
        "They may begin only so long after they were asked for",
    );
    page.may_set("share", limits.share.as_ref(), "50", "So many per cent of a resource at the same time");
}

fn resource(page: &mut Page, resource: &Resource<LocalJobs>) {
    page.table("[resource]", "Something that it offers");
    page.set("name", &resource.name, "What it is called");
    page.set("kind", &resource.kind, "Processors, bandwidth, seats, or any other word");
    page.set("capacity", &resource.capacity, "What there is in all");
    page.set("price", &resource.price, "Of one unit for an hour, in thousandths");
    page.may_set(
        "joins",
        resource.joins.as_ref(),
        "[\"north\", \"south\"]",
        "Of a link: the two sites that it joins",
    );
    page.set("attributes", &resource.attributes, "What else there is to know");
    page.set(
        "method",
        resource.method.word(),
        "How slots are rated: what-if, load, earliest, local-jobs-preferred",
    );
    page.set("policy", &resource.policy, "How jobs are queued: fcfs, easy, conservative, easy[promises=N]");
    page.set("slots", &resource.slots, "Slots spread over the window at most");
    page.set("gap", &resource.gap, "Time between two of them at least");
    page.may_set(
        "max_delayed",
        resource.max_delayed.as_ref(),
        "0",
        "Slots that delay more waiting jobs are refused",
    );
    page.may_set(
        "max_delay",
        resource.max_delay.as_ref(),
        "\"30m\"",
        "Slots that delay a waiting job by more are refused",
    );
    page.may_set(
        "jobs",
        resource.jobs.as_ref(),
        "{ load = 0.7, seed = 1 }",
        "Jobs of local users, pretended",
    );
    page.may_set(
        "batch",
        resource.batch.as_ref(),
        "{ partition = \"main\", unit = \"cores\", features = [] }",
        "What the batch system of the site calls it",
    );
}

impl Written for LocalJobs {
    fn written(&self) -> String {
        let fields = [
            ("swf", self.swf.as_ref().map(Written::written)),
            ("from", self.from.as_ref().map(Written::written)),
            ("first", self.first.as_ref().map(Written::written)),
            ("repeat", self.repeat.as_ref().map(Written::written)),
            ("load", self.load.as_ref().map(Written::written)),
            ("size", self.size.as_ref().map(Written::written)),
            ("estimate", self.estimate.as_ref().map(Written::written)),
            ("seed", self.seed.as_ref().map(Written::written)),
            ("warm_up", Some(self.warm_up.written())),
        ];
        inline(fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))))
    }
}

fn rules(page: &mut Page, config: &BrokerConfig) {
    let rules = &config.rules;
    page.table("rules", "How it works; waits are in real time");
    page.set(
        "survey_time",
        &rules.survey_time,
        "Peers that have not answered a survey after this time are left out",
    );
    page.set(
        "hold_time",
        &rules.hold_time,
        "A peer that has not answered a hold after this time has refused",
    );
    page.set("longest_hold", &rules.longest_hold, "The longest hold that an owner gets");
    page.set("attempts", &rules.attempts, "At most so many candidates are tried for one request");
    page.set(
        "after_refusal",
        rules.after_refusal.word(),
        "What is left out after a refusal: slot or resource",
    );
    page.set(
        "probes_at_once",
        &rules.probes_at_once,
        "At most so many probes of one survey are under way at once",
    );
    let about = "So many slots for each part are enough to stop a survey early";
    page.may_set("enough_slots", rules.enough_slots.as_ref(), "10", about);
    page.set("slots", &rules.slots, "Asks each peer for at most so many slots");
    page.set("search_work", &rules.search_work, "How much work a search for candidates may take");
    page.set("search_time", &rules.search_time, "How long a search for candidates may take");
}

fn brokers(page: &mut Page, brokers: &[BrokerLink]) {
    for broker in brokers {
        page.table("[broker]", "A broker that it registers with");
        page.set("url", &broker.url, "Where it is");
        page.may_set(
            "token_file",
            broker.token_file.as_ref(),
            "\"broker.token\"",
            "A file with the token for it",
        );
    }
}

fn calls(page: &mut Page, calls: &Calls) {
    page.table("calls", "How it calls others");
    page.may_set(
        "token_file",
        calls.token_file.as_ref(),
        "\"own.token\"",
        "A file with the token that it shows",
    );
    page.may_set(
        "ca",
        calls.ca.as_ref(),
        "\"ca.pem\"",
        "The authorities that their certificates must come from",
    );
    page.may_set("certificate", calls.certificate.as_ref(), "\"own.pem\"", "The certificate that it shows");
    page.may_set("key", calls.key.as_ref(), "\"own-key.pem\"", "Its private key");
}

fn server(page: &mut Page, server: &Server) {
    page.table("server", "What is too much, whoever asks");
    page.set("most_body", &server.most_body, "A body has at most so many bytes");
    page.set(
        "requests_per_second",
        &server.requests_per_second,
        "One user may ask so often in a second; 0 is no limit",
    );
    page.set("burst", &server.burst, "He may ask so often at once, if he has been quiet before");
    page.set("most_parts", &server.most_parts, "A request has at most so many parts");
    page.set(
        "longest_window",
        &server.longest_window,
        "From earliest start to latest end it is at most so long",
    );
    page.set("most_page", &server.most_page, "A page of a list has at most so many entries");
    page.set("patience", &server.patience, "How long a call may wait for its answer");
    page.set("concurrent", &server.concurrent, "So many requests are worked on at the same time");
    page.set("watchers", &server.watchers, "So many may watch at the same time");
    page.set("connections", &server.connections, "So many connections at the same time");
}

fn security(page: &mut Page, security: &Security) {
    page.table(
        "security",
        "Who may do what; without keys and peers everybody may, and only from this machine",
    );
    let about = "The keys of tokens: a secret, public keys in PEM, or a JWKS document";
    page.may_set("keys", security.keys.as_ref(), "\"keys.json\"", about);
    page.may_set("audience", security.audience.as_ref(), "\"bookahead\"", "Whom tokens must be meant for");
    page.may_set(
        "issuer",
        security.issuer.as_ref(),
        "\"https://id.example.org\"",
        "Whom tokens must be from",
    );
    let about = "Listen beyond loopback without TLS, because a proxy in front does TLS";
    page.set("insecure_plain_http", &security.insecure_plain_http, about);
    let about = "Whether a broker is believed which roles the user has for whom it calls";
    page.set("broker_passes_roles", &security.broker_passes_roles, about);
    if let Some(tls) = &security.tls {
        page.table("security.tls", "TLS of the listener");
        page.set("certificate", &tls.certificate, "The chain of certificates, the service's own first");
        page.set("key", &tls.key, "Its private key");
        page.may_set(
            "client_ca",
            tls.client_ca.as_ref(),
            "\"ca.pem\"",
            "The authorities of clients' certificates",
        );
        page.set("client_required", &tls.client_required, "Whether every client must have a certificate");
    }
    for peer in &security.peers {
        page.table("[security.peer]", "A client that is known by its certificate");
        page.set("name", &peer.name, "Who it is");
        page.set("fingerprint", &peer.fingerprint.to_string(), "The SHA-256 of its certificate");
        let roles: Vec<String> = peer.roles.iter().copied().map(|role| Role::word(role).to_owned()).collect();
        page.set("roles", roles.as_slice(), "What it may");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_site_means_the_same() {
        let text = r#"
            name = "north \"1\""
            url = "https://north.example.org"
            attributes = { country = "de", "a b" = -3 }
            clock = { speed = 60, origin = "2026-11-16T00:00:00+01:00" }
            [holds]
            adaptive = { target = 80, shortest = "5s" }
            [user_limits."a.b"]
            share = 10
            [role_limits.reader]
            notice = "1h30m"
            [[resource]]
            name = "cluster"
            kind = "processors"
            capacity = 64
            method = "local-jobs-preferred"
            joins = ["a", "b"]
            max_delay = "90s"
            jobs = { load = 1, size = [1, 8], estimate = ["1m", "2m"], warm_up = "1d" }
            [[resource]]
            name = "log"
            kind = "processors"
            capacity = 64
            jobs = { swf = "a b.swf", repeat = false }
            [[broker]]
            url = "http://127.0.0.1:7400"
            [security]
            keys = "keys.json"
            tls = { certificate = "c.pem", key = "k.pem", client_ca = "ca.pem" }
            [[security.peer]]
            name = "broker"
            fingerprint = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            roles = ["broker", "reader"]
        "#;
        let read = |text: &str| SiteConfig::parse(Path::new("site.toml"), text);
        let site = read(text).expect("a site");
        let printed = print_site(&site);
        let again = read(&printed).expect(&printed);
        assert_eq!(again, SiteConfig { state: again.state.clone(), ..site });
        assert_eq!(print_site(&again), printed);
    }

    #[test]
    fn a_printed_batch_system_means_the_same() {
        let projects = "project = \"physics\"\nprojects = { \"bob@example.org\" = \"chem\" }";
        for (system, more) in [("grid-engine", "parallel_environment = \"smp\""), ("slurm", projects)] {
            a_printed_one_means_the_same(system, more);
        }
    }

    fn a_printed_one_means_the_same(system: &str, more: &str) {
        let text = r#"
            name = "north"
            [batch]
            system = "SYSTEM"
            commands = "/opt/ge/bin"
            MORE
            environment = { SGE_ROOT = "/opt/ge", "A" = "b \" c" }
            accounting = true
            become = ["sudo", "-n", "-u", "{user}", "--"]
            accounts = { "ada@example.org" = "al1" }
            ssh = { host = "login", user = "u", port = 2222, key = "k", known_hosts = "h" }
            [[resource]]
            name = "cluster"
            kind = "processors"
            capacity = 64
            batch = { partition = "main", unit = "nodes", features = ["gpu", "ib"] }
        "#;
        let text = text.replace("SYSTEM", system).replace("MORE", more);
        let read = |text: &str| SiteConfig::parse(Path::new("site.toml"), text);
        let site = read(&text).expect("a site");
        let printed = print_site(&site);
        let again = read(&printed).expect(&printed);
        assert_eq!(again, SiteConfig { state: again.state.clone(), ..site });
    }

    #[test]
    fn a_printed_broker_means_the_same() {
        let text = r#"
            name = "grid"
            [rules]
            after_refusal = "resource"
            enough_slots = 3
            [[peer]]
            name = "north"
            url = "http://127.0.0.1:7420"
            token_file = "north.token"
            [calls]
            certificate = "c.pem"
            key = "k.pem"
        "#;
        let read = |text: &str| BrokerConfig::parse(Path::new("broker.toml"), text);
        let broker = read(text).expect("a broker");
        let printed = print_broker(&broker);
        let again = read(&printed).expect(&printed);
        assert_eq!(again, BrokerConfig { state: again.state.clone(), open: Some(true), ..broker });
    }
}
