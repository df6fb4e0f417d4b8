//! What is asked for, as the fleet takes it.

use std::time::Duration;

use cofferdam_api::CreateJob;
use cofferdam_fleet::Wish;
use cofferdam_store::{Idempotency, Principal};
use cofferdam_types::{Usd, parse_bytes, parse_cpus, parse_duration, parse_memory};
use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::problem::{FORBIDDEN, Refusal, UNFIT};

/// Characters of a task or a message: however they are written in JSON, they have
/// room in a body.
const LONGEST_TEXT: usize = 100_000;
/// Checks of a job.
const MOST_CHECKS: usize = 32;
/// Variables of a job.
const MOST_VARIABLES: usize = 256;
/// Bytes of a variable, or of a check.
const LONGEST_PART: usize = 32 << 10;
/// Bytes of an amount: `512M`.
const LONGEST_AMOUNT: usize = 32;
/// Bytes of what may be reached.
const LONGEST_NETWORK: usize = 10_000;
/// Bytes of an idempotency key.
const LONGEST_KEY: usize = 255;
const PRIORITIES: std::ops::RangeInclusive<i16> = -100..=100;

/// What a job is asked for with.
pub(crate) fn wish(asked: &CreateJob, principal: &Principal) -> Result<Wish, Refusal> {
    check_text("task", &asked.task)?;
    if asked.checks.len() > MOST_CHECKS {
        return Err(unfit(format!("there are more than {MOST_CHECKS} checks")));
    }
    for check in &asked.checks {
        check_part("a check", check)?;
        if check.trim().is_empty() {
            return Err(unfit("a check is empty"));
        }
    }
    let priority = asked.priority.unwrap_or(0);
    if !PRIORITIES.contains(&priority) {
        return Err(unfit("priority is no number from -100 to 100"));
    }
    if priority > 0 && !principal.user.admin {
        let detail = "only admins may let a job go before others";
        return Err(Refusal::new(FORBIDDEN, detail, "leave priority out, or ask for 0 or less"));
    }
    let upload = match &asked.upload {
        Some(text) => Some(text.parse().map_err(|_| unfit("upload is no id of an upload"))?),
        None => None,
    };
    Ok(Wish {
        task: asked.task.clone(),
        model: name("model", &asked.model)?,
        coder: name("coder", &asked.coder)?,
        summariser: name("summariser", &asked.summariser)?,
        checks: asked.checks.clone(),
        attempts: within("attempts", asked.attempts, 1_000)?,
        turns: within("max_turns", asked.max_turns, 1_000_000)?,
        tokens: tokens(asked.max_tokens)?,
        cost: amount("max_cost", &asked.max_cost, str::parse::<Usd>)?,
        time: time("timeout", &asked.timeout)?,
        network: setting("network", &asked.network, LONGEST_NETWORK, str::parse)?,
        memory: amount("memory", &asked.memory, parse_memory)?,
        milli_cpus: amount("cpus", &asked.cpus, parse_cpus)?,
        pids: within("pids", asked.pids, 1_000_000)?,
        disk: amount("disk", &asked.disk, parse_bytes)?,
        sandbox: name("sandbox", &asked.sandbox)?,
        require: name("require", &asked.require)?,
        variables: variables(asked)?,
        priority,
        upload,
    })
}

/// What makes a repeated submission the same one.
pub(crate) fn idempotency(
    headers: &HeaderMap,
    asked: &CreateJob,
) -> Result<Option<Idempotency>, Refusal> {
    let mut values = headers.get_all(cofferdam_api::IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::malformed("there is more than one Idempotency-Key"));
    }
    let key = key(value.as_bytes()).ok_or_else(|| {
        Refusal::malformed(format!(
            "the Idempotency-Key is not 1 to {LONGEST_KEY} visible ASCII characters"
        ))
    })?;
    // Of what was understood, not of how it was written.
    let canonical = serde_json::to_vec(asked).map_err(|error| Refusal::internal(&error))?;
    Ok(Some(Idempotency { key, fingerprint: Sha256::digest(canonical).into() }))
}

