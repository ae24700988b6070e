//! The description of the format and the code say the same.

const CODE: &str = include_str!("../schema.rs");
const DOCUMENT: &str = include_str!("../../../../docs/formats/recording.md");

/// One field: message, label and type, name, number.
type Field = (String, String, String, u32);

/// The fields in lines of Rust, in order.
fn from_code() -> Vec<Field> {
    let (mut message, mut kind, mut number) = (String::new(), String::new(), 0);
    let mut fields = Vec::new();
    for line in CODE.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("pub struct ") {
            message = name.trim_end_matches(" {").to_owned();
        } else if let Some((kinds, tag)) = line.split_once(", tag = \"") {
            let mut kinds: Vec<&str> = kinds.trim_start_matches("#[prost(").split(", ").collect();
            kinds.reverse();
            kind = kinds.join(" ");
            number = tag.split('"').next().unwrap().parse().unwrap();
        } else if let Some(field) = line.strip_prefix("pub ") {
            let name = field.split(':').next().unwrap().to_owned();
            fields.push((message.clone(), kind.clone(), name, number));
        }
    }
    fields
}

/// The fields in the `.proto` of the document, in order.
fn from_document() -> Vec<Field> {
    let proto = DOCUMENT.split("```proto").nth(1).unwrap();
    let proto = proto.split("```").next().unwrap();
    let mut message = String::new();
    let mut fields = Vec::new();
    for line in proto.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ") {
            message = name.split(' ').next().unwrap().to_owned();
        } else if let Some((field, number)) = line.split_once(" = ")
            && !message.is_empty()
        {
            let (kind, name) = field.rsplit_once(' ').unwrap();
            let (label, of) = kind.rsplit_once(' ').unwrap_or(("", kind));
            let of = if of.starts_with(char::is_uppercase) {
                "message"
            } else {
                of
            };
            let kind = format!("{label} {of}").trim().to_owned();
            let number = number.split(';').next().unwrap().parse().unwrap();
            fields.push((message.clone(), kind, name.to_owned(), number));
        }
    }
    fields
}

/// Every message, field, type and number of the schema stands in docs/formats/recording.md, and no other.
#[test]
fn schema_is_documented() {
    assert_eq!(from_document(), from_code());
    assert!(from_code().len() > 60);
}
