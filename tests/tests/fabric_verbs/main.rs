//! The contract of `common/src/fabric/mod.rs`, held against every provider that this machine has.
//!
//! `shm` always runs. `verbs` runs when `SIDEWIRE_TEST_FABRIC=verbs`, on the device `SIDEWIRE_TEST_DEVICE` with
//! the address `SIDEWIRE_TEST_ADDR`; else its tests say that they are skipped, and why. Both ends are in one
//! process, each with a fabric of its own; `processes` starts a second one to stop and kill it.

mod addresses;
mod closing;
mod data;
mod processes;
mod rig;
mod rights;
mod speed;
mod waiting;

/// One test for each provider, from functions over a [`rig::Rig`].
macro_rules! contract {
    ($($name:path => $shm:ident, $verbs:ident;)*) => {
        $(
            #[test]
            fn $shm() {
                if let Some(mut rig) = crate::rig::Rig::shm() {
                    $name(&mut rig);
                }
            }
            #[test]
            fn $verbs() {
                if let Some(mut rig) = crate::rig::Rig::verbs() {
                    $name(&mut rig);
                }
            }
        )*
    };
}

contract! {
    data::reads_bring_the_bytes => shm_reads, verbs_reads;
    data::writes_arrive_with_their_immediates => shm_write_imm, verbs_write_imm;
    data::messages_arrive_whole_and_in_order => shm_messages, verbs_messages;
    data::atomics_return_the_value_before => shm_atomics, verbs_atomics;
    data::ten_thousand_operations_end_in_order => shm_chains, verbs_chains;
    data::two_clients_and_the_loopback_count_exactly => shm_exact_count, verbs_exact_count;
    data::what_does_not_fit_or_is_malformed_is_refused_whole => shm_refusals, verbs_refusals;
    rights::a_wrong_rkey_breaks_the_endpoint_and_a_new_one_works => shm_wrong_rkey, verbs_wrong_rkey;
    closing::a_close_ends_all_work_and_gives_the_buffers_back => shm_close, verbs_close;
    closing::an_endpoint_beyond_the_completions_is_refused => shm_limit, verbs_limit;
    closing::a_port_can_be_dropped_at_any_time => shm_drop, verbs_drop;
    waiting::a_sleeper_wakes_for_completions_wakers_and_time => shm_sleep, verbs_sleep;
    waiting::no_wake_up_is_lost => shm_ping_pong, verbs_ping_pong;
}
