//! Which words of a question lead the search.
//!
//! Weighing a text costs far more than finding it, and a word that a sixteenth of all
//! texts have hardly tells any apart. So only texts that have one of the rarer words
//! are weighed; the other words then count too, but for the most common ones.

use cofferdam_recall::Words;
use rusqlite::Connection;

use crate::trouble::Trouble;

/// Texts that are weighed at most, by the words that lead.
const WEIGHED: i64 = 800;

/// Of so many texts, a word that one has is of no use.
const USELESS: i64 = 16;

/// The expression that finds what has the words.
pub(crate) fn expression(connection: &Connection, words: &Words) -> Result<String, Trouble> {
    let mut documents = connection.prepare_cached("SELECT documents FROM state")?;
    let documents: i64 = documents.query_row([], |row| row.get(0))?;
    let all: Vec<&str> = words.all().collect();
    if documents <= WEIGHED {
        return Ok(any(&all));
    }
    let most = (documents / USELESS).max(WEIGHED);
    let mut count = connection.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM terms WHERE terms MATCH ?1 LIMIT ?2)",
    )?;
    let mut counted: Vec<(i64, &str)> = Vec::with_capacity(all.len());
    for word in all {
        let have = count.query_row((any(&[word]), most), |row| row.get(0))?;
        if have > 0 {
            counted.push((have, word));
        }
    }
    // The rare ones first; those that are as rare as they were said.
    counted.sort_by_key(|(have, _)| *have);
    let useful = counted.iter().filter(|(have, _)| *have < most).count();
    counted.truncate(useful.max(1));
    let mut sum = 0;
    let leading = counted.iter().take_while(|(have, _)| {
        sum += have;
        sum <= WEIGHED
    });
    let leading: Vec<&str> = leading.map(|(_, word)| *word).collect();
    let all: Vec<&str> = counted.iter().map(|(_, word)| *word).collect();
    if leading.is_empty() || leading.len() == all.len() {
        return Ok(any(&all));
    }
    Ok(format!("({}) AND ({})", any(&leading), any(&all)))
}

/// Any of the words. Each is in quotes, so that none is taken for an operator.
fn any(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(" OR ")
}
