//! A headless Chromium, by its debugging protocol over a pair of pipes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A running browser with one page.
pub(crate) struct Browser {
    chromium: Child,
    commands: File,
    messages: BufReader<File>,
    session: Option<String>,
    sent: u64,
    events: Vec<Value>,
    _folder: TempDir,
}

/// The colours that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// Events while a page was loaded.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    pub(crate) requests: Vec<String>,
    pub(crate) errors: Vec<String>,
}

impl Browser {
    pub(crate) fn start() -> Result<Self> {
        let folder = TempDir::new().context("making a folder for the browser")?;
        let [commands, messages] = ["commands", "messages"].map(|name| folder.path().join(name));
        for pipe in [&commands, &messages] {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        // The protocol's pipes are descriptors 3 and 4.
        let script = "exec chromium \"${@:3}\" 3<\"$1\" 4>\"$2\"";
        let chromium = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "bash", "-c", script, "bash"])
            .args([&commands, &messages])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting chromium; hint: make setup")?;
        // Opened in the order of the shell: each opening waits for the other side.
        let commands = fs::OpenOptions::new().write(true).open(&commands)?;
        let messages = BufReader::new(File::open(&messages)?);
        let mut browser = Self {
            chromium,
            commands,
            messages,
            session: None,
            sent: 0,
            events: Vec::new(),
            _folder: folder,
        };
        let page = browser.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for part in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{part}.enable"), &json!({}))?;
        }
        Ok(browser)
    }

    /// Sets the size of the window and the preferred colours for the next pages.
    pub(crate) fn window(&mut self, (width, height): (u64, u64), scheme: Scheme) -> Result<()> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let value = format!("{scheme:?}").to_lowercase();
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", &media).map(drop)
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) -> Result<Visit> {
        self.events.clear();
        let opened = self.call("Page.navigate", &json!({"url": url}))?;
        ensure!(opened["errorText"].is_null(), "{url}: {}", opened["errorText"]);
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive()?;
            self.events.push(event);
        }
        // Errors of the page's own scripts are reported before this answer.
        self.call("Runtime.evaluate", &json!({"expression": "0"}))?;
        let mut visit = Visit::default();
        for event in self.events.drain(..) {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap_or_default();
                    visit.requests.push(url.to_owned());
                }
                "Runtime.exceptionThrown" => visit.errors.push(parameters.to_string()),
                "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
                    visit.errors.push(parameters["args"].to_string());
                }
                "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                    visit.errors.push(parameters["entry"]["text"].to_string());
                }
                _ => {}
            }
        }
        Ok(visit)
    }

    /// Returns the value of an expression on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", &parameters)?;
        ensure!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].take())
    }

    /// Writes a picture of the window into the folder of `OUTRIGGER_SCREENSHOTS`, if it is set.
    pub(crate) fn screenshot(&mut self, name: &str) -> Result<()> {
        let Some(folder) = std::env::var_os("OUTRIGGER_SCREENSHOTS") else { return Ok(()) };
        let answer = self.call("Page.captureScreenshot", &json!({"format": "png"}))?;
        let picture = BASE64_STANDARD.decode(answer["data"].as_str().context("no picture")?)?;
        let path = PathBuf::from(folder).join(format!("{name}.png"));
        fs::write(&path, picture).with_context(|| format!("writing {}", path.display()))
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.sent += 1;
        let id = self.sent;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).context("asking chromium")?;
        loop {
            let mut message = self.receive()?;
            if message["id"] != id {
                self.events.push(message);
                continue;
            }
            ensure!(message["error"].is_null(), "{method}: {}", message["error"]);
            return Ok(message["result"].take());
        }
    }

    fn receive(&mut self) -> Result<Value> {
        let mut message = Vec::new();
        self.messages.read_until(0, &mut message).context("listening to chromium")?;
        if message.pop().is_none() {
            bail!("chromium has ended");
        }
        serde_json::from_slice(&message).context("reading a message of chromium")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The kernel ends it with this thread otherwise.
        let _ = self.call("Browser.close", &json!({}));
        let _ = self.chromium.kill();
        let _ = self.chromium.wait();
    }
}

/// Without a sandbox, because tests run as root; without any request of the browser's own.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
];
