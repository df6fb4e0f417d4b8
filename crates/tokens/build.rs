//! Packs the tables for the library to carry: each token in the order of its rank, after
//! one byte with its length.
//!
//! The tables are those of OpenAI's tiktoken (MIT license, Copyright (c) 2022 OpenAI,
//! Shantanu Jain), as `tiktoken-rs` has them. It takes no part in counting.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

/// The highest would save 70 KB and take seconds more of each build.
const LEVEL: i32 = 12;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            println!("cargo::error=cannot pack the tables of tokens: {cause}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?;
    let out = PathBuf::from(out);
    for (file, encoding) in
        [("cl100k.zst", cl100k_base_singleton()), ("o200k.zst", o200k_base_singleton())]
    {
        let packed = zstd::bulk::compress(&table(encoding)?, LEVEL)?;
        std::fs::write(out.join(file), packed)?;
    }
    Ok(())
}

/// All tokens of an encoding. After the last one a number is free; what is special to a
/// model comes behind it.
fn table(encoding: &CoreBPE) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut table = Vec::new();
    let mut rank = 0;
    while let Ok(token) = encoding.decode_bytes(&[rank]) {
        table.push(u8::try_from(token.len())?);
        table.extend(token);
        rank += 1;
    }
    Ok(table)
}
