//! The description of the format and the code say the same.

const CODE: &str = include_str!("../schema.rs");
const DOCUMENT: &str = include_str!("../../../../docs/formats/recording.md");

/// Message, field and number, in order, from lines of Rust.
fn from_code() -> Vec<(String, String, u32)> {
    let (mut message, mut number) = (String::new(), 0);
    let mut fields = Vec::new();
    for line in CODE.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("pub struct ") {
            message = name.trim_end_matches(" {").to_owned();
        } else if let Some((_, tag)) = line.split_once("tag = \"") {
            number = tag.split('"').next().unwrap().parse().unwrap();
        } else if let Some(field) = line.strip_prefix("pub ") {
            let name = field.split(':').next().unwrap();
            fields.push((message.clone(), name.to_owned(), number));
        }
    }
    fields
}

/// The same from the `.proto` in the document.
fn from_document() -> Vec<(String, String, u32)> {
    let proto = DOCUMENT
        .split("```proto")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mut message = String::new();
    let mut fields = Vec::new();
    for line in proto.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ") {
            message = name.trim_end_matches(" {").to_owned();
        } else if let Some((field, number)) = line.split_once(" = ") {
            let name = field.rsplit(' ').next().unwrap();
            let number = number.split(';').next().unwrap().parse().unwrap();
            fields.push((message.clone(), name.to_owned(), number));
        }
    }
    fields
}

/// Every message, field and number of the schema stands in docs/formats/recording.md, and no other.
#[test]
fn schema_is_documented() {
    assert_eq!(from_document(), from_code());
    assert!(from_code().len() > 60);
}
