//! The chapters of a recording: what the job did when, as ffmpeg reads it.

use serde::Deserialize;

/// Chapters of one recording: the last ones.
const MOST: usize = 500;
/// Characters of a title.
const LONGEST: usize = 80;

/// What is read of an event.
#[derive(Deserialize)]
struct Seen {
    at: i64,
    event: String,
    #[serde(default)]
    tool: Option<String>,
}

/// A chapter begins here: milliseconds, and what happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chapter {
    at: i64,
    title: String,
}

/// The chapter that an event begins, if it does.
pub(super) fn chapter(event: &str) -> Option<Chapter> {
    let Seen { at, event, tool } = serde_json::from_str(event).ok()?;
    let title = match (event.as_str(), tool) {
        ("tool_started", Some(tool)) => tool,
        ("user_said", _) => "a person says something".to_owned(),
        ("check_started", _) => "a check".to_owned(),
        ("ended", _) => "the end".to_owned(),
        _ => return None,
    };
    Some(Chapter { at, title: title.chars().take(LONGEST).collect() })
}

/// The file that ffmpeg reads, for a recording between these moments. What began
/// before the recording and went on is its first chapter.
pub(super) fn file(chapters: &[Chapter], begun: i64, ended: i64) -> String {
    let before = chapters.iter().rfind(|chapter| chapter.at <= begun);
    let first = before.map(|chapter| Chapter { at: begun, ..chapter.clone() });
    let within = chapters.iter().filter(|chapter| chapter.at > begun && chapter.at < ended);
    let all: Vec<Chapter> = first.into_iter().chain(within.cloned()).collect();
    let all = all.get(all.len().saturating_sub(MOST)..).unwrap_or_default();
    let mut text = ";FFMETADATA1\n".to_owned();
    for (number, Chapter { at, title }) in all.iter().enumerate() {
        let end = all.get(number + 1).map_or(ended, |next| next.at);
        // What the sandbox says of its clock may be anything.
        let (start, end) = (at.saturating_sub(begun), end.max(*at).saturating_sub(begun));
        let title = escaped(title);
        text.push_str(&format!(
            "[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={title}\n"
        ));
    }
    text
}

fn escaped(title: &str) -> String {
    let mut text = String::new();
    for letter in title.chars() {
        match letter {
            '=' | ';' | '#' | '\\' => text.extend(['\\', letter]),
            letter if letter.is_control() => text.push(' '),
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(at: i64, tool: &str) -> Chapter {
        chapter(&format!(r#"{{"v":1,"at":{at},"event":"tool_started","tool":"{tool}"}}"#)).unwrap()
    }

    #[test]
    fn what_the_job_did_meanwhile_becomes_chapters() {
        let all = [started(10, "bash"), started(90, "python"), started(150, "a=b;#\\\\")];
        assert_eq!(
            file(&all, 100, 400),
            ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=50\ntitle=python\n[CHAPTER]\n\
             TIMEBASE=1/1000\nSTART=50\nEND=300\ntitle=a\\=b\\;\\#\\\\\n"
        );
        assert_eq!(file(&all, 500, 400), file(&all[2..], 500, 400), "a clock that was set back");
        assert_eq!(file(&[], 0, 9), ";FFMETADATA1\n");
        assert_eq!(chapter(r#"{"at":1,"event":"model_asked"}"#), None);
        assert_eq!(chapter("nonsense"), None);
        let many: Vec<Chapter> = (1..2000).map(|at| started(at, "bash")).collect();
        assert_eq!(file(&many, 0, 3000).matches("[CHAPTER]").count(), MOST);
        assert!(file(&[started(1, "x\\ny")], 0, 9).contains("title=x y\n"));
    }
}
