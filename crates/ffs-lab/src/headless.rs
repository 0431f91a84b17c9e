//! A browser without a screen, for the tests of pages: a client of Chromium's debugging protocol.
//!
//! The protocol uses a pair of pipes, so no port is opened. The client sends keys and pointer
//! events as a person makes them, and reads what the page shows.
//!
//! # Invariants
//! 1. Dropping a [`Browser`] ends all its processes.
//! 2. Without a browser that starts, there is none: the test reports itself as skipped.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

/// The longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

const BROWSERS: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
];

/// Flags without which Chromium needs a display, a sandbox or a network.
const FLAGS: [&str; 10] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
];

/// A running browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    last: u64,
    /// Errors and warnings of the page.
    pub(crate) complaints: Vec<String>,
    /// Whether the page is loaded.
    loaded: bool,
    _profile: tempfile::TempDir,
}

/// The browser of the machine, if it is of the kind of Chromium.
fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("FFS_BROWSER") {
        let name = given.to_string_lossy().into_owned();
        return (!name.contains("firefox")).then(|| PathBuf::from(given));
    }
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let find = |name: &&str| places.iter().map(|dir| dir.join(name)).find(|file| file.is_file());
    BROWSERS.iter().find_map(find)
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts a browser; `None`, with a line of the reason, if there is none or it does not start.
    pub(crate) fn start() -> Option<Browser> {
        let Some(program) = program() else {
            eprintln!("skipped: no Chromium in PATH or FFS_BROWSER");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // The protocol is on the descriptors 3 and 4.
        let shell = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.arg("-c").arg(shell).arg(&program).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            while output.read_until(0, &mut text).is_ok_and(|n| n > 0) {
                text.pop();
                let Ok(message) = serde_json::from_slice(&text) else { break };
                if sender.send(message).is_err() {
                    break;
                }
                text.clear();
            }
        });
        let mut browser = Browser {
            child,
            input,
            messages,
            session: String::new(),
            last: 0,
            complaints: Vec::new(),
            loaded: false,
            _profile: profile,
        };
        let Some(made) = browser.send("Target.createTarget", json!({ "url": "about:blank" }))
        else {
            eprintln!("skipped: {} does not start here", program.display());
            return None;
        };
        let target = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command; `None` if the browser has ended.
    fn send(&mut self, method: &str, parameters: Value) -> Option<Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.input.write_all(&text).ok()?;
        loop {
            let message = self.messages.recv_timeout(PATIENCE).ok()?;
            if message["id"] == json!(self.last) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return Some(message["result"].clone());
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" => self.complaints.push(parameters["args"].to_string()),
            "Runtime.exceptionThrown" => {
                self.complaints.push(parameters["exceptionDetails"].to_string());
            }
            "Log.entryAdded" => self.complaints.push(parameters["entry"].to_string()),
            "Page.loadEventFired" => self.loaded = true,
            _ => {}
        }
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let found = self.send(method, parameters);
        found.unwrap_or_else(|| panic!("{method}: the browser does not answer"))
    }

    /// Shows pages in a window of this size, in light or dark colours.
    pub(crate) fn window(&mut self, width: u32, height: u32, dark: bool) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a file, with words behind `#`, and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, hash: &str) {
        // From another page: a new hash alone would load nothing.
        for address in ["about:blank".to_owned(), format!("file://{}{hash}", file.display())] {
            self.go(&address);
        }
    }

    /// Opens an address and waits until it is loaded.
    pub(crate) fn go(&mut self, address: &str) {
        self.loaded = false;
        self.call("Page.navigate", json!({ "url": address }));
        while !self.loaded {
            let message = self.messages.recv_timeout(PATIENCE).expect("a page that loads");
            self.note(&message);
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", parameters);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// The text of an expression in the page.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Presses and releases a key: `Tab`, `Enter`, `ArrowDown`, ...
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => panic!("no code for {other}"),
        };
        let name = if key == " " { "Space" } else { key };
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": name, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", event);
            if kind == "rawKeyDown" && (key == " " || key == "Enter") {
                let text = if key == " " { " " } else { "\r" };
                self.call("Input.dispatchKeyEvent", json!({ "type": "char", "text": text }));
            }
        }
    }

    /// Moves the pointer to the middle of the first element that a selector finds.
    pub(crate) fn point(&mut self, selector: &str) {
        let place = format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
             e.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const b = e.getBoundingClientRect(); \
             return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        );
        let at = self.value(&place);
        for shift in [3.0, 0.0] {
            let x = at[0].as_f64().unwrap() + shift;
            let event = json!({ "type": "mouseMoved", "x": x, "y": at[1] });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// The picture of the window as base64 of PNG.
    pub(crate) fn picture(&mut self) -> String {
        let found = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        found["data"].as_str().unwrap_or_default().to_owned()
    }

    /// The page on paper as base64 of PDF.
    pub(crate) fn paper(&mut self) -> String {
        let found = self.call("Page.printToPDF", json!({ "printBackground": false }));
        found["data"].as_str().unwrap_or_default().to_owned()
    }
}
