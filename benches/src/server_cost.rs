//! What operations cost the server: the CPU time of its worker threads, or of a peer's process, asked before and after.

use serde::Serialize;
use sidewire_proto::v1::InfoReply;

/// The workers' counts at one moment.
#[derive(Debug, Clone, Copy)]
pub struct ServerLook {
    /// CPU time so far.
    pub cpu_ns: u64,
    /// Requests served so far.
    pub requests: u64,
    /// Times that a worker was woken.
    pub wakeups: u64,
}

/// What the workers did between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServerCost {
    /// CPU time of all workers.
    pub cpu_ns: u64,
    /// Requests that they served.
    pub requests: u64,
    /// Times that one of them was woken.
    pub wakeups: u64,
}

/// Gets beside Puts, each measured in a phase of its own in the same run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GetVersusPut {
    /// Gets of the measured phase.
    pub gets: u64,
    /// Puts of the phase after it.
    pub puts: u64,
    /// Workers' CPU time per Get.
    pub cpu_ns_per_get: f64,
    /// Workers' CPU time per Put.
    pub cpu_ns_per_put: f64,
    /// The first in percent of the second: what the Gets cost, of what as many Puts would have.
    pub percent: f64,
}

impl ServerLook {
    /// The counts in a reply.
    pub fn of(info: &InfoReply) -> Self {
        Self {
            cpu_ns: info.workers.iter().map(|worker| worker.cpu_ns).sum(),
            requests: info.workers.iter().map(|worker| worker.requests).sum(),
            wakeups: info.workers.iter().map(|worker| worker.wakeups).sum(),
        }
    }

    /// What was done since.
    pub fn until(self, after: Self) -> ServerCost {
        ServerCost {
            cpu_ns: after.cpu_ns.saturating_sub(self.cpu_ns),
            requests: after.requests.saturating_sub(self.requests),
            wakeups: after.wakeups.saturating_sub(self.wakeups),
        }
    }
}

impl ServerCost {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            requests: self.requests + other.requests,
            wakeups: self.wakeups + other.wakeups,
        }
    }

    /// CPU time per operation.
    pub fn per_operation(&self, operations: u64) -> f64 {
        if operations == 0 { 0.0 } else { self.cpu_ns as f64 / operations as f64 }
    }
}

impl GetVersusPut {
    /// Compares what two phases cost.
    pub fn of((gets, get_cost): (u64, ServerCost), (puts, put_cost): (u64, ServerCost)) -> Self {
        let (per_get, per_put) = (get_cost.per_operation(gets), put_cost.per_operation(puts));
        let percent = if per_put > 0.0 { 100.0 * per_get / per_put } else { 0.0 };
        Self { gets, puts, cpu_ns_per_get: per_get, cpu_ns_per_put: per_put, percent }
    }
}

#[cfg(test)]
mod tests {
    use sidewire_proto::v1::WorkerReport;

    use super::*;

    fn look(cpu_ns: [u64; 2]) -> ServerLook {
        let workers = cpu_ns.map(|cpu_ns| WorkerReport { cpu_ns, requests: 10, ..WorkerReport::default() });
        ServerLook::of(&InfoReply { workers: workers.to_vec(), ..InfoReply::default() })
    }

    #[test]
    fn costs_are_sums_over_workers_per_operation() {
        let get = look([100, 200]).until(look([150, 250]));
        let put = look([0, 0]).until(look([9_000, 1_000]));
        assert_eq!((get.cpu_ns, put.cpu_ns), (100, 10_000));
        let versus = GetVersusPut::of((1_000, get), (100, put));
        assert_eq!((versus.cpu_ns_per_get, versus.cpu_ns_per_put, versus.percent), (0.1, 100.0, 0.1));
        assert_eq!(get.per_operation(0), 0.0);
    }
}
