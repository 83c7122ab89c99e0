//! `kvctl lock show`: who holds a lock, with the holder's process as the server knows it.

use crate::context::Context;
use crate::escape::escape;
use crate::failure::Done;
use crate::json_bytes;
use crate::output::Output;
use crate::write_result::not_found;
use serde_json::json;
use sidewire::v1::ClientReport;
use sidewire_common::key::KeyHash;
use std::fmt::Write as _;

pub fn show(key: &[u8], context: &Context, output: &mut Output) -> Done {
    let state = context.session()?.lock_state(key)?.ok_or_else(|| not_found(key))?;
    let mut json = json_bytes::object("key", key);
    json.insert("token".into(), json!(state.token));
    json.insert("holder".into(), json!(state.holder));
    let Some(holder) = state.holder else {
        return output.reply(format_args!("free (token {})", state.token), &json.into());
    };
    let mut text = format!("held by client {holder} (token {})", state.token);
    if let Some(client) = client_of(key, holder, context)? {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {} on {}, process {}", client.program, client.host, client.pid);
        json.insert("program".into(), json!(client.program));
        json.insert("host".into(), json!(client.host));
        json.insert("pid".into(), json!(client.pid));
    }
    output.reply(text, &json.into())
}

/// The client of this number, at the server of the key.
fn client_of(key: &[u8], holder: u32, context: &Context) -> Done<Option<ClientReport>> {
    let fleet = context.fleet()?;
    let at = fleet.map().and_then(|map| Some(map.primary(KeyHash::of(key, map.hash_seed).shard())?.0));
    let Some(server) = fleet.servers().iter().find(|server| server.member == at) else { return Ok(None) };
    Ok(server.admin.info()?.clients.into_iter().find(|client| client.holder_id == holder))
}

/// A sentence for when a lock could not be had.
pub fn holder_of(key: &[u8], context: &Context) -> Done<String> {
    let key_text = escape(key);
    Ok(match context.session()?.lock_state(key)? {
        Some(state) if state.holder.is_some() => {
            let holder = state.holder.unwrap_or_default();
            format!("`{key_text}` is held by client {holder} (token {})", state.token)
        }
        _ => format!("`{key_text}` was held by another client a moment ago"),
    })
}
