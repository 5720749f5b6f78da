//! A real browser: Chromium without a window, driven over its DevTools protocol.

#![allow(dead_code, unreachable_pub, reason = "each program uses a part")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::connection::Connection;
use testkit::wait::HANG;
use tungstenite::{Message, WebSocket};

/// Names under which distributions install it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Keys that may be held while the mouse moves.
pub const ALT: u32 = 1;
pub const SHIFT: u32 = 8;

/// No window, no sandbox (tests run as root), no traffic of its own.
const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
];

/// A browser with one page, killed when it is dropped.
pub struct Browser {
    child: Child,
    wire: WebSocket<Connection>,
    session: Option<String>,
    next_id: u64,
    /// Documents that have been loaded.
    loads: u64,
    /// Errors and warnings of the page.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts it with an empty page of this size, in pixels of the page.
    pub fn start(width: u32, height: u32) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut child = spawn(&profile);
        let port = debugging_port(&mut child);
        let stream = Connection::open(("127.0.0.1", port.0)).unwrap();
        let (wire, _) = tungstenite::client(port.1, stream).unwrap();
        let mut browser = Self {
            child,
            wire,
            session: None,
            next_id: 1,
            loads: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width, height);
        browser
    }

    /// Changes the size of the page.
    pub fn resize(&mut self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// As a screen that has so many pixels for each of the page.
    pub fn resize_dense(&mut self, width: u32, height: u32, ratio: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": ratio, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// What the user prefers: `light` or `dark`, and that nothing moves which need not.
    pub fn prefer(&mut self, scheme: &str) {
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        let motion = json!({ "name": "prefers-reduced-motion", "value": "reduce" });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [scheme, motion] }));
    }

    /// Opens a page, and returns when all of it has been loaded.
    pub fn open(&mut self, url: &str) {
        // The same address with another fragment would be the same page.
        for url in ["about:blank", url] {
            self.load("Page.navigate", json!({ "url": url }));
        }
    }

    /// Opens the page once more.
    pub fn reload(&mut self) {
        self.load("Page.reload", json!({}));
    }

    fn load(&mut self, method: &str, parameters: Value) {
        let before = self.loads;
        self.call(method, parameters);
        while self.loads == before {
            let event = self.receive();
            self.note(&event);
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.wire.read().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.value(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Asks again and again until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let started = Instant::now();
        let truth = format!(
            "(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        );
        while self.value(&truth) != json!(true) {
            let said = self.value("document.body.innerText");
            let complaints = &self.complaints;
            assert!(
                started.elapsed() < HANG,
                "timed out waiting until {expression}; the page says {said}; {complaints:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses and releases the left button there, in pixels of the page.
    pub fn click(&mut self, x: f64, y: f64) {
        for kind in ["mousePressed", "mouseReleased"] {
            self.mouse(kind, x, y);
        }
    }

    /// Sends an event of the left button.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        self.mouse_with(0, kind, x, y);
    }

    /// Sends an event of the left button with keys held: [`ALT`], [`SHIFT`].
    pub fn mouse_with(&mut self, held: u32, kind: &str, x: f64, y: f64) {
        let event = json!({
            "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1, "modifiers": held
        });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Presses and releases a key, by its name in `KeyboardEvent.key`.
    pub fn press(&mut self, key: &str) {
        let text = if key.len() == 1 { json!(key) } else { json!(null) };
        let mut event = json!({ "type": "keyDown", "key": key });
        if text != json!(null) {
            event["text"] = text;
        }
        if key == "Tab" {
            event["windowsVirtualKeyCode"] = json!(9);
        }
        self.call("Input.dispatchKeyEvent", event);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    /// The screen as a PNG file in base64.
    pub fn screenshot(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        answer["data"].as_str().unwrap().to_owned()
    }

    /// A picture of the element that a selector finds.
    pub fn screenshot_of(&mut self, selector: &str) -> String {
        let clip = self.value(&format!(
            "(() => {{ const {{ x, y, width, height }} = document.querySelector('{selector}').getBoundingClientRect(); \
             return {{ x, y, width, height, scale: 1 }}; }})()"
        ));
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png", "clip": clip }));
        answer["data"].as_str().unwrap().to_owned()
    }

    /// Bytes that the page uses, its buffers and elements included, after garbage collection.
    pub fn heap_bytes(&mut self) -> f64 {
        self.call("HeapProfiler.collectGarbage", json!({}));
        let heap = self.call("Runtime.getHeapUsage", json!({}));
        let part = |name: &str| heap[name].as_f64().unwrap();
        part("usedSize") + part("embedderHeapUsedSize") + part("backingStorageSize")
    }

    /// Asks the browser something, and returns what it answers.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.wire.send(Message::text(message.to_string())).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == json!(id) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    /// Keeps what is wrong: exceptions, messages of errors and warnings, requests to elsewhere.
    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        self.loads += u64::from(event["method"] == "Page.loadEventFired");
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => parameters["exceptionDetails"].to_string(),
            Some("Runtime.consoleAPICalled") => parameters["args"].to_string(),
            Some("Log.entryAdded") if parameters["entry"]["level"] != "verbose" => {
                parameters["entry"]["text"].to_string()
            }
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap();
                if ["http://127.0.0.1:", "about:"].iter().any(|own| url.starts_with(own)) {
                    return;
                }
                format!("asks for {url}")
            }
            _ => return,
        };
        self.complaints.push(complaint);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(profile: &TempDir) -> Child {
    for name in NAMES {
        let mut command = Command::new(name);
        command
            .args(FLAGS)
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Ok(child) = command.spawn() {
            return child;
        }
    }
    panic!("no browser: install one of {NAMES:?} (scripts/test.sh does)");
}

/// The port on which it takes commands, and the address to name.
fn debugging_port(child: &mut Child) -> (u16, String) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("DevTools listening on ").map(str::to_owned));
    // What else it says is of no interest, but has to go somewhere.
    std::thread::spawn(move || lines.for_each(drop));
    let address = address.expect("Chromium takes commands");
    let port = address.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    (port, address)
}
