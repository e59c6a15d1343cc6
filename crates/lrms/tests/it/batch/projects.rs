//! Projects that are charged in a batch system.

use super::pretend::Pretend;
use super::settings;
use crate::{at, backing, job, span};
use bookahead_lrms::batch::accounts::is_project;
use bookahead_lrms::batch::{Accounts, Projects, Settings, Unit};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::{Backing, Job};
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

fn with(pretend: &Pretend, projects: Projects) -> Result<Batch, LrmsError> {
    Batch::new(Box::new(pretend.clone()), Settings { projects, ..settings(Unit::Cores, 16) })
}

fn projects(usual: Option<&str>, map: &[(&str, &str)]) -> Projects {
    let map = map.iter().map(|(owner, project)| (Name::from(*owner), (*project).to_owned()));
    Projects { usual: usual.map(Into::into), map: map.collect() }
}

#[test]
fn owners_have_the_project_that_is_named_for_them_or_the_usual_one() {
    for usual in [None, Some("physics")] {
        let pretend = Pretend::new(2, 8);
        let batch = with(&pretend, projects(usual, &[("bob", "chem")])).unwrap();
        for (id, owner) in [(1, "ann"), (2, "bob")] {
            let said = Backing { owner: Name::from(owner), ..backing(id, &[span(10, 20, 1)]) };
            batch.keep(at(0), &said).unwrap();
            batch.submit(at(0), &Job { user: Name::from(owner), ..job(id, 1, 10, 5) }).unwrap();
        }
        let (usual, chem) = (usual.map(str::to_owned), Some("chem".to_owned()));
        assert_eq!(pretend.world().projects, [usual.clone(), usual, chem.clone(), chem]);
    }
}

#[test]
fn what_cannot_be_a_project_is_refused_at_the_start() {
    let pretend = Pretend::new(2, 8);
    for wrong in ["", "-x", "+x", "a,b", "a b", "a=b", ".a", "\u{e9}", "$x", &"x".repeat(129)] {
        assert!(!is_project(wrong), "{wrong}");
        for projects in [projects(Some(wrong), &[]), projects(None, &[("ann", wrong)])] {
            let refused = with(&pretend, projects).err().unwrap();
            assert!(matches!(refused, LrmsError::Misconfigured(_)), "{refused}");
        }
    }
    assert!(["physics", "2026-a.b_c", "_x", "P"].into_iter().all(is_project));
}

#[test]
fn it_is_known_beforehand_who_uses_a_project() {
    let named = projects(Some("physics"), &[("ann", "chem"), ("a b", "chem"), ("bob", "bio")]);
    let members = |accounts: &Accounts| -> Vec<(String, Vec<String>)> {
        let list = |accounts: BTreeSet<String>| accounts.into_iter().collect();
        named.members(accounts).into_iter().map(|(project, accounts)| (project, list(accounts))).collect()
    };
    let all = |project: &str, accounts: &[&str]| {
        (project.to_owned(), accounts.iter().map(|account| (*account).to_owned()).collect())
    };
    let owners = Accounts::Owners { map: BTreeMap::from([(Name::from("bob"), "bob2".into())]) };
    assert_eq!(members(&owners), [all("bio", &["bob2"]), all("chem", &["ann"]), all("physics", &[])]);
    let service = Accounts::Service("svc".into());
    assert_eq!(members(&service), [all("bio", &["svc"]), all("chem", &["svc"]), all("physics", &["svc"])]);
}
