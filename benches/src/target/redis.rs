//! Redis, or what speaks its protocol, through the `redis` client: one connection a thread, commands packed once,
//! pipelines sent and answered as a whole, as its own benchmark does.

use std::time::{Duration, Instant};

use redis::{Connection, ConnectionLike, ErrorKind, RedisError, ServerErrorKind, Value};
use sidewire::ClientStats;

use super::resp::command;
use super::store::Store;
use super::{Keys, Request, Target, Ticket};
use crate::connect::Stop;
use crate::drive::{Crew, CrewError, Plan};
use crate::environment::Environment;
use crate::failure::{Failure, FailureKind};
use crate::server_cost::ServerLook;

/// Gives a lock back if it is still ours.
const UNLOCK: &[u8] = b"if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
/// A lock that its holder forgot ends by itself after this many milliseconds.
const LOCK_MS: &[u8] = b"10000";
/// Pause between two looks at a lock that another holds.
const LOCK_PAUSE: Duration = Duration::from_micros(50);
/// Longest value that Redis stores.
const VALUE_BYTES_MAX: u64 = 512 << 20;
const KEY_BYTES_MAX: u64 = 4_096;

/// A Redis server.
pub struct RedisStore {
    url: String,
    client: redis::Client,
    deadline: Duration,
}

impl From<RedisError> for Stop {
    fn from(error: RedisError) -> Self {
        Self::Failed(format!("redis: {error}"))
    }
}

impl RedisStore {
    /// Finds out whether it answers.
    pub fn open(url: &str, deadline: Duration) -> Result<Self, Stop> {
        let client = redis::Client::open(url).map_err(|error| Stop::Usage(format!("--target {url}: {error}")))?;
        let store = Self { url: url.into(), client, deadline };
        store.connect()?;
        Ok(store)
    }

    fn connect(&self) -> Result<RedisConnection, RedisError> {
        RedisConnection::open(&self.client, self.deadline)
    }

