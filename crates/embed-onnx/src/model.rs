//! The model: tokens in, one vector out.
//!
//! Texts go through one by one and as long as they are. Nothing is filled up, so every
//! token counts and the mask is all ones; and a quantised model, whose steps depend on
//! what goes through together, gives a text the same vector in any company.

use ort::environment::Environment;
use ort::session::Session;
use ort::value::Tensor;

/// Outputs that are known, the best first.
const OUTPUTS: [&str; 3] = ["sentence_embedding", "last_hidden_state", "token_embeddings"];

/// Numbers of a vector.
const LONGEST_VECTOR: usize = 8_192;

/// What is wrong with a model.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It cannot be read or run.
    Broken(String),
    /// It wants or gives something else.
    Purpose(String),
}

/// What an input is to be given.
#[derive(Clone, Copy)]
enum Input {
    Tokens,
    Mask,
    Kinds,
}

impl Input {
    fn name(self) -> &'static str {
        match self {
            Self::Tokens => "input_ids",
            Self::Mask => "attention_mask",
            Self::Kinds => "token_type_ids",
        }
    }
}

/// A model that is ready.
pub(crate) struct Model {
    session: Session,
    inputs: Vec<Input>,
    output: String,
}

impl Model {
    /// Reads a model and makes it ready.
    ///
    /// # Errors
    /// When it is none, or none for texts.
    pub(crate) fn read(environment: &Environment, content: &[u8]) -> Result<Self, Unfit> {
        let session = session(environment, content).map_err(|error| broken(&error))?;
        let inputs = inputs(session.inputs().iter().map(|input| input.name()))?;
        let outputs: Vec<&str> = session.outputs().iter().map(|output| output.name()).collect();
        let output = output(&outputs)?.to_owned();
        Ok(Self { session, inputs, output })
    }

