//! From a checked configuration to a server that serves, and back to nothing.
//!
//! ```text
//!   bind the port        so that one in use is told before gigabytes are mapped
//!   choose the fabric    with a reason
//!   preflight            memory, hugepages, locked memory
//!   seat                 the place in a cluster: its map, and so the seed of the hash
//!   store → workers → leases → grower → member of the cluster
//!   serve                `listening on ADDR` on stdout
//!   signal → shutdown    a second one ends at once
//! ```

mod preflight;
pub mod seat;
mod signals;
pub mod trace;

use crate::config::{Config, Machine};
use crate::control::{self, Core};
use crate::lease::{LeaseError, Leases};
use crate::pools::Pools;
use crate::shutdown::Running;
use crate::store::{Settings, StartError, Store};
use crate::worker::Workers;
use preflight::Shortage;
pub use seat::{Seat, SeatError};
use sidewire_common::fabric::{Fabric, FabricError, open_server};
use signals::Signals;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Threads that answer gRPC.
const CONTROL_THREADS: usize = 2;
/// Requests that may wait for a worker's or the lease thread's answer at once; more queue up.
const WAITING_MAX: usize = 128;
/// Time for open requests to be answered once the server stops.
const REQUESTS_END: Duration = Duration::from_secs(3);
/// How often it is looked whether all threads live.
const WATCH: Duration = Duration::from_secs(1);

