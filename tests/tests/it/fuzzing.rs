//! Fuzzes readers of untrusted input: workload logs, requests, configurations, tokens, journals. None may panic or run
//! without bounds, and an accepted input must mean the same after it was written and read again. The readers of batch
//! systems and of event streams are fuzzed in their own crates.
//!
//! The corpus consists of files of the repository and of inputs that failed before.

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use bookahead_api as api;
use bookahead_protocol as protocol;
use bookahead_service::config::{BrokerConfig, SiteConfig};
use bookahead_service::journal::{Journal, Kind, check};
use bookahead_service::security::{Authenticator, Claims, Keys, Role, Secret, TokenRules, mint};
use bookahead_tests::fuzz::{self, Corpus};
use bookahead_workload::{LoadOptions, Trace, swf};
use std::fs;
use std::path::Path;

#[test]
fn any_log_is_read_and_its_sound_jobs_are_written_as_they_were() {
    let week = include_bytes!("../../../examples/week.swf");
    let inputs = [
        &week[..week.len().min(2_000)],
        b"; Version: 2.2\n; MaxProcs: 8\n; UnixStartTime: 1\n1 0 -1 100 8 -1 -1 8 100 -1 1 1 1 1 1 1 -1 -1\n2 5 3 1e2 4.0 2.5\n",
        // Negative zero was written as another number than was read.
        b"; MaxProcs: 8\n1 0 -1 100 8 -0.1e-400 -1 8 100\n",
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
    ];
    let words = ["; MaxProcs: ", "; UnixStartTime: ", " -1", "\t", "\x1f\u{8b}", "\u{feff}"];
    let accepted = fuzz::run(Corpus { inputs: &inputs, words: &words }, 3_000, |bytes| {
        // Records and not bytes: what is written has one form for each number.
        let Ok(records) = records(bytes) else { return false };
        let mut written = Vec::new();
        swf::write(&mut written, &swf::Header::default(), records.iter()).unwrap();
        // As text, which tells zeros by their sign.
        assert_eq!(format!("{:?}", self::records(&written).unwrap()), format!("{records:?}"));
        Trace::read("fuzz", bytes, &LoadOptions::default()).is_ok()
    });
    assert_eq!(accepted, 3, "the last is the begin of a gzip file");
}

fn records(bytes: &[u8]) -> Result<Vec<swf::Record>, bookahead_workload::FileError> {
    let mut reader = swf::Reader::new("fuzz", bytes)?;
    let mut records = Vec::new();
    while let Some(job) = reader.next_job()? {
        if matches!(job.outcome, swf::Outcome::Sound(_)) {
            records.push(*reader.record());
        }
    }
    Ok(records)
}

const REQUEST: &str = r#"{"request":{"parts":[{"kind":"processors","capacity":64,"duration_seconds":7200,
"earliest_start":"2026-11-16T09:00:00Z","latest_end":"2026-11-16T18:00:00+01:00","requirements":[
{"attribute":"gpus","test":"at-least","value":4},{"attribute":"site","test":"one-of","values":["north","south",7]},
{"attribute":"mpi","test":"present"}]},{"capacity":1,"duration_seconds":60,"earliest_start":"2026-11-16T09:00:00Z",
"latest_end":"2026-11-17T09:00:00Z","resource":"north/cluster"}],"constraints":[{"type":"offset","first":0,"second":1,
"by_seconds":-5},{"type":"after","first":0,"second":1,"least_seconds":0,"most_seconds":60},{"type":"different-sites",
"first":0,"second":1}],"objective":"best-availability","on_loss":"keep","webhook":"https://a.example/x"},"hold_for_seconds":60,"book":true}"#;

#[test]
fn any_request_is_refused_or_means_the_same_when_it_was_written() {
    let plain = br#"{"request":{"parts":[{"capacity":1,"duration_seconds":60,"earliest_start":"2026-11-16T09:00:00Z","latest_end":"2026-11-17T09:00:00Z"}]}}"#;
    let words = [
        "\"test\":\"is\",",
        "\"type\":\"joins\",\"link\":0,\"ends\":[0,1]",
        "9999-12-31T23:59:60Z",
        "null",
        "[[[[[[[[",
        "\\ud800",
        "-9999-01-01T00:00:00Z",
    ];
    let accepted =
        fuzz::run(Corpus { inputs: &[REQUEST.as_bytes(), plain], words: &words }, 10_000, |bytes| {
            let Ok(reserve) = serde_json::from_slice::<api::Reserve>(bytes) else { return false };
            let request: protocol::Request = reserve.request.clone().into();
            // Every request that can be read can be checked and passed on; passing it on loses nothing.
            let is_sound = request.check().is_ok();
            let passed_on = api::Request::try_from(request).unwrap();
            let text = serde_json::to_string(&passed_on).unwrap();
            assert_eq!(serde_json::from_str::<api::Request>(&text).unwrap(), reserve.request);
            is_sound
        });
    assert_eq!(accepted, 2);
}

