//! What the aide inside a sandbox writes to its standard output: records of code
//! cells and of the desktop.
//!
//! Each record has its length before it (`encode_record` and `RecordDecoder` of
//! `cofferdam-guest-protocol`). Variants are numbered by their order; new ones go
//! to the end. The aide is carried by the program that reads it, so both are always
//! of one version. Nothing of it is to be trusted: it runs among the model's own
//! programs.
//!
//! This crate does no I/O.

mod ansi;
mod cell;
mod desk;

pub use ansi::strip_ansi;
pub use cell::{
    Because, CELL_CHUNK, CellEnd, CellPiece, KernelFacts, KernelPiece, Part, Role, Stream,
    part_pieces, text_pieces,
};
pub use desk::{
    ACTIONS, Action, ActionArguments, Button, DEFAULT_LIMITS, DeskFailure, DeskFailureKind,
    DeskPiece, DeskStop, Desktop, Direction, PICTURE_CHUNK, Picture, PictureLimits, Point, Refused,
    Region, Scale, Size, Window, WindowName, picture_pieces,
};
