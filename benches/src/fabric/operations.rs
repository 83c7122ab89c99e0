//! The raw verbs on the library's own connections, and what is built on them beside each.

use sidewire::{Client, Error, RawFabric, Session};
use sidewire_common::layout::record::record_bytes;
use sidewire_common::layout::request;

use crate::baseline::{Baseline, Probe};
use crate::cli::FabricArgs;
use crate::connect::{Stop, attach};
use crate::environment::Environment;
use crate::report::{Parameters, Report};

/// Length of the keys that the operations use, as in `load` and `run`.
const KEY_BYTES: usize = 16;

/// Runs the command.
pub fn command(args: &FabricArgs) -> Result<Report, Stop> {
    let client = attach(&args.common, None)?;
    let limit = client.attachment().value_bytes_max;
    if let Some(size) = args.sizes.iter().find(|size| **size > limit) {
        return Err(Stop::Usage(format!("--size {size}: the server takes messages of at most {limit} bytes")));
    }
    let info = client.admin().info()?;
    let mut report = Report::new("fabric", Environment::of(&client, &info), parameters(args));
    let session = client.session()?;
    let keys = Keys::create(&client, &session, args)?;
    let raw = session.raw();
    let measured = Baseline::measure(keys.probes(&raw, args), args.rounds, args.iterations);
    if let Ok(baseline) = &measured {
        report.add_baseline(baseline);
        keys.add_ratios(baseline, &mut report);
    }
    keys.remove()?;
    measured?;
    Ok(report)
}

/// The keys that are measured on, for as long as the command runs.
struct Keys<'a> {
    session: &'a Session,
    /// One for each size, with its value.
    values: Vec<(Vec<u8>, Vec<u8>)>,
    counter: Vec<u8>,
}

impl<'a> Keys<'a> {
    fn create(client: &Client, session: &'a Session, args: &FabricArgs) -> Result<Self, Error> {
        let holder = client.attachment().holder_id;
        let name = |number: usize| format!("bench{holder:07}{number:04}").into_bytes();
        let values = args.sizes.iter().enumerate().map(|(number, size)| (name(number), vec![0xa5; *size as usize])).collect();
        let keys = Self { session, values, counter: name(9_999) };
        for (key, value) in &keys.values {
            session.put(key, value)?;
        }
        session.create_counter(&keys.counter, 0)?;
        Ok(keys)
    }

    fn remove(&self) -> Result<(), Error> {
        for (key, _) in &self.values {
            self.session.delete(key)?;
        }
        self.session.delete(&self.counter)?;
        Ok(())
    }

    /// An operation directly after the raw verb it is compared with, so that both see the same moment.
    fn probes<'b>(&'b self, raw: &'b RawFabric<'_>, args: &FabricArgs) -> Vec<Probe<'b>> {
        let session = self.session;
        let depth = u64::from(args.depth);
        let mut probes = Vec::new();
        for (key, value) in &self.values {
            let size = value.len();
            let record = record_bytes(KEY_BYTES, size);
            let request = request::HEADER_BYTES + KEY_BYTES + size;
            if record != size {
                probes.push(Probe::new(format!("read_{size}"), move || raw.read(size)));
            }
            probes.push(Probe::new(format!("write_{size}"), move || raw.write(size)));
            let chain = move || raw.read_chain(record, depth as usize);
            probes.push(Probe::chain(format!("read_record_{size}_x{depth}"), depth, chain));
            probes.push(Probe::new(format!("read_record_{size}"), move || raw.read(record)));
            probes.push(Probe::new(format!("get_{size}"), move || get(session, key)));
            probes.push(Probe::new(format!("write_imm_ack_{size}"), move || raw.write_imm_ack(request)));
            probes.push(Probe::new(format!("put_{size}"), move || session.put(key, value).map(drop)));
        }
        probes.push(Probe::new("fetch_add", move || raw.fetch_add()));
        probes.push(Probe::new("counter_add", move || session.add(&self.counter, 1).map(drop)));
        probes.push(Probe::new("compare_swap", move || raw.compare_swap()));
        probes
    }

    fn add_ratios(&self, baseline: &Baseline<'_>, report: &mut Report) {
        let mut add = |name: String, of: &str, over: &str| {
            if let Some(ratio) = baseline.ratio(of, over) {
                report.ratio.insert(name, ratio);
            }
        };
        for (_, value) in &self.values {
            let size = value.len();
            add(format!("get_over_read_{size}"), &format!("get_{size}"), &format!("read_record_{size}"));
            add(format!("put_over_write_imm_ack_{size}"), &format!("put_{size}"), &format!("write_imm_ack_{size}"));
        }
        add("counter_add_over_fetch_add".into(), "counter_add", "fetch_add");
    }
}

fn get(session: &Session, key: &[u8]) -> Result<(), Error> {
    session.get(key)?.map(drop).ok_or(Error::NotFound)
}

fn parameters(args: &FabricArgs) -> Parameters {
    Parameters { key_bytes: KEY_BYTES as u64, value_bytes: args.sizes.clone(), threads: 1, pipeline: 1, ..Parameters::default() }
}
