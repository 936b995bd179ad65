//! Files that are right, and every way to be wrong that an operator meets.

use std::fs;

use super::*;

const SMALLEST: &str = "[store]\nurl = \"memory\"\n";

fn parse(text: &str) -> Result<NodeConfig, ConfigError> {
    NodeConfig::parse(text, Path::new("node.toml"))
}

/// The error text of a file, which must be wrong.
fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn the_smallest_file_has_only_a_store() {
    let config = parse(SMALLEST).unwrap();
    assert_eq!(config.mesh.listen.to_string(), "tcp://127.0.0.1:0");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:7700");
    assert_eq!(config.stream, None);
    assert_eq!(config.settings.owner_lease_ttl, Duration::from_secs(15));
}

#[test]
fn an_error_names_file_line_and_key() {
    let text = "[store]\nurl = \"memory\"\n\n[settings]\nowner_lease_ttl = \"1 hour\"\n";
    let message = refusal(text);
    let first = message.lines().next().unwrap();
    assert!(
        first.starts_with("node.toml: line 5: [settings] owner_lease_ttl: "),
        "{first}"
    );
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text =
        "[mesh]\nlisten = 7\n[admin]\nlisten = \"http://0.0.0.0:1\"\n[store]\nurl = \"ftp://x\"\n";
    let message = refusal(text);
    let keys: Vec<_> = message
        .lines()
        .filter_map(|line| line.split(": ").nth(2))
        .collect();
    assert_eq!(
        keys,
        ["[mesh] listen", "[admin] listen", "[store] url"],
        "{message}"
    );
}

#[test]
fn a_file_full_of_mistakes_still_fits_on_a_screen() {
    let mut text = SMALLEST.to_owned();
    for number in 0..100 {
        text = format!("{text}wrong{number} = 1\n");
    }
    let message = refusal(&text);
    assert!(message.lines().count() <= 12, "{message}");
    assert!(message.contains("and 90 more"), "{message}");
}

#[test]
fn misspelled_words_are_answered_with_the_right_ones() {
    assert!(refusal("[stor]\nurl = \"memory\"\n").contains("did you mean [store]?"));
    let message = refusal(&format!("{SMALLEST}[settings]\nowner_lease_tll = \"3s\"\n"));
    assert!(
        message.contains("did you mean owner_lease_ttl?"),
        "{message}"
    );
    let message = refusal("store = 5\n");
    assert!(message.contains("write [store]"), "{message}");
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let message = refusal("[store]\nurl = \"memory\n");
    assert!(message.contains("line 2"), "{message}");
}

#[test]
fn a_missing_file_is_refused_by_its_name() {
    let message = NodeConfig::load(Path::new("/nowhere/node.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("/nowhere/node.toml") && message.contains("docs/cli.md"),
        "{message}"
    );
}

#[test]
fn an_admin_endpoint_that_others_reach_needs_a_token() {
    let open = format!("{SMALLEST}[admin]\nlisten = \"http://0.0.0.0:7700\"\n");
    assert!(refusal(&open).contains("a token is needed"));
    assert!(refusal(&format!("{open}token = \"short\"\n")).contains("openssl rand"));
    let config = parse(&format!("{open}token = \"0123456789abcdef\"\n")).unwrap();
    assert_eq!(config.admin.token.as_deref(), Some("0123456789abcdef"));
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
}

#[test]
fn a_token_file_starts_from_the_folder_of_the_config() {
    let folder = std::env::temp_dir().join(format!("spotlane-config-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("token"), "0123456789abcdef\n").unwrap();
    let text = format!("{SMALLEST}[admin]\ntoken_file = \"token\"\n");
    let config = NodeConfig::parse(&text, &folder.join("node.toml"));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        config.unwrap().admin.token.as_deref(),
        Some("0123456789abcdef")
    );
}

#[test]
fn a_secure_stream_needs_certificate_and_key() {
    let stream = |rest: &str| format!("{SMALLEST}[stream]\n{rest}");
    assert!(refusal(&stream("")).contains("remove the section"));
    assert!(
        refusal(&stream("listen = \"tls://127.0.0.1:0\"\n")).contains("needs certificate and key")
    );
    let both = "certificate = \"c.pem\"\nkey = \"k.pem\"\n";
    assert!(
        refusal(&stream(&format!("listen = \"tcp://127.0.0.1:0\"\n{both}")))
            .contains("takes no certificate")
    );
    assert!(parse(&stream(&format!("listen = \"wss://127.0.0.1:0\"\n{both}"))).is_ok());
}

#[test]
fn a_mesh_that_nobody_can_dial_is_refused() {
    let text = format!("{SMALLEST}[mesh]\nlisten = \"tcp://0.0.0.0:7000\"\n");
    assert!(refusal(&text).contains("[mesh] advertise"));
    assert!(parse(&format!("{text}advertise = \"tcp://10.0.0.1:7000\"\n")).is_ok());
}

#[test]
fn a_password_of_the_store_is_never_shown() {
    let message = refusal("[store]\nurl = \"http://user:secret@host\"\n");
    assert!(!message.contains("secret"), "{message}");
    let config = parse("[store]\nurl = \"redis://user:secret@host\"\n").unwrap();
    assert!(!format!("{config:?}").contains("secret"));
}

/// RL-281
#[test]
fn a_lease_that_one_failed_renewal_would_lose_is_refused() {
    let text = format!("{SMALLEST}[settings]\nowner_lease_ttl = \"13s\"\n");
    assert!(
        refusal(&text).contains("line 4: [settings] owner_lease_ttl"),
        "{}",
        refusal(&text)
    );
    assert!(parse(&text.replace("13s", "14s")).is_ok());
}

/// RL-166
#[test]
fn a_cached_route_that_outlives_its_follow_route_is_refused() {
    let text = format!("{SMALLEST}[settings]\nmessage_follow_duration = \"19s\"\n");
    assert!(refusal(&text).contains("route_cache_max_age"));
    assert!(parse(&text.replace("19s", "20s")).is_ok());
    assert!(parse(&text.replace("19s", "0")).is_ok());
}

/// RL-318
#[test]
fn what_was_prepared_outlives_the_wait_for_its_cutover() {
    let text = format!("{SMALLEST}[settings]\nrelocation_restore_validity = \"1s\"\n");
    assert!(refusal(&text).contains("relocation_cutover_wait_timeout"));
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let with = |line: &str| refusal(&format!("{SMALLEST}[settings]\n{line}\n"));
    assert!(with("polling_interval = \"0\"").contains("must be 1ms to 1440m"));
    assert!(with("relocation_payload_chunk_limit = 0").contains("must be 1 to 64MiB"));
    assert!(with("relocation_payload_chunk_limit = -1").contains("whole number"));
    assert!(with("activation_concurrency = \"many\"").contains("whole number from 1 to"));
    assert!(with("maintenance_wave = \"\"").contains("1 to 255"));
}

/// The example of the page is what the page says it is.
#[test]
fn the_documented_file_is_valid_and_shows_the_defaults() {
    let page = include_str!("../../../../docs/cli.md");
    let start = page.find("```toml\n").unwrap() + "```toml\n".len();
    let text = &page[start..start + page[start..].find("```").unwrap()];
    let documented = parse(text).unwrap();
    let shown = |settings: &Settings| format!("{settings:?}");
    assert_eq!(
        shown(&documented.settings),
        shown(&parse(SMALLEST).unwrap().settings)
    );
}
