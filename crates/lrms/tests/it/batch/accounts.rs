//! Accounts that own reservations and run jobs.

use super::pretend::Pretend;
use super::settings;
use crate::{at, backing, job, span};
use bookahead_lrms::batch::{Accounts, Settings, Unit};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::Backing;
use bookahead_protocol::{Name, Request, ReservationId};
use std::collections::BTreeMap;
use std::sync::Arc;

fn with(pretend: &Pretend, accounts: Accounts) -> Result<Batch, LrmsError> {
    Batch::new(Box::new(pretend.clone()), Settings { accounts, ..settings(Unit::Cores, 16) })
}

fn owners() -> Accounts {
    let map = [("ann@uni.org", "ann2"), ("zoe", "zoe_x")];
    Accounts::Owners { map: map.map(|(owner, account)| (Name::from(owner), account.into())).into() }
}

#[test]
fn owners_have_the_account_that_is_named_for_them_or_is_called_as_they_are() {
    let pretend = Pretend::new(2, 8);
    let batch = with(&pretend, owners()).unwrap();
    for (id, owner) in [(1, "ann@uni.org"), (2, "bob")] {
        let said = Backing { owner: Name::from(owner), ..backing(id, &[span(10, 20, 1)]) };
        batch.keep(at(0), &said).unwrap();
    }
    let accounts: Vec<String> =
        pretend.world().ours().iter().map(|reserved| reserved.accounts[0].clone()).collect();
    assert_eq!(accounts, ["ann2", "bob"]);
    let submitted = bookahead_party::Job { user: Name::from("zoe"), ..job(1, 1, 10, 5) };
    batch.submit(at(0), &submitted).unwrap();
    assert_eq!(pretend.world().jobs[0].account, "zoe_x");
}

#[test]
fn who_has_no_account_is_refused_and_nobody_becomes_the_superuser_unasked() {
    let pretend = Pretend::new(2, 8);
    let batch = with(&pretend, owners()).unwrap();
    for owner in ["root", "", "-x", "a b", "a;b", "ü", "0", "$", "a$b"] {
        let said = Backing { owner: Name::from(owner), ..backing(1, &[span(10, 20, 1)]) };
        let refused = batch.keep(at(0), &said).unwrap_err();
        assert!(matches!(refused, LrmsError::NoAccount { .. }) && refused.is_refusal(), "{owner}: {refused}");
        let submitted = bookahead_party::Job { user: Name::from(owner), ..job(1, 1, 10, 5) };
        assert!(batch.submit(at(0), &submitted).unwrap_err().is_refusal());
    }
    assert_eq!(pretend.world().log, [""; 0]);
}

#[test]
fn what_belongs_to_nobody_can_be_given_back() {
    let pretend = Pretend::new(2, 8);
    let batch = with(&pretend, owners()).unwrap();
    batch.keep(at(0), &backing(1, &[span(10, 20, 1)])).unwrap();
    batch.keep(at(0), &Backing { owner: Name::from(""), ..backing(1, &[]) }).unwrap();
    assert!(pretend.world().ours().is_empty());
}

#[test]
fn all_belongs_to_the_service_where_the_site_says_so() {
    let pretend = Pretend::new(2, 8);
    let batch = with(&pretend, Accounts::Service("root".into())).unwrap();
    batch.keep(at(0), &backing(7, &[span(10, 20, 1)])).unwrap();
    assert_eq!(pretend.world().ours()[0].accounts, ["root"]);
    batch.submit(at(0), &job(1, 1, 10, 5)).unwrap();
    assert_eq!(pretend.world().jobs[0].account, "service", "the account that commands run as");
    assert_eq!(batch.look(at(0)).unwrap().tagged[0].id, ReservationId(7));
    assert_eq!(batch.look(at(0)).unwrap().tagged[0].owner, Some(Name::from("ann")));
}

#[test]
fn what_cannot_be_an_account_is_refused_at_the_start() {
    let pretend = Pretend::new(2, 8);
    let map = BTreeMap::from([(Name::from("ann"), "a b".to_owned())]);
    for accounts in [Accounts::Service("-r".into()), Accounts::Owners { map }] {
        let refused = with(&pretend, accounts).err().unwrap();
        assert!(matches!(refused, LrmsError::Misconfigured(_)), "{refused}");
    }
}

#[test]
fn the_accounts_of_other_users_may_use_a_shared_reservation() {
    let pretend = Pretend::new(2, 8);
    let batch = with(&pretend, owners()).unwrap();
    let shared_with = |users: &[&str]| Backing {
        owner: Name::from("bob"),
        terms: Arc::new(Request {
            shared_with: users.iter().map(|user| Name::from(*user)).collect(),
            ..Request::default()
        }),
        ..backing(1, &[span(10, 20, 1)])
    };
    batch.keep(at(0), &shared_with(&["ann@uni.org", "zoe", "bob"])).unwrap();
    let accounts = || pretend.world().ours()[0].accounts.clone();
    assert_eq!(accounts(), ["bob", "ann2", "zoe_x"]);
    // The same once more does nothing.
    batch.keep(at(0), &shared_with(&["ann@uni.org", "zoe"])).unwrap();
    let commands = pretend.world().log.len();
    batch.keep(at(1), &shared_with(&["eve"])).unwrap();
    assert_eq!((accounts(), pretend.world().log.len()), (vec!["bob".into(), "eve".into()], commands + 1));
    batch.keep(at(2), &shared_with(&[])).unwrap();
    assert_eq!(accounts(), ["bob"]);
    let refused = batch.keep(at(3), &shared_with(&["root"])).unwrap_err();
    assert!(matches!(refused, LrmsError::NoAccount { .. }), "{refused}");
    assert_eq!(accounts(), ["bob"]);
}

#[test]
fn one_account_for_all_is_shared_anyway() {
    use bookahead_party::Sharing;
    let pretend = Pretend::new(2, 8);
    pretend.world().sharing = Sharing::Never;
    assert_eq!(with(&pretend, owners()).unwrap().sharing(), Sharing::Never);
    assert_eq!(with(&pretend, Accounts::Service("grid".into())).unwrap().sharing(), Sharing::Always);
}
