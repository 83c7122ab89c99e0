//! The lease table against a clock that the test turns.

use super::*;
use sidewire_common::id::Incarnation;

const LEASE: Duration = Duration::from_millis(1000);

fn at(ms: u64) -> BootInstant {
    BootInstant::from_nanos(ms * 1_000_000)
}

fn beat(client: u128, number: u64, layout_epoch: u64) -> Beat {
    let stats = GetStats { gets: number, ..GetStats::default() };
    Beat { client: ClientId(client), incarnation: Incarnation(1), number, layout_epoch, map_epoch: 0, stats }
}

/// A table with clients 1 to `count`, admitted at 0 with epoch 1.
fn table(count: u128) -> Table {
    let mut table = Table::new(LEASE, 8);
    for id in 1..=count {
        table.admit(at(0), ClientId(id), Told::default(), 1).unwrap();
    }
    table
}

/// Turns every 20 ms from `from` to `to`, as the thread does, and says who was found overdue, when and why.
fn turn(table: &mut Table, from: u64, to: u64, epoch: u64) -> Vec<(u64, u128, Why)> {
    let mut found = Vec::new();
    for now in (from..=to).step_by(20) {
        found.extend(table.judge(at(now), epoch, 0).into_iter().map(|(id, why)| (now, id.0, why)));
    }
    found
}

#[test]
fn a_lease_is_counted_from_the_receipt_of_the_last_beat() {
    let mut table = table(2);
    assert_eq!(turn(&mut table, 0, 900, 1), []);
    table.beat(at(910), &beat(1, 1, 1), 1).unwrap();
    assert_eq!(table.live(ClientId(1)).unwrap().lease_left(at(1000)), Duration::from_millis(910));
    assert_eq!(turn(&mut table, 920, 1900, 1), [(1000, 2, Why::Lapsed)]);
    assert_eq!(turn(&mut table, 1920, 1920, 1), [(1920, 1, Why::Lapsed)]);
}

#[test]
fn a_swept_client_is_told_once_and_its_beats_renew_nothing() {
    let mut table = table(1);
    assert_eq!(turn(&mut table, 0, 3000, 1).len(), 1);
    assert_eq!(table.beat(at(3000), &beat(1, 1, 1), 1), Err(BeatRefusal::Unknown));
    assert!(table.live(ClientId(1)).is_none());
    assert!(!table.begin_sweep(ClientId(1)), "it is being swept already");
}

#[test]
fn ids_stay_taken_until_the_sweep_ends() {
    let mut table = table(1);
    assert!(table.begin_sweep(ClientId(1)));
    assert_eq!(table.admit(at(5), ClientId(1), Told::default(), 1), Err(AdmitError::Exists));
    let holder = table.swept_holder(ClientId(1)).unwrap();
    assert_ne!(table.admit(at(5), ClientId(2), Told::default(), 1), Ok(holder));
    table.end_sweep(ClientId(1), Why::Departed);
    assert!(table.admit(at(5), ClientId(1), Told::default(), 1).is_ok());
    assert_eq!(table.swept(), 1);
}

#[test]
fn a_detach_is_no_sweep_in_the_count() {
    let mut table = table(1);
    assert!(table.begin_sweep(ClientId(1)));
    table.end_sweep(ClientId(1), Why::Detached);
    assert_eq!(table.swept(), 0);
}

#[test]
fn clients_are_bounded() {
    let mut table = table(8);
    assert_eq!(table.admit(at(0), ClientId(9), Told::default(), 1), Err(AdmitError::Full { limit: 8 }));
    assert_eq!(table.admit(at(0), ClientId(8), Told::default(), 1), Err(AdmitError::Exists));
}

#[test]
fn after_a_stall_everybody_gets_a_full_lease() {
    let mut table = table(1);
    assert_eq!(turn(&mut table, 0, 500, 1), []);
    // Stopped from 500 to 60,000: far past the lease, and nobody is judged by it.
    assert_eq!(turn(&mut table, 60_000, 60_980, 1), []);
    assert_eq!(turn(&mut table, 61_000, 61_000, 1), [(61_000, 1, Why::Lapsed)]);
}

#[test]
fn a_turn_that_is_late_by_less_than_the_limit_is_no_stall() {
    let mut table = table(1);
    assert_eq!(turn(&mut table, 0, 800, 1), []);
    assert_eq!(table.judge(at(1050), 1, 0), [(ClientId(1), Why::Lapsed)]);
}

#[test]
fn a_stall_never_shortens_a_lease() {
    let mut table = table(1);
    assert_eq!(turn(&mut table, 0, 500, 1), []);
    table.beat(at(900), &beat(1, 1, 1), 1).unwrap();
    assert_eq!(table.judge(at(900), 1, 0), []);
    assert_eq!(table.live(ClientId(1)).unwrap().lease_left(at(900)), LEASE);
}