/// Why the server did not start or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}{}", listen_hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Too little of something.
    #[error(transparent)]
    Shortage(#[from] Shortage),
    /// The store or its workers.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The lease thread.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The place in the cluster.
    #[error(transparent)]
    Seat(#[from] SeatError),
    /// Threads, signals, standard output.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// gRPC as a whole.
    #[error("the control plane failed: {0}")]
    Control(#[from] tonic::transport::Error),
    /// A thread ended that must not.
    #[error("a thread that serves has ended unexpectedly; the last lines of the log say why")]
    ThreadEnded,
}

fn listen_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another server uses this port, choose another with --listen (port 0 = any)",
        io::ErrorKind::AddrNotAvailable => "; this machine does not have that address, see `ip address`",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> BootError {
    move |source| BootError::System { what, source }
}

/// Runs the server until it is told to stop.
///
/// # Errors
/// When it cannot start or cannot go on.
pub fn run(config: &Config, machine: &Machine) -> Result<ExitCode, BootError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .max_blocking_threads(WAITING_MAX)
        .thread_name("kv-control")
        .enable_all()
        .build()
        .map_err(system("cannot start the control threads"))?;
    let done = runtime.block_on(run_in(config.clone(), *machine));
    // Nobody waits for a request that still waits for somebody.
    runtime.shutdown_background();
    done
}

async fn run_in(config: Config, machine: Machine) -> Result<ExitCode, BootError> {
    let mut signals = Signals::catch().map_err(system("cannot catch signals"))?;
    let runtime = Handle::current();
    let starting = tokio::task::spawn_blocking(move || start(&config, &machine, runtime));
    let (listener, running) = tokio::select! {
        started = starting => started.map_err(|e| system("starting")(io::Error::other(e)))??,
        signal = signals.next() => {
            tracing::info!(signal, "stopped while starting");
            std::process::exit(0);
        }
    };
    serve(listener, running, signals).await
}

/// Everything that blocks, in order.
fn start(config: &Config, machine: &Machine, runtime: Handle) -> Result<(TcpListener, Running), BootError> {
    let address = config.listen;
    let fail = |source| BootError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let choice = open_server(config.fabric, config.device.as_deref(), address.ip())?;
    let info = choice.fabric.info();
    tracing::info!(fabric = %info.kind, device = info.device, gid = info.gid, atomics = %info.atomics, reason = choice.reason, "fabric chosen");
    preflight::check(config, machine, info.kind)?;
    let seat = Seat::of(config, listener.local_addr().map_err(fail)?, runtime)?;
    let running = assemble_in(seat, config.settings(machine), choice.fabric, choice.reason, config.staging_total(machine))?;
    Ok((listener, running))
}

/// Starts all threads of a server that is alone.
///
/// # Errors
/// When memory, threads or ports cannot be had.
pub fn assemble(
    settings: Settings,
    fabric: Arc<dyn Fabric>,
    fabric_reason: String,
    staging_total_bytes: u64,
) -> Result<Running, BootError> {
    assemble_in(None, settings, fabric, fabric_reason, staging_total_bytes)
}

/// Starts all threads of a server on a fabric. What was made is undone in reverse when a later step fails.
///
/// # Errors
/// When memory, threads or ports cannot be had, or the cluster is not entered.
pub fn assemble_in(
    seat: Option<Seat>,
    mut settings: Settings,
    fabric: Arc<dyn Fabric>,
    fabric_reason: String,
    staging_total_bytes: u64,
) -> Result<Running, BootError> {
    settings.hash_seed = seat.as_ref().map(Seat::hash_seed).or(settings.hash_seed);
    let store = Store::build(settings, fabric)?;
    if let Some(seat) = &seat {
        store.join(seat.hands());
    }
    let workers = Arc::new(Workers::start(&store)?);
    let leases = Leases::start(&store, &workers).inspect_err(|_| workers.stop())?;
    let leases = Arc::new(leases);
    let grower = Pools::start_grower(&store).map_err(system("cannot start the thread that grows pools"));
    let grower = grower.inspect_err(|_| {
        workers.stop();
        leases.stop();
    })?;
    let cluster = seat.as_ref().map(|seat| Arc::clone(&seat.view));
    let member = seat.map(|seat| seat.take(&store, &workers)).transpose().inspect_err(|_| {
        workers.stop();
        leases.stop();
    });
    let member = member.map_err(SeatError::from)?.flatten();
    let core = Core { store, workers, leases, cluster, fabric_reason, staging_total_bytes, started: Instant::now() };
    Ok(Running::new(Arc::new(core), grower, member))
}

async fn serve(listener: TcpListener, running: Running, mut signals: Signals) -> Result<ExitCode, BootError> {
    let address = listener.local_addr().map_err(system("cannot tell the address"))?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(system("cannot listen"))?;
    let core = Arc::clone(running.core());
    let (stop, stopped) = oneshot::channel();
    let mut serving = tokio::spawn(control::serve(Arc::clone(&core), listener, async {
        let _ = stopped.await;
    }));
    announce(address).map_err(system("cannot write to standard output"))?;
    tracing::info!(%address, incarnation = %core.store.incarnation(), version = env!("CARGO_PKG_VERSION"), "serving");

    let failure = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "stopping; a second signal stops at once");
            None
        }
        ended = &mut serving => Some(ended.map_or(BootError::ThreadEnded, |end| end.err().map_or(BootError::ThreadEnded, Into::into))),
        () = thread_ended(&core, &running) => Some(BootError::ThreadEnded),
    };
    core.leases.begin_stop();
    if let Some(view) = &core.cluster {
        view.close();
    }
    drop(core);
    let ending = async {
        let _ = stop.send(());
        if !serving.is_finished() && tokio::time::timeout(REQUESTS_END, &mut serving).await.is_err() {
            tracing::warn!("requests were still open after {REQUESTS_END:?}");
            serving.abort();
        }
        let _ = tokio::task::spawn_blocking(move || running.finish()).await;
    };
    tokio::select! {
        () = ending => {}
        signal = signals.next() => {
            tracing::warn!(signal, "stopped at once");
            std::process::exit(3);
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => {
            tracing::info!("stopped");
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn thread_ended(core: &Core, running: &Running) {
    while !core.workers.any_ended() && !core.leases.has_ended() && !running.has_left() {
        tokio::time::sleep(WATCH).await;
    }
}

/// The one line on stdout: scripts wait for it.
fn announce(address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "listening on {address}")?;
    out.flush()
}
