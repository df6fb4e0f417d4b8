//! Layers in, settings out. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use cofferdam_types::ModelName;

use crate::amounts::{budget, prices, sandbox};
use crate::choice::{CompatibleServer, OwnModel, Wishes, complete, default_model, pick};
use crate::error::ConfigError;
use crate::known::{BUILT_IN_MODELS, COMPATIBLE, PROVIDERS};
use crate::layers::{Flags, Layers, Variables};
use crate::origin::{Origin, Sourced, shown};
use crate::project_file::ProjectFile;
use crate::provider::Provider;
use crate::quantity::{ContextWindow, MaxOutput, Written};
use crate::sayings::{Generic, Sayings};
use crate::settings::{ContextWindows, Embedder, Settings};
use crate::user_file::UserFile;

const DEFAULT_RETRIES: u32 = 6;
const DEFAULT_MAX_OUTPUT: u32 = 16_384;
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Checks every layer and puts them together.
///
/// `stays_inside` says of a relative path whether it leads, without a link, to a
/// place beneath the project's directory; it is asked about paths from `.env`.
///
/// # Errors
/// When something of the user's own makes no sense. What lies in the workspace
/// can only cause warnings.
pub fn check(
    layers: &Layers,
    stays_inside: impl Fn(&Path) -> bool,
) -> Result<Settings, ConfigError> {
    let mut warnings = Vec::new();
    let user = match &layers.user_file {
        Some(file) => UserFile::parse(&file.path, &file.text)?,
        None => UserFile::default(),
    };
    let project_text = layers.project_file.as_deref().unwrap_or_default();
    let project = ProjectFile::parse(project_text, &mut warnings);
    let variables = Variables::new(layers, &mut warnings);
    sandbox_stays_on(&variables, &mut warnings)?;

    let generic = generic(&user, &variables, &layers.flags, &mut warnings)?;
    let providers = providers(&user, &variables, &generic)?;
    let wishes = model_wishes(&layers.flags, &variables, &project, &user)?;
    let own = OwnModel::of(&wishes, &providers);
    let model = pick(&wishes, "model", own, &providers, &mut warnings)?;
    let model = model.or_else(|| default_model(&providers));
    let wishes = coder_wishes(&layers.flags, &variables, &project, &user)?;
    let coder = pick(&wishes, "coder", own, &providers, &mut warnings)?;
    let wishes = summariser_wishes(&layers.flags, &variables, &user, &mut warnings)?;
    let summariser = pick(&wishes, "summariser", own, &providers, &mut warnings)?;
    let wishes = embedder_wishes(&variables, &user, &mut warnings)?;
    let embedder = match embedder_file(&wishes)? {
        Some(path) => Some(Embedder::File(path)),
        None => {
            let name = pick(&wishes, "embedder", own, &providers, &mut warnings)?;
            name.map(Embedder::Model)
        }
    };
    let embedding = match &embedder {
        Some(Embedder::Model(name)) => Some(name.clone()),
        _ => None,
    };
    tell_of_used(&providers, [&model, &coder, &summariser, &embedding], &mut warnings);

    Ok(Settings {
        max_output: max_output(&variables, &project, &user, &mut warnings)?,
        context_window: context_windows(&layers.flags, &variables, &user, &mut warnings)?,
        workspace: workspace(layers, &variables, stays_inside, &mut warnings)?,
        prices: prices(&user.prices)?,
        budget: budget(&user, &layers.flags),
        sandbox: sandbox(&user, &layers.flags),
        retries: user.model.retries.as_ref().map_or(DEFAULT_RETRIES, |number| number.0.0),
        idle_timeout: user.model.idle_timeout.as_ref().map_or(DEFAULT_IDLE_TIMEOUT, |span| span.0),
        thinking: user.model.thinking.as_ref().map_or(0, |number| number.0.0),
        model,
        coder,
        summariser,
        embedder,
        providers,
        warnings,
    })
}

