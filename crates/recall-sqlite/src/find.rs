//! Finding what fits a question best.

use cofferdam_recall::{Hit, Question, Words, asked, excerpt};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::choose;
use crate::read::{COLUMNS, stored};
use crate::rows;
use crate::trouble::Trouble;

/// Hits of one answer.
const MOST: usize = 200;

/// What a word weighs in a name, in the text, in what came before it, and in the
/// paths of its files.
const WEIGHTS: &str = "2.0, 1.0, 0.4, 1.0";

/// Finds the best, or the latest if no words are given.
pub(crate) fn find(connection: &Connection, question: &Question) -> Result<Vec<Hit>, Trouble> {
    let words = asked(&question.words);
    let chosen = if question.words.trim().is_empty() {
        latest(connection, question)?
    } else if words.is_empty() {
        // There are words, and no text has them.
        Vec::new()
    } else {
        best(connection, question, &words)?
    };
    let mut hits = Vec::with_capacity(chosen.len());
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM documents AS d LEFT JOIN files AS f ON f.id = d.file WHERE d.id = ?1"
    ))?;
    for (id, score) in chosen {
        let stored = statement.query_row([id], stored)?;
        hits.push(Hit {
            source: stored.source,
            at: stored.at,
            score,
            excerpt: excerpt(&stored.text, &words),
            bytes: u64::try_from(stored.text.len()).unwrap_or(u64::MAX),
        });
    }
    Ok(hits)
}

/// Conditions and what is bound to their `?`, in order.
#[derive(Default)]
struct Conditions {
    text: String,
    values: Vec<Value>,
}

impl Conditions {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
        self.values.extend(values);
    }

    /// All but the words. `id` is the column; with a plus before it where it must not
    /// lead the search.
    fn narrow(&mut self, id: &str, question: &Question) {
        if let Some(through) = question.through {
            self.and(&format!("{id} <= ?"), [rows::last_id(through).into()]);
        }
        if !question.workspace {
            self.and(&format!("{id} > ?"), [0.into()]);
        }
        if let Some(file) = &question.file {
            let file = file.trim();
            let file = file.strip_prefix("/workspace/").unwrap_or(file);
            let file = file.trim_start_matches("./").to_owned();
            // The end of a path will do, as people give it.
            self.and(
                &format!(
                    "+{id} IN (SELECT document FROM about WHERE file IN (SELECT id FROM files
                     WHERE path = ? OR substr(path, -length(?) - 1) = '/' || ?))"
                ),
                [file.clone().into(), file.clone().into(), file.into()],
            );
        }
    }
}

fn limit(question: &Question) -> i64 {
    i64::try_from(question.limit.min(MOST)).unwrap_or(0)
}

fn latest(connection: &Connection, question: &Question) -> Result<Vec<(i64, f64)>, Trouble> {
    let mut conditions = Conditions::default();
    conditions.narrow("id", question);
    if let Some(from) = question.from {
        conditions.and("at >= ?", [rows::moment(from).into()]);
    }
    if let Some(to) = question.to {
        conditions.and("at <= ?", [rows::moment(to).into()]);
    }
    conditions.values.push(limit(question).into());
    let text = format!(
        "SELECT id FROM documents INDEXED BY documents_by_time WHERE true{}
         ORDER BY at DESC, id DESC LIMIT ?",
        conditions.text
    );
    let mut statement = connection.prepare_cached(&text)?;
    let found = statement.query_map(params_from_iter(conditions.values), |row| row.get(0))?;
    let found = found.collect::<Result<Vec<i64>, _>>()?;
    Ok(found.into_iter().map(|id| (id, 0.0)).collect())
}

fn best(
    connection: &Connection,
    question: &Question,
    words: &Words,
) -> Result<Vec<(i64, f64)>, Trouble> {
    let mut conditions = Conditions::default();
    conditions.values.push(choose::expression(connection, words)?.into());
    conditions.narrow("rowid", question);
    let times = (question.from, question.to);
    if times != (None, None) {
        let from = times.0.map_or(0, rows::moment);
        let to = times.1.map_or(i64::MAX, rows::moment);
        conditions.and(
            "EXISTS (SELECT 1 FROM documents AS d WHERE d.id = terms.rowid
             AND d.at BETWEEN ? AND ?)",
            [from.into(), to.into()],
        );
    }
    conditions.values.push(limit(question).into());
    // Better is lower there. Of those that fit as well the later one comes first.
    let text = format!(
        "SELECT rowid, bm25(terms, {WEIGHTS}) AS score FROM terms WHERE terms MATCH ?{}
         ORDER BY score, rowid DESC LIMIT ?",
        conditions.text
    );
    let mut statement = connection.prepare_cached(&text)?;
    let found = statement.query_map(params_from_iter(conditions.values), |row| {
        Ok((row.get(0)?, -row.get::<_, f64>(1)?))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
