//! Sharing with a project: `project:physics` in a request stands for the users that the configuration names as its
//! members. The name is replaced here, so that sites, brokers and batch systems only know users. A later change of the
//! members changes no reservation.

use super::answer::Refusal;
use bookahead_api as api;
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};

/// How a project is told from a user.
const PREFIX: &str = "project:";

/// The users of each project.
pub type Projects = BTreeMap<Name, BTreeSet<Name>>;

/// Replaces projects by their users, except the one who asks. The protocol bounds their number.
pub(super) fn replace(
    projects: &Projects,
    requester: &Name,
    request: &mut api::Request,
) -> Result<(), Refusal> {
    let mut users = BTreeSet::new();
    for name in std::mem::take(&mut request.shared_with) {
        match name.as_str().strip_prefix(PREFIX) {
            None => drop(users.insert(name)),
            Some(project) => {
                let members = projects.get(&project.into()).ok_or_else(|| unknown(project, projects))?;
                users.extend(members.iter().filter(|user| *user != requester).cloned());
            }
        }
    }
    request.shared_with = users.into_iter().collect();
    Ok(())
}

fn unknown(project: &str, projects: &Projects) -> Refusal {
    let known: Vec<&str> = projects.keys().map(Name::as_str).collect();
    Refusal::bad_request(if known.is_empty() {
        format!("unknown project {project}: this service knows no projects; name the users")
    } else {
        format!("unknown project {project}; there are: {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared_with(names: &[&str]) -> Result<Vec<Name>, String> {
        let projects = [("chem", &["eve", "ada"][..]), ("physics", &["ada", "bob"])];
        let projects: Projects = projects
            .into_iter()
            .map(|(project, users)| (project.into(), users.iter().map(|user| Name::from(*user)).collect()))
            .collect();
        let mut request = api::Request::new(Vec::new(), Vec::new());
        request.shared_with = names.iter().map(|name| Name::from(*name)).collect();
        replace(&projects, &"ada".into(), &mut request).map_err(|refusal| format!("{refusal:?}"))?;
        Ok(request.shared_with)
    }

    #[test]
    fn a_project_stands_for_its_users_and_each_is_named_once() {
        assert_eq!(shared_with(&["zoe", "project:physics", "bob"]), Ok(vec!["bob".into(), "zoe".into()]));
        assert_eq!(shared_with(&["project:physics", "project:chem"]), Ok(vec!["bob".into(), "eve".into()]));
        assert_eq!(shared_with(&["physics"]), Ok(vec!["physics".into()]));
    }

    #[test]
    fn an_unknown_project_is_refused_with_those_there_are() {
        let refused = shared_with(&["project:phys"]).unwrap_err();
        assert!(refused.contains("unknown project phys; there are: chem, physics"), "{refused}");
        let request = &mut api::Request::new(Vec::new(), Vec::new());
        request.shared_with = vec!["project:x".into()];
        let refused = format!("{:?}", replace(&Projects::new(), &"ada".into(), request).unwrap_err());
        assert!(refused.contains("knows no projects"), "{refused}");
    }
}
