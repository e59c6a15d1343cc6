//! The cluster of our own.

use super::{cores, start};
use bookahead_lrms::batch::BatchSystem;

#[test]
fn it_starts_and_leaves_nothing_behind() {
    let mut site = start(|_| {}, vec![cores()]);
    let picture = site.slurm.look().unwrap();
    println!("{picture:?}");
    assert_eq!(picture.nodes.len(), 2);
}
