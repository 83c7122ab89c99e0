//! The near end: what is posted, and how its completions are waited for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidewire_common::fabric::{
    Access, Completion, EndpointId, EndpointSpec, Event, Fabric, FabricChoice, FabricError, FabricKind, Port, PortSpec,
    Registered, RemoteAddr, RemoteRegion, Role, Verb, WorkId, WorkRequest, open_client, open_server,
};
use sidewire_common::id::ClientId;
use sidewire_common::limits::MESSAGE_BYTES;
use sidewire_common::memory::{Buffer, BufferPool, HugepageMode, Mapping, Seals};

use super::responder::{COMPLETIONS, Responder, STREAM_ACK};
use crate::cli::{FabricArgs, WaitMode};
use crate::connect::Stop;

/// Longest wait for a completion.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest sleep at once.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Memory that reads and atomics go to, at least.
const REGION_BYTES_MIN: usize = 1 << 16;

/// A verb to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Remote memory into ours.
    Read,
    /// Our memory into remote memory.
    Write,
    /// Adds to a remote word.
    FetchAdd,
    /// Swaps a remote word.
    CompareSwap,
}

/// A queue pair of each kind, connected.
struct Pair {
    reader: EndpointId,
    writer: EndpointId,
    staging: RemoteRegion,
}

/// A server's and a client's fabric, linked.
type Linked = (Arc<dyn Fabric>, Arc<dyn Fabric>);

/// Both fabrics and all that is connected between them.
pub struct Ends {
    port: Box<dyn Port>,
    pairs: Vec<Pair>,
    sender: EndpointId,
    buffers: Vec<Buffer>,
    heap: Registered,
    cells: Registered,
    wait: WaitMode,
    depth: usize,
    arrived: Vec<Completion>,
    chain: Vec<WorkRequest<'static>>,
    /// Messages that came before they were waited for.
    early: usize,
    looks: u32,
    answered: usize,
    /// The far end's thread; it ends before the fabrics do.
    far: Responder,
    client: Arc<dyn Fabric>,
}

fn stop(error: impl std::fmt::Display) -> Stop {
    Stop::Failed(error.to_string())
}

impl Ends {
    /// Opens and connects all.
    pub fn open(args: &FabricArgs, longest: usize) -> Result<Self, Stop> {
        let (server, client) = fabrics(args.common.fabric.0, args.common.device.as_deref(), args.address).map_err(stop)?;
        let register = |access, seals, bytes: usize| -> Result<Registered, Stop> {
            let map = Mapping::memfd("fabric", bytes.max(REGION_BYTES_MIN), HugepageMode::Off, seals).map_err(stop)?;
            let registered = server.register(&Arc::new(map), access).map_err(stop)?;
            client.adopt(&[registered.remote()]).map_err(stop)?;
            Ok(registered)
        };
        let heap = register(Access::RemoteRead, Seals::ReadOnly, longest)?;
        let cells = register(Access::RemoteReadAtomic, Seals::Shared, REGION_BYTES_MIN)?;
        let far = Responder::start(Arc::clone(&server), args.wait).map_err(stop)?;
        let mut port = client.port(PortSpec { name: "near end".into(), completions: COMPLETIONS }).map_err(stop)?;
        let depth = u32::from(args.depth);
        let mut pairs = Vec::new();
        for _ in 0..args.qps {
            let (reader, _) = pair(&mut *port, &far, (Role::Reader, Role::ReadTarget), depth).map_err(stop)?;
            let target = Role::WriteTarget { staging_bytes: longest.max(REGION_BYTES_MIN) };
            let (writer, staging) = pair(&mut *port, &far, (Role::Writer, target), depth).map_err(stop)?;
            let staging = staging.ok_or_else(|| stop("the far end has no ring to be written into"))?;
            pairs.push(Pair { reader, writer, staging });
        }
        let window = depth.max(2 * STREAM_ACK as u32);
        let (sender, _) = pair(&mut *port, &far, (Role::Beat, Role::Beat), window).map_err(stop)?;
        let count = usize::from(args.qps) * usize::from(args.depth);
        let map = Arc::new(Mapping::anonymous("buffers", longest * count).map_err(stop)?);
        let pool = BufferPool::new(Arc::clone(&map), client.register(&map, Access::Local).map_err(stop)?, longest);
        let buffers = (0..count).map_while(|_| pool.take()).collect();
        let depth = usize::from(args.depth);
        let (arrived, chain) = (Vec::new(), Vec::new());
        Ok(Self {
            port,
            pairs,
            sender,
            buffers,
            heap,
            cells,
            wait: args.wait,
            depth,
            arrived,
            chain,
            early: 0,
            looks: 0,
            answered: 0,
            far,
            client,
        })
    }

