//! The file of `spotlane node`: everything is checked at start, and every problem is reported with its line.

mod endpoint;
mod problem;
mod quantity;
mod section;
mod settings;

#[cfg(test)]
mod tests;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spotlane::Settings;
use toml::de::DeTable;

pub(crate) use endpoint::Endpoint;
pub(crate) use problem::ConfigError;
pub(crate) use quantity::{bytes as read_bytes, show_bytes, show_duration};

use problem::Problems;
use section::{Section, nearest};

const SECTIONS: [&str; 6] = ["node", "mesh", "stream", "admin", "store", "settings"];
/// Shorter tokens can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

/// What one file says.
#[derive(Clone, Debug)]
pub(crate) struct NodeConfig {
    /// How status and answers call this node; chosen at start when absent.
    pub(crate) name: Option<String>,
    /// Where other nodes connect.
    pub(crate) mesh: MeshConfig,
    /// Where clients connect, if they may.
    pub(crate) stream: Option<StreamConfig>,
    /// Where operators connect.
    pub(crate) admin: AdminConfig,
    /// Where locations are kept.
    pub(crate) store: StoreConfig,
    /// Everything else.
    pub(crate) settings: Settings,
}

/// The `[mesh]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MeshConfig {
    pub(crate) name: String,
    pub(crate) listen: Endpoint,
    /// What other nodes dial when it differs from `listen`.
    pub(crate) advertise: Option<Endpoint>,
}

/// The `[stream]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamConfig {
    pub(crate) listen: Endpoint,
    /// Certificate chain and key in PEM; both with `tls` and `wss`, none otherwise.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// The `[admin]` section.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) token: Option<String>,
}

/// Without the token.
impl std::fmt::Debug for AdminConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminConfig")
            .field("listen", &self.listen)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}

/// The `[store]` section.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreConfig {
    /// May hold a password.
    pub(crate) url: String,
    pub(crate) key_prefix: String,
    pub(crate) operation_timeout: Duration,
}

/// Without the URL.
impl std::fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreConfig")
            .field("key_prefix", &self.key_prefix)
            .field("operation_timeout", &self.operation_timeout)
            .finish_non_exhaustive()
    }
}

