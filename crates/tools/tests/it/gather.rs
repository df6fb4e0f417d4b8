//! What a workspace tells the models, also a hostile one.

use std::time::{Duration, Instant};

use cofferdam_tools::{Gathered, gather};
use cofferdam_types::Skill;

use crate::lab::in_lab;

#[test]
fn an_empty_workspace_says_nothing_and_costs_little() {
    in_lab(async |lab| {
        let mut fastest = Duration::MAX;
        for _ in 0..20 {
            let began = Instant::now();
            assert_eq!(gather(&lab.sandbox).await, Gathered::default());
            fastest = fastest.min(began.elapsed());
        }
        println!("gathered in {fastest:?}");
        assert!(fastest < Duration::from_millis(20), "{fastest:?}");
    });
}

#[test]
fn the_nearest_instructions_are_taken_and_deeper_ones_are_named() {
    in_lab(async |lab| {
        lab.put("CLAUDE.md", "claude").await;
        let texts = async || {
            let found = gather(&lab.sandbox).await.instructions;
            found.into_iter().map(|one| (one.path, one.text, one.cut)).collect::<Vec<_>>()
        };
        let one = |path: &str, text: &str, cut: bool| (path.to_owned(), text.to_owned(), cut);
        assert_eq!(texts().await, [one("CLAUDE.md", "claude", false)]);
        lab.put("AGENTS.md", "agents").await;
        assert_eq!(texts().await, [one("AGENTS.md", "agents", false)]);
        lab.put("sub/CLAUDE.md", "x").await;
        lab.put("sub/AGENTS.md", "x").await;
        lab.put("sub/AGENTS.override.md", "x").await;
        lab.put("other/deep/CLAUDE.md", "x").await;
        lab.put("AGENTS.override.md", "override").await;
        assert_eq!(
            texts().await,
            [
                one("AGENTS.override.md", "override", false),
                one("other/deep/CLAUDE.md", "", true),
                one("sub/AGENTS.override.md", "", true),
            ]
        );
    });
}

#[test]
fn skills_are_found_in_both_places() {
    in_lab(async |lab| {
        let skill = |name: &str, text: &str| {
            format!("---\nname: {name}\ndescription: {text}\n---\n# More\n")
        };
        lab.put(".agents/skills/zip/SKILL.md", skill("zip", "Make archives.")).await;
        lab.put(".claude/skills/zip/SKILL.md", skill("zip", "The other one.")).await;
        lab.put(".claude/skills/pdf/SKILL.md", skill("pdf", "Read PDF.")).await;
        lab.put(".claude/skills/wrong/SKILL.md", skill("other", "Not its directory.")).await;
        lab.put(".claude/skills/headless/SKILL.md", "no head").await;
        let found = |name: &str, description: &str, path: &str| Skill {
            name: name.to_owned(),
            description: description.to_owned(),
            path: path.to_owned(),
        };
        assert_eq!(
            gather(&lab.sandbox).await.skills,
            [
                found("pdf", "Read PDF.", ".claude/skills/pdf/SKILL.md"),
                found("zip", "Make archives.", ".agents/skills/zip/SKILL.md"),
            ]
        );
    });
}

#[test]
fn hostile_files_are_harmless() {
    in_lab(async |lab| {
        lab.sh("ln -s /etc/passwd AGENTS.override.md; mkfifo AGENTS.md; \
                head -c 50000000 /dev/zero | tr '\\0' e > CLAUDE.md; \
                mkdir -p .agents/skills sub; cd .agents/skills; mkdir fifo link huge bad; \
                mkfifo fifo/SKILL.md; ln -s /etc/passwd link/SKILL.md; \
                (printf -- '---\\nname: huge\\ndescription: x\\n---\\n'; head -c 5000000 /dev/zero) > huge/SKILL.md; \
                printf -- '---\\nname: bad\\ndescription: \\377\\n---\\n' > bad/SKILL.md; \
                mkfifo ../../sub/AGENTS.md; for i in $(seq 200); do mkdir s$i; echo x > s$i/SKILL.md; done")
            .await;
        let found = gather(&lab.sandbox).await;
        assert_eq!(found.instructions.len(), 1, "{:?}", found.instructions);
        let claude = &found.instructions[0];
        assert_eq!(
            (claude.path.as_str(), claude.text.len(), claude.cut),
            ("CLAUDE.md", 32 << 10, true)
        );
        let names: Vec<&str> = found.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["bad", "huge"], "what is not text is shown as such");
    });
}
