//! Conditions on figures of the report, for scripts and tests.

use std::str::FromStr;

use serde_json::Value;

/// `reads_per_get<=1.05`.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    figure: String,
    comparison: Comparison,
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    AtMost,
    AtLeast,
    Below,
    Above,
    Equal,
}

/// Longer signs first: `<` is the beginning of `<=`.
const SIGNS: [(&str, Comparison); 5] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("<", Comparison::Below),
    (">", Comparison::Above),
];

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SIGNS.iter().find_map(|(sign, comparison)| Some((text.split_once(sign)?, *comparison)));
        let ((figure, bound), comparison) = found.ok_or("write FIGURE<=NUMBER, with <=, >=, <, > or ==")?;
        let bound = bound.trim().parse().map_err(|_| format!("`{}` is not a number", bound.trim()))?;
        let figure = figure.trim().to_owned();
        if figure.is_empty() { Err("no figure is named".into()) } else { Ok(Self { figure, comparison, bound }) }
    }
}

impl Expectation {
    /// What is wrong, if something is; `report` is the JSON report, and dots lead into it.
    pub fn unmet(&self, report: &Value) -> Option<String> {
        let figure = self.figure.split('.').try_fold(report, |value, name| value.get(name));
        let Some(seen) = figure.and_then(Value::as_f64) else {
            return Some(format!("the report has no figure {}", self.figure));
        };
        let (sign, holds) = match self.comparison {
            Comparison::AtMost => ("<=", seen <= self.bound),
            Comparison::AtLeast => (">=", seen >= self.bound),
            Comparison::Below => ("<", seen < self.bound),
            Comparison::Above => (">", seen > self.bound),
            Comparison::Equal => ("==", seen == self.bound),
        };
        (!holds).then(|| format!("expected {} {sign} {}, it is {seen}", self.figure, self.bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_judged() {
        let report = serde_json::json!({"reads_per_get": 1.04, "latency_ns": {"read": {"p50": 700}}, "name": "x"});
        let unmet = |text: &str| text.parse::<Expectation>().expect("it parses").unmet(&report);
        assert_eq!(unmet("reads_per_get<=1.05"), None);
        assert_eq!(unmet("latency_ns.read.p50 == 700"), None);
        assert_eq!(unmet("latency_ns.read.p50>700").as_deref(), Some("expected latency_ns.read.p50 > 700, it is 700"));
        assert_eq!(unmet("nothing<1").as_deref(), Some("the report has no figure nothing"));
        assert!(unmet("name<1").is_some());
        for nonsense in ["reads_per_get", "<=1", "a<=b", ""] {
            assert!(nonsense.parse::<Expectation>().is_err(), "{nonsense}");
        }
    }
}
