//! Gets against a world made by hand.

use super::super::script::{OTHER_SEGMENT, SEED, SEGMENT, World, at, version};
use super::What;
use sidewire_common::clock::BootInstant;
use sidewire_common::key::KeyHash;
use sidewire_common::layout::location::Location;
use sidewire_common::layout::record::{Kind, State};
use std::time::Duration;

const KEY: &[u8] = b"key";

fn live(v: u64) -> State {
    State::Live(version(v))
}

/// A world that holds the key at unit 0 with version 1.
fn with_key() -> World {
    let mut world = World::new(KEY);
    let location = world.record(at(0), KEY, b"one", 1, live(1));
    world.set_slot(SEGMENT, 3, location);
    world
}

#[test]
fn cold_then_warm() {
    let mut world = with_key();
    assert_eq!(world.get().as_deref(), Some(&b"one"[..]));
    let cold = world.stats.figures();
    assert_eq!((cold.reads, cold.location_hits), (3, 0), "directory, bucket, record");
    assert_eq!(world.get().as_deref(), Some(&b"one"[..]));
    let warm = world.stats.figures();
    assert_eq!((warm.reads, warm.location_hits), (4, 1), "the record alone");
}

#[test]
fn an_empty_bucket_is_absent() {
    assert_eq!(World::new(KEY).get(), None);
}

#[test]
fn a_torn_record_is_read_again() {
    let mut world = with_key();
    world.put(at(0), 43, b"X");
    let value = world.get_with(&mut |world, number, _| {
        if number == 3 {
            world.put(at(0), 43, b"o");
        }
    });
    assert_eq!(value.as_deref(), Some(&b"one"[..]));
    assert_eq!(world.stats.figures().retries_torn, 1);
}

#[test]
fn a_superseded_record_leads_to_its_successor() {
    let mut world = with_key();
    world.get();
    let next = world.record(at(4), KEY, b"two", 2, live(2));
    world.set_state(at(0), State::Superseded { successor: next.successor_tag() });
    let before = world.stats.figures().reads;
    assert_eq!(world.get().as_deref(), Some(&b"two"[..]));
    assert_eq!(world.stats.figures().reads - before, 2, "cached record and link");
}

#[test]
fn a_successor_that_is_pending_on_my_version_leaves_mine_the_value() {
    let mut world = with_key();
    let next = world.record(at(4), KEY, b"two", 2, State::Pending { replaces: Some(version(1)) });
    // Its body need not be whole yet.
    world.put(at(4), 43, b"X");
    world.set_state(at(0), State::Superseded { successor: next.successor_tag() });
    assert_eq!(world.get().as_deref(), Some(&b"one"[..]));
}

#[test]
fn a_successor_that_is_pending_on_another_version_leads_to_the_index() {
    let mut world = with_key();
    let next = world.record(at(4), KEY, b"two", 9, State::Pending { replaces: Some(version(8)) });
    world.set_state(at(0), State::Superseded { successor: next.successor_tag() });
    let value = world.get_with(&mut |world, _, what| {
        if what == What::Link {
            let current = world.record(at(8), KEY, b"three", 10, live(10));
            world.set_slot(SEGMENT, 3, current);
        }
    });
    assert_eq!(value.as_deref(), Some(&b"three"[..]));
}

#[test]
fn deleted_is_absent_through_a_slot_and_a_question_through_the_cache() {
    let mut world = with_key();
    world.get();
    world.set_state(at(0), State::Deleted(version(1)));
    // The key was put again, elsewhere: the cached, deleted record must not hide it.
    let again = world.record(at(4), KEY, b"two", 2, live(2));
    world.set_slot(SEGMENT, 3, Location::EMPTY);
    world.set_slot(SEGMENT, 5, again);
    assert_eq!(world.get().as_deref(), Some(&b"two"[..]));
    world.set_state(at(4), State::Deleted(version(2)));
    assert_eq!(world.get(), None, "its slot still names it");
}

#[test]
fn a_pending_insert_is_waited_for() {
    let mut world = World::new(KEY);
    let location = world.record(at(0), KEY, b"one", 1, State::Pending { replaces: None });
    world.set_slot(SEGMENT, 0, location);
    let value = world.get_with(&mut |world, number, _| {
        if number == 4 {
            world.set_state(at(0), live(1));
        }
    });
    assert_eq!(value.as_deref(), Some(&b"one"[..]));
    assert_eq!(world.stats.figures().retries_pending, 1);
}

#[test]
fn a_state_of_another_life_is_not_believed() {
    let mut world = with_key();
    world.set_state(at(0), live(2));
    let value = world.get_with(&mut |world, number, _| {
        if number == 3 {
            world.set_state(at(0), live(1));
        }
    });
    assert_eq!(value.as_deref(), Some(&b"one"[..]));
}

