//! A job, driven in a real sandbox with a model that does as it is told.

mod adoption;
mod bill;
mod lab;
