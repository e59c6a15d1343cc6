//! Findings for a cluster.

use super::{Place, cores, dialect, plain, start};
use bookahead_lrms::batch::{BatchSystem, Finding, Grade};

fn finding<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.what == what)
        .unwrap_or_else(|| panic!("nothing on {what}: {findings:?}"))
}

#[test]
fn a_good_cluster_has_nothing_wrong_and_says_how_large_it_is() {
    let mut site = plain(&cores());
    let findings = site.slurm.examine();
    assert!(findings.iter().all(|finding| finding.grade < Grade::Wrong), "{findings:?}");
    assert_eq!(finding(&findings, "the resource cpu").seen, "8 cores on 2 nodes, 2 of them usable");
    for what in [
        "Slurm's commands",
        "the controller",
        "the clock of the controller",
        "the queue",
        "resource selection",
    ] {
        assert_eq!(finding(&findings, what).grade, Grade::Well, "{what}");
    }
    assert_eq!(finding(&findings, "making and deleting reservations").grade, Grade::Well);
    assert_eq!(finding(&findings, "the end of reservations").grade, Grade::Well);
    assert_eq!(site.look().reservations, []);
}

#[test]
fn what_is_in_the_way_of_promises_is_found() {
    let site = start(&cores(), |settings| {
        settings.extra = vec![
            "PartitionName=endless Nodes=n1 MaxTime=INFINITE".into(),
            "PartitionName=closed Nodes=n1 MaxTime=60 State=DOWN".into(),
        ];
    });
    let place = |resource: &str, partition: &str| Place {
        resource: resource.into(),
        partition: Some(partition.into()),
        ..cores()
    };
    site.cluster.set_node("n2", "drain").unwrap();
    let places = vec![cores(), place("a", "endless"), place("b", "closed"), place("c", "nowhere")];
    let nothing = Place { features: vec!["gpu".into()], ..place("d", "main") };
    let places = places.into_iter().chain([nothing]).collect();
    let findings = dialect(&site.cluster, places, None).examine();
    let resource = finding(&findings, "the resource cpu");
    assert_eq!(
        (resource.grade, resource.seen.as_str()),
        (Grade::Doubtful, "8 cores on 2 nodes, 1 of them usable")
    );
    let of = |what: &str| -> Vec<Grade> {
        findings.iter().filter(|finding| finding.what == what).map(|finding| finding.grade).collect()
    };
    assert_eq!(of("the resource a"), [Grade::Well, Grade::Doubtful]);
    assert_eq!(of("the resource b"), [Grade::Well, Grade::Wrong]);
    assert_eq!(of("the resource c"), [Grade::Wrong]);
    assert_eq!(
        finding(&findings, "the resource c").advice.as_deref(),
        Some("use one of: main, endless, closed")
    );
    assert_eq!(of("the resource d"), [Grade::Wrong]);
    assert!(
        findings.iter().filter(|finding| finding.grade > Grade::Well).all(|finding| finding.advice.is_some())
    );
}