    /// What the fabric is.
    pub fn info(&self) -> &sidewire_common::fabric::FabricInfo {
        self.client.info()
    }

    /// Keeps `depth` of a verb in flight on each of `qps` queue pairs until `count` have ended.
    pub fn run(&mut self, kind: Kind, bytes: usize, (qps, depth): (usize, usize), count: usize) -> Result<(), FabricError> {
        let mut posted = 0;
        for qp in 0..qps {
            let (first, share) = (qp * self.depth, depth.min(count - posted));
            let slots = first..first + share;
            posted += self.post(kind, bytes, qp, slots)?;
        }
        let (mut ended, mut since) = (0, None);
        let mut freed: Vec<Vec<usize>> = vec![Vec::with_capacity(depth); qps];
        while ended < count {
            self.poll(&mut since)?;
            for at in 0..self.arrived.len() {
                let Event::Done { id, status, .. } = self.arrived[at].event else { continue };
                if !status.is_ok() {
                    return Err(broken(format!("{kind:?} ended with {status:?}")));
                }
                let slot = id.0 as usize;
                if self.buffers[slot].is_lent() {
                    self.buffers[slot].give_back(id);
                }
                freed[slot / self.depth].push(slot);
                ended += 1;
            }
            for (qp, slots) in freed.iter_mut().enumerate() {
                let again = slots.len().min(count - posted);
                posted += self.post(kind, bytes, qp, slots.drain(..).take(again))?;
            }
        }
        Ok(())
    }

    /// Posts one chain; says how many.
    fn post(&mut self, kind: Kind, bytes: usize, qp: usize, slots: impl Iterator<Item = usize>) -> Result<usize, FabricError> {
        let pair = &self.pairs[qp];
        let cell = place(&self.cells.remote(), 64 * qp as u64, 8)?;
        for slot in slots {
            let id = WorkId(slot as u64);
            let verb = match kind {
                Kind::Read => {
                    Verb::Read { into: self.buffers[slot].lend(0..bytes, id), from: place(&self.heap.remote(), 0, bytes as u64)? }
                }
                Kind::Write => {
                    Verb::Write { from: self.buffers[slot].lend(0..bytes, id), to: place(&pair.staging, 0, bytes as u64)? }
                }
                Kind::FetchAdd => Verb::FetchAdd { at: cell, delta: 1 },
                Kind::CompareSwap => Verb::CompareSwap { at: cell, expect: 0, swap: 0 },
            };
            self.chain.push(WorkRequest { id, verb });
        }
        let count = self.chain.len();
        if count > 0 {
            let endpoint = if kind == Kind::Write { pair.writer } else { pair.reader };
            self.port.post(endpoint, &mut self.chain).map_err(|error| broken(error.to_string()))?;
        }
        Ok(count)
    }

    /// Says how the far end answers messages from now on: each is sent back, or `every` so many are acknowledged.
    pub fn answer(&mut self, every: usize) -> Result<(), FabricError> {
        if std::mem::replace(&mut self.answered, every) == every { Ok(()) } else { self.far.answer(every) }
    }

    /// A message there and the same one back.
    pub fn round_trip(&mut self, bytes: usize) -> Result<(), FabricError> {
        self.send(bytes)?;
        self.messages(1)
    }

