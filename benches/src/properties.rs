//! Java property files, as YCSB's workloads are written: `name=value`, `name: value`, `#` and `!` for comments.

use std::collections::BTreeMap;

/// What a property file says, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

/// Why a property file was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// A line with a name and no value.
    #[error("line {line}: `{text}` is not `name=value`")]
    NotAPair {
        /// Counted from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A value that cannot be what its name asks for.
    #[error("property {name}: `{value}` is not {wanted}")]
    Value {
        /// The property's name.
        name: String,
        /// What was written.
        value: String,
        /// What is understood.
        wanted: &'static str,
    },
}

impl Properties {
    /// Reads the text of a property file. A name that comes twice has its last value, as in Java.
    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        let mut found = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let not_a_pair = || PropertyError::NotAPair { line: index + 1, text: line.into() };
            let (name, value) = line.split_once(['=', ':']).ok_or_else(not_a_pair)?;
            if name.trim().is_empty() {
                return Err(not_a_pair());
            }
            found.insert(name.trim().to_owned(), value.trim().to_owned());
        }
        Ok(Self(found))
    }

    /// Sets a property, over what the file says.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// The text of a property.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> Result<Option<u64>, PropertyError> {
        self.parsed(name, "a whole number")
    }

    /// A share of all operations: from 0 to 1.
    pub fn proportion(&self, name: &str) -> Result<f64, PropertyError> {
        Ok(self.within(name, 0.0, 1.0, "a number from 0 to 1")?.unwrap_or(0.0))
    }

    /// A number between two others.
    pub fn within(&self, name: &str, least: f64, most: f64, wanted: &'static str) -> Result<Option<f64>, PropertyError> {
        let number: Option<f64> = self.parsed(name, wanted)?;
        if number.is_none_or(|number| (least..=most).contains(&number)) { Ok(number) } else { Err(self.refuse(name, wanted)) }
    }

    /// The names that are none of `known`, for a warning.
    pub fn others<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a str> {
        self.0.keys().map(String::as_str).filter(|name| !known.contains(name))
    }

    /// An error about a property's value.
    pub fn refuse(&self, name: &str, wanted: &'static str) -> PropertyError {
        PropertyError::Value { name: name.into(), value: self.text(name).unwrap_or_default().into(), wanted }
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str, wanted: &'static str) -> Result<Option<T>, PropertyError> {
        self.text(name).map(|text| text.parse().map_err(|_| self.refuse(name, wanted))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_ycsb_reads_as_it_is() {
        let file =
            Properties::parse("# comment\n\n! another\nrecordcount=1000\nreadproportion = 0.5\nrequestdistribution: zipfian\n");
        let file = file.expect("it parses");
        assert_eq!(file.count("recordcount"), Ok(Some(1000)));
        assert_eq!(file.proportion("readproportion"), Ok(0.5));
        assert_eq!(file.text("requestdistribution"), Some("zipfian"));
        assert_eq!(file.proportion("scanproportion"), Ok(0.0));
        assert_eq!(file.others(&["recordcount", "readproportion"]).collect::<Vec<_>>(), ["requestdistribution"]);
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        assert!(matches!(Properties::parse("a=1\nnonsense\n"), Err(PropertyError::NotAPair { line: 2, .. })));
        assert!(matches!(Properties::parse("=5"), Err(PropertyError::NotAPair { line: 1, .. })));
        let file = Properties::parse("recordcount=many\nreadproportion=1.5\nupdateproportion=NaN").expect("it parses");
        assert!(file.count("recordcount").is_err());
        assert!(file.proportion("readproportion").is_err());
        assert!(file.proportion("updateproportion").is_err());
    }
}
