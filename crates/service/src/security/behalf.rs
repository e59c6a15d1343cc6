//! On whose behalf somebody calls. A broker says in `Bookahead-User` and `Bookahead-Roles` for whom it calls; everybody
//! else may only name himself there, and can only ask for fewer roles than he has.

use super::claims::visible_name;
use super::identity::{Identity, Role};
use axum::http::HeaderMap;
use bookahead_api::{Code, Problem, header};
use bookahead_protocol::Name;
use std::collections::BTreeSet;

/// What the headers of a request say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Behalf {
    /// Who is meant.
    pub(super) user: Option<Name>,
    /// With which roles; words that are no roles of ours are for others. An empty list is none.
    pub(super) roles: Option<BTreeSet<Role>>,
}

impl Behalf {
    /// Reads the headers.
    pub(super) fn read(headers: &HeaderMap) -> Result<Behalf, Problem> {
        let bad = |detail: String| Problem::new(Code::BadRequest, detail);
        let user = match only(headers, header::USER)? {
            None => None,
            Some(text) => {
                let name =
                    header::read_name(text).map_err(|fault| bad(format!("Bookahead-User: {fault}")))?;
                let visible = visible_name(name.as_str());
                let fault = "Bookahead-User must have 1 to 255 characters, all visible";
                Some(visible.ok_or_else(|| bad(fault.into()))?)
            }
        };
        let roles = match only(headers, header::ROLES)? {
            None => None,
            Some(text) => {
                let words =
                    header::read_names(text).map_err(|fault| bad(format!("Bookahead-Roles: {fault}")))?;
                let roles = words.iter().filter_map(|word| Role::of(word.as_str())).collect();
                (!words.is_empty()).then_some(roles)
            }
        };
        Ok(Behalf { user, roles })
    }

    /// For whom `caller` calls, if he may. Where brokers do not pass on roles, whomever they name has the role user only.
    pub(super) fn of(self, caller: Identity, broker_passes_roles: bool) -> Result<Identity, Problem> {
        match self.user {
            Some(user) if caller.roles.contains(&Role::Broker) => {
                let roles = self.roles.filter(|_| broker_passes_roles).map_or_else(just_user, passed_on);
                let through = (caller.user != user).then_some(caller.user);
                Ok(Identity { user, roles, through })
            }
            Some(user) if user != caller.user => Err(Problem::new(
                Code::Forbidden,
                format!(
                    "{} may not call for {user}: only the role broker may name another user",
                    caller.user
                ),
            )),
            _ => {
                let roles = self.roles.map_or_else(|| caller.roles.clone(), |wanted| &caller.roles & &wanted);
                Ok(Identity { roles, ..caller })
            }
        }
    }
}

fn just_user() -> BTreeSet<Role> {
    BTreeSet::from([Role::User])
}

/// To speak for others is no role that one can be given by others.
fn passed_on(mut roles: BTreeSet<Role>) -> BTreeSet<Role> {
    roles.remove(&Role::Broker);
    roles
}

/// The value of a header that may be there once.
pub(super) fn only<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let fault = || Problem::new(Code::BadRequest, format!("{name} may be there once, as plain ASCII"));
    text.map(Some).ok_or_else(fault)
}
