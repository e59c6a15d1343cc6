//! The priority classes of a site: what each is worth in the queue, and who may use it.
//!
//! A job's class decides its place in the queue. A reservation is placed as if jobs of lower classes were not
//! waiting: it may delay them. What it does to them is told like any other effect.

use crate::ids::Name;
use crate::message::Caller;
use crate::problem::Why;
use std::collections::{BTreeMap, BTreeSet};

/// Priority classes by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Priorities {
    /// All classes.
    pub classes: BTreeMap<Name, Class>,
    /// Class of jobs that name none. Anyone may use it.
    pub default: Option<Name>,
}

/// A priority class. Anyone may use it if it names neither users nor roles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Class {
    /// Higher goes first. Jobs without a class have 0.
    pub number: i32,
    /// Users that may use it.
    pub users: BTreeSet<Name>,
    /// Roles that may use it.
    pub roles: BTreeSet<Name>,
}

impl Class {
    fn is_open_to(&self, caller: &Caller) -> bool {
        let for_all = self.users.is_empty() && self.roles.is_empty();
        for_all
            || self.users.contains(&caller.user)
            || caller.roles.iter().any(|role| self.roles.contains(role))
    }
}

impl Priorities {
    /// Whether the caller may use a class; the refusal names the classes that it may use.
    pub fn check(&self, caller: &Caller, class: Option<&str>) -> Result<(), Why> {
        let Some(class) = class.map(Name::from) else { return Ok(()) };
        let mut usable = self
            .classes
            .iter()
            .filter(|(name, class)| class.is_open_to(caller) || self.default.as_ref() == Some(*name));
        if usable.clone().any(|(name, _)| *name == class) {
            return Ok(());
        }
        let usable = usable.by_ref().map(|(name, _)| name.clone()).collect();
        Err(Why::Priority { class, usable })
    }

    /// The number of a class, or of the default class; 0 if there is none.
    pub fn number(&self, class: Option<&str>) -> i32 {
        let class = class.map(Name::from).or_else(|| self.default.clone());
        class.and_then(|class| self.classes.get(&class)).map_or(0, |class| class.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, roles: &[&str]) -> Caller {
        Caller { user: user.into(), roles: roles.iter().map(|role| Name::from(*role)).collect() }
    }

    #[test]
    fn a_class_is_for_its_users_and_roles_and_a_refusal_names_the_usable_classes() {
        let names = |names: &[&str]| names.iter().map(|name| Name::from(*name)).collect::<BTreeSet<_>>();
        let class = |number, users: &[&str], roles: &[&str]| Class {
            number,
            users: names(users),
            roles: names(roles),
        };
        let classes = BTreeMap::from([
            ("low".into(), class(-5, &[], &[])),
            ("normal".into(), class(10, &["nobody"], &[])),
            ("urgent".into(), class(100, &["ada"], &["operator"])),
        ]);
        let priorities = Priorities { classes, default: Some("normal".into()) };
        let check = |user, roles: &[&str], class| priorities.check(&caller(user, roles), class);
        assert_eq!(check("bob", &[], None), Ok(()));
        assert_eq!(check("ada", &[], Some("urgent")), Ok(()));
        assert_eq!(check("bob", &["reserver", "operator"], Some("urgent")), Ok(()));
        assert_eq!(check("bob", &[], Some("normal")), Ok(()), "the default is for all");
        let refused = check("bob", &["reserver"], Some("urgent")).unwrap_err().to_string();
        assert_eq!(refused, "you may not use the priority class urgent here; use one of: low, normal");
        let refused = Priorities::default().check(&caller("ada", &[]), Some("low")).unwrap_err().to_string();
        assert_eq!(
            refused,
            "you may not use the priority class low here; there is none for you: leave it out"
        );
        assert_eq!((priorities.number(None), priorities.number(Some("low"))), (10, -5));
        assert_eq!(Priorities::default().number(None), 0);
    }
}
