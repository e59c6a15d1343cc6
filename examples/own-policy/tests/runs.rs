//! The example runs on the trace beside it.

use std::process::Command;

#[test]
fn an_own_order_is_compared_with_the_built_in_ones() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../week.swf");
    let ran = Command::new(env!("CARGO_BIN_EXE_own-policy")).arg(trace).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let out = String::from_utf8(ran.stdout).unwrap();
    let waits: Vec<(&str, f64)> = out
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0], words[3].parse().unwrap())
        })
        .collect();
    let names: Vec<&str> = waits.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["easy", "easy[order=sjf]", "easy[order=wfp3]", "easy[order=smallest-area]"]);
    let wait = |name: &str| waits.iter().find(|(other, _)| *other == name).unwrap().1;
    assert!(wait("easy[order=smallest-area]") < wait("easy"), "{out}");
}