impl NodeConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`], whose text has a line per problem.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        let unreadable = |cause| ConfigError::Unreadable {
            file: file.to_owned(),
            cause,
        };
        let text = fs::read_to_string(file).map_err(unreadable)?;
        Self::parse(&text, file)
    }

    /// Checks a text; `file` is its name, and paths in it start from its folder.
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let mut problems = Problems::new(text);
        let mut config = None;
        match DeTable::parse(text) {
            Ok(table) => {
                let table = table.get_ref();
                let folder = file.parent().unwrap_or_else(|| Path::new(""));
                unknown_sections(table, &mut problems);
                config = read(table, folder, &mut problems);
            }
            Err(error) => problems.add(error.span().unwrap_or(0..0), "", error.message()),
        }
        match (config, problems.finish()) {
            (Some(config), None) => Ok(config),
            (_, problems) => Err(ConfigError::Invalid {
                file: file.to_owned(),
                problems: problems.unwrap_or_default(),
            }),
        }
    }
}

fn unknown_sections(table: &DeTable<'_>, problems: &mut Problems<'_>) {
    for (key, _) in table {
        let name = key.get_ref().as_ref();
        if !SECTIONS.contains(&name) {
            let message = match nearest(name, &SECTIONS) {
                Some(near) => format!("unknown section; did you mean [{near}]?"),
                None => format!("unknown section; there are [{}]", SECTIONS.join("], [")),
            };
            problems.add(key.span(), name, message);
        }
    }
}

/// Nothing when a required value is missing or wrong, which then is among the problems.
fn read<'a>(table: &DeTable<'a>, folder: &Path, problems: &mut Problems<'a>) -> Option<NodeConfig> {
    let mut node = Section::of("node", table, problems);
    let name = node.parsed("name", |text| word(text, NAME_BYTES_MAX));
    node.finish();
    let mesh = read_mesh(Section::of("mesh", table, problems));
    let stream = read_stream(Section::of("stream", table, problems), folder);
    let admin = read_admin(Section::of("admin", table, problems), folder);
    let store = read_store(Section::of("store", table, problems));
    let mut section = Section::of("settings", table, problems);
    let settings = settings::read(&mut section);
    section.finish();
    Some(NodeConfig {
        name,
        mesh: mesh?,
        stream,
        admin: admin?,
        store: store?,
        settings,
    })
}

fn read_mesh(mut section: Section<'_, '_>) -> Option<MeshConfig> {
    let name = section.parsed("name", |text| word(text, NAME_BYTES_MAX));
    let listen = section.parsed("listen", |text| Endpoint::read(text, &["tcp"]));
    let advertise = section.parsed("advertise", |text| Endpoint::read(text, &["tcp"]));
    let listen = listen.or_else(|| Endpoint::read("tcp://127.0.0.1:0", &["tcp"]).ok())?;
    if listen.address.ip().is_unspecified() && advertise.is_none() {
        section.complain(
            "advertise",
            "is missing: nobody can dial the address of listen, write the one they can",
        );
    }
    section.finish();
    Some(MeshConfig {
        name: name.unwrap_or_else(|| "main".to_owned()),
        listen,
        advertise,
    })
}

/// Nothing is a node without clients, or a problem that was recorded.
fn read_stream(mut section: Section<'_, '_>, folder: &Path) -> Option<StreamConfig> {
    let present = section.is_present();
    let listen = section.parsed("listen", |text| {
        Endpoint::read(text, &["tcp", "tls", "ws", "wss"])
    });
    let certificate = section.path("certificate");
    let key = section.path("key");
    if !present {
        return None;
    }
    let Some(listen) = listen else {
        if !section.has("listen") {
            section.complain(
                "listen",
                "is needed in this section; remove the section if no client shall connect",
            );
        }
        section.finish();
        return None;
    };
    let secure = matches!(listen.scheme, "tls" | "wss");
    let identity = match (secure, certificate, key) {
        (true, Some(certificate), Some(key)) => Some((folder.join(certificate), folder.join(key))),
        (true, _, _) => {
            section.complain(
                "listen",
                format!("has {}, which needs certificate and key", listen.scheme),
            );
            None
        }
        (false, None, None) => None,
        (false, _, _) => {
            section.complain(
                "listen",
                format!(
                    "has {}, which takes no certificate and no key",
                    listen.scheme
                ),
            );
            None
        }
    };
    section.finish();
    Some(StreamConfig { listen, identity })
}

fn read_admin(mut section: Section<'_, '_>, folder: &Path) -> Option<AdminConfig> {
    let default = Endpoint::read("http://127.0.0.1:7700", &["http"]).ok();
    let listen = section
        .parsed("listen", |text| Endpoint::read(text, &["http"]))
        .or(default)?;
    let inline = section.parsed("token", token);
    let file = section.path("token_file");
    if inline.is_some() && file.is_some() {
        section.complain("token_file", "stands beside token; keep one of them");
    }
    let from_file = file.and_then(|file| match fs::read_to_string(folder.join(&file)) {
        Ok(text) => token(text.trim_end())
            .map_err(|message| section.complain("token_file", message))
            .ok(),
        Err(cause) => {
            section.complain(
                "token_file",
                format!("{} cannot be read: {cause}", file.display()),
            );
            None
        }
    });
    let token = inline.or(from_file);
    if token.is_none() && !listen.is_loopback() {
        section.complain(
            "listen",
            format!("{listen} is reached from other machines, so a token is needed: set token or token_file"),
        );
    }
    section.finish();
    Some(AdminConfig {
        listen: listen.address,
        token,
    })
}

fn read_store(mut section: Section<'_, '_>) -> Option<StoreConfig> {
    let url = section.parsed("url", store_url);
    if !section.has("url") {
        section.complain(
            "url",
            "is needed, for example \"redis://127.0.0.1:6379\"; \"memory\" is for a single node",
        );
    }
    let key_prefix = section
        .text("key_prefix")
        .unwrap_or_else(|| "spotlane".to_owned());
    let bounds = Duration::from_millis(1)..=Duration::from_mins(5);
    let operation_timeout = section.duration("operation_timeout", Duration::from_secs(3), bounds);
    section.finish();
    Some(StoreConfig {
        url: url?,
        key_prefix,
        operation_timeout,
    })
}

/// What can be told without the provider, which judges the rest when it opens the store. Never shows the URL.
pub(crate) fn store_url(text: &str) -> Result<String, String> {
    let schemes = ["redis", "rediss", "valkey", "valkeys"];
    let known = text.split_once("://").is_some_and(|(scheme, rest)| {
        let family = scheme.split('-').next().unwrap_or_default();
        schemes.contains(&family) && !rest.is_empty()
    });
    if text == "memory" || known {
        return Ok(text.to_owned());
    }
    Err("is no store: write \"redis://HOST:PORT\" or \"memory\"".to_owned())
}

fn word(text: &str, bytes_max: usize) -> Result<String, String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > bytes_max || !text.bytes().all(legal) {
        return Err(format!(
            "{text:?} must have 1 to {bytes_max} of the letters a-z, A-Z, 0-9, -, _ and ."
        ));
    }
    Ok(text.to_owned())
}

fn token(text: &str) -> Result<String, String> {
    let length = TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX;
    if !length.contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "has {} bytes, must have {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}, all visible ASCII; \
             for example the output of `openssl rand -hex 24`",
            text.len()
        ));
    }
    Ok(text.to_owned())
}
