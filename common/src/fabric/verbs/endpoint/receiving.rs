//! What arrives from the peer.

use super::{Endpoint, State};
use crate::fabric::verbs::receive::Receives;
use crate::fabric::{Completion, Event};
use crate::limits::MESSAGE_BYTES;
use rdma_sys::{ibv_wc, ibv_wc_flags, ibv_wc_opcode as WcOpcode, ibv_wc_status as WcStatus};

impl Endpoint {
    /// A completion of the receive of `slot`.
    pub(super) fn received(&mut self, slot: u32, wc: &ibv_wc, out: &mut Vec<Completion>) {
        if self.closing {
            return;
        }
        if wc.status != WcStatus::IBV_WC_SUCCESS {
            // Not posted again: on a queue pair in error that would complete at once, and so for ever.
            // A flush is no deed of the peer's.
            self.offence |= wc.status != WcStatus::IBV_WC_WR_FLUSH_ERR;
            return self.report(wc, out);
        }
        let message = wc.opcode == WcOpcode::IBV_WC_RECV && self.receives.arrived(slot, wc.byte_len);
        let event = match &self.receives {
            Receives::Immediates(_) if wc.opcode == WcOpcode::IBV_WC_RECV_RDMA_WITH_IMM && has_immediate(wc) => {
                // SAFETY: the flags say that the union holds an immediate.
                let imm = u32::from_be(unsafe { wc.imm_data_invalidated_rkey_union.imm_data });
                Event::Written { imm, bytes: wc.byte_len }
            }
            Receives::Messages(_) if message => Event::Message { slot },
            _ => {
                tracing::debug!(
                    endpoint = self.id.0,
                    opcode = wc.opcode,
                    bytes = wc.byte_len,
                    "the peer sent what this end does not receive"
                );
                self.offence = true;
                return self.break_down(out);
            }
        };
        out.push(Completion { endpoint: self.id, event });
        if matches!(event, Event::Written { .. }) {
            self.repost(slot, out);
        }
    }

    /// Gives the receive of `slot` back to the device.
    fn repost(&mut self, slot: u32, out: &mut Vec<Completion>) {
        let (State::Opened | State::Connected, Some(pair)) = (self.state, &self.pair) else { return };
        if let Err(error) = self.receives.post(pair, self.id, slot) {
            tracing::warn!(endpoint = self.id.0, %error, "a receive cannot be posted");
            self.break_down(out);
        }
    }

    /// Copies a message out and posts its buffer again.
    pub(in crate::fabric::verbs) fn take_message(
        &mut self,
        slot: u32,
        into: &mut [u8; MESSAGE_BYTES],
        out: &mut Vec<Completion>,
    ) -> Option<usize> {
        let Receives::Messages(mailbox) = &mut self.receives else { return None };
        let bytes = mailbox.take(slot, into)?;
        self.repost(slot, out);
        Some(bytes)
    }
}

fn has_immediate(wc: &ibv_wc) -> bool {
    wc.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0
}
