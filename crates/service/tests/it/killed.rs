//! A process killed at any moment: everything that it acknowledged is on disk.

use crate::chance::Chance;
use crate::children::{acknowledged, assert_kept, child};
use crate::folder;
use std::io::{BufRead, BufReader};

const ROUNDS: usize = 8;

#[test]
fn what_a_killed_process_had_acknowledged_is_there() {
    let (_folder, path) = folder();
    let chance = &mut Chance(2000);
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        let patience = 1 + chance.below(60) as usize;
        let mut child = child("append for ever", &path).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = out.lines().map_while(Result::ok).filter_map(|line| acknowledged(&line));
        let before = all.len();
        all.extend(lines.by_ref().take(patience));
        // The position in its next transaction depends on this delay.
        let thinking = chance.below(2_000_000);
        std::hint::black_box((0..thinking).fold(0_u64, |sum, number| sum.wrapping_mul(31) ^ number));
        child.kill().unwrap();
        all.extend(lines);
        child.wait().unwrap();
        assert!(all.len() >= before + patience, "it was killed while it worked");
        assert!(assert_kept(&*path, &all) >= all.len());
    }
}