/// There is no way to work without a sandbox; whoever asks for it is told.
fn sandbox_stays_on(
    variables: &Variables<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    const NAME: &str = "USE_SANDBOX";
    for wish in [variables.user(NAME)?, variables.workspace(NAME)].into_iter().flatten() {
        let wanted = wish.value.to_ascii_lowercase();
        match (wanted.as_str(), &wish.origin) {
            ("true" | "1" | "yes" | "on", _) => {}
            ("false" | "0" | "no" | "off", _) => warnings.push(format!(
                "{} is ignored: everything runs in a sandbox, and nothing switches that off",
                wish.origin
            )),
            (_, Origin::Environment(_)) => {
                return Err(ConfigError::Value {
                    place: wish.origin.to_string(),
                    cause: format!("is {}, which is neither true nor false", shown(&wish.value)),
                    remedy: format!("unset {NAME}: everything runs in a sandbox"),
                });
            }
            _ => warnings.push(format!("{} is ignored: it is neither true nor false", wish.origin)),
        }
    }
    Ok(())
}

/// Which providers `LLM_API_KEY` and `LLM_BASE_URL` are for.
fn generic(
    user: &UserFile,
    variables: &Variables<'_>,
    flags: &Flags,
    warnings: &mut Vec<String>,
) -> Result<Generic, ConfigError> {
    let own_server = user.providers.get(COMPATIBLE).is_some_and(|raw| raw.base_url.is_some())
        || variables.user("OPENAI_BASE_URL")?.is_some()
        || variables.user("LLM_BASE_URL")?.is_some();
    let foreign_server = variables.workspace("OPENAI_BASE_URL").is_some()
        || variables.workspace("LLM_BASE_URL").is_some();
    let provider = |written: Option<String>, server: bool| {
        let server = if server { CompatibleServer::Set } else { CompatibleServer::NotSet };
        let name = complete(&written?, server)?;
        (!BUILT_IN_MODELS.contains(&name.provider())).then(|| name.provider().to_owned())
    };
    let value = |found: Option<Sourced<String>>| found.map(|found| found.value);

    let written = value(variables.user("LLM_MODEL")?)
        .or(value(variables.user("MODEL")?))
        .or_else(|| flags.model.clone())
        .or_else(|| user.model.name.clone());
    let found = Generic {
        user: provider(written, own_server),
        workspace: provider(
            value(variables.workspace("LLM_MODEL")).or(value(variables.workspace("MODEL"))),
            foreign_server,
        ),
    };
    for name in ["LLM_API_KEY", "LLM_BASE_URL"] {
        let lost = [
            variables.user(name)?.filter(|_| found.user.is_none()),
            variables.workspace(name).filter(|_| found.workspace.is_none()),
        ];
        for lost in lost.into_iter().flatten() {
            let why = "there is no LLM_MODEL=PROVIDER/MODEL beside it to say whose it is";
            warnings.push(format!("{} is ignored: {why}", lost.origin));
        }
    }
    Ok(found)
}

fn providers(
    user: &UserFile,
    variables: &Variables<'_>,
    generic: &Generic,
) -> Result<BTreeMap<String, Provider>, ConfigError> {
    let built_in = PROVIDERS.iter().map(|provider| provider.name);
    let names: BTreeSet<&str> = built_in.chain(user.providers.keys().map(String::as_str)).collect();
    let mut providers = BTreeMap::new();
    for name in names {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(legal) || BUILT_IN_MODELS.contains(&name) {
            return Err(ConfigError::Value {
                place: format!("[providers.{}] in your config.toml", shown(name)),
                cause: "is not a name that a provider can have".to_owned(),
                remedy: "use letters, digits, `-`, `_` and `.`, and no built-in model's name"
                    .to_owned(),
            });
        }
        let built_in = PROVIDERS.iter().find(|provider| provider.name == name);
        let raw = user.providers.get(name);
        let provider = Sayings { name, built_in, raw, variables, generic }.provider()?;
        providers.insert(name.to_owned(), provider);
    }
    Ok(providers)
}