    fn info(&self) -> Result<String, Stop> {
        match self.connect()?.call(&[b"INFO"])? {
            Value::BulkString(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Value::VerbatimString { text, .. } => Ok(text),
            other => Err(Stop::Failed(format!("redis: INFO was answered {other:?}"))),
        }
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl Store for RedisStore {
    fn longest(&self) -> (u64, u64) {
        (KEY_BYTES_MAX, VALUE_BYTES_MAX)
    }

    fn crew(&self, plan: &Plan, threads: usize) -> Result<Crew, CrewError> {
        let (client, deadline) = (self.client.clone(), self.deadline);
        Crew::start(plan, threads, move |_| Ok(RedisConnection::open(&client, deadline)?))
    }

    fn missing(&self, keys: &[Vec<u8>]) -> Result<Option<usize>, Stop> {
        let mut connection = self.connect()?;
        for (at, key) in keys.iter().enumerate() {
            if connection.call(&[b"EXISTS", key])? == Value::Int(0) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn look(&self) -> Result<ServerLook, Stop> {
        let info = self.info()?;
        let seconds = |name| field(&info, name).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        let requests = field(&info, "total_commands_processed").and_then(|text| text.parse().ok()).unwrap_or_default();
        let cpu = seconds("used_cpu_user") + seconds("used_cpu_sys");
        Ok(ServerLook { cpu_ns: (cpu * 1e9) as u64, requests, wakeups: 0 })
    }

    fn environment(&self) -> Result<Environment, Stop> {
        let info = self.info()?;
        let version = field(&info, "redis_version").unwrap_or("unknown");
        Ok(Environment::of_peer(
            &self.url,
            if self.url.starts_with("redis+unix") { "unix" } else { "tcp" },
            &format!("redis {version}"),
        ))
    }
}

/// One thread's connection.
pub struct RedisConnection {
    connection: Connection,
    deadline: Duration,
    packed: Vec<u8>,
    /// Begun and not sent yet, or not answered.
    open: Vec<Ticket>,
    next: Ticket,
    token: [u8; 16],
}

impl RedisConnection {
    fn open(client: &redis::Client, deadline: Duration) -> Result<Self, RedisError> {
        let connection = client.get_connection_with_timeout(deadline)?;
        connection.set_read_timeout(Some(deadline))?;
        connection.set_write_timeout(Some(deadline))?;
        let token = format!("{:016x}", rand::random::<u64>());
        let token = token.as_bytes().first_chunk().copied().unwrap_or_default();
        Ok(Self { connection, deadline, packed: Vec::new(), open: Vec::new(), next: 0, token })
    }

    fn call(&mut self, words: &[&[u8]]) -> Result<Value, RedisError> {
        self.packed.clear();
        command(&mut self.packed, words);
        self.connection.req_packed_command(&self.packed)?.extract_error()
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// Milliseconds as Redis wants them.
fn milliseconds(ttl: Duration) -> Vec<u8> {
    ttl.as_millis().max(1).to_string().into_bytes()
}

impl Target for RedisConnection {
    fn read<R>(&mut self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Failure> {
        let value = self.call(&[b"GET", key])?;
        Ok(look(bytes(&value)))
    }

    fn multi_get(&mut self, keys: &Keys, mut look: impl FnMut(usize, Option<&[u8]>)) -> Result<(), Failure> {
        let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter()).collect();
        let Value::Array(values) = self.call(&words)? else {
            return Err(Failure::refused("MGET was not answered with an array"));
        };
        values.iter().enumerate().for_each(|(at, value)| look(at, bytes(value)));
        Ok(())
    }

    fn write(&mut self, key: &[u8], value: &[u8], ttl: Option<Duration>) -> Result<(), Failure> {
        match ttl {
            None => self.call(&[b"SET", key, value])?,
            Some(ttl) => self.call(&[b"SET", key, value, b"PX", &milliseconds(ttl)])?,
        };
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.call(&[b"DEL", key])?;
        Ok(())
    }

    fn add(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.call(&[b"INCR", key])?;
        Ok(())
    }

    fn lock_and_unlock(&mut self, key: &[u8]) -> Result<(), Failure> {
        let (token, began) = (self.token, Instant::now());
        while self.call(&[b"SET", key, &token, b"NX", b"PX", LOCK_MS])? == Value::Nil {
            if began.elapsed() > self.deadline {
                return Err(Failure::deadline("a lock was not to be had"));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        self.call(&[b"EVAL", UNLOCK, b"1", key, &token])?;
        Ok(())
    }

    fn create_counter(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.call(&[b"SET", key, b"0", b"NX"])?;
        Ok(())
    }

    fn submit(&mut self, request: Request<'_>) -> Result<Option<Ticket>, Failure> {
        if self.open.is_empty() {
            self.packed.clear();
        }
        match request {
            Request::Read { key } => command(&mut self.packed, &[b"GET", key]),
            Request::Write { key, value, ttl: None } => command(&mut self.packed, &[b"SET", key, value]),
            Request::Write { key, value, ttl: Some(ttl) } => {
                command(&mut self.packed, &[b"SET", key, value, b"PX", &milliseconds(ttl)]);
            }
            Request::Delete { key } => command(&mut self.packed, &[b"DEL", key]),
            Request::Add { key } => command(&mut self.packed, &[b"INCR", key]),
        }
        self.next += 1;
        self.open.push(self.next);
        Ok(Some(self.next))
    }

    fn wait(&mut self, mut ended: impl FnMut(Ticket, Result<Option<&[u8]>, Failure>)) -> Result<(), Failure> {
        match self.connection.req_packed_commands(&self.packed, 0, self.open.len()) {
            Ok(values) => {
                for (ticket, value) in self.open.drain(..).zip(values) {
                    match value.extract_error() {
                        Ok(value) => ended(ticket, Ok(bytes(&value))),
                        Err(error) => ended(ticket, Err(error.into())),
                    }
                }
            }
            // None of them will be answered any more.
            Err(error) => {
                for ticket in self.open.drain(..) {
                    ended(ticket, Err(error.clone().into()));
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> ClientStats {
        ClientStats::default()
    }
}

impl From<RedisError> for Failure {
    #[cold]
    fn from(error: RedisError) -> Self {
        let full = error.to_string().contains("OOM");
        let kind = match error.kind() {
            _ if error.is_timeout() => FailureKind::Deadline,
            ErrorKind::Io => FailureKind::Unreachable,
            ErrorKind::Server(ServerErrorKind::ResponseError) | ErrorKind::Extension if full => FailureKind::Full,
            _ => FailureKind::Refused,
        };
        Self { kind, text: format!("redis: {error}") }
    }
}
