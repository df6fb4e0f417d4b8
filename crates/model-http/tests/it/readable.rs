//! JSON for people, token for token as it was sent: its order, its numbers and
//! the text of the model's own arguments stay what they are.

/// What fits on a line is left on it.
const LINE: usize = 96;

/// Breaks JSON into lines. Pictures are told by their length.
pub(crate) fn readable(json: &str) -> String {
    let is_picture = |word: &&str| word.len() > 80 && !word.contains([' ', ':']);
    let pictures: Vec<&str> = json.split(['"', ',']).filter(is_picture).collect();
    let json = pictures.iter().fold(json.to_owned(), |json, picture| {
        json.replace(picture, &format!("<{} characters>", picture.len()))
    });
    lines(&json, "")
}

fn lines(json: &str, indent: &str) -> String {
    let (open, close) = match json.chars().next() {
        Some('{') => ("{", "}"),
        Some('[') => ("[", "]"),
        _ => return json.to_owned(),
    };
    if json.chars().count() + indent.len() <= LINE {
        return json.to_owned();
    }
    let deeper = format!("{indent}  ");
    let inner = json.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).unwrap();
    let members: Vec<String> = members(inner)
        .into_iter()
        .map(|member| {
            let name = if open == "{" { name_length(member) } else { 0 };
            let (name, value) = member.split_at(name);
            format!("{deeper}{name}{}", lines(value, &deeper))
        })
        .collect();
    format!("{open}\n{}\n{indent}{close}", members.join(",\n"))
}

/// The members of an object or array.
fn members(inner: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (place, character) in outside_strings(inner) {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                members.push(inner.get(start..place).unwrap());
                start = place + 1;
            }
            _ => {}
        }
    }
    members.push(inner.get(start..).unwrap());
    members
}

/// The length of a member's name with its colon.
fn name_length(member: &str) -> usize {
    let colon = outside_strings(member).into_iter().find(|(_, character)| *character == ':');
    colon.map_or(0, |(place, _)| place + 1)
}

fn outside_strings(json: &str) -> Vec<(usize, char)> {
    let (mut within, mut escaped) = (false, false);
    let mut outside = Vec::new();
    for (place, character) in json.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if within => escaped = true,
            '"' => within = !within,
            _ if !within => outside.push((place, character)),
            _ => {}
        }
    }
    outside
}