#[test]
fn a_moved_segment_sends_back_to_the_directory() {
    let mut world = with_key();
    world.get();
    let location = world.record(at(0), KEY, b"one", 1, live(1));
    world.lay_segment(OTHER_SEGMENT);
    world.set_slot(OTHER_SEGMENT, 0, location);
    world.set_moved(SEGMENT);
    world.set_slot(SEGMENT, 3, Location::EMPTY);
    world.point_directory(OTHER_SEGMENT);
    world.locations = crate::locate::LocationCache::new(0);
    assert_eq!(world.get().as_deref(), Some(&b"one"[..]));
    assert_eq!(world.stats.figures().retries_moved, 1);
}

#[test]
fn a_later_epoch_makes_directory_entries_be_read_again() {
    let mut world = with_key();
    world.locations = crate::locate::LocationCache::new(0);
    world.get();
    world.epoch = 2;
    let mut seen = Vec::new();
    world.get_with(&mut |_, _, what| seen.push(what));
    assert!(matches!(seen[..], [What::Line(_), What::Home, What::Slot]), "{seen:?}");
}

#[test]
fn another_key_with_the_same_fingerprint_is_absent_after_a_second_look() {
    let mut world = World::new(KEY);
    let location = world.record(at(0), b"other", b"x", 1, live(1));
    world.set_slot(SEGMENT, 0, location);
    let mut buckets = 0;
    let value = world.get_with(&mut |_, _, what| buckets += usize::from(what == What::Home));
    assert_eq!((value, buckets), (None, 2));
}

#[test]
fn a_block_that_changed_hands_is_no_proof_of_absence() {
    // The slot named the key's block; before the record was read the key moved on and another key took the block.
    let mut world = with_key();
    let value = world.get_with(&mut |world, number, what| {
        if what == What::Slot && number == 2 {
            let moved = world.record(at(4), KEY, b"two", 2, live(2));
            world.set_slot(SEGMENT, 3, moved);
            world.record(at(0), b"oth", b"xxx", 3, live(3));
        }
    });
    assert_eq!(value.as_deref(), Some(&b"two"[..]));
}

#[test]
fn both_of_two_matching_slots_are_read_at_once() {
    let mut world = World::new(KEY);
    let other = world.record(at(0), b"other", b"x", 1, live(1));
    world.set_slot(SEGMENT, 0, other);
    let mine = world.record(at(4), KEY, b"mine", 2, live(2));
    world.set_slot(SEGMENT, 14, mine);
    assert_eq!(world.get().as_deref(), Some(&b"mine"[..]));
    assert_eq!(world.stats.figures().reads, 4);
}

#[test]
fn the_overflow_bucket_is_read_only_if_the_home_bucket_does_not_answer() {
    let mut world = with_key();
    let elsewhere = world.record(at(8), b"other", b"x", 7, live(7));
    world.set_overflow(SEGMENT, 2, elsewhere);
    let mut seen = Vec::new();
    assert_eq!(world.get_with(&mut |_, _, what| seen.push(what)).as_deref(), Some(&b"one"[..]));
    assert!(!seen.contains(&What::Overflow), "{seen:?}");

    let mut world = World::new(KEY);
    let other = world.record(at(0), b"other", b"x", 1, live(1));
    world.set_slot(SEGMENT, 0, other);
    let mine = world.record(at(4), KEY, b"mine", 2, live(2));
    world.set_overflow(SEGMENT, 2, mine);
    assert_eq!(world.get().as_deref(), Some(&b"mine"[..]));
    world.set_overflow(SEGMENT, 2, Location::EMPTY);
    world.locations = crate::locate::LocationCache::new(0);
    assert_eq!(world.get(), None);
}

#[test]
fn expiry_over_is_absent_and_live_is_told() {
    let mut world = World::new(KEY);
    let now = BootInstant::now();
    world.clock.told(1_000_000, 1, now, now, Duration::from_secs(3));
    let location = world.record_of(at(0), Kind::Value, KEY, b"v", 1, 1_060_000, live(1));
    world.set_slot(SEGMENT, 0, location);
    assert_eq!(world.get().as_deref(), Some(&b"v"[..]));
    world.record_of(at(0), Kind::Value, KEY, b"v", 1, 900_000, live(1));
    assert_eq!(world.get(), None);
}

#[test]
fn a_place_outside_every_region_is_not_read() {
    let mut world = with_key();
    world.locations.learned(
        world.hash,
        0,
        Location::new(world.hash.fingerprint(), 64, sidewire_common::layout::location::Place { chunk: 9, unit: 1 }),
    );
    assert_eq!(world.get().as_deref(), Some(&b"one"[..]));
    assert_eq!(KeyHash::of(KEY, SEED), world.hash);
}