fn model_wishes(
    flags: &Flags,
    variables: &Variables<'_>,
    project: &ProjectFile,
    user: &UserFile,
) -> Result<Wishes, ConfigError> {
    let layers = [
        written(&flags.model, Origin::Flag("--model")),
        variables.user("MODEL")?,
        variables.user("LLM_MODEL")?,
        variables.workspace("MODEL"),
        variables.workspace("LLM_MODEL"),
        written(&project.name, Origin::ProjectFile("model.name")),
        written(&user.model.name, Origin::UserFile("model.name".to_owned())),
    ];
    Ok(layers.into_iter().flatten().collect())
}

fn coder_wishes(
    flags: &Flags,
    variables: &Variables<'_>,
    project: &ProjectFile,
    user: &UserFile,
) -> Result<Wishes, ConfigError> {
    let layers = [
        written(&flags.coder, Origin::Flag("--coder")),
        variables.user("CODER_MODEL")?,
        variables.workspace("CODER_MODEL"),
        written(&project.coder, Origin::ProjectFile("model.coder")),
        written(&user.model.coder, Origin::UserFile("model.coder".to_owned())),
    ];
    Ok(layers.into_iter().flatten().collect())
}

/// Who writes summaries is the user's to say: whoever does reads all of the work.
fn summariser_wishes(
    flags: &Flags,
    variables: &Variables<'_>,
    user: &UserFile,
    warnings: &mut Vec<String>,
) -> Result<Wishes, ConfigError> {
    const NAME: &str = "SUMMARISER_MODEL";
    not_for_the_workspace(variables, NAME, warnings);
    let layers = [
        written(&flags.summariser, Origin::Flag("--summariser")),
        variables.user(NAME)?,
        written(&user.model.summariser, Origin::UserFile("model.summariser".to_owned())),
    ];
    Ok(layers.into_iter().flatten().collect())
}

/// So is who is sent parts of it to compare them.
fn embedder_wishes(
    variables: &Variables<'_>,
    user: &UserFile,
    warnings: &mut Vec<String>,
) -> Result<Wishes, ConfigError> {
    const NAME: &str = "COFFERDAM_EMBEDDER";
    not_for_the_workspace(variables, NAME, warnings);
    let layers = [
        variables.user(NAME)?,
        written(&user.model.embedder, Origin::UserFile("model.embedder".to_owned())),
    ];
    Ok(layers.into_iter().flatten().collect())
}

/// The path of an embedder, if the first wish is one. No provider's name begins as a
/// path does.
fn embedder_file(wishes: &Wishes) -> Result<Option<PathBuf>, ConfigError> {
    let Some(wish) = wishes.first() else { return Ok(None) };
    let path = Path::new(&wish.value);
    if path.is_absolute() {
        return Ok(Some(path.to_owned()));
    }
    match ["./", "../", "~"].iter().any(|start| wish.value.starts_with(start)) {
        true => Err(ConfigError::Value {
            place: wish.origin.to_string(),
            cause: format!("is {}, which is no whole path", shown(&wish.value)),
            remedy: "name the model's directory or file from / on; a model of a provider is \
                     PROVIDER/NAME"
                .to_owned(),
        }),
        false => Ok(None),
    }
}

/// Says that a variable of `.env` does not count.
fn not_for_the_workspace(variables: &Variables<'_>, name: &str, warnings: &mut Vec<String>) {
    if let Some(found) = variables.workspace(name) {
        let why = "a repository cannot set it; set it in your environment";
        warnings.push(format!("{} is ignored: {why}", found.origin));
    }
}

fn written(text: &Option<String>, origin: Origin) -> Option<Sourced<String>> {
    text.clone().map(|text| Sourced::new(text, origin))
}

/// Passes on what is to be said of the providers that are used.
fn tell_of_used(
    providers: &BTreeMap<String, Provider>,
    models: [&Option<ModelName>; 4],
    warnings: &mut Vec<String>,
) {
    let names: BTreeSet<&str> = models.into_iter().flatten().map(ModelName::provider).collect();
    for provider in names.into_iter().filter_map(|name| providers.get(name)) {
        warnings.extend(provider.notes().iter().cloned());
    }
}

