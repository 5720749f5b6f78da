//! What the dashboard for Grafana and the alerts for Prometheus ask is there: each metric by its name, and each query of a real
//! Prometheus.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use foveate_control::Stats;
use foveate_daemon::metrics::families;
use serde_json::Value;
use testkit::daemon::{Daemon, Place, Process};
use testkit::left_out::leave_out;
use testkit::wait::until;
use testkit::{is_long, repository};
use yaml_rust2::{Yaml, YamlLoader};

use crate::scrape::{ask, metrics_address, steer};

/// What a stream on the CPU without noise does not have.
const ELSEWHERE: [&str; 2] = ["foveate_gpu_memory_bytes", "foveate_noise"];

#[test]
fn every_metric_of_the_dashboard_exists() {
    let asked = assert_metrics_exist(&queries());
    assert!(25 < asked.len(), "{asked:?}");
}

#[test]
fn every_alert_is_complete_and_asks_for_known_metrics() {
    let rules = rules();
    for rule in &rules {
        let text = |value: &Yaml| value.as_str().unwrap_or_else(|| panic!("{rule:?}")).to_owned();
        assert!(text(&rule["alert"]).starts_with("Foveate"), "{rule:?}");
        assert!(["critical", "warning"].contains(&&*text(&rule["labels"]["severity"])), "{rule:?}");
        assert!(!text(&rule["annotations"]["summary"]).is_empty(), "{rule:?}");
        assert!(!text(&rule["expr"]).is_empty(), "{rule:?}");
    }
    let names: BTreeSet<_> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(names.len(), rules.len(), "{names:?}");
    let asked = assert_metrics_exist(&alerts());
    assert!(15 < asked.len(), "{asked:?}");
}

#[test]
fn promtool_accepts_the_alerts() {
    let mut command = Command::new("promtool");
    let output = match command.args(["check", "rules"]).arg(rules_file()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return leave_out("no promtool"),
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_document_lists_every_alert() {
    let text = fs::read_to_string(repository().join("docs/reference/metrics.md")).unwrap();
    let (_, table) = text.split_once("## What to watch for").unwrap();
    let cells = table.lines().filter_map(|row| row.strip_prefix("| ")?.split('|').next());
    let listed: Vec<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let rules = rules();
    let names: Vec<_> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.join("\n")
    };
    assert_eq!(sorted(listed), sorted(names));
}

/// The metrics of `queries`, each of which the daemon has.
fn assert_metrics_exist(queries: &[String]) -> BTreeSet<String> {
    let families = families(&Stats::default());
    let known: BTreeSet<&str> = families.iter().map(|family| family.name).collect();
    let asked: BTreeSet<String> = queries.iter().flat_map(|query| metrics_of(query)).collect();
    for name in &asked {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(
            known.contains(name.as_str()) || family.is_some_and(|f| known.contains(f)),
            "{name}"
        );
    }
    asked
}

/// With `FOVEATE_LONG=1`, since few machines have a Prometheus.
#[test]
fn every_query_of_the_dashboard_has_an_answer() {
    if !is_long() {
        return leave_out("without FOVEATE_LONG=1");
    }
    let place = Place::new();
    let daemon = place.daemon(
        "[daemon]\nmetrics = '127.0.0.1:0'\n\
         [[stream]]\nname = 'a'\nbackend = 'cpu'\nsource = 'test'\nisolation = 'process'\n\
         [[stream.view]]\nname = 'main'\n\
         [[stream]]\nname = 'away'\nsource = 'rtsp://127.0.0.1:9/'\n",
    );
    let (_prometheus, address) = prometheus(&place, &daemon);
    until("it scrapes", || answers(address, "rate(foveate_frames_published_total[1m]) > 0"));
    let _reader = daemon.subscribe("a/main");
    let mut client = daemon.client();
    for query in queries() {
        let query = query.replace("$__rate_interval", "1m");
        let query = query.replace("$instance", ".+").replace("$stream", ".+");
        if metrics_of(&query).iter().any(|name| ELSEWHERE.contains(&name.as_str())) {
            answers(address, &query);
        } else {
            until(&format!("there is an answer to {query}"), || {
                // More than once, because a count of refusals appears with the first.
                // A client may send 60 of these a second.
                thread::sleep(Duration::from_millis(20));
                steer(&mut client);
                answers(address, &query)
            });
        }
    }
    for alert in alerts() {
        // Nothing is wrong, but the words are right.
        answers(address, &alert);
    }
    daemon.stop();
}

/// Queries of the panels.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(repository().join("configs/grafana/foveate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<_> =
        targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    assert!(30 < queries.len(), "{queries:?}");
    queries
}

/// The expressions of the alerts.
fn alerts() -> Vec<String> {
    rules().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect()
}

/// The alerts as they are written.
fn rules() -> Vec<Yaml> {
    let text = fs::read_to_string(rules_file()).unwrap();
    let documents = YamlLoader::load_from_str(&text).unwrap();
    let groups = documents[0]["groups"].as_vec().unwrap().iter();
    let rules: Vec<_> =
        groups.flat_map(|group| group["rules"].as_vec().unwrap()).cloned().collect();
    assert!(10 < rules.len(), "{rules:?}");
    rules
}

fn rules_file() -> PathBuf {
    repository().join("configs/prometheus/foveate.yml")
}

fn metrics_of(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("foveate_") || word.starts_with("process_"));
    names.map(str::to_owned).collect()
}

/// A Prometheus that scrapes `daemon`, and where it answers.
fn prometheus(place: &Place, daemon: &Daemon<'_>) -> (Process, SocketAddr) {
    let config = format!(
        "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\nscrape_configs:\n  - job_name: foveate\n    \
         static_configs:\n      - targets: ['{}']\n",
        metrics_address(daemon)
    );
    let config = place.write("prometheus.yml", config);
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", place.path("prometheus").display()));
    command.arg(format!("--web.listen-address={address}"));
    let process = Process::start(command, &[]);
    process.stderr.wait_for("Server is ready to receive web requests");
    (process, address)
}

/// Whether `query` is answered with anything; it has to be understood.
fn answers(address: SocketAddr, query: &str) -> bool {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
    let (_, body) = ask(address, request.as_bytes());
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    !answer["data"]["result"].as_array().unwrap().is_empty()
}
