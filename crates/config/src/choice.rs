//! Which model is used.
//!
//! A wish of the workspace's decides who gets the user's code and money, so it
//! counts only for a provider that can be asked already, and is always told. Where
//! the workspace brings the key or the address as well, it would send the user's
//! words to people of its choice: that counts only for a user who has no model.

use std::collections::BTreeMap;

use cofferdam_types::ModelName;

use crate::error::ConfigError;
use crate::known::{BUILT_IN_MODELS, COMPATIBLE, DEFAULT_MODELS, NAME_STARTS};
use crate::origin::{Sourced, Trust, shown};
use crate::provider::Provider;

/// Names of models as they were written, the strongest first.
pub(crate) type Wishes = Vec<Sourced<String>>;

/// Which names without a provider are taken for those of a compatible server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompatibleServer {
    Set,
    NotSet,
}

/// A whole name of what someone wrote; `None` if its provider cannot be told.
pub(crate) fn complete(written: &str, compatible: CompatibleServer) -> Option<ModelName> {
    let written = written.trim();
    let legal = !written.is_empty() && written.len() <= 200;
    if !legal || !written.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    if BUILT_IN_MODELS.contains(&written) {
        return Some(ModelName(written.to_owned()));
    }
    if let Some((provider, _)) = written.split_once('/') {
        return (!provider.is_empty()).then(|| ModelName(written.to_owned()));
    }
    let by_start = NAME_STARTS.iter().find(|(start, _)| written.starts_with(start));
    let provider = match (by_start, compatible) {
        (Some((_, provider)), _) => provider,
        (None, CompatibleServer::Set) => COMPATIBLE,
        (None, CompatibleServer::NotSet) => return None,
    };
    Some(ModelName(format!("{provider}/{written}")))
}

/// Whether the user has a model without any help of the workspace's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnModel {
    Has,
    HasNot,
}

impl OwnModel {
    /// By the wishes for the model, or by a key that chooses one.
    pub(crate) fn of(wishes: &Wishes, providers: &BTreeMap<String, Provider>) -> Self {
        let wished = wishes.iter().any(|wish| wish.trust() == Trust::User);
        if wished || default_by(Trust::User, providers).is_some() {
            Self::Has
        } else {
            Self::HasNot
        }
    }
}

/// Picks the strongest wish that counts.
pub(crate) fn pick(
    wishes: &Wishes,
    what: &str,
    own: OwnModel,
    providers: &BTreeMap<String, Provider>,
    warnings: &mut Vec<String>,
) -> Result<Option<ModelName>, ConfigError> {
    for wish in wishes {
        let name = complete(&wish.value, compatible_server(providers, wish.trust()));
        match (name, wish.trust()) {
            (Some(name), Trust::User) => return Ok(Some(name)),
            (None, Trust::User) => {
                let place = wish.origin.to_string();
                return Err(ConfigError::NoProvider { place, name: wish.value.clone() });
            }
            (Some(name), Trust::Workspace) => match obstacle(&name, own, providers) {
                None => {
                    warnings.push(format!("the {what} is {name}, as {} asks", wish.origin));
                    return Ok(Some(name));
                }
                Some(why) => ignored(wish, &why, warnings),
            },
            (None, Trust::Workspace) => ignored(wish, "it is not PROVIDER/MODEL", warnings),
        }
    }
    Ok(None)
}

/// Whether there is a compatible server for names without a provider. The
/// workspace cannot draw the user's own wishes to an address of its own.
fn compatible_server(providers: &BTreeMap<String, Provider>, wisher: Trust) -> CompatibleServer {
    match providers.get(COMPATIBLE) {
        Some(provider) if provider.base_url().is_some() && provider.url_trust() >= wisher => {
            CompatibleServer::Set
        }
        _ => CompatibleServer::NotSet,
    }
}

/// The model when nobody has named one: that of the first provider with a key,
/// the user's own keys before those of the workspace.
pub(crate) fn default_model(providers: &BTreeMap<String, Provider>) -> Option<ModelName> {
    default_by(Trust::User, providers).or_else(|| default_by(Trust::Workspace, providers))
}

fn default_by(trust: Trust, providers: &BTreeMap<String, Provider>) -> Option<ModelName> {
    let has_key = |name: &str| {
        providers.get(name).is_some_and(|provider| provider.key_trust() == Some(trust))
    };
    let (_, model) = DEFAULT_MODELS.iter().find(|(name, _)| has_key(name))?;
    Some(ModelName((*model).to_owned()))
}

/// Why a model that the workspace wishes for is not used.
fn obstacle(
    name: &ModelName,
    own: OwnModel,
    providers: &BTreeMap<String, Provider>,
) -> Option<String> {
    if BUILT_IN_MODELS.contains(&name.provider()) {
        return Some("a repository cannot choose a built-in model".to_owned());
    }
    match providers.get(name.provider()) {
        None => Some("its provider is not known".to_owned()),
        Some(_) if name.model().is_empty() => Some("it names no model".to_owned()),
        Some(provider) if provider.lacks_key() => {
            let (name, variable) = (name.provider(), provider.key_variable());
            Some(format!("there is no key for {name}; set {variable}"))
        }
        Some(provider) if provider.base_url().is_none() => {
            let (name, variable) = (name.provider(), provider.url_variable());
            Some(format!("there is no address for {name}; set {variable}"))
        }
        Some(provider) if own == OwnModel::Has && provider.leans_on_workspace() => Some(format!(
            "its key or address comes from .env, and you have a model of your own; to use it, say \
             --model {name}"
        )),
        Some(_) => None,
    }
}

fn ignored(wish: &Sourced<String>, why: &str, warnings: &mut Vec<String>) {
    warnings.push(format!("{} ({}) is ignored: {why}", wish.origin, shown(&wish.value)));
}
