//! Providers: which key goes to which address.
//!
//! A [`Provider`] is made by [`join`] alone, which never puts a key of the user's
//! beside an address of the workspace's. What the workspace says of a provider
//! fills in what the user has left open; it replaces nothing.

use cofferdam_model::Wire;
use cofferdam_types::Redacted;

use crate::known::KeyNeed;
use crate::origin::{Origin, Sourced, Trust, shown};
use crate::url::BaseUrl;

/// A provider: an address, and the key that may be sent to it.
#[derive(Clone, Debug)]
pub struct Provider {
    wire: Wire,
    url: Option<Sourced<BaseUrl>>,
    key: Option<Sourced<Redacted<String>>>,
    key_need: KeyNeed,
    key_variable: String,
    url_variable: String,
    plain_http: PlainHttp,
    context_window: Option<u64>,
    notes: Vec<String>,
}

/// Whether a key may travel unencrypted beyond this machine and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainHttp {
    Allowed,
    Refused,
}

impl Provider {
    /// Puts a provider together. `notes` are what there is to say of its parts.
    pub(crate) fn new(parts: Parts, terms: Terms, mut notes: Vec<String>) -> Self {
        let (url, key) = join(parts, &mut notes);
        let at_home = url.as_ref().is_some_and(|url| url.origin == Origin::BuiltIn);
        let key_need = if at_home { terms.key_need_at_home } else { terms.key_need };
        let Terms { wire, key_variable, url_variable, plain_http, context_window, .. } = terms;
        Self {
            wire,
            url,
            key,
            key_need,
            key_variable,
            url_variable,
            plain_http,
            context_window,
            notes,
        }
    }

    /// Its wire protocol.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Its address, if it has one.
    #[must_use]
    pub fn base_url(&self) -> Option<&BaseUrl> {
        self.url.as_ref().map(|url| &url.value)
    }

    /// How far its address is trusted; nobody's is the user's own.
    #[must_use]
    pub fn url_trust(&self) -> Trust {
        self.url.as_ref().map_or(Trust::User, Sourced::trust)
    }

    /// The key for its address, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&Redacted<String>> {
        self.key.as_ref().map(|key| &key.value)
    }

    /// How far its key is trusted.
    pub(crate) fn key_trust(&self) -> Option<Trust> {
        self.key.as_ref().map(Sourced::trust)
    }

    /// The variable that its key is looked for in.
    #[must_use]
    pub fn key_variable(&self) -> &str {
        &self.key_variable
    }

    /// The variable that its address is looked for in.
    #[must_use]
    pub fn url_variable(&self) -> &str {
        &self.url_variable
    }

    /// Tokens that its models take in and give out together, if that is set for it.
    #[must_use]
    pub fn context_window(&self) -> Option<u64> {
        self.context_window
    }

    /// What the user should know when it is used.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether it can be asked at all: it has an address, and a key if it needs one.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.url.is_some() && !self.lacks_key()
    }

    /// Whether its key or its address comes from the workspace.
    pub(crate) fn leans_on_workspace(&self) -> bool {
        self.url_trust() < Trust::User || self.key_trust().is_some_and(|trust| trust < Trust::User)
    }

    pub(crate) fn lacks_key(&self) -> bool {
        self.key.is_none() && self.key_need == KeyNeed::Needed
    }

    pub(crate) fn may_send_key_to(&self, url: &BaseUrl) -> bool {
        url.is_confidential() || self.plain_http == PlainHttp::Allowed
    }
}

/// The keys and addresses that the layers have for one provider.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) user_key: Option<Sourced<Redacted<String>>>,
    pub(crate) workspace_key: Option<Sourced<Redacted<String>>>,
    pub(crate) user_url: Option<Sourced<BaseUrl>>,
    pub(crate) workspace_url: Option<Sourced<BaseUrl>>,
    pub(crate) built_in_url: Option<Sourced<BaseUrl>>,
}

/// The rest of what makes a provider.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) wire: Wire,
    /// Whether it needs its key wherever it is asked.
    pub(crate) key_need: KeyNeed,
    /// Whether it needs its key at its built-in address.
    pub(crate) key_need_at_home: KeyNeed,
    pub(crate) key_variable: String,
    pub(crate) url_variable: String,
    pub(crate) plain_http: PlainHttp,
    pub(crate) context_window: Option<u64>,
}

type Key = Option<Sourced<Redacted<String>>>;
type Joined = (Option<Sourced<BaseUrl>>, Key);

/// Puts a key beside an address: the rule of this file.
fn join(parts: Parts, notes: &mut Vec<String>) -> Joined {
    let Parts { user_key, workspace_key, user_url, workspace_url, built_in_url } = parts;
    let own = user_key.is_some() || user_url.is_some();
    let trusted_url = match (user_url, &workspace_url) {
        (Some(url), _) => Some(url),
        // Nothing here is the user's: the workspace brings its own address.
        (None, Some(_)) if !own => None,
        (None, _) => built_in_url,
    };
    let (url, key) = match (trusted_url, &workspace_url, user_key) {
        (Some(url), ignored, user_key) => {
            if let Some(ignored) = ignored {
                notes.push(format!(
                    "{} is ignored: your own key or address is set, and an address from the \
                     workspace never replaces or receives it; to use it, set it in your environment",
                    ignored.origin
                ));
            }
            (Some(url), own_first(user_key, workspace_key, notes))
        }
        (None, Some(url), withheld) => {
            if let Some(withheld) = withheld {
                notes.push(format!(
                    "{} is not sent to {}: a key never follows an address from the workspace; to \
                     send it there, set the address in your environment",
                    withheld.origin,
                    shown(url.value.as_str())
                ));
            }
            (workspace_url, workspace_key)
        }
        (None, None, user_key) => (None, own_first(user_key, workspace_key, notes)),
    };
    if let Some(url) = url.as_ref().filter(|url| url.trust() == Trust::Workspace) {
        let place = shown(url.value.as_str());
        notes.push(format!("requests go to {place}, as {} asks", url.origin));
    }
    if let Some(key) = key.as_ref().filter(|key| key.trust() == Trust::Workspace) {
        notes.push(format!("requests carry the key of {}", key.origin));
    }
    (url, key)
}

/// The user's own key, or else that of the workspace.
fn own_first(user_key: Key, workspace_key: Key, notes: &mut Vec<String>) -> Key {
    if let (Some(own), Some(ignored)) = (&user_key, &workspace_key) {
        notes.push(format!("{} is ignored: {} is used", ignored.origin, own.origin));
    }
    user_key.or(workspace_key)
}
