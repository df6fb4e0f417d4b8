//! Prices, budgets and limits: what only the user's file and the command line say.

use std::collections::BTreeMap;
use std::time::Duration;

use cofferdam_model::PriceTable;
use cofferdam_types::{Budget, Limits, ModelName, Price, Usd};

use crate::error::ConfigError;
use crate::layers::Flags;
use crate::origin::shown;
use crate::settings::SandboxSettings;
use crate::user_file::{RawPrice, UserFile};

const DEFAULT_TURNS: u32 = 200;
const DEFAULT_IDLE: Duration = Duration::from_secs(15 * 60);
/// The largest that models are shown as it is.
const DEFAULT_SCREEN: (u32, u32) = (1280, 800);

pub(crate) fn prices(raw: &BTreeMap<String, RawPrice>) -> Result<PriceTable, ConfigError> {
    let mut table = PriceTable::default();
    for (name, price) in raw {
        let name = ModelName(name.clone());
        if name.model().is_empty() {
            return Err(ConfigError::Value {
                place: format!("[prices.{}] in your config.toml", shown(&name.0)),
                cause: "does not name a model".to_owned(),
                remedy: "write [prices.\"PROVIDER/MODEL\"]".to_owned(),
            });
        }
        // What is not said is not taken for less than it may be: writing to a
        // cache costs a quarter more than reading, where it costs more at all.
        let input = price.input.0;
        let cache_write = Usd::from_nanos(input.times(5).nanos().div_ceil(4));
        let price = Price {
            input: per_token(input),
            output: per_token(price.output.0),
            cache_read: per_token(price.cache_read.as_ref().map_or(input, |amount| amount.0)),
            cache_write: per_token(
                price.cache_write.as_ref().map_or(cache_write, |amount| amount.0),
            ),
        };
        table.set(name, price);
    }
    Ok(table)
}

/// A price for a million tokens, for one: rounded up, so that nothing costs less
/// than it does.
fn per_token(million: Usd) -> Usd {
    Usd::from_nanos(million.nanos().div_ceil(1_000_000))
}

pub(crate) fn budget(user: &UserFile, flags: &Flags) -> Budget {
    let raw = &user.budget;
    Budget {
        turns: flags.turns.or(raw.turns.as_ref().map(|turns| turns.0.0)).unwrap_or(DEFAULT_TURNS),
        tokens: flags.tokens.or(raw.tokens.as_ref().map(|tokens| tokens.0)),
        cost: flags.cost.or(raw.cost.as_ref().map(|cost| cost.0)),
        time: flags.time.or(raw.time.as_ref().map(|time| time.0)),
    }
}

pub(crate) fn sandbox(user: &UserFile, flags: &Flags) -> SandboxSettings {
    let (raw, flags) = (&user.sandbox, &flags.sandbox);
    let built_in = Limits::default();
    let or = |flag: Option<u64>, file: Option<u64>, default: u64| flag.or(file).unwrap_or(default);
    let limits = Limits {
        memory: or(flags.memory, raw.memory.as_ref().map(|size| size.0.0), built_in.memory),
        milli_cpus: flags
            .milli_cpus
            .or(raw.cpus.as_ref().map(|cpus| cpus.0.0))
            .unwrap_or(built_in.milli_cpus),
        pids: flags.pids.or(raw.pids.as_ref().map(|number| number.0.0)).unwrap_or(built_in.pids),
        disk: or(flags.disk, raw.disk.as_ref().map(|size| size.0.0), built_in.disk),
        inodes: or(flags.inodes, raw.inodes.as_ref().map(|number| number.0), built_in.inodes),
        open_files: flags
            .open_files
            .or(raw.open_files.as_ref().map(|number| number.0.0))
            .unwrap_or(built_in.open_files),
        wall_time: flags.wall_time.or(raw.timeout.as_ref().map(|span| span.0)),
        output: built_in.output,
    };
    let own = |flag: &Option<String>, file: &Option<String>| flag.clone().or_else(|| file.clone());
    let network = raw.network.as_ref().map(|network| network.0.clone());
    SandboxSettings {
        backend: own(&flags.backend, &raw.backend).unwrap_or_else(|| "auto".to_owned()),
        require: own(&flags.require, &raw.require),
        image: flags.image.clone().or_else(|| raw.image.clone()),
        network: flags.network.clone().or(network).unwrap_or_default(),
        limits,
        idle: raw.idle.as_ref().map_or(DEFAULT_IDLE, |span| span.0),
        screen: raw.screen.as_ref().map_or(DEFAULT_SCREEN, |sides| (sides.0.0, sides.0.1)),
    }
}
