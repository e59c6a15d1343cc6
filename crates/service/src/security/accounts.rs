//! Callers on a Unix socket: the connected account, as reported by the system. Root and the account of the service
//! are operators, and may call on behalf of others like brokers. All other accounts are users, unless the
//! configuration gives them more roles.

use super::authenticator::Behalf;
use super::identity::{Identity, Role};
use super::name::user_name;
use super::settings::Security;
use axum::http::HeaderMap;
use bookahead_api::{Code, Problem};
use bookahead_protocol::Name;
use nix::unistd::{Uid, User, geteuid};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Timeout for the lookup of an account name, which may be in a network directory.
const LOOK_UP_WITHIN: Duration = Duration::from_secs(5);

/// Most cached names: more accounts than most machines have.
const MOST_NAMES: usize = 10_000;

/// Identifies callers on a Unix socket.
#[derive(Debug)]
pub struct Accounts {
    /// User id of the service.
    own: u32,
    operators: BTreeSet<String>,
    brokers: BTreeSet<String>,
    broker_passes_roles: bool,
    names: Mutex<HashMap<u32, Name>>,
}

impl Accounts {
    /// With the roles that the configuration gives to accounts.
    pub fn new(security: &Security) -> Accounts {
        Accounts {
            own: geteuid().as_raw(),
            operators: security.socket_operators.iter().cloned().collect(),
            brokers: security.socket_brokers.iter().cloned().collect(),
            broker_passes_roles: security.broker_passes_roles,
            names: Mutex::default(),
        }
    }

    /// Identifies the caller, and the user that it calls for.
    pub async fn identify(&self, account: u32, headers: &HeaderMap) -> Result<Identity, Problem> {
        let behalf = Behalf::read(headers)?;
        let user = self.name(account).await?;
        let roles = self.roles(account, user.as_str());
        behalf.of(Identity { user, roles, through: None }, self.broker_passes_roles)
    }

    fn roles(&self, account: u32, name: &str) -> BTreeSet<Role> {
        // Both can read and replace the files of the service, so withholding a role would protect nothing.
        let trusted = account == self.own || account == 0;
        let mut roles = BTreeSet::from([Role::User]);
        roles.extend((trusted || self.operators.contains(name)).then_some(Role::Operator));
        roles.extend((trusted || self.brokers.contains(name)).then_some(Role::Broker));
        roles
    }

    async fn name(&self, account: u32) -> Result<Name, Problem> {
        let names = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names().get(&account) {
            return Ok(name.clone());
        }
        // The lookup may block on the network, so it must not run on a thread of the runtime.
        let look_up = tokio::task::spawn_blocking(move || account_name(account));
        let found = tokio::time::timeout(LOOK_UP_WITHIN, look_up).await;
        // Not cached: the directory may answer the next time.
        let Ok(Ok(found)) = found else {
            let detail =
                format!("cannot look up the name of your account (uid {account}); try again in a moment");
            return Err(Problem::new(Code::Unavailable, detail));
        };
        let name = found.ok_or_else(|| {
            let detail = format!("your account (uid {account}) has no valid name; use a token");
            Problem::new(Code::Forbidden, detail)
        })?;
        let mut names = names();
        if names.len() >= MOST_NAMES {
            // The cache only saves lookups, so nothing is lost. An order of use would not be worth its cost.
            names.clear();
        }
        names.insert(account, name.clone());
        Ok(name)
    }
}

fn account_name(account: u32) -> Option<Name> {
    let user = User::from_uid(Uid::from_raw(account)).ok()??;
    user_name(&user.name)
}

/// Name of the account that runs this program.
pub fn own_account() -> Option<Name> {
    account_name(geteuid().as_raw())
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = 0;

    fn accounts(operators: &[&str]) -> Accounts {
        let socket_operators = operators.iter().map(ToString::to_string).collect();
        Accounts { own: 4_242, ..Accounts::new(&Security { socket_operators, ..Security::default() }) }
    }

    fn headers(user: &str) -> HeaderMap {
        HeaderMap::from_iter([("bookahead-user".parse().unwrap(), user.parse().unwrap())])
    }

    #[tokio::test]
    async fn the_account_says_who_calls() {
        let root = accounts(&[]).identify(ROOT, &HeaderMap::new()).await.unwrap();
        assert_eq!(root.user.as_str(), "root");
        assert_eq!(root.roles, BTreeSet::from([Role::User, Role::Operator, Role::Broker]));
        let for_ada = accounts(&[]).identify(ROOT, &headers("ada")).await.unwrap();
        assert_eq!((for_ada.user.as_str(), for_ada.through), ("ada", Some("root".into())));
        let nobody = User::from_name("nobody").unwrap().unwrap().uid.as_raw();
        let plain = accounts(&[]).identify(nobody, &HeaderMap::new()).await.unwrap();
        assert_eq!((plain.user.as_str(), plain.roles), ("nobody", BTreeSet::from([Role::User])));
        let refused = accounts(&[]).identify(nobody, &headers("ada")).await.unwrap_err();
        assert_eq!(refused.code, Code::Forbidden.word());
        let operator = accounts(&["nobody"]).identify(nobody, &HeaderMap::new()).await.unwrap();
        assert_eq!(operator.roles, BTreeSet::from([Role::User, Role::Operator]));
        let refused = accounts(&["nobody"]).identify(nobody, &headers("ada")).await.unwrap_err();
        assert_eq!(refused.code, Code::Forbidden.word(), "operators are not brokers");
        let unknown = accounts(&[]).identify(3_999_999_999, &HeaderMap::new()).await.unwrap_err();
        assert_eq!(unknown.code, Code::Forbidden.word());
    }
}
