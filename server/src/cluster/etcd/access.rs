//! How etcd is reached, and what its refusals mean.

use etcd_client::{Certificate, ConnectOptions, Error, Identity, TlsOptions};
use std::error::Error as _;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Silence after which the connection is probed, and time for the probe: a link that was cut is noticed within a lease.
const KEEPALIVE: Duration = Duration::from_secs(1);

/// Addresses and credentials of etcd.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// `http://host:port` or `https://host:port`, at least one.
    pub urls: Vec<String>,
    /// Who signed etcd's certificate; `None` = what the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// User, and the file that holds its password.
    pub user: Option<(String, PathBuf)>,
}

/// Why etcd is not reached.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file of certificates or a password.
    #[error("cannot read {}: {source}; see --{flag}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The flag that names it.
        flag: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// It does not answer, or refuses.
    #[error("etcd at {urls}: {reason}")]
    Refused {
        /// Where.
        urls: String,
        /// Why, and what to do.
        reason: String,
    },
    /// No thread.
    #[error("cannot start the thread that speaks to etcd: {0}")]
    Thread(std::io::Error),
}

fn read(path: &Path, flag: &'static str) -> Result<Vec<u8>, AccessError> {
    std::fs::read(path).map_err(|source| AccessError::File { path: path.to_owned(), flag, source })
}

/// What the client is told.
pub(super) fn options(access: &Access, limit: Duration) -> Result<ConnectOptions, AccessError> {
    let mut options =
        ConnectOptions::new().with_connect_timeout(limit).with_keep_alive(KEEPALIVE, KEEPALIVE).with_keep_alive_while_idle(true);
    if access.urls.iter().any(|url| url.starts_with("https:")) {
        let mut tls = TlsOptions::new();
        tls = match &access.ca {
            Some(path) => tls.ca_certificate(Certificate::from_pem(read(path, "etcd-ca")?)),
            None => tls.with_enabled_roots(),
        };
        if let Some((cert, key)) = &access.identity {
            tls = tls.identity(Identity::from_pem(read(cert, "etcd-cert")?, read(key, "etcd-key")?));
        }
        options = options.with_tls(tls);
    }
    if let Some((user, file)) = &access.user {
        let password = read(file, "etcd-password-file")?;
        let password = String::from_utf8_lossy(&password).trim_end_matches(['\r', '\n']).to_owned();
        options = options.with_user(user, password).with_auto_token_refresh(true);
    }
    Ok(options)
}

/// A refusal in words, with what to do.
pub(super) fn explain(error: &Error) -> String {
    let mut text = match error {
        Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    let mut cause = match error {
        Error::GRpcStatus(status) => status.source(),
        Error::TransportError(transport) => transport.source(),
        _ => None,
    };
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {inner_text}");
        }
        cause = inner.source();
    }
    text.push_str(hint(&text.to_lowercase()));
    text
}

/// Refusals come as words of several libraries.
fn hint(text: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["user name is empty", "authentication failed", "invalid user", "invalid auth token"]) {
        "; give a user with --etcd-user and its password with --etcd-password-file"
    } else if has(&["permission denied"]) {
        "; grant the user read and write on /sidewire/ in etcd"
    } else if has(&["certificate", "unknownissuer", "tls", "corrupt message", "broken pipe", "closed", "connection reset"]) {
        "; check that the URL is https exactly if etcd wants TLS, and --etcd-ca, --etcd-cert and --etcd-key"
    } else if has(&["connection refused", "connect error", "dns error", "unreachable", "timed out"]) {
        "; is etcd running there, and can this host reach it?"
    } else {
        ""
    }
}
