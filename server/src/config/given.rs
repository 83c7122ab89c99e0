//! What was given, as text: on the command line and in the file. Both have the same fields.

use super::ConfigError;
use clap::{Args, Parser};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  kv-server                                     1 GiB, shared memory or RDMA, whichever there is
  kv-server --listen 10.0.0.5:7400 --fabric verbs --memory 64GiB --hugepages require
  kv-server --config kv-server.toml --lease 10s   flags win over the file
  kv-server --etcd http://10.0.0.9:2379 --node a --listen 10.0.0.5:7400
                                                a server of a cluster
  kv-server --memory 8GiB --print-config        show what would be in force, and stop

Exit codes: 0 stopped as asked, 2 wrong flag or configuration, 3 the server or its fabric failed.";

/// The Sidewire server: keys, counters and locks in memory that clients reach by one-sided RDMA.
#[derive(Parser, Debug)]
#[command(name = "kv-server", version, after_help = EXAMPLES, max_term_width = 110)]
pub struct CommandLine {
    /// Configuration file (TOML); flags win over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the configuration in force as TOML, and stop
    #[arg(long)]
    pub print_config: bool,
    /// What can stand in the file too.
    #[command(flatten)]
    pub given: Given,
}

macro_rules! given {
    ($(#[doc = $doc:literal] $field:ident ($placeholder:literal) = $default:literal;)+) => {
        /// Every setting as text, if it was given.
        #[derive(Args, Deserialize, Default, Clone, Debug)]
        #[serde(default, deny_unknown_fields)]
        pub struct Given {
            $(
                #[doc = $doc]
                #[arg(long, value_name = $placeholder, help = concat!($doc, " [default: ", $default, "]").trim_ascii_start())]
                #[serde(deserialize_with = "text")]
                pub $field: Option<String>,
            )+
        }

        impl Given {
            /// Names of all settings, in the order in which they are shown.
            pub(super) const FIELDS: &[&str] = &[$(stringify!($field)),+];

            /// The text given for a field.
            pub(super) fn of(&self, field: &str) -> Option<&String> {
                match field {
                    $(stringify!($field) => self.$field.as_ref(),)+
                    _ => None,
                }
            }

            /// The default of a field.
            pub(super) fn default_of(field: &str) -> &'static str {
                match field {
                    $(stringify!($field) => $default,)+
                    _ => "",
                }
            }
        }
    };
}

given! {
    /// Address and port of the control plane; port 0 = the system's choice
    listen("ADDR") = "127.0.0.1:7400";
    /// Data fabric: auto, verbs or shm
    fabric("FABRIC") = "auto";
    /// RDMA device; empty = the one that carries the listen address
    device("NAME") = "";
    /// Memory for index and records, growing up to this
    memory("SIZE") = "1GiB";
    /// Memory is mapped and registered in chunks of this size; auto = a sixteenth of it
    chunk("SIZE") = "auto";
    /// Worker threads; auto = half of the cores
    workers("N") = "auto";
    /// A client that is silent for this long loses its locks and its place
    lease("TIME") = "3s";
    /// Hugepages: auto, require or off
    hugepages("MODE") = "auto";
    /// Counters, sequences and locks that can exist at once
    cells("N") = "65536";
    /// Longest value; auto = 64MiB, or what a chunk holds if that is less
    value_max("SIZE") = "auto";
    /// Ring for the writes of one session to one worker; values over half of it come in parts
    staging("SIZE") = "1MiB";
    /// All such rings together; auto = a quarter of the machine's memory
    staging_total("SIZE") = "auto";
    /// Client processes at a time
    clients_max("N") = "1000";
    /// How long an idle worker spins before it sleeps
    spin("TIME") = "50us";
    /// Cores of the workers: auto, off or a list such as 0,2
    pin("CORES") = "auto";
    /// etcd of the cluster, URL[,URL...]; empty = no cluster
    etcd("URLS") = "";
    /// Name of the cluster in etcd
    cluster("NAME") = "sidewire";
    /// Name of this server in its cluster
    node("NAME") = "";
    /// Copies of each shard when the cluster is made; auto = 2, or what the cluster was made with
    replicas("N") = "auto";
    /// Share of this server, relative to the others'
    weight("N") = "100";
    /// Address that others reach this server's control plane at; auto = the one it listens on
    advertise("ADDR") = "auto";
    /// Certificate of who signed etcd's; empty = what the system trusts
    etcd_ca("FILE") = "";
    /// Certificate that this server shows to etcd
    etcd_cert("FILE") = "";
    /// Its key
    etcd_key("FILE") = "";
    /// User of etcd
    etcd_user("NAME") = "";
    /// File that holds the user's password
    etcd_password_file("FILE") = "";
    /// File with a map that never changes, instead of etcd
    map("FILE") = "";
    /// What is logged to stderr: off, error, warn, info, debug, trace, or a list such as warn,kv_server::lease=debug
    log("LEVEL") = "info";
    /// How it is logged: text or json
    log_format("FORMAT") = "text";
}

impl Given {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML, or has a field that is not known.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let path_named = || path.to_owned();
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path_named(), source })?;
        Self::parse(&text).map_err(|reason| ConfigError::Parse { path: path_named(), reason })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it is not TOML, or has a field that is not known. The error says where.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())
    }
}

/// A string or a whole number.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    struct Text;
    impl de::Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string such as \"64MiB\", or a whole number")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }
    deserializer.deserialize_any(Text).map(Some)
}
