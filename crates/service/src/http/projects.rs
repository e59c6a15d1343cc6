//! Sharing with a project: `project:physics` in a request stands for the users that the configuration names as its
//! members. The name is replaced here, so that sites, brokers and batch systems only know users. A later change of the
//! members changes no reservation. Only members and operators may name a project: the answer lists its members. For
//! all others it does not exist.

use super::answer::Refusal;
use crate::security::Role;
use bookahead_api as api;
use bookahead_protocol::{Caller, Name};
use std::collections::{BTreeMap, BTreeSet};

/// How a project is told from a user.
const PREFIX: &str = "project:";

/// The users of each project.
pub type Projects = BTreeMap<Name, BTreeSet<Name>>;

/// Replaces projects by their users, except the one who asks, and notes the consent of users in a common project with
/// that one. Answers in the request are believed only from brokers. The protocol bounds the number of users.
pub(super) fn replace(
    projects: &Projects,
    caller: &Caller,
    request: &mut api::Request,
) -> Result<(), Refusal> {
    let mut users = BTreeSet::new();
    for name in std::mem::take(&mut request.shared_with) {
        match name.as_str().strip_prefix(PREFIX) {
            None => drop(users.insert(name)),
            Some(project) => {
                let members = projects.get(&project.into()).filter(|members| may_name(caller, members));
                let members = members.ok_or_else(|| unknown(project, projects, caller))?;
                users.extend(members.iter().filter(|user| **user != caller.user).cloned());
            }
        }
    }
    request.shared_with = users.into_iter().collect();
    let is_broker = caller.roles.iter().any(|role| role.as_str() == Role::Broker.word());
    let answers = std::mem::take(&mut request.consents).into_iter();
    request.consents = answers.filter(|(user, _)| is_broker && request.shared_with.contains(user)).collect();
    for user in request.shared_with.iter().filter(|user| are_in_one(projects, &caller.user, user)) {
        request.consents.entry(user.clone()).or_insert(api::Consent::Accepted);
    }
    Ok(())
}

/// Whether two users are in a common project.
pub(super) fn are_in_one(projects: &Projects, one: &Name, other: &Name) -> bool {
    projects.values().any(|members| members.contains(one) && members.contains(other))
}

fn may_name(caller: &Caller, members: &BTreeSet<Name>) -> bool {
    members.contains(&caller.user) || caller.is_operator()
}

fn unknown(project: &str, projects: &Projects, caller: &Caller) -> Refusal {
    let own = projects.iter().filter(|(_, members)| may_name(caller, members));
    let own: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
    Refusal::bad_request(if own.is_empty() {
        format!("unknown project {project}: you are in no project here; name the users")
    } else {
        format!("unknown project {project}; you are in: {}", own.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared_by(user: &str, roles: &[&str], names: &[&str]) -> Result<Vec<Name>, String> {
        answered_by(user, roles, names, &[]).map(|request| request.shared_with)
    }

    fn answered_by(
        user: &str,
        roles: &[&str],
        names: &[&str],
        answered: &[&str],
    ) -> Result<api::Request, String> {
        let projects = [("chem", &["eve", "ada"][..]), ("physics", &["ada", "bob"]), ("secret", &["eve"])];
        let projects: Projects = projects
            .into_iter()
            .map(|(project, users)| (project.into(), users.iter().map(|user| Name::from(*user)).collect()))
            .collect();
        let mut request = api::Request::new(Vec::new(), Vec::new());
        request.shared_with = names.iter().map(|name| Name::from(*name)).collect();
        request.consents = answered.iter().map(|name| (Name::from(*name), api::Consent::Declined)).collect();
        let caller =
            Caller { user: user.into(), roles: roles.iter().map(|role| Name::from(*role)).collect() };
        replace(&projects, &caller, &mut request).map_err(|refusal| format!("{refusal:?}"))?;
        Ok(request)
    }

    #[test]
    fn users_of_a_common_project_have_accepted_and_only_brokers_tell_other_answers() {
        let consents = |roles: &[&str]| {
            let request =
                answered_by("ada", roles, &["zoe", "project:physics", "eve"], &["zoe", "eve", "kim"]);
            let consents = request.unwrap().consents.into_iter();
            consents.map(|(user, consent)| (user.to_string(), consent)).collect::<Vec<_>>()
        };
        let (accepted, declined) = (api::Consent::Accepted, api::Consent::Declined);
        assert_eq!(consents(&["user"]), [("bob".into(), accepted), ("eve".into(), accepted)]);
        let all = [("bob".into(), accepted), ("eve".into(), declined), ("zoe".into(), declined)];
        assert_eq!(consents(&["broker"]), all, "an answer is stronger than a project");
    }

    #[test]
    fn a_project_stands_for_its_users_and_each_is_named_once() {
        let shared_with = |names| shared_by("ada", &[], names);
        assert_eq!(shared_with(&["zoe", "project:physics", "bob"]), Ok(vec!["bob".into(), "zoe".into()]));
        assert_eq!(shared_with(&["project:physics", "project:chem"]), Ok(vec!["bob".into(), "eve".into()]));
        assert_eq!(shared_with(&["physics"]), Ok(vec!["physics".into()]));
        assert_eq!(shared_by("root", &["operator"], &["project:secret"]), Ok(vec!["eve".into()]));
    }

    #[test]
    fn a_project_of_others_is_refused_like_one_that_does_not_exist() {
        for name in ["project:secret", "project:phys"] {
            let refused = shared_by("ada", &["broker"], &[name]).unwrap_err();
            assert!(refused.contains("you are in: chem, physics") && !refused.contains("eve"), "{refused}");
        }
        let refused = shared_by("mallory", &[], &["project:physics"]).unwrap_err();
        assert!(refused.contains("you are in no project") && !refused.contains("chem"), "{refused}");
    }
}
