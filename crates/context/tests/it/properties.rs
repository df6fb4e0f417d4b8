//! What holds for every history.

use cofferdam_context::Counting;
use cofferdam_types::{Content, ModelName, PlanStep, StepStatus, ToolStatus};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::job::{Job, Made, Mood, bash, made, reads, writes};

/// Something that happens in a job.
#[derive(Clone, Debug)]
enum Happening {
    /// An answer with calls: what kind, how long its output is.
    Calls {
        says: usize,
        calls: Vec<(u8, usize)>,
    },
    /// An answer without calls.
    Words {
        says: usize,
    },
    UserSays {
        length: usize,
    },
    Told {
        length: usize,
    },
    /// A plan of so many steps, so many of them done, with so many new decisions.
    Plans {
        steps: usize,
        done: usize,
        decisions: usize,
    },
    /// The provider finds the last question too long.
    Refused,
}

fn happening() -> impl Strategy<Value = Happening> {
    let output = prop_oneof![
        6 => 0..600_usize,
        4 => 600..6_000_usize,
        2 => 6_000..50_000_usize,
    ];
    prop_oneof![
        16 => (0..400_usize, vec((any::<u8>(), output), 1..5))
            .prop_map(|(says, calls)| Happening::Calls { says, calls }),
        1 => (0..9_u8, 30..110_usize)
            .prop_map(|(kind, count)| Happening::Calls { says: 9, calls: vec![(kind, 300); count] }),
        2 => (0..2_000_usize).prop_map(|says| Happening::Words { says }),
        3 => (1..300_usize).prop_map(|length| Happening::UserSays { length }),
        1 => (1..60_000_usize).prop_map(|length| Happening::UserSays { length }),
        1 => (1..9_000_usize).prop_map(|length| Happening::Told { length }),
        2 => (1..12_usize, 0..12_usize, 0..3_usize)
            .prop_map(|(steps, done, decisions)| Happening::Plans { steps, done, decisions }),
        1 => Just(Happening::Refused),
    ]
}

fn mood() -> impl Strategy<Value = Mood> {
    prop_oneof![
        4 => Just(Mood::Good),
        1 => Just(Mood::Empty),
        1 => Just(Mood::TooLong),
        1 => Just(Mood::Nonsense),
        1 => Just(Mood::Forgetful),
        1 => Just(Mood::Silent),
    ]
}

fn counting() -> impl Strategy<Value = Counting> {
    let models = prop_oneof![Just("local/any"), Just("openai/gpt-4o"), Just("openai/gpt-4")];
    models.prop_map(|model| Counting::of(&ModelName(model.to_owned())))
}

/// Text of about this length that is found nowhere else.
fn text(what: &str, number: usize, length: usize) -> String {
    let mut text = format!("{what} {number} begins");
    let mut line = 0;
    while text.len() < length {
        line += 1;
        text.push_str(&format!("\n{what} {number} line {line} of it, and so on"));
    }
    text
}

