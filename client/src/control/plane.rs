//! The runtime behind a client's control planes, and the way to each.

use super::Control;
use crate::address::Address;
use crate::error::Error;
use crate::resolver::HANGING_MAX;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

/// Longest time for a TCP connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// The runtime of a client's control planes. It may be dropped anywhere, within another runtime too, so it never
/// waits for its threads.
pub(crate) struct Background(Option<Runtime>);

impl Background {
    fn start() -> Result<Self, Error> {
        // Names are resolved by blocking threads, which hang for as long as the resolver does.
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).max_blocking_threads(HANGING_MAX).thread_name("sidewire-rpc").enable_all();
        let runtime = runtime.build();
        let runtime = runtime.map_err(|e| Error::Control {
            server: String::new(),
            reason: format!("the control plane's runtime could not be started: {e}"),
        })?;
        Ok(Self(Some(runtime)))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("taken by drop alone")
    }

    /// Runs a future to its end.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime().spawn(future)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// How a client reaches control planes; one for all its servers.
#[derive(Clone)]
pub(crate) struct Plane {
    runtime: Arc<Background>,
    /// The way to the servers of a simulated world, in the place of gRPC.
    #[cfg(feature = "sim")]
    direct: Option<Arc<dyn crate::sim::Direct>>,
}

impl Plane {
    /// Starts the runtime.
    pub fn start() -> Result<Self, Error> {
        Ok(Self {
            runtime: Arc::new(Background::start()?),
            #[cfg(feature = "sim")]
            direct: None,
        })
    }

    /// To the servers of a simulated world.
    #[cfg(feature = "sim")]
    pub fn simulated(direct: Arc<dyn crate::sim::Direct>) -> Result<Self, Error> {
        thread_local! {
            // A runtime has threads: all clients of a world share one that does nothing.
            static IDLE: std::cell::OnceCell<Plane> = const { std::cell::OnceCell::new() };
        }
        let idle = IDLE.with(|idle| match idle.get() {
            Some(plane) => Ok(plane.clone()),
            None => Self::start().map(|plane| idle.get_or_init(|| plane).clone()),
        })?;
        Ok(Self { direct: Some(direct), ..idle })
    }

    /// The runtime, for work that goes on in the background.
    pub fn runtime(&self) -> &Arc<Background> {
        &self.runtime
    }

    /// Whether there is no network.
    pub fn is_simulated(&self) -> bool {
        #[cfg(feature = "sim")]
        return self.direct.is_some();
        #[cfg(not(feature = "sim"))]
        false
    }

    /// The control plane of the server at `address`; connects when it is first needed, and again whenever it must.
    pub fn server(&self, address: Address) -> Result<Control, Error> {
        let endpoint = Endpoint::from_shared(format!("http://{}", address.as_str()))
            .map_err(|e| Error::Address { address: address.as_str().into(), reason: e.to_string() })?;
        let endpoint = endpoint.connect_timeout(CONNECT_LIMIT).tcp_nodelay(true);
        let channel = {
            let _inside = self.runtime.runtime().enter();
            endpoint.connect_lazy()
        };
        Ok(Control {
            address,
            channel,
            runtime: Arc::clone(&self.runtime),
            #[cfg(feature = "sim")]
            direct: self.direct.clone(),
        })
    }
}
