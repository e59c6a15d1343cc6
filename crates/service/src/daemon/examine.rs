//! Looking at everything that a site needs, one after the other, without starting it and also while it runs: its
//! configuration, its state, its listener, its brokers, its batch system.

use super::batch::{Driven, driven};
use super::credentials::Credentials;
use super::{JOURNAL, check_site};
use crate::config::SiteConfig;
use crate::journal;
use bookahead_lrms::batch::Finding;
use std::io::ErrorKind;
use std::path::Path;
use tokio::net::TcpListener;

/// Everything that a site needs, looked at. `base` is the folder that its paths begin at.
pub async fn examine_site(config: &SiteConfig, base: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    match check_site(config, base) {
        Ok(()) => findings.push(Finding::well("configuration", "it makes sense, and its files can be read")),
        Err(why) => {
            findings.push(Finding::wrong(
                "configuration",
                why.to_string(),
                "correct it; the rest was not looked at",
            ));
            return findings;
        }
    }
    let state = config.state(base);
    findings.push(state_of(&state));
    findings.extend(journal_of(&state));
    findings.push(listener(config).await);
    for broker in &config.brokers {
        let credentials = Credentials::new(&config.calls, broker.token_file.as_ref(), base);
        findings.push(answers(&broker.url, credentials).await);
    }
    let Some(batch) = &config.batch else {
        findings.push(Finding::well("batch system", "none; it has a scheduler of its own"));
        return findings;
    };
    match driven(config, batch, base, &state).await {
        Ok(Driven { batch, .. }) => {
            let now = config.clock.clock().now();
            let looked = tokio::task::spawn_blocking(move || batch.examine(now)).await;
            findings.extend(looked.unwrap_or_default());
        }
        Err(why) => {
            let advice = "see that its commands can be run as [batch] says";
            findings.push(Finding::wrong("batch system", why.to_string(), advice));
        }
    }
    findings
}

fn state_of(state: &Path) -> Finding {
    let what = "state";
    let shown = state.display();
    match std::fs::metadata(state) {
        Ok(folder) if folder.is_dir() && !folder.permissions().readonly() => {
            Finding::well(what, format!("{shown} is there"))
        }
        Ok(_) => {
            Finding::wrong(what, format!("{shown} is no folder that can be written"), "give another state")
        }
        Err(why) if why.kind() == ErrorKind::NotFound => {
            Finding::well(what, format!("{shown} will be made at the first start"))
        }
        Err(why) => Finding::wrong(what, format!("{shown}: {why}"), "check the folder and its permissions"),
    }
}

fn journal_of(state: &Path) -> Option<Finding> {
    let (what, path) = ("journal", state.join(JOURNAL));
    if !path.exists() {
        return None;
    }
    Some(match journal::check(&path) {
        Ok(report) if report.is_sound() => {
            let held = report.held_by.map_or_else(String::new, |holder| format!(", in use by {holder}"));
            Finding::well(what, format!("{} records, sound{held}", report.records))
        }
        Ok(report) => {
            let seen = format!("{} damages", report.damages.len());
            Finding::wrong(what, seen, format!("see: bookahead journal check {}", path.display()))
        }
        Err(why) => Finding::wrong(what, why.to_string(), "restore it from a copy"),
    })
}

async fn listener(config: &SiteConfig) -> Finding {
    let (what, address) = ("listener", config.listen);
    match TcpListener::bind(address).await {
        Ok(_) => Finding::well(what, format!("{address} is free")),
        Err(why) if why.kind() == ErrorKind::AddrInUse => {
            let advice = "if that is not this site itself, give another port in listen";
            Finding::doubtful(what, format!("somebody listens on {address} already"), advice)
        }
        Err(why) => {
            Finding::wrong(what, format!("{address}: {why}"), "give an address of this machine in listen")
        }
    }
}

async fn answers(url: &str, credentials: Result<Credentials, super::DaemonError>) -> Finding {
    let what = "broker";
    let asked = async {
        let client =
            credentials.map_err(|why| why.to_string())?.client(url).map_err(|why| why.to_string())?;
        client.sites().await.map(drop).map_err(|why| why.to_string())
    };
    match asked.await {
        Ok(()) => Finding::well(what, format!("{url} answers")),
        Err(why) => {
            Finding::doubtful(what, format!("{url}: {why}"), "the site will try again and again to register")
        }
    }
}