#[test]
fn any_configuration_is_refused_or_means_the_same_when_it_was_printed() {
    let sites = [
        include_str!("../../../examples/services/north.toml"),
        include_str!("../../../examples/services/secured-site.toml"),
        include_str!("../../../examples/services/slurm-site.toml"),
        include_str!("../../../crates/cli/src/demo/parties/centre.toml"),
        include_str!("../../../crates/cli/src/demo/parties/museum.toml"),
    ];
    let words = [
        "\n[limits]\nshare = 50\n",
        "\n[jobs]\n",
        "\"1d\"",
        "99999999999w",
        "\n[[resource]]\n",
        "true",
        "[batch]\n",
    ];
    let inputs = sites.map(str::as_bytes);
    let accepted = fuzz::run(Corpus { inputs: &inputs, words: &words }, 3_000, |bytes| {
        let Ok(text) = str::from_utf8(bytes) else { return false };
        let Ok(config) = SiteConfig::parse(Path::new("site.toml"), text) else { return false };
        let printed = config.print().unwrap();
        let again = SiteConfig::parse(Path::new("site.toml"), &printed).unwrap();
        assert_eq!(again.print().unwrap(), printed);
        true
    });
    assert_eq!(accepted, inputs.len());
}

#[test]
fn any_configuration_of_a_broker_is_refused_or_means_the_same_when_it_was_printed() {
    let inputs = [
        include_bytes!("../../../examples/services/grid-broker.toml").as_slice(),
        b"name = \"grid\"\nopen = true\njob_window = \"3d\"\n[rules]\nhold_time = \"2s\"\nenough_slots = 3\nafter_refusal = \"slot\"\n",
    ];
    let words = [
        "\n[[peer]]\nname = \"n\"\nurl = \"http://n\"\n",
        "\n[rules]\n",
        "\"1ms\"",
        "\"99999999999w\"",
        "[calls]\n",
    ];
    let accepted = fuzz::run(Corpus { inputs: &inputs, words: &words }, 3_000, |bytes| {
        let Ok(text) = str::from_utf8(bytes) else { return false };
        let Ok(config) = BrokerConfig::parse(Path::new("broker.toml"), text) else { return false };
        let printed = config.print().unwrap();
        let again = BrokerConfig::parse(Path::new("broker.toml"), &printed).unwrap();
        assert_eq!(again.print().unwrap(), printed);
        true
    });
    assert_eq!(accepted, inputs.len());
}

#[test]
fn no_token_is_believed_but_one_that_was_signed() {
    const NOW: i64 = 1_800_000_000;
    let secret = || Secret::new(b"0123456789abcdef0123456789abcdef").unwrap();
    let token = |user: &str| {
        let claims = Claims {
            user: user.into(),
            roles: [Role::User].into(),
            expires: NOW + 600,
            not_before: None,
            issued: Some(NOW),
            audience: None,
            issuer: None,
            id: None,
        };
        format!("Bearer {}", mint(&secret(), &claims))
    };
    let signed = [token("ada"), token("a-rather-long-name-of-another-user")];
    let inputs = [signed[0].as_bytes(), signed[1].as_bytes()];
    // A header without a signature: {"alg":"none"}.
    let words = ["eyJhbGciOiJub25lIn0.", "=", "..", "Bearer ", "bearer ", "-_", "+/"];
    let authenticator = Authenticator::new(Keys::of_secret(secret()), TokenRules::default());
    let believed = |bytes: &[u8]| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else { return false };
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        authenticator.identify_at(&headers, None, NOW).is_ok()
    };
    assert!(inputs.iter().all(|input| believed(input)));
    fuzz::run(Corpus { inputs: &inputs, words: &words }, 10_000, |bytes| {
        if believed(bytes) {
            let (scheme, token) = bytes.split_at(bytes.len().min(7));
            let is_same = |input: &&[u8]| input[7..] == *token.trim_ascii();
            assert!(scheme.eq_ignore_ascii_case(b"Bearer ") && inputs.iter().any(is_same));
        }
        false
    });
}

/// Key files are read again while a service runs.
#[test]
fn any_file_of_keys_is_read_or_refused() {
    let inputs: [&[u8]; 3] = [
        b"secret:0123456789012345678901234567890123456789\n",
        b"base64:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEy\n",
        br#"{"keys":[{"kty":"oct","k":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEy","alg":"HS256","kid":"a"},{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
    ];
    let words = [
        "-----BEGIN PUBLIC KEY-----\n",
        "-----END PUBLIC KEY-----\n",
        "\"alg\":\"none\",",
        "\"kty\":\"RSA\",",
    ];
    let accepted =
        fuzz::run(Corpus { inputs: &inputs, words: &words }, 5_000, |bytes| Keys::parse(bytes).is_ok());
    assert_eq!(accepted, inputs.len());
}

/// Mutates the whole file: most mutations hit pages of SQLite, some hit records.
#[test]
fn any_journal_is_read_as_it_was_or_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("north.journal");
    let kind = Kind::new("site", "north", 1);
    let (journal, _) = Journal::<String>::open(&path, &kind).unwrap();
    let events: Vec<String> = (0..20).map(|number| format!("event {number}")).collect();
    journal.append(&events).unwrap().wait().unwrap();
    journal.close().unwrap();
    let whole = fs::read(&path).unwrap();
    let mark = fs::read(path.with_file_name("north.journal.mark")).ok();
    let accepted = fuzz::run(
        Corpus { inputs: &[&whole], words: &["event 7", "SQLite format 3\0", "\0\0\0\u{1}"] },
        300,
        |bytes| {
            for entry in fs::read_dir(folder.path()).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            fs::write(&path, bytes).unwrap();
            if let Some(mark) = &mark {
                fs::write(path.with_file_name("north.journal.mark"), mark).unwrap();
            }
            let sound = check(&path).is_ok_and(|report| report.is_sound());
            let Ok((_, replay)) = Journal::<String>::open(&path, &kind) else {
                return false;
            };
            let read: Vec<String> = replay.events.into_iter().map(|record| record.event).collect();
            assert!(read == events, "{read:?} was read, and the check said {sound}");
            true
        },
    );
    assert_eq!(accepted, 1);
}
