//! Which back end is asked.

use std::sync::Arc;

use cofferdam_sandbox::{
    AUTO, Backend, Capabilities, Grade, OpenError, Reconciled, Room, RoomError, Spec, choose,
};
use cofferdam_types::SandboxId;
use futures_util::future::BoxFuture;

/// A back end that is only looked at.
struct Shown(&'static str, Grade);

impl Backend for Shown {
    fn name(&self) -> &'static str {
        self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { strongest: self.1, ..Capabilities::NONE }
    }

    fn open(&self, _: Spec) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        panic!("nobody opens it")
    }

    fn reattach(&self, _: SandboxId) -> BoxFuture<'_, Result<Box<dyn Room>, OpenError>> {
        panic!("nobody opens it")
    }

    fn reconcile(&self) -> BoxFuture<'_, Result<Reconciled, RoomError>> {
        panic!("nobody asks it")
    }
}

fn shown(all: &[(&'static str, Grade)]) -> Vec<Arc<dyn Backend>> {
    all.iter().map(|(name, strongest)| Arc::new(Shown(name, *strongest)) as _).collect()
}

fn chosen(backends: &[Arc<dyn Backend>], name: &str, required: Grade) -> &'static str {
    choose(backends, name, required).map(|backend| backend.name()).unwrap()
}

#[test]
fn the_first_that_can_be_as_strong_as_required_is_asked() {
    let all = [("first", Grade::Bounded), ("second", Grade::Virtual), ("third", Grade::Virtual)];
    let all = shown(&all);
    assert_eq!(chosen(&all, AUTO, Grade::Contained), "first");
    assert_eq!(chosen(&all, AUTO, Grade::Bounded), "first");
    assert_eq!(chosen(&all, AUTO, Grade::Virtual), "second");
}

#[test]
fn a_name_is_taken_at_its_word() {
    let all = shown(&[("first", Grade::Bounded), ("second", Grade::Virtual)]);
    assert_eq!(chosen(&all, "first", Grade::Virtual), "first");
    assert_eq!(chosen(&all, "second", Grade::Contained), "second");
}

#[test]
fn where_none_is_strong_enough_the_first_says_so() {
    let all = shown(&[("first", Grade::Bounded), ("second", Grade::Contained)]);
    assert_eq!(chosen(&all, AUTO, Grade::Virtual), "first");
}

#[test]
fn who_asks_for_one_that_is_not_there_is_told_which_are() {
    let all = shown(&[("first", Grade::Bounded), ("second", Grade::Virtual)]);
    let none = choose(&all, "third", Grade::Contained).map(|backend| backend.name()).unwrap_err();
    assert_eq!(none.to_string(), "there is no back end \"third\"; there is first, second");
    assert!(choose(&[], AUTO, Grade::Contained).is_err());
}

#[test]
fn grades_are_known_by_their_names() {
    for grade in Grade::ALL {
        assert_eq!(Grade::named(&grade.to_string()), Some(grade));
        assert_eq!(Grade::required(Some(&grade.to_string())), grade);
    }
    assert_eq!(Grade::named("watertight"), None);
    assert_eq!(Grade::required(Some("of a later release")), Grade::Virtual);
    assert_eq!(Grade::required(None), Grade::Contained);
}
