//! The product as one binary.

fn main() {}
