//! Mistakes that were made once.

use cofferdam_context::{Call, Conversation, Need};
use cofferdam_types::{
    Arguments, Block, Content, Cut, Span, Summariser, ToolCall, ToolResult, ToolStatus,
};

use crate::job::{Job, Made, bash, made, reads, shown, writes};

fn pruned(job: &mut Job) -> String {
    job.conversation.cut(&Cut::Pruned { through: u64::MAX, keep: 1_600 }, &[], 100_000);
    shown(job.conversation.messages())
}

fn long(word: &str) -> String {
    format!("{word}\n").repeat(300)
}

#[test]
fn a_file_that_was_read_again_is_there_once() {
    let mut job = Job::new("Build it.", 200_000);
    job.round("I look.", vec![reads("a.rs", &long("old"))]);
    job.round("I look.", vec![reads("/workspace/a.rs", &long("new"))]);
    let all = pruned(&mut job);
    assert!(!all.contains("old") && all.contains("`recall` with id 3 has what was here]"), "{all}");
    assert!(all.contains("new"), "{all}");
}

#[test]
fn a_read_that_only_says_that_nothing_changed_takes_no_place() {
    let notice = "a.rs: unchanged since you read it; the text you have is current";
    let mut job = Job::new("Build it.", 200_000);
    job.round("I look.", vec![reads("a.rs", &long("text"))]);
    job.round("I look.", vec![reads("a.rs", notice)]);
    assert!(pruned(&mut job).contains("text\ntext"));
}

#[test]
fn a_read_that_failed_takes_no_place() {
    let mut job = Job::new("Build it.", 200_000);
    job.round("I look.", vec![reads("a.rs", &long("text"))]);
    let failed = Made { status: ToolStatus::Failed, ..reads("a.rs", &long("there is no a.rs")) };
    job.round("I look.", vec![failed]);
    assert!(pruned(&mut job).contains("text\ntext"));
}

#[test]
fn the_first_part_of_a_long_file_does_not_take_the_place_of_another() {
    let mut job = Job::new("Build it.", 200_000);
    let part = r#"{"path":"a.rs","offset":5000}"#.to_owned();
    job.round("I look.", vec![made("read_file", part, &long("line 5000"))]);
    let first = format!("{}[lines 1 to 2000 of 9000; go on with offset 2001]\n", long("line 1"));
    job.round("I look.", vec![reads("a.rs", &first)]);
    assert!(pruned(&mut job).contains("line 5000\nline 5000"));
}

#[test]
fn results_that_came_in_another_order_are_summarised_with_their_numbers() {
    // Calls of a job in these tests end in the reverse order.
    let mut job = Job::new("Build it.", 200_000);
    job.round("I look.", vec![bash("a", "1"), bash("b", "2"), bash("c", "3")]);
    job.round("I look.", vec![bash("d", &long("4"))]);
    let span = Span::Messages { through: 5 };
    assert!(job.conversation.replaced(span) > 0);
    let (summary, by) = ("Looked around.".to_owned(), Summariser::Model);
    job.conversation.cut(&Cut::Summarised { span, summary, by }, &[], 10_000);
    assert!(shown(job.conversation.messages()).contains("## Summary of #2 to #5\n"));
    assert_eq!(job.conversation.messages().len(), 3);
}

#[test]
fn what_was_said_while_calls_ran_stays_with_their_results() {
    let mut conversation = Conversation::new(1, "Build it.");
    let text = |text: &str| Block::Text { text: text.to_owned() };
    let result = |seq, id: &str| {
        let (tool, arguments, status) = ("bash", "{}", ToolStatus::Done);
        let call = Call { seq, tool, arguments, status, changes: false };
        let content = vec![Content::text(long("found"))];
        (call, ToolResult { id: id.to_owned(), content, failed: false })
    };
    let call = |id: &str| {
        let (name, arguments) = ("bash".to_owned(), Arguments("{}".to_owned()));
        Block::ToolCall(ToolCall { id: id.to_owned(), name, arguments })
    };
    conversation.answer(3, vec![text("I look."), call("a")]);
    conversation.user_said(4, "And keep to port 8137.");
    conversation.results(vec![result(5, "a")]);
    conversation.ask();
    conversation.answer(7, vec![text("I look on."), call("b")]);
    conversation.results(vec![result(8, "b")]);
    // Up to the results, and so with what stands with them.
    let (summary, by) = ("Looked around.".to_owned(), Summariser::Model);
    let span = Span::Messages { through: 5 };
    conversation.cut(&Cut::Summarised { span, summary, by }, &[], 10_000);
    assert_eq!(conversation.messages().len(), 3);
    let all = shown(conversation.messages());
    assert_eq!(all.matches("#4: And keep to port 8137.").count(), 1, "{all}");
}

#[test]
fn what_still_stands_in_the_conversation_is_not_said_twice() {
    let mut job = Job::new("Build it.", 200_000);
    job.round("I look.", vec![bash("a", &long("1"))]);
    job.user_says("And keep to port 8137.");
    job.round("I look on.", vec![bash("b", "2")]);
    let (summary, by) = ("Looked around.".to_owned(), Summariser::Model);
    let span = Span::Messages { through: 3 };
    job.conversation.cut(&Cut::Summarised { span, summary, by }, &[], 10_000);
    let all = shown(job.conversation.messages());
    assert_eq!(all.matches("And keep to port 8137.").count(), 1, "{all}");
}

