//! Which columns of a csv or tsv file hold key and value.

use crate::failure::{Done, Failure};

/// How the user chose columns.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Name or number of the key's column.
    pub key: Option<String>,
    /// Name or number of the value's column.
    pub value: Option<String>,
    /// Whether the first line is no header.
    pub no_header: bool,
}

/// Where key and value stand in every record.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Columns {
    key: usize,
    value: usize,
    fields: Fields,
}

/// How many fields a record must have.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Fields {
    Exactly(usize),
    AtLeast(usize),
}

impl Choice {
    /// The columns of a file with this header.
    pub fn with_header(&self, header: &[&[u8]]) -> Done<Columns> {
        let key = find(header, self.key.as_deref(), "key")?;
        let value = find(header, self.value.as_deref(), "value")?;
        Ok(Columns { key, value, fields: Fields::Exactly(header.len()) })
    }

    /// The columns of a file without a header.
    pub fn without_header(&self) -> Done<Columns> {
        let key = self.key.as_deref().map_or(Ok(0), |text| number(text, "--key-column"))?;
        let value = self.value.as_deref().map_or(Ok(1), |text| number(text, "--value-column"))?;
        let chosen = self.key.is_some() || self.value.is_some();
        let fields = if chosen { Fields::AtLeast(key.max(value) + 1) } else { Fields::Exactly(2) };
        Ok(Columns { key, value, fields })
    }
}

impl Columns {
    /// Key and value of a record with these fields.
    pub fn pick<'a>(&self, fields: &[&'a [u8]]) -> Result<(&'a [u8], &'a [u8]), String> {
        let count = fields.len();
        match self.fields {
            Fields::Exactly(wanted) if count != wanted => Err(format!("{} instead of {wanted}", plural(count))),
            Fields::AtLeast(wanted) if count < wanted => Err(format!("{}, at least {wanted} are wanted", plural(count))),
            _ => Ok((fields[self.key], fields[self.value])),
        }
    }
}

fn plural(count: usize) -> String {
    if count == 1 { "1 field".into() } else { format!("{count} fields") }
}

fn number(text: &str, flag: &str) -> Done<usize> {
    match text.parse::<usize>() {
        Ok(number) if number > 0 => Ok(number - 1),
        _ => Err(Failure::usage(format!("{flag} `{text}`: a file without a header has columns 1, 2, ..."))),
    }
}

fn find(header: &[&[u8]], chosen: Option<&str>, usual: &str) -> Done<usize> {
    let name = chosen.unwrap_or(usual);
    if let Some(index) = header.iter().position(|field| *field == name.as_bytes()) {
        return Ok(index);
    }
    if let Some(number) = chosen.and_then(|text| text.parse::<usize>().ok())
        && (1..=header.len()).contains(&number)
    {
        return Ok(number - 1);
    }
    let columns: Vec<_> = header.iter().map(|field| format!("`{}`", crate::escape::escape(field))).collect();
    Err(Failure::usage(format!(
        "the header has no column `{name}`, its columns are {}; choose with --{usual}-column NAME or NUMBER, \
         or say --no-header when the first line is a record",
        columns.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&[u8]; 3] = [b"id", b"value", b"key"];

    #[test]
    fn columns_go_by_name_then_by_number() {
        let columns = Choice::default().with_header(&HEADER).unwrap();
        assert_eq!(columns.pick(&[b"1", b"v", b"k"]), Ok((&b"k"[..], &b"v"[..])));
        let columns = Choice { key: Some("1".into()), value: Some("key".into()), no_header: false }.with_header(&HEADER).unwrap();
        assert_eq!(columns.pick(&[b"1", b"v", b"k"]), Ok((&b"1"[..], &b"k"[..])));
    }

    #[test]
    fn a_file_without_a_header_is_not_taken_for_one() {
        let failure = Choice::default().with_header(&[b"bash", b"a shell"]).unwrap_err();
        assert_eq!(failure.exit, crate::failure::USAGE);
        assert!(failure.message.contains("--no-header"), "{}", failure.message);
        assert!(Choice { key: Some("4".into()), ..Choice::default() }.with_header(&HEADER).is_err());
        assert!(Choice { key: Some("0".into()), ..Choice::default() }.with_header(&HEADER).is_err());
    }

    #[test]
    fn records_with_another_number_of_fields_are_refused() {
        let columns = Choice::default().with_header(&HEADER).unwrap();
        assert_eq!(columns.pick(&[b"1", b"v"]), Err("2 fields instead of 3".into()));
        let bare = Choice { no_header: true, ..Choice::default() }.without_header().unwrap();
        assert_eq!(bare.pick(&[b"k"]), Err("1 field instead of 2".into()));
        assert_eq!(bare.pick(&[b"k", b"v", b"w"]), Err("3 fields instead of 2".into()));
        let chosen = Choice { value: Some("3".into()), no_header: true, key: None }.without_header().unwrap();
        assert_eq!(chosen.pick(&[b"k", b"v"]), Err("2 fields, at least 3 are wanted".into()));
        assert_eq!(chosen.pick(&[b"k", b"v", b"w", b"x"]), Ok((&b"k"[..], &b"w"[..])));
        assert!(Choice { key: Some("name".into()), no_header: true, value: None }.without_header().is_err());
    }
}
