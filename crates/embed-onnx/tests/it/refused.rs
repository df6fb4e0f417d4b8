//! Files that are no model: each is refused with its cause and a remedy.

use std::fs;
use std::path::Path;

use cofferdam_embed_onnx::OnnxEmbedder;
use cofferdam_testkit::minilm;

use crate::onnx_file::{beside_the_real, model};

#[track_caller]
fn refused(path: &Path, cause: &str) {
    let error = OnnxEmbedder::open(path, &[]).unwrap_err();
    let told = error.to_string();
    assert!(told.contains(cause), "{told}");
    assert!(told.len() < 1_000 && !error.remedy().is_empty(), "{told}");
}

#[test]
fn what_is_not_there_is_named() {
    let place = tempfile::tempdir().unwrap();
    let here = |name: &str| place.path().join(name);
    refused(&here("nowhere"), "nowhere");
    refused(place.path(), "holds 0 .onnx files");
    fs::write(here("a.onnx"), "").unwrap();
    refused(place.path(), "tokenizer.json\" cannot be read: No such file");
    fs::write(here("b.onnx"), "").unwrap();
    refused(place.path(), "holds 2 .onnx files");
    fs::copy(minilm().unwrap().join("tokenizer.json"), here("tokenizer.json")).unwrap();
    refused(&here("c.onnx"), "c.onnx\" cannot be read: No such file");
    fs::create_dir(here("model.onnx")).unwrap();
    refused(place.path(), "model.onnx\" cannot be read: it is no regular file");
}

#[test]
fn a_tokenizer_of_another_kind_is_refused() {
    let place = beside_the_real(&model(&["input_ids"], &["sentence_embedding"]));
    let tokenizer = place.path().join("tokenizer.json");
    fs::remove_file(&tokenizer).unwrap();
    for (text, cause) in [
        ("", "is no tokenizer that is known here: EOF"),
        ("\0\u{1}garbage", "is no tokenizer that is known here"),
        (r#"{"model": {"type": "Unigram"}}"#, "its model is a Unigram; only WordPiece is known"),
        (r#"{"model": {"type": "WordPiece", "vocab": 3}}"#, "it has no normalizer"),
    ] {
        fs::write(&tokenizer, text).unwrap();
        refused(place.path(), cause);
    }
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let real = fs::read(minilm().unwrap().join("model.onnx")).unwrap();
    let mut bent = real.clone();
    for byte in bent.iter_mut().take(4_000) {
        *byte ^= 0x55;
    }
    let half = real[..real.len() / 2].to_vec();
    let html = b"<!doctype html><title>404</title>".to_vec();
    for content in [vec![], html, half, bent, vec![0xff; 1 << 16]] {
        let place = beside_the_real(&content);
        refused(place.path(), "model.onnx\" is no ONNX model that can be used here: ");
    }
}

#[test]
fn a_model_for_something_else_is_refused() {
    for (content, cause) in [
        (model(&["pixel_values"], &["logits"]), "it wants \"pixel_values\""),
        (model(&["attention_mask"], &["logits"]), "it does not want input_ids"),
        (model(&["input_ids"], &["logits", "past"]), "it gives [\"logits\", \"past\"]"),
    ] {
        let place = beside_the_real(&content);
        refused(place.path(), cause);
    }
}
