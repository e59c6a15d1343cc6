//! `experiment`: each experiment runs, prints its claims, writes its files and adds its page to the report.

use crate::folder::Folder;

#[test]
fn every_experiment_adds_its_page_to_one_report() {
    let folder = Folder::new();
    for (name, id, table, figure) in [
        ("what-if", "what-if/success", "what-if/table1.csv", "what-if/fig3-what-if.svg"),
        ("cosy", "cosy/no-advantage", "cosy/cosy-wait.csv", "cosy/cosy-wait.svg"),
        (
            "gridsim",
            "gridsim/waiting-10",
            "gridsim/gridsim-fig7-waiting.csv",
            "gridsim/gridsim-fig7-waiting.svg",
        ),
        (
            "co-reservation",
            "co-reservation/probing-fewer-attempts",
            "co-reservation/co-reservation-fig6.csv",
            "co-reservation/co-reservation-fig6.svg",
        ),
        ("migol", "migol/accuracy-falls", "migol/migol-accuracy.csv", "migol/migol-fig7-small.svg"),
    ] {
        let ran = folder.succeed(&format!("experiment {name} --quick --traces none"));
        assert!(ran.out.contains(id), "{}", ran.out);
        assert!(folder.text(&format!("report/{table}")).lines().count() > 1);
        assert!(folder.text(&format!("report/{figure}")).starts_with("<svg"));
        let report = folder.text("report/index.html");
        assert!(report.contains(&format!("<section id=\"{name}\">")), "{name} is in the report");
        assert!(!report.contains("src=\"http") && !report.contains("<script"), "the report stands alone");
    }
    let report = folder.text("report/index.html");
    assert_eq!(report.matches("<section id=").count(), 5);
    let origin = "Made with bookahead experiment cosy --quick --seeds 1 (seed 1), Bookahead ";
    assert!(report.contains(origin), "{report}");
    assert!(
        report.contains("Parallel Workloads Archive) was not found"),
        "it says that the log was not at hand"
    );
}

#[test]
fn json_has_every_claim_with_the_paper_s_value_and_ours() {
    let folder = Folder::new();
    let claims = folder.succeed("experiment what-if --quick --seeds 2 --traces none --json").json();
    for claim in claims.as_array().unwrap() {
        for key in ["id", "source", "statement", "paper", "ours", "rule"] {
            assert!(claim[key].as_str().is_some_and(|text| !text.is_empty()), "{key} of {claim}");
        }
        let verdicts = ["reproduced", "direction-only", "not-reproduced", "not-judged"];
        assert!(claim["verdict"].as_str().is_some_and(|verdict| verdicts.contains(&verdict)), "{claim}");
        assert!(!claim["checks"].as_array().unwrap().is_empty());
        assert!(!claim["measured"].as_array().unwrap().is_empty());
    }
    assert_eq!(claims.as_array().unwrap().len(), 12);
}

#[test]
fn threads_do_not_change_a_result() {
    let folder = Folder::new();
    for name in ["gridsim", "co-reservation"] {
        let run = |threads: u32| {
            folder
                .succeed(&format!(
                    "experiment {name} --quick --date 2026-11-16 --threads {threads} --out {name}{threads}"
                ))
                .out
        };
        assert_eq!(run(1), run(2));
        assert_eq!(
            folder.bytes(&format!("{name}1/index.html")),
            folder.bytes(&format!("{name}2/index.html"))
        );
    }
}

#[test]
fn wrong_usage_is_refused() {
    let folder = Folder::new();
    folder
        .run("experiment cosi")
        .assert_refused(2, &["what-if", "cosy", "gridsim", "co-reservation", "migol"]);
    folder.run("experiment cosy --seeds 0").assert_refused(2, &["--seeds"]);
    folder.write("file", "");
    folder.fail("experiment gridsim --quick --out file", &["cannot create"]);
}
