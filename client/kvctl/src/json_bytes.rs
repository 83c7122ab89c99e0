//! Bytes in JSON: a string under `NAME` where they are UTF-8, else base64 under `NAME_base64`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

/// Adds bytes to an object.
pub fn insert(object: &mut Map<String, Json>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

/// An object with one pair of bytes: where most results begin.
pub fn object(name: &str, bytes: &[u8]) -> Map<String, Json> {
    let mut object = Map::new();
    insert(&mut object, name, bytes);
    object
}

/// The bytes that base64 stands for.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_text_and_the_rest_is_base64() {
        assert_eq!(Json::Object(object("key", "grün\n".as_bytes())).to_string(), r#"{"key":"grün\n"}"#);
        assert_eq!(Json::Object(object("key", b"\xff\x00")).to_string(), r#"{"key_base64":"/wA="}"#);
        assert_eq!(decode("/wA=").unwrap(), b"\xff\x00");
        assert!(decode("no!").unwrap_err().starts_with("not base64"));
    }
}