    /// The vector of a text, of length one.
    ///
    /// # Errors
    /// When the model cannot be run on it, or gives no vector.
    pub(crate) fn vector(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Unfit> {
        let mut inputs = Vec::new();
        for input in &self.inputs {
            let row: Vec<i64> = match input {
                Input::Tokens => tokens.iter().map(|token| i64::from(*token)).collect(),
                Input::Mask => vec![1; tokens.len()],
                Input::Kinds => vec![0; tokens.len()],
            };
            let row = Tensor::from_array(([1, row.len()], row)).map_err(|error| broken(&error))?;
            inputs.push((input.name(), row));
        }
        let outputs = self.session.run(inputs).map_err(|error| broken(&error))?;
        let output = outputs.get(&self.output);
        let output = output.ok_or_else(|| Unfit::Purpose(format!("no {}", self.output)))?;
        let (shape, numbers) = output.try_extract_tensor::<f32>().map_err(|error| {
            Unfit::Purpose(format!("what it gives are no numbers of 32 bits: {error}"))
        })?;
        let length = length(shape, tokens.len())?;
        unit(numbers, length)
    }
}

fn session(environment: &Environment, content: &[u8]) -> ort::Result<Session> {
    // One thread: what it is wanted for is not worth all of a machine.
    let builder = Session::builder(environment)?.with_intra_threads(1)?.with_inter_threads(1)?;
    let mut builder = builder;
    builder.commit_from_memory(content)
}

/// How long the vectors of that shape are: one for the text, or one for each token.
fn length(shape: &[i64], tokens: usize) -> Result<usize, Unfit> {
    let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
    let length = match shape {
        [1, length] => *length,
        [1, rows, length] if *rows == tokens => *length,
        _ => return Err(Unfit::Purpose(format!("it gives numbers in the shape {shape:?}"))),
    };
    match usize::try_from(length) {
        Ok(length) if (1..=LONGEST_VECTOR).contains(&length) => Ok(length),
        _ => Err(Unfit::Purpose(format!("it gives vectors of {length} numbers"))),
    }
}

/// The mean of rows of that length, as a vector of length one.
fn unit(numbers: &[f32], length: usize) -> Result<Vec<f32>, Unfit> {
    let mut sum = vec![0.0_f64; length];
    for row in numbers.chunks_exact(length) {
        for (sum, number) in sum.iter_mut().zip(row) {
            *sum += f64::from(*number);
        }
    }
    let size = sum.iter().map(|number| number * number).sum::<f64>().sqrt();
    if !size.is_finite() || size <= f64::EPSILON {
        return Err(Unfit::Broken("it gives numbers that are no direction".to_owned()));
    }
    #[expect(clippy::cast_possible_truncation, reason = "models know no more than that")]
    Ok(sum.into_iter().map(|number| (number / size) as f32).collect())
}

fn broken(error: &impl std::fmt::Display) -> Unfit {
    Unfit::Broken(shortened(&error.to_string()))
}

/// As much of a cause as anybody reads: some hold whole tensors.
fn shortened(cause: &str) -> String {
    const LONGEST: usize = 400;
    let line: String = cause.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// What each of the model's inputs is to be given.
fn inputs<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<Input>, Unfit> {
    const KNOWN: [Input; 3] = [Input::Tokens, Input::Mask, Input::Kinds];
    let mut inputs = Vec::new();
    for name in names {
        let known = KNOWN.into_iter().find(|known| known.name() == name);
        inputs.push(known.ok_or_else(|| Unfit::Purpose(format!("it wants {name:?}")))?);
    }
    match inputs.iter().any(|input| matches!(input, Input::Tokens)) {
        true => Ok(inputs),
        false => Err(Unfit::Purpose("it does not want input_ids".to_owned())),
    }
}

/// The output to look at: one that is known by its name, or the only one.
fn output<'a>(names: &[&'a str]) -> Result<&'a str, Unfit> {
    let known = OUTPUTS.iter().find_map(|known| names.iter().find(|name| *name == known));
    match (known, names) {
        (Some(known), _) => Ok(known),
        (None, [only]) => Ok(only),
        (None, _) => {
            let names: Vec<_> = names.iter().take(9).collect();
            Err(Unfit::Purpose(format!("it gives {names:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_the_direction_of_the_mean() {
        assert_eq!(unit(&[3.0, 0.0, 3.0, 8.0], 2).unwrap(), [0.6, 0.8]);
        assert_eq!(unit(&[0.0, -2.0], 2).unwrap(), [0.0, -1.0]);
        for numbers in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 1.0], [1e-30, 0.0]] {
            assert!(unit(&numbers, 2).is_err(), "{numbers:?}");
        }
    }

    #[test]
    fn inputs_and_outputs_are_known_by_their_names() {
        assert_eq!(inputs(["attention_mask", "input_ids"].into_iter()).unwrap().len(), 2);
        for (names, wanted) in [
            (vec!["input_ids", "pixel_values"], "it wants \"pixel_values\""),
            (vec!["attention_mask"], "it does not want input_ids"),
            (vec![], "it does not want input_ids"),
        ] {
            match inputs(names.into_iter()) {
                Err(Unfit::Purpose(cause)) => assert_eq!(cause, wanted),
                _ => panic!("not {wanted}"),
            }
        }
        assert_eq!(output(&["token_embeddings", "sentence_embedding"]).unwrap(), OUTPUTS[0]);
        assert_eq!(output(&["pooler_output", "last_hidden_state"]).unwrap(), OUTPUTS[1]);
        assert_eq!(output(&["vectors"]).unwrap(), "vectors");
        assert!(output(&["logits", "past"]).is_err() && output(&[]).is_err());
    }

    #[test]
    fn a_shape_is_one_of_a_text_or_of_its_tokens() {
        assert_eq!(length(&[1, 384], 7).unwrap(), 384);
        assert_eq!(length(&[1, 7, 384], 7).unwrap(), 384);
        for shape in [&[][..], &[384], &[2, 384], &[1, 6, 384], &[1, 7, 0], &[1, 1 << 40], &[1, -1]]
        {
            assert!(length(shape, 7).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn a_cause_is_a_line_that_can_be_read() {
        assert_eq!(shortened("one\n  two"), "one two");
        let long = shortened(&"ä".repeat(1_000));
        assert_eq!(long.chars().count(), 401);
    }
}