#[test]
fn numbers_must_rise_and_epochs_must_have_begun() {
    let mut table = table(1);
    table.beat(at(1), &beat(1, 5, 1), 3).unwrap();
    assert_eq!(table.beat(at(2), &beat(1, 5, 1), 3), Err(BeatRefusal::Number { last: 5 }));
    assert_eq!(table.beat(at(2), &beat(1, 6, 4), 3), Err(BeatRefusal::Epoch { current: 3 }));
    assert_eq!(table.live(ClientId(1)).unwrap().lease_left(at(1)), LEASE, "a refused beat renews nothing");
    table.restart_numbers(ClientId(1));
    table.beat(at(3), &beat(1, 1, 2), 3).unwrap();
    assert_eq!(table.live(ClientId(1)).unwrap().stats.gets, 1);
    table.beat(at(4), &beat(1, 2, 1), 3).unwrap();
    assert_eq!(table.live(ClientId(1)).unwrap().epoch, 2, "an acknowledged epoch is never taken back");
}

#[test]
fn the_slowest_client_holds_the_epoch_until_its_sweep_ends() {
    let mut table = table(2);
    table.beat(at(1), &beat(1, 1, 4), 4).unwrap();
    assert_eq!(table.acknowledged(4), 1);
    assert!(table.begin_sweep(ClientId(2)));
    assert_eq!(table.acknowledged(4), 1, "reads of a client that is being swept may still be in flight");
    table.end_sweep(ClientId(2), Why::Lapsed);
    assert_eq!(table.acknowledged(4), 4);
    assert!(table.begin_sweep(ClientId(1)));
    table.end_sweep(ClientId(1), Why::Lapsed);
    assert_eq!(table.acknowledged(9), 9);
}

#[test]
fn a_client_that_lags_loses_its_session_and_one_that_follows_slowly_does_not() {
    let mut table = table(2);
    let mut epoch = 1;
    let mut overdue = Vec::new();
    for now in (0..=6000).step_by(20) {
        if now % 300 == 0 {
            // Memory is wanted all the time; client 1 follows an epoch late, client 2 beats and never follows.
            epoch += 1;
            table.epoch_advanced(at(now), epoch);
            table.beat(at(now), &beat(1, now / 300 + 1, epoch - 1), epoch).unwrap();
            let _ = table.beat(at(now), &beat(2, now / 300 + 1, 1), epoch);
        }
        overdue.extend(table.judge(at(now), epoch, 0).into_iter().map(|(id, why)| (now, id.0, why)));
    }
    assert_eq!(overdue, [(4020, 2, Why::Lagging)]);
}

#[test]
fn a_client_that_was_up_to_date_for_long_has_its_whole_time_for_a_new_epoch() {
    let mut table = table(1);
    for now in (0..20_000).step_by(20) {
        assert_eq!(table.judge(at(now), 1, 0), []);
        if now % 500 == 0 {
            table.beat(at(now), &beat(1, now + 1, 1), 1).unwrap();
        }
    }
    table.epoch_advanced(at(20_000), 2);
    assert_eq!(table.judge(at(20_000), 2, 0), []);
}

#[test]
fn a_silent_client_lingers_for_the_cells_until_its_link_hangs_up() {
    let mut table = table(2);
    table.live(ClientId(1)).unwrap().set_linked();
    let holder = table.live(ClientId(1)).unwrap().holder;
    assert_eq!(turn(&mut table, 0, 1000, 1).len(), 2);
    assert!(!table.linger(ClientId(2), Why::Lapsed), "it never had a link that could hang up");
    table.end_sweep(ClientId(2), Why::Lapsed);
    assert!(table.linger(ClientId(1), Why::Lapsed));
    assert_eq!((table.acknowledged(7), table.acknowledged_for_cells(7)), (7, 1));
    assert!(table.live(ClientId(1)).is_none());
    assert_eq!(table.clients().count(), 0);
    assert_eq!(turn(&mut table, 1020, 9000, 7), [], "it is judged no more");

    assert!(table.begin_sweep(ClientId(1)), "its process has ended");
    assert_eq!(table.swept_holder(ClientId(1)), Some(holder));
    assert!(!table.linger(ClientId(1), Why::Departed));
    table.end_sweep(ClientId(1), Why::Departed);
    assert_eq!((table.acknowledged_for_cells(7), table.swept()), (7, 2), "each client counts as swept once");
}

#[test]
fn clients_are_waited_for_until_they_know_the_map_or_can_believe_nothing() {
    let mut table = table(2);
    assert_eq!(table.acknowledged_map(at(0)), 0);
    let mut overdue = Vec::new();
    for now in (0..=4100).step_by(20) {
        if now % 300 == 0 {
            // Client 1 learns of epoch 7 at 600; client 2 beats and runs without map.
            let map_epoch = if now < 600 { 3 } else { 7 };
            table.beat(at(now), &Beat { map_epoch, ..beat(1, now / 300 + 1, 1) }, 1).unwrap();
            let _ = table.beat(at(now), &beat(2, now / 300 + 1, 1), 1);
        }
        overdue.extend(table.judge(at(now), 1, 7).into_iter().map(|(id, why)| (now, id.0, why)));
        assert_eq!(table.acknowledged_map(at(now)), 0, "client 2 may believe what it reads at {now}");
    }
    assert_eq!(overdue, [(4020, 2, Why::Lagging)]);
    table.end_sweep(ClientId(2), Why::Lagging);
    // Its last beat was at 3900: until a lease later it takes what it reads for true.
    assert_eq!(table.acknowledged_map(at(4899)), 0);
    assert_eq!(table.acknowledged_map(at(4900)), 7);
    assert!(table.begin_sweep(ClientId(1)));
    assert_eq!(table.acknowledged_map(at(4900)), u32::MAX);
}