#[test]
fn what_a_coder_changed_is_remembered_by_whoever_asked_for_it() {
    let mut coder = Job::new("Write a.rs.", 200_000);
    coder.round("I write.", vec![crate::job::writes("src/a.rs", "x")]);
    let mut job = Job::new("Build it.", 200_000);
    let brief = r#"{"instruction":"Write a.rs."}"#.to_owned();
    job.round("I delegate.", vec![made("delegate", brief, &long("It is written."))]);
    let was = coder.conversation.close();
    job.conversation.adopt(3, &was);
    assert_eq!(coder.conversation.messages().len(), 1);
    job.conversation.tell(4, "Go on.");
    let (summary, by) = ("It was written.".to_owned(), Summariser::Model);
    let span = Span::Messages { through: 3 };
    job.conversation.cut(&Cut::Summarised { span, summary, by }, &[], 10_000);
    let all = shown(job.conversation.messages());
    assert!(all.contains("#3: changed src/a.rs"), "{all}");
    assert!(all.contains("#3: delegated: Write a.rs."), "{all}");
}

#[test]
fn what_was_too_long_for_one_model_may_fit_another() {
    let mut job = Job::new("Build it.", 32_000);
    job.round("I look.", vec![bash("make", &"a long line\n".repeat(2_500))]);
    assert_eq!(job.conversation.need(job.room), Need::Nothing);
    job.ask();
    job.conversation.refuse();
    assert_ne!(job.conversation.need(job.room), Need::Nothing);
    job.conversation.change_model();
    assert_eq!(job.conversation.need(job.room), Need::Nothing);
    assert_eq!(job.conversation.refusals(), 0);
}

#[test]
fn what_was_done_stands_together_where_it_is_too_much_to_be_told_one_by_one() {
    let mut job = Job::new("Build it.", 8_000);
    for number in 0..250 {
        let file = writes(&format!("src/{}/part{number}.rs", number % 7), &long("x"));
        let command = bash(&format!("tool{} --step {number}", number % 3), "done");
        // Each is looked for after every cut.
        job.round("I do it.", vec![file, command]);
    }
    job.ask();
    let all = shown(job.conversation.messages());
    let done = all.split("## Done\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(done.contains(" files in src/") && done.contains(" × $ tool0"), "{done}");
    assert!(!done.contains("earlier"), "{done}");
    assert!(done.len() < 4_000, "{}", done.len());
}

#[test]
fn where_nothing_can_be_recalled_only_words_of_ours_change() {
    let theirs = "Say: `recall` with id 3 has all of it\n\
                  [about 9 bytes are left out here; `recall` with id 77 has all of it]\n\
                  (4 earlier: `recall` with words or a file finds them)\n\
                  : `recall` with that id shows it in full, `recall` with words or a file finds others";
    let mut job = Job::new(theirs, 200_000);
    job.round("I look.", vec![reads("doc.md", theirs)]);
    job.user_says(theirs);
    job.round("I look.", vec![bash("make", &long("x").repeat(20))]);
    job.tell("Go on.");
    job.conversation.speak();
    assert_eq!(job.conversation.unnamed_messages(), job.conversation.messages());

    // What is cut is told of, without the tool.
    let all = pruned(&mut job);
    let unnamed = shown(&job.conversation.unnamed_messages());
    let told = |how: &str| format!("bytes are left out here; {how}6 has all of it]");
    assert!(all.contains(&told("`recall` with id ")), "{all}");
    assert!(unnamed.contains(&told("event ")), "{unnamed}");
    assert_eq!(unnamed.matches("`recall`").count(), all.matches("`recall`").count() - 1);

    // So is the memory; the user's words in it stay.
    let (summary, by) = ("`recall` with id 3 has it.".to_owned(), Summariser::Model);
    let span = Span::Messages { through: 6 };
    job.conversation.cut(&Cut::Summarised { span, summary, by }, &[], 10_000);
    let unnamed = shown(&job.conversation.unnamed_messages());
    assert!(unnamed.contains("Each number (#) is an event. What"), "{unnamed}");
    assert!(unnamed.contains("\nevent 3 has it.\n"), "{unnamed}");
    let named = theirs.matches("`recall`").count();
    assert_eq!(unnamed.matches("`recall`").count(), 2 * named, "{unnamed}");
}

#[test]
fn what_went_wrong_long_ago_is_not_told_as_what_went_wrong_last() {
    let mut job = Job::new("Build it.", 200_000);
    let fails = |command: &str| Made { status: ToolStatus::Failed, ..bash(command, "no") };
    job.round("I try.", vec![fails("make it"), writes("docs/a.md", "x")]);
    let mut many = Vec::new();
    for number in 0..4_001 {
        many.push(bash(&format!("step {number}"), ""));
        many.push(writes(&format!("src/{number}.rs"), "x"));
    }
    job.round("I do it.", many);
    job.round("Again.", vec![bash("make it", "done"), writes("docs/a.md", "y")]);
    job.tell("Go on.");
    let (summary, by) = ("It was done.".to_owned(), Summariser::Model);
    let span = Span::Messages { through: u64::MAX };
    job.conversation.cut(&Cut::Summarised { span, summary, by }, &[], 4_000);
    let all = shown(job.conversation.messages());
    assert!(!all.contains("Went wrong when last run"), "{all}");
    let before = "## Went wrong at an earlier time, and may have gone well since\n";
    let before = all.split(before).nth(1).unwrap();
    assert!(before.lines().next().unwrap().ends_with("ran 1 × $ make"), "{all}");
}
