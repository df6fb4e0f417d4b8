//! Vectors of texts, by the real model. The numbers that are wanted are those of
//! Python's `onnxruntime` and `tokenizers` with the same files.

use cofferdam_embed_onnx::OnnxEmbedder;
use cofferdam_recall::Embed;
use cofferdam_testkit::minilm;
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::onnx_file;

const CAT: &str = "The cat sleeps on the warm sofa.";
const KITTEN: &str = "A kitten naps on the couch.";
const DATABASE: &str = "The database rejected the connection: password expired.";
const CODE: &str = "fn parse_header(bytes: &[u8]) -> Result<Header, ParseError>";

fn open() -> OnnxEmbedder {
    OnnxEmbedder::open(&minilm().unwrap(), &[]).unwrap()
}

async fn vectors(embedder: &OnnxEmbedder, texts: &[&str]) -> Vec<Vec<f32>> {
    embedder.embed(texts.iter().map(|text| (*text).to_owned()).collect()).await.unwrap()
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn texts_that_mean_the_same_point_the_same_way() {
    let embedder = open();
    let found = vectors(&embedder, &[CAT, KITTEN, DATABASE, CODE]).await;
    // The reference's.
    let likeness = [
        [1.0, 0.6988, 0.0406, -0.0122],
        [0.6988, 1.0, -0.0137, 0.0129],
        [0.0406, -0.0137, 1.0, -0.0482],
        [-0.0122, 0.0129, -0.0482, 1.0],
    ];
    for (a, row) in found.iter().zip(likeness) {
        assert_eq!(a.len(), 384);
        for (b, wanted) in found.iter().zip(row) {
            assert!((product(a, b) - wanted).abs() < 1e-2, "{} and not {wanted}", product(a, b));
        }
    }
    for (number, wanted) in found[0].iter().zip([0.170_06, -0.080_66, -0.030_84, 0.067_04]) {
        assert!((number - wanted).abs() < 1e-2, "{number} and not {wanted}");
    }
    // The file itself instead of its directory, and other company.
    let file = OnnxEmbedder::open(&minilm().unwrap().join("model.onnx"), &[]).unwrap();
    assert_eq!(vectors(&file, &[CODE, CAT]).await, [found[3].clone(), found[0].clone()]);
}

#[tokio::test]
async fn a_text_of_any_length_has_a_vector() {
    let embedder = open();
    let long = "the tide lifted the boats ".repeat(40_000);
    let noise: String = (0..1 << 18).filter_map(|number| char::from_u32(number * 7)).collect();
    let nothing = "\u{200b}".repeat(1 << 20);
    // More than the model takes, too.
    let beginning = "the tide lifted the boats ".repeat(40);
    let texts = [long.as_str(), &beginning, &noise, &nothing, "", "\n"];
    let found = vectors(&embedder, &texts).await;
    for vector in &found {
        assert!((product(vector, vector) - 1.0).abs() < 1e-3);
    }
    assert_eq!(found[0], found[1], "only its beginning counts");
    assert_eq!(found[3], found[4]);
    assert!(vectors(&embedder, &[]).await.is_empty());
    let many = embedder.embed(vec![String::new(); 257]).await.unwrap_err().to_string();
    assert!(many.contains("257 texts are more than 256"), "{many}");
}

#[tokio::test]
async fn a_model_may_give_one_vector_of_its_own() {
    let model = onnx_file::model(&["input_ids"], &["other", "sentence_embedding"]);
    let place = onnx_file::beside_the_real(&model);
    let embedder = OnnxEmbedder::open(place.path(), &[]).unwrap();
    // The numbers of its tokens, which are "the" and what stands around a text.
    let found = vectors(&embedder, &["the"]).await;
    let length = (101.0_f32.powi(2) + 1996.0_f32.powi(2) + 102.0_f32.powi(2)).sqrt();
    for (number, wanted) in found[0].iter().zip([101.0, 1996.0, 102.0]) {
        assert!((number - wanted / length).abs() < 1e-4, "{found:?}");
    }
}

#[tokio::test]
async fn too_many_questions_are_refused_and_the_rest_are_answered() {
    let embedder = open();
    let question = || embedder.embed(vec![DATABASE.repeat(9); 4]);
    let answers = join_all((0..30).map(|_| question())).await;
    let (good, bad): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(good.len() >= 8 && !bad.is_empty(), "{} and {}", good.len(), bad.len());
    for refused in bad {
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("questions wait already"), "{told}");
    }
}

/// Hundreds of long texts would take longer than the test may.
#[tokio::test]
async fn a_question_that_nobody_waits_for_is_dropped() {
    let embedder = open();
    for _ in 0..100 {
        // Polled once, so that it is asked, and dropped.
        let abandoned = embedder.embed(vec![CODE.repeat(20); 256]);
        assert!(abandoned.now_or_never().is_none());
        assert_eq!(vectors(&embedder, &[CAT]).await.len(), 1);
    }
}