fn key(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let text = match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => text,
    };
    let good = !text.is_empty()
        && text.len() <= LONGEST_KEY
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
    good.then(|| text.to_owned())
}

/// A text that is there, not too long, and that every database can keep.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(unfit(format!("{what} is empty")));
    }
    if text.contains('\0') {
        return Err(unfit(format!("{what} holds a NUL")));
    }
    // Bytes are counted only where there are too few to be too many characters.
    if text.len() > LONGEST_TEXT && text.chars().count() > LONGEST_TEXT {
        return Err(unfit(format!("{what} is longer than {LONGEST_TEXT} characters")));
    }
    Ok(())
}

fn check_part(what: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > LONGEST_PART || text.contains('\0') {
        return Err(unfit(format!("{what} holds a NUL or is longer than {LONGEST_PART} bytes")));
    }
    Ok(())
}

fn name(what: &str, text: &Option<String>) -> Result<Option<String>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let good = (1..=200).contains(&text.len()) && !text.chars().any(char::is_control);
    if good { Ok(Some(text.clone())) } else { Err(unfit(format!("{what} is no name"))) }
}

/// A number from 1 to `most`.
pub(crate) fn within(what: &str, number: Option<u32>, most: u32) -> Result<Option<u32>, Refusal> {
    match number {
        Some(number) if !(1..=most).contains(&number) => {
            Err(unfit(format!("{what} is no number from 1 to {most}")))
        }
        number => Ok(number),
    }
}

/// A number of tokens.
pub(crate) fn tokens(number: Option<u64>) -> Result<Option<u64>, Refusal> {
    match number {
        Some(0) => Err(unfit("max_tokens is 0")),
        Some(number) if number > 1_000_000_000_000 => Err(unfit("max_tokens is too many")),
        number => Ok(number),
    }
}