    /// A stream of messages, every sixteenth of which is acknowledged; `count` is a multiple of that.
    pub fn stream(&mut self, bytes: usize, count: usize) -> Result<(), FabricError> {
        let window = self.depth.max(2 * STREAM_ACK) / STREAM_ACK;
        let (mut batches, mut acked) = (0, 0);
        while acked < count / STREAM_ACK {
            while batches < count / STREAM_ACK && batches - acked < window {
                (0..STREAM_ACK).try_for_each(|_| self.send(bytes))?;
                batches += 1;
            }
            self.messages(1)?;
            acked += 1;
        }
        Ok(())
    }

    fn send(&mut self, bytes: usize) -> Result<(), FabricError> {
        const MESSAGE: [u8; MESSAGE_BYTES] = [0x5a; MESSAGE_BYTES];
        let mut since = None;
        while self.port.room(self.sender) == 0 {
            self.poll(&mut since)?;
            self.take_messages()?;
        }
        let verb = Verb::Send { bytes: &MESSAGE[..bytes] };
        let posted = self.port.post(self.sender, &mut vec![WorkRequest { id: WorkId(0), verb }]);
        posted.map_err(|error| broken(error.to_string()))
    }

    /// Waits for so many messages.
    fn messages(&mut self, count: usize) -> Result<(), FabricError> {
        let (mut seen, mut since) = (std::mem::take(&mut self.early), None);
        while seen < count {
            self.poll(&mut since)?;
            self.take_messages()?;
            seen += std::mem::take(&mut self.early);
        }
        self.early = seen - count;
        Ok(())
    }

    /// Takes in the messages among what has arrived.
    fn take_messages(&mut self) -> Result<(), FabricError> {
        let mut bytes = [0; MESSAGE_BYTES];
        for completion in self.arrived.drain(..) {
            match completion.event {
                Event::Message { slot } => {
                    self.port.take_message(completion.endpoint, slot, &mut bytes)?;
                    self.early += 1;
                }
                Event::Done { status, .. } if !status.is_ok() => return Err(broken(format!("Send ended with {status:?}"))),
                _ => {}
            }
        }
        Ok(())
    }

    /// One look for completions, which waits a little when there are none; `since` is when the first look found none.
    fn poll(&mut self, since: &mut Option<Instant>) -> Result<(), FabricError> {
        self.arrived.clear();
        if self.port.poll(&mut self.arrived) > 0 {
            *since = None;
            return Ok(());
        }
        match self.wait {
            WaitMode::Event => drop(self.port.sleep(SLEEP_MAX)?),
            WaitMode::Poll => std::hint::spin_loop(),
        }
        self.looks = self.looks.wrapping_add(1);
        // The clock costs as much as some verbs: it is looked at now and then.
        if (self.wait == WaitMode::Event || self.looks.is_multiple_of(1 << 12))
            && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
        {
            return Err(broken("no completion comes".into()));
        }
        Ok(())
    }
}

fn broken(what: String) -> FabricError {
    FabricError::Call { call: "the raw verbs".into(), source: std::io::Error::other(what), hint: String::new() }
}

fn place(region: &RemoteRegion, offset: u64, bytes: u64) -> Result<RemoteAddr, FabricError> {
    region.at(offset, bytes).ok_or_else(|| broken(format!("{bytes} bytes do not fit a region of {}", region.bytes)))
}

fn fabrics(wish: Option<FabricKind>, device: Option<&str>, address: IpAddr) -> Result<Linked, FabricError> {
    let choice = match wish {
        None => FabricChoice::Auto,
        Some(FabricKind::Verbs) => FabricChoice::Verbs,
        Some(FabricKind::Shm) => FabricChoice::Shm,
    };
    let server = open_server(choice, device, address)?.fabric;
    let client = open_client(server.info().kind, device, Some(address))?;
    client.link(&server.admit(ClientId::random())?)?;
    Ok((server, client))
}

fn pair(
    port: &mut dyn Port,
    far: &Responder,
    roles: (Role, Role),
    depth: u32,
) -> Result<(EndpointId, Option<RemoteRegion>), FabricError> {
    let spec = |role| EndpointSpec { role, send_depth: depth, recv_depth: depth };
    let near = port.open(&spec(roles.0))?;
    let there = far.pair(spec(roles.1), near.info)?;
    port.connect(near.endpoint, &there.info)?;
    Ok((near.endpoint, there.staging))
}
