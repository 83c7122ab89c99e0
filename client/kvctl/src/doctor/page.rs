//! Findings for people, by area, and for programs.

use super::facts::{Facts, Gid};
use super::finding::{Area, Finding, Findings, Level};
use super::judge::Choice;
use crate::failure::Done;
use crate::output::{Output, Style};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// Prints the visit in the style that was asked for.
pub fn print(facts: &Facts, choice: Option<&Choice>, findings: &Findings, output: &mut Output) -> Done {
    match output.style() {
        Style::Json | Style::Line => output.line(document(facts, choice, findings)),
        Style::Text => output.bytes(page(facts, choice, findings).as_bytes()),
    }
}

fn document(facts: &Facts, choice: Option<&Choice>, findings: &Findings) -> Json {
    json!({
        "healthy": findings.count(Level::Fault) == 0,
        "faults": findings.count(Level::Fault),
        "warnings": findings.count(Level::Warning),
        "choice": choice,
        "findings": findings.all().collect::<Vec<_>>(),
        "facts": {
            "devices": facts.devices,
            "kernel": facts.kernel,
            "memory": facts.memory,
            "limits": facts.limits,
        },
    })
}

fn page(facts: &Facts, choice: Option<&Choice>, findings: &Findings) -> String {
    let mut text = String::new();
    let mut area = None;
    for finding in findings.all() {
        if area.replace(finding.area) != Some(finding.area) {
            if area_ended(&text) {
                text.push('\n');
            }
            heading(&mut text, finding.area, facts, choice);
        }
        tell(&mut text, finding);
    }
    let count = |level, one: &str| match findings.count(level) {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{}, {}, {}",
        count(Level::Fault, "fault"),
        count(Level::Warning, "warning"),
        count(Level::Note, "note")
    );
    text
}

fn area_ended(text: &str) -> bool {
    !text.is_empty()
}

fn heading(text: &mut String, area: Area, facts: &Facts, choice: Option<&Choice>) {
    let _ = writeln!(text, "{}", area.title());
    if area == Area::Devices {
        tables(text, facts, choice);
    }
}

/// The GID tables, with the entry that would be used.
fn tables(text: &mut String, facts: &Facts, choice: Option<&Choice>) {
    for device in &facts.devices {
        for port in &device.ports {
            let _ = writeln!(text, "  GID table of {} port {}", device.name, port.number);
            if port.gids.is_empty() {
                let _ = writeln!(text, "      empty");
            }
            for gid in &port.gids {
                let is_it = |choice: &&Choice| {
                    choice.device == device.name && choice.port == port.number && choice.gid_index == Some(gid.index)
                };
                row(text, gid, choice.filter(is_it));
            }
        }
    }
}

fn row(text: &mut String, gid: &Gid, chosen: Option<&Choice>) {
    let mark = if chosen.is_some() { '*' } else { ' ' };
    let interface = gid.interface.as_deref().unwrap_or("-");
    let why = chosen.map_or(String::new(), |choice| format!("  <- {}", choice.why));
    let _ = writeln!(text, "    {mark} {:>3}  {:<28} {:<10} {interface}{why}", gid.index, gid.gid, gid.framing);
}

fn tell(text: &mut String, finding: &Finding) {
    let _ = writeln!(text, "  {:<8} {}", finding.level.name(), finding.what);
    if finding.level == Level::Ok {
        return;
    }
    let _ = writeln!(text, "           {}", finding.means);
    if let Some(mend) = &finding.mend {
        let _ = writeln!(text, "           mend: {mend}");
    }
}
