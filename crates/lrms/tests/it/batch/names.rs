//! Reservations and jobs are recognised by their names, only by the site that created them.

use bookahead_lrms::batch::Tag;
use bookahead_lrms::batch::tag::{SHORTEST, job_name, read_job};
use bookahead_protocol::{JobId, Name, ReservationId};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

fn tag(id: u128, piece: u32, owner: &str) -> Tag {
    Tag { id: ReservationId(id), piece, owner: Some(Name::from(owner)) }
}

#[test]
fn a_name_says_site_reservation_piece_and_owner() {
    let name = tag(0x1f, 3, "ann").name(&Name::from("uni_a"), 200).unwrap();
    assert_eq!(name, "ba.uni_a.1f.3.ann");
    let name = tag(0x1f, 0, "ann@uni-a.org").name(&Name::from("uni-a"), 200).unwrap();
    assert_eq!(name, "ba.uni--a.1f.0.ann-40uni--a-2eorg");
}

#[test]
fn where_names_must_be_shorter_the_owner_is_left_out_and_then_the_site_is_only_hinted_at() {
    let (site, tag) = (Name::from("a".repeat(40)), tag(u128::MAX, 999, &"b".repeat(40)));
    let without = tag.name(&site, 100).unwrap();
    assert_eq!(without, format!("ba.{}.{:x}.999", "a".repeat(40), u128::MAX));
    assert_eq!(Tag::read(&without, &site).unwrap(), Tag { owner: None, ..tag.clone() });
    let short = tag.name(&site, SHORTEST).unwrap();
    assert!(short.len() <= SHORTEST && short.starts_with("ba_"), "{short}");
    assert_eq!(Tag::read(&short, &site).unwrap(), Tag { owner: None, ..tag.clone() });
    assert_eq!(Tag::read(&short, &Name::from("another")), None);
    assert_eq!(tag.name(&site, 20), None);
}

#[test]
fn short_names_have_no_dots_and_dashes_even_where_there_would_be_room() {
    let name = tag(1, 0, "x").name(&Name::from("a"), 60).unwrap();
    assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
}

#[test]
fn names_of_others_are_not_ours() {
    let site = Name::from("uni");
    for name in [
        "",
        "ba",
        "ba.",
        "ba.uni",
        "ba.uni.1f",
        "ba.uni.1f.x",
        "ba.uni.1F.0",
        "ba.uni.01f.0",
        "ba.uni.+1f.0",
        "ba.uni.1f.0.ann.b",
        "ba.uni.1f.0.",
        "ba.uni.1f.0.-zz",
        "ba.uni.1f.0.-6",
        "ba.uni.1f.0.-61",
        "ba.uni.1f.-1",
        "ba.other.1f.0",
        "ba.UNI.1f.0",
        "maintenance of everything",
        "ba_uni_1f_0",
        "bä.uni.1f.0",
        "ba.uni.1f.0.-ff",
        "ba.uni.1f.99999999999",
    ] {
        assert_eq!(Tag::read(name, &site), None, "{name}");
    }
    for name in ["", "job", "job_", "job_1", "job_x_y", "job_1_000000", "job_1_"] {
        assert_eq!(read_job(name, &site), None, "{name}");
    }
}

#[test]
fn jobs_are_called_by_their_id_and_known_to_their_site_only() {
    let name = job_name(JobId(0xbeef), &Name::from("uni"));
    assert!(name.starts_with("job_beef_"), "{name}");
    assert_eq!(read_job(&name, &Name::from("uni")), Some(JobId(0xbeef)));
    assert_eq!(read_job(&name, &Name::from("school")), None);
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_name_is_read_as_it_was_given(
        site in ".*", other in ".*", owner in ".+", id in any::<u128>(), piece in 0..1_000_u32,
        longest in SHORTEST..300_usize,
    ) {
        let (site, other, tag) = (Name::from(site), Name::from(other), tag(id, piece, &owner));
        let name = tag.name(&site, longest).unwrap();
        prop_assert!(name.len() <= longest);
        prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{name}");
        let read = Tag::read(&name, &site).unwrap();
        prop_assert_eq!((read.id, read.piece), (tag.id, tag.piece));
        prop_assert!(read.owner.is_none() || read.owner == tag.owner);
        let has_room = longest >= 64 && tag.name(&site, usize::MAX).unwrap().len() <= longest;
        prop_assert_eq!(read.owner.is_some(), has_room);
        prop_assert!(other == site || Tag::read(&name, &other).is_none());
        let job = job_name(JobId(id), &site);
        prop_assert_eq!(read_job(&job, &site), Some(JobId(id)));
    }

    #[test]
    fn nothing_that_somebody_may_call_a_thing_does_harm(name in ".*", tail in "[.a-z0-9_-]*") {
        let site = Name::from("uni");
        for name in [name, format!("ba.uni.{tail}"), format!("ba_{tail}"), format!("job_{tail}")] {
            let _ = (Tag::read(&name, &site), read_job(&name, &site));
        }
    }
}