fn max_output(
    variables: &Variables<'_>,
    project: &ProjectFile,
    user: &UserFile,
    warnings: &mut Vec<String>,
) -> Result<u32, ConfigError> {
    const NAME: &str = "MAX_TOKENS";
    let parse = |text: &str| MaxOutput::parse(text).map(|number| number.0);
    if let Some(found) = variables.user(NAME)? {
        return parse(&found.value).map_err(|cause| ConfigError::Value {
            place: NAME.to_owned(),
            cause: format!("makes no sense: {cause}"),
            remedy: format!("set {NAME} to how many tokens an answer may have, such as 16384"),
        });
    }
    if let Some(found) = variables.workspace(NAME) {
        match parse(&found.value) {
            Ok(number) => return Ok(number),
            Err(cause) => warnings.push(format!("{} is ignored: {cause}", found.origin)),
        }
    }
    let in_files =
        project.max_output.or_else(|| user.model.max_output.as_ref().map(|number| number.0.0));
    Ok(in_files.unwrap_or(DEFAULT_MAX_OUTPUT))
}

/// How much models read at once is how much each question may cost, so it is the
/// user's to say.
fn context_windows(
    flags: &Flags,
    variables: &Variables<'_>,
    user: &UserFile,
    warnings: &mut Vec<String>,
) -> Result<ContextWindows, ConfigError> {
    const NAME: &str = "CONTEXT_WINDOW";
    not_for_the_workspace(variables, NAME, warnings);
    let parse = |text: &str, place: &str| {
        ContextWindow::parse(text).map(|number| u64::from(number.0)).map_err(|cause| {
            ConfigError::Value {
                place: place.to_owned(),
                cause: format!("makes no sense: {cause}"),
                remedy: format!(
                    "set {place} to how many tokens the model can read and write, such as 200000"
                ),
            }
        })
    };
    let all = match (flags.context_window, variables.user(NAME)?) {
        (Some(tokens), _) => Some(parse(&tokens.to_string(), "--context-window")?),
        (None, Some(found)) => Some(parse(&found.value, NAME)?),
        (None, None) => None,
    };
    let usual = user.model.context_window.as_ref().map(|tokens| u64::from(tokens.0.0));
    Ok(ContextWindows { all, usual })
}

/// The directory to work in. `.env` can only name one beneath its own: the job
/// reads and changes what it is given.
fn workspace(
    layers: &Layers,
    variables: &Variables<'_>,
    stays_inside: impl Fn(&Path) -> bool,
    warnings: &mut Vec<String>,
) -> Result<Option<PathBuf>, ConfigError> {
    const NAME: &str = "SAFEDIR";
    if let Some(directory) = &layers.flags.workspace {
        return Ok(Some(directory.clone()));
    }
    if let Some(found) = variables.user(NAME)? {
        if found.value.starts_with('~') {
            return Err(ConfigError::Value {
                place: NAME.to_owned(),
                cause: format!("is {}, and nobody replaces the ~", shown(&found.value)),
                remedy: format!("set {NAME} to the whole path"),
            });
        }
        return Ok(Some(PathBuf::from(found.value)));
    }
    let Some(found) = variables.workspace(NAME) else { return Ok(None) };
    let path = Path::new(&found.value);
    let relative = path.strip_prefix(&layers.project).unwrap_or(path);
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let inside = relative.components().all(plain) && !found.value.starts_with('~');
    if inside && stays_inside(relative) {
        let parts = relative.components().filter(|part| *part != Component::CurDir);
        let directory = layers.project.join(parts.collect::<PathBuf>());
        let place = shown(&directory.to_string_lossy());
        warnings.push(format!("the work happens in {place}, as {} asks", found.origin));
        return Ok(Some(directory));
    }
    warnings.push(format!(
        "{} ({}) is ignored: it does not lie beneath the directory of .env; use --workspace",
        found.origin,
        shown(&found.value)
    ));
    Ok(None)
}