/// An amount as on the command line.
pub(crate) fn amount<T, E: std::fmt::Display>(
    what: &str,
    text: &Option<String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Refusal> {
    setting(what, text, LONGEST_AMOUNT, parse)
}

fn setting<T, E: std::fmt::Display>(
    what: &str,
    text: &Option<String>,
    longest: usize,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    if text.len() > longest {
        return Err(unfit(format!("{what} is longer than {longest} bytes")));
    }
    parse(text).map(Some).map_err(|error| unfit(format!("{what}: {error}")))
}

/// A span of time that is one.
pub(crate) fn time(what: &str, text: &Option<String>) -> Result<Option<Duration>, Refusal> {
    match amount(what, text, parse_duration)? {
        Some(Duration::ZERO) => Err(unfit(format!("{what} is no time at all"))),
        span => Ok(span),
    }
}

fn variables(asked: &CreateJob) -> Result<Vec<(String, String)>, Refusal> {
    if asked.env.len() > MOST_VARIABLES {
        return Err(unfit(format!("there are more than {MOST_VARIABLES} variables")));
    }
    for (name, value) in &asked.env {
        check_part("a variable", name)?;
        check_part("a variable", value)?;
        if name.is_empty() || name.contains('=') {
            return Err(unfit("env has a name that is empty or holds a ="));
        }
    }
    Ok(asked.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn unfit(detail: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(UNFIT, detail, "see /api/v1/openapi.json for what is taken")
}

#[cfg(test)]
mod tests {
    use cofferdam_store::{TokenId, UserId, UserRow};
    use cofferdam_types::{Network, Timestamp};

    use super::*;

    fn principal(admin: bool) -> Principal {
        let user =
            UserRow { id: UserId::generate(), name: "u".to_owned(), admin, created: Timestamp(0) };
        Principal { user, token: TokenId::generate() }
    }

    fn asked(json: &str) -> Result<Wish, u16> {
        let asked = serde_json::from_str(json).unwrap();
        wish(&asked, &principal(false)).map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn amounts_are_read_as_on_the_command_line() {
        let wish = asked(
            r#"{"task": "t", "memory": "512M", "cpus": "0.5", "timeout": "10m", "disk": "1G",
                "max_cost": "0.50", "network": "allow:example.com", "env": {"A": "b"}}"#,
        )
        .unwrap();
        assert_eq!(wish.memory, Some(512 << 20));
        assert_eq!(wish.milli_cpus, Some(500));
        assert_eq!(wish.time, Some(Duration::from_secs(600)));
        assert_eq!(wish.disk, Some(1 << 30));
        assert_eq!(wish.cost, Some(Usd::from_nanos(500_000_000)));
        assert!(matches!(wish.network, Some(Network::Allow(_))));
        assert_eq!(wish.variables, [("A".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn each_role_can_be_given_a_model() {
        let wish = asked(r#"{"task": "t", "model": "a/b", "coder": "a/c", "summariser": "a/d"}"#);
        let wish = wish.unwrap();
        let names = [wish.model, wish.coder, wish.summariser].map(Option::unwrap);
        assert_eq!(names, ["a/b", "a/c", "a/d"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for json in [
            r#"{"task": ""}"#,
            r#"{"task": "  \n"}"#,
            r#"{"task": "a\u0000b"}"#,
            r#"{"task": "t", "memory": "lots"}"#,
            r#"{"task": "t", "timeout": "0"}"#,
            r#"{"task": "t", "network": "everything"}"#,
            r#"{"task": "t", "max_turns": 0}"#,
            r#"{"task": "t", "max_tokens": 0}"#,
            r#"{"task": "t", "checks": [""]}"#,
            r#"{"task": "t", "upload": "x"}"#,
            r#"{"task": "t", "model": ""}"#,
            r#"{"task": "t", "summariser": ""}"#,
            r#"{"task": "t", "env": {"": "x"}}"#,
            r#"{"task": "t", "env": {"A=B": "x"}}"#,
            r#"{"task": "t", "priority": 101}"#,
        ] {
            assert_eq!(asked(json).err(), Some(422), "{json}");
        }
    }

    #[test]
    fn an_amount_is_no_longer_than_the_document_says() {
        let of = |zeros: usize| asked(&format!(r#"{{"task": "t", "max_cost": "{:0>zeros$}"}}"#, 1));
        assert_eq!(of(32).unwrap().cost, Some(Usd::from_nanos(1_000_000_000)));
        assert_eq!(of(33).err(), Some(422));
        let network = format!(r#"{{"task": "t", "network": "allow:{}a.b"}}"#, "a.b,".repeat(2_500));
        assert_eq!(asked(&network).err(), Some(422));
    }

    #[test]
    fn only_admins_go_before_others() {
        let job = CreateJob { priority: Some(1), ..CreateJob::task("t") };
        assert_eq!(wish(&job, &principal(false)).unwrap_err().status(), 403);
        assert_eq!(wish(&job, &principal(true)).unwrap().priority, 1);
        assert_eq!(asked(r#"{"task": "t", "priority": -5}"#).unwrap().priority, -5);
    }

    #[test]
    fn a_key_is_quoted_or_not_and_not_too_long() {
        assert_eq!(key(b"abc"), Some("abc".to_owned()));
        assert_eq!(key(b"\"abc\""), Some("abc".to_owned()));
        assert_eq!(key(&[b'x'; 255]).unwrap().len(), 255);
        for bad in [&b""[..], b"\"\"", b"\"abc", b"a b", b"a\"b", &[b'x'; 256], b"\xff"] {
            assert_eq!(key(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_same_submission_has_the_same_fingerprint_however_it_is_written() {
        let mut headers = HeaderMap::new();
        headers.insert(cofferdam_api::IDEMPOTENCY_KEY, "k".parse().unwrap());
        let of = |json: &str| {
            let asked = serde_json::from_str(json).unwrap();
            idempotency(&headers, &asked).unwrap().unwrap().fingerprint
        };
        assert_eq!(of(r#"{"task":"t","model":null}"#), of("{ \"task\" : \"t\" }"));
        assert_ne!(of(r#"{"task":"t"}"#), of(r#"{"task":"u"}"#));
    }
}
