//! The words that everything in such a log is made of.

/// Numbers that are the same for the same seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number below `limit`.
    pub(super) fn up_to(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }

    /// Any of these.
    pub(super) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let number = self.up_to(of.len() as u64);
        usize::try_from(number).ok().and_then(|number| of.get(number)).copied().unwrap_or_default()
    }
}

/// What something in the code is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) verb: &'static str,
    pub(super) noun: &'static str,
    pub(super) thing: &'static str,
}

impl Name {
    pub(super) fn any(random: &mut Random) -> Self {
        Self { verb: random.pick(VERBS), noun: random.pick(NOUNS), thing: random.pick(THINGS) }
    }

    pub(super) fn snake(&self) -> String {
        [self.verb, self.noun, self.thing].join("_")
    }

    pub(super) fn kebab(&self) -> String {
        [self.verb, self.noun, self.thing].join("-")
    }

    pub(super) fn screaming(&self) -> String {
        self.snake().to_uppercase()
    }

    pub(super) fn spoken(&self) -> String {
        [self.verb, self.noun, self.thing].join(" ")
    }

    pub(super) fn camel(&self) -> String {
        format!("{}{}{}", self.verb, capital(self.noun), capital(self.thing))
    }

    pub(super) fn pascal(&self) -> String {
        capital(&self.camel())
    }

    pub(super) fn file_name(&self, ending: &str) -> String {
        format!("{}_{}.{ending}", self.verb, self.thing)
    }

    pub(super) fn file(&self, ending: &str) -> String {
        format!("src/{}/{}", self.noun, self.file_name(ending))
    }

    /// As the language of a file with this ending would have it.
    pub(super) fn in_language(&self, ending: &str) -> String {
        if ending == "ts" { self.camel() } else { self.snake() }
    }
}

/// The names that a turn is about: mostly of the same things.
pub(super) struct Pool(Vec<Name>);

impl Pool {
    /// Names that share one or two parts with this one, and some that share none.
    pub(super) fn around(name: &Name, random: &mut Random) -> Self {
        let mut names = Vec::new();
        for _ in 0..4 {
            let other = Name::any(random);
            names.push(Name { verb: other.verb, ..name.clone() });
            names.push(Name { thing: other.thing, ..name.clone() });
            names.push(Name { noun: other.noun, ..name.clone() });
            names.push(Name { noun: name.noun, ..other.clone() });
            names.push(other);
        }
        names.retain(|other| other != name);
        Self(names)
    }

    /// Any of them.
    pub(super) fn any(&self, random: &mut Random) -> Name {
        let number = usize::try_from(random.up_to(self.0.len() as u64)).unwrap_or(0);
        self.0.get(number).cloned().unwrap_or_else(|| Name::any(random))
    }
}

/// With a capital letter at its beginning.
pub(super) fn capital(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

pub(super) const ENDINGS: &[&str] = &["rs", "py", "ts"];

pub(super) const VERBS: &[&str] = &[
    "parse", "render", "validate", "fetch", "merge", "encode", "decode", "resolve", "schedule",
    "flush", "replay", "rotate", "archive", "publish", "collect", "reserve", "release", "compute",
    "inspect", "migrate", "throttle", "verify", "import", "export", "retry", "open", "close",
    "attach", "detach", "convert", "compare", "restore", "prune", "split", "join", "sample",
    "watch", "notify", "approve", "reject", "assign", "expand", "reduce", "trace", "seal",
    "unlock", "measure", "repair", "enqueue",
];

pub(super) const NOUNS: &[&str] = &[
    "invoice",
    "session",
    "ledger",
    "token",
    "upload",
    "webhook",
    "tenant",
    "order",
    "payment",
    "refund",
    "shipment",
    "catalog",
    "price",
    "account",
    "profile",
    "message",
    "thread",
    "channel",
    "report",
    "metric",
    "alert",
    "backup",
    "snapshot",
    "image",
    "document",
    "contract",
    "customer",
    "warehouse",
    "voucher",
    "license",
    "calendar",
    "ticket",
    "review",
    "survey",
    "device",
    "sensor",
    "route",
    "driver",
    "vehicle",
    "region",
    "album",
    "article",
    "badge",
    "banner",
    "basket",
    "booking",
    "branch",
    "budget",
    "campaign",
    "carrier",
    "category",
    "comment",
    "company",
    "country",
    "course",
    "coupon",
    "credit",
    "deposit",
    "discount",
    "district",
    "dispute",
    "editor",
    "employee",
    "engine",
    "event",
    "exchange",
    "factory",
    "feature",
    "feed",
    "folder",
    "forecast",
    "freight",
    "gallery",
    "group",
    "holiday",
    "hotel",
    "inventory",
    "journey",
    "keyword",
    "kitchen",
    "label",
    "lesson",
    "library",
    "loan",
    "location",
    "mailbox",
    "market",
    "meeting",
    "member",
    "menu",
    "merchant",
    "model",
    "network",
    "notice",
    "offer",
    "office",
    "option",
    "packet",
    "partner",
    "passenger",
    "patient",
    "permit",
    "photo",
    "player",
    "playlist",
    "pledge",
    "portal",
    "printer",
    "product",
    "project",
    "quota",
    "receipt",
    "recipe",
    "record",
    "rental",
    "request",
    "reward",
    "salary",
    "season",
    "seller",
    "server",
    "shelf",
    "signal",
    "speaker",
    "sponsor",
    "station",
    "student",
    "subscription",
    "supplier",
    "team",
    "template",
    "tenure",
    "timer",
    "trade",
    "transfer",
    "traveler",
    "treasury",
    "vendor",
    "venue",
    "visitor",
    "vote",
    "wallet",
];

pub(super) const THINGS: &[&str] = &[
    "header", "footer", "handler", "queue", "cache", "index", "cursor", "batch", "filter",
    "policy", "registry", "adapter", "worker", "listener", "broker", "gateway", "schema",
    "summary", "history", "window", "builder", "buffer", "bridge", "checker", "client", "codec",
    "counter", "digest", "factory", "guard", "iterator", "loader", "locker", "manager", "mapper",
    "monitor", "parser", "planner", "pool", "printer", "proxy", "reader", "reducer", "resolver",
    "scanner", "sink", "stream", "table", "tracker", "writer",
];
