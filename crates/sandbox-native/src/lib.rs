//! Sandboxes made of Linux namespaces: no daemon, no image, no setuid helper, as
//! root and as an ordinary user.
//!
//! They are supervised sandboxes whose first process the supervisor itself clones: what one
//! is made of is the business of `cofferdam-native-supervisor`, and how a host speaks with it
//! that of `cofferdam-supervised`. Their promises are tried in this crate's tests.

pub use cofferdam_supervised::{Supervised as Native, Weakness, heed_children};
