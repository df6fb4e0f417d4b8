//! Small ONNX files, written byte by byte, beside the real model's other files.

use std::path::Path;

use cofferdam_testkit::minilm;

const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A model with one step: every number of an input as another kind of number.
pub(crate) fn model(inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let mut graph = Vec::new();
    for output in outputs {
        let to = [text(1, "to"), number(3, FLOAT), number(20, 2)].concat();
        let step = [text(1, inputs[0]), text(2, output), text(4, "Cast"), part(5, &to)].concat();
        graph.extend(part(1, &step));
    }
    graph.extend(text(2, "graph"));
    for input in inputs {
        graph.extend(part(11, &value(input, INT64)));
    }
    for output in outputs {
        graph.extend(part(12, &value(output, FLOAT)));
    }
    let release = [text(1, ""), number(2, 17)].concat();
    [number(1, 8), part(7, &graph), part(8, &release)].concat()
}

/// The name and kind of what goes in or out: one row of any length.
fn value(name: &str, kind: u64) -> Vec<u8> {
    let one = number(1, 1);
    let any = text(2, "sequence");
    let shape = [part(1, &one), part(1, &any)].concat();
    let tensor = [number(1, kind), part(2, &shape)].concat();
    [text(1, name), part(2, &part(1, &tensor))].concat()
}

fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

fn text(field: u64, text: &str) -> Vec<u8> {
    part(field, text.as_bytes())
}

fn part(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A directory with the library and the tokenizer of the real model, and this one.
pub(crate) fn beside_the_real(model: &[u8]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let real = minilm().unwrap();
    for name in ["tokenizer.json", "libonnxruntime.so"] {
        link(&real.join(name), &place.path().join(name));
    }
    std::fs::write(place.path().join("model.onnx"), model).unwrap();
    place
}

fn link(from: &Path, to: &Path) {
    std::os::unix::fs::symlink(from, to).unwrap();
}