fn call(kind: u8, number: usize, length: usize) -> Made {
    let output = text("output", number, length);
    match kind % 9 {
        0 | 1 => reads(&format!("src/file{}.rs", kind % 7), &output),
        2 => made(
            "read_file",
            format!(r#"{{"path":"src/file{}.rs","offset":9}}"#, kind % 7),
            &output,
        ),
        3 => writes(&format!("src/{}/part{}.rs", number % 13, number % 300), &output),
        4 => Made { status: ToolStatus::Failed, ..bash(&format!("make {}", number % 30), &output) },
        5 => {
            let data = "A".repeat(length);
            let picture = Content::Image { media_type: "image/png".to_owned(), data };
            Made { output: vec![picture], ..reads("a.png", "") }
        }
        6 => Made { changes: false, ..bash("ls", &output) },
        7 => bash(&format!("tool{} --step {number}", number % 17), &output),
        _ => bash(&format!("run step {number}"), &output),
    }
}

fn happen(job: &mut Job, number: usize, happening: Happening, may_be_asked: &mut bool) {
    match happening {
        Happening::Calls { says, calls } => {
            let made = |(place, (kind, length)): (usize, (u8, usize))| {
                call(kind, number * 200 + place, length)
            };
            let calls = calls.into_iter().enumerate().map(made).collect();
            job.round(&text("answer", number, says), calls);
            *may_be_asked = true;
        }
        Happening::Words { says } => {
            job.round(&text("answer", number, says), Vec::new());
            job.tell("Go on.");
        }
        Happening::UserSays { length } => job.user_says(&text("user", number, length)),
        Happening::Told { length } => job.tell(&text("told", number, length)),
        Happening::Plans { steps, done, decisions } => {
            let steps = (0..steps).map(|step| PlanStep {
                step: format!("step {step} of plan {number}: do it well"),
                status: if step < done { StepStatus::Completed } else { StepStatus::InProgress },
            });
            let decisions = (0..decisions)
                .map(|one| format!("decision {one} of plan {number} holds"))
                .collect();
            let plan = job.plans(steps.collect(), decisions);
            job.round("I plan.", vec![plan]);
            *may_be_asked = true;
        }
        Happening::Refused => {
            // One that finds so little too long is a window of less than 8,000 tokens.
            if std::mem::take(may_be_asked) {
                job.ask();
                if job.conversation.weight() > 24_000 {
                    job.conversation.refuse();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_conversation_fits_forgets_nothing_and_stays_in_order(
        window in prop_oneof![Just(8_000_u64), Just(16_000), Just(32_000), Just(128_000)],
        summariser in prop_oneof![Just(8_000_u64), Just(200_000)],
        task in prop_oneof![4 => 10..500_usize, 1 => 500..400_000_usize],
        counts in prop_oneof![Just(None), (3..6_u64).prop_map(Some)],
        counting in counting(),
        happenings in vec((happening(), mood()), 1..60),
    ) {
        let drive = || {
            let mut job = Job::new(&text("task", 0, task), window);
            job.room.summariser = summariser;
            job.room.counting = counting;
            job.counts = counts;
            let mut may_be_asked = false;
            for (number, (happening, mood)) in happenings.clone().into_iter().enumerate() {
                job.mood = mood;
                happen(&mut job, number, happening, &mut may_be_asked);
            }
            job.ask();
            job
        };
        let (one, two) = (drive(), drive());
        prop_assert_eq!(one.conversation.messages(), two.conversation.messages());
        prop_assert_eq!(one.cuts, two.cuts);
    }

    #[test]
    fn whatever_was_done_can_be_found_however_much_it_is(
        window in prop_oneof![Just(8_000_u64), Just(16_000), Just(64_000)],
        task in prop_oneof![Just(100_usize), Just(50_000)],
        rounds in vec((any::<bool>(), 1..12_usize), 20..90),
    ) {
        let mut job = Job::new(&text("task", 0, task), window);
        for (number, (talks, count)) in rounds.into_iter().enumerate() {
            if talks && number % 5 == 0 {
                job.user_says(&text("user", number, 2_000));
            }
            let calls = (0..count).map(|place| call([3, 4, 7, 8][place % 4], number * 20 + place, 300));
            job.round("I do it.", calls.collect());
        }
        job.ask();
        prop_assert!(!job.cuts.is_empty() || job.history < window);
    }

    #[test]
    fn cuts_are_rare(
        window in prop_oneof![Just(8_000_u64), Just(32_000), Just(128_000)],
        outputs in vec(100..3_000_usize, 50..120),
    ) {
        let mut job = Job::new("Make it work, and keep to port 8137.", window);
        for (number, length) in outputs.into_iter().enumerate() {
            job.round("I try.", vec![call(8, number, length.min(window as usize / 8))]);
        }
        let room = job.room;
        let usable = room.window - room.output - room.preface;
        let most = 1 + job.history / (usable / 100 * 18);
        prop_assert!(job.cut_times <= most, "{} times, {most} would do", job.cut_times);
    }
}
