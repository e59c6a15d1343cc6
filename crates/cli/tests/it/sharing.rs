//! Sharing reservations by commands: projects and invitations.

use crate::asking::{Asking, SITE};

#[test]
fn a_reservation_is_shared_with_the_users_of_a_project() {
    let projects = "[security.projects]\nphysics = [\"ada\", \"bob\"]\nchem = [\"ada\", \"eve\"]\nbiology = [\"grace\"]\n";
    let asking = Asking::site(&format!("{SITE}{projects}"));
    let reserve = ["reserve", "--book", "--capacity", "8", "--duration", "1h", "--until", "+9h"];
    let reserve = [&reserve[..], &["--user", "ada", "--with"]].concat();
    let booked = asking.document(&[&reserve[..], &["project:physics,grace"]].concat());
    assert_eq!(booked["shared_with"], serde_json::json!(["bob", "grace"]));
    let id = booked["id"].as_str().unwrap();
    let job = ["submit", "--pretend", "1m", "--limit", "2m", "--reservation", id, "--user"];
    asking.ends(0, &[&job[..], &["bob"]].concat());
    asking.ends(3, &[&job[..], &["eve"]].concat());
    let changed = asking.document(&["change", id, "--user", "ada", "--with", "project:chem"]);
    assert_eq!(changed["shared_with"], serde_json::json!(["eve"]));
    // A project of others is like one that does not exist: naming it would list its members.
    for project in ["project:biology", "project:botany"] {
        let refused = asking.ends(3, &[&reserve[..], &[project]].concat());
        assert!(refused.err.contains("; you are in: chem, physics"), "{refused:?}");
    }
}

#[test]
fn an_invitation_is_marked_accepted_declined_and_blocked() {
    let asking = Asking::site(SITE);
    let reserve = |name: &str| {
        let reserve = ["reserve", "--book", "--capacity", "4", "--duration", "1h", "--until", "+9h"];
        let booked = asking
            .document(&[&reserve[..], &["--user", "ada", "--name", name, "--with", "bob,eve"]].concat());
        booked["id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (reserve("course"), reserve("spam"));
    let listed = |user: &str| asking.ends(0, &["list", "--user", user]).out;
    // It may have begun by now.
    assert_eq!(listed("bob").matches(", invitation").count(), 2);
    assert!(asking.ends(0, &["show", &first, "--user", "ada"]).out.contains("bob (invited), eve (invited)"));
    assert!(!asking.ends(0, &["accept", &first, "--user", "bob"]).out.contains("invitation"));
    let declined = asking.ends(0, &["decline", &second, "--block", "--user", "bob"]);
    assert!(
        declined.err.contains("is declined")
            && declined.err.contains("invitations of ada are no longer shown")
    );
    let third = reserve("more spam");
    assert!(listed("bob").contains("course") && !listed("bob").contains("spam"));
    assert_eq!(asking.ends(0, &["block", "--user", "bob"]).out, "ada\n");
    asking.ends(0, &["unblock", "ada", "--user", "bob"]);
    assert!(listed("bob").contains("more spam"));
    assert!(
        asking.ends(0, &["show", &second, "--user", "ada"]).out.contains("bob (declined), eve (invited)")
    );
    // What is only held cannot be answered, and whose it is cannot accept it.
    asking.ends(3, &["accept", &third, "--user", "ada"]);
    assert_eq!(asking.document(&["decline", &third, "--user", "eve"])["consents"]["eve"], "declined");
}
