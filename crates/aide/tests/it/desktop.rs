//! A desktop for a test, gone with everything it started when the test is over.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cofferdam_aide_protocol as protocol;
use cofferdam_aide_protocol::{DeskPiece, DeskStop};
use cofferdam_guest_protocol::RecordDecoder;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

/// Nothing that goes well takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A desktop that runs.
pub(crate) struct Desktop {
    pub(crate) keeper: Child,
    decoder: RecordDecoder,
    pub(crate) is: protocol::Desktop,
    home: Home,
}

/// Where the files of desktops go.
pub(crate) struct Home {
    pub(crate) directory: tempfile::TempDir,
    /// Where programs are looked for.
    pub(crate) path: String,
}

/// A picture that was taken.
pub(crate) struct Picture {
    pub(crate) is: protocol::Picture,
    rgb: Vec<u8>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        Self { directory: tempfile::tempdir().unwrap(), path }
    }

    /// One where only these programs can be found.
    pub(crate) fn with_programs(names: &[&str]) -> Self {
        let mut home = Self::new();
        let bin = home.directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in names {
            let program = Path::new("/usr/bin").join(name);
            assert!(program.exists(), "{name} is not installed");
            std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
        }
        home.path = bin.to_str().unwrap().to_owned();
        home
    }

    /// Puts a script where programs are looked for.
    pub(crate) fn put_script(&self, name: &str, script: &str) {
        let file = Path::new(&self.path).join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn desk(&self, words: &str) -> Command {
        let mut command = program(env!("CARGO_BIN_EXE_cofferdam-aide"));
        command.arg("desk").args(words.split_whitespace());
        command.env("COFFERDAM_AIDE_STATE", self.directory.path().join("state"));
        command.env("HOME", self.directory.path()).env("PATH", &self.path);
        command.env_remove("DISPLAY").env_remove("XAUTHORITY");
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end. Gives what it says.
    pub(crate) fn run(&self, words: &str, stdin: &str) -> Vec<DeskPiece> {
        let mut command = self.desk(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let mut decoder = RecordDecoder::default();
        decoder.push(&output.stdout);
        let mut pieces = Vec::new();
        while let Some(piece) = decoder.next_record().unwrap() {
            pieces.push(piece);
        }
        let failed = matches!(pieces.last(), Some(DeskPiece::Failed(_)));
        assert_eq!(output.status.success(), !failed, "{pieces:?}");
        pieces
    }

    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.directory.path().join("state").join(format!("desk-{name}"))
    }
}

impl Desktop {
    pub(crate) fn start() -> Self {
        Self::start_in(Home::new(), "start")
    }

    pub(crate) fn start_in(home: Home, words: &str) -> Self {
        let mut keeper = home.desk(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut decoder = RecordDecoder::default();
        let is = match next(&mut keeper, &mut decoder) {
            Some(DeskPiece::Ready(is)) => is,
            other => {
                keeper.wait().unwrap();
                panic!("it did not start: {other:?}");
            }
        };
        Self { keeper, decoder, is, home }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Does an action with these options.
    pub(crate) fn act_with(&self, options: &str, action: &Value) -> Vec<DeskPiece> {
        self.home.run(&format!("act {options}"), &action.to_string())
    }

    /// Does an action that must not fail, and gives what it says before the end.
    pub(crate) fn act(&self, action: &Value) -> Vec<DeskPiece> {
        let mut pieces = self.act_with("", action);
        assert_eq!(pieces.pop(), Some(DeskPiece::Done), "{action}");
        pieces
    }

    pub(crate) fn screenshot(&self) -> Picture {
        Picture::of(&self.act(&json!({"action": "screenshot"})))
    }

    pub(crate) fn windows(&self) -> Vec<protocol::Window> {
        match self.act(&json!({"action": "windows"})).as_slice() {
            [DeskPiece::Windows { windows, left_out: 0 }] => windows.clone(),
            other => panic!("no windows: {other:?}"),
        }
    }

    /// Runs a program on this desktop.
    pub(crate) fn program(&self, path: &str) -> Command {
        let mut command = program(path);
        command.env("DISPLAY", &self.is.display).env("XAUTHORITY", &self.is.authority);
        command.env("LC_ALL", "C.UTF-8").env("HOME", self.home.directory.path());
        command.env_remove("SESSION_MANAGER").env_remove("XMODIFIERS");
        command
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.keeper.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for its end, and gives why.
    pub(crate) fn ended(&mut self) -> DeskStop {
        let piece = next(&mut self.keeper, &mut self.decoder);
        assert!(self.keeper.wait().unwrap().success(), "{piece:?}");
        match piece {
            Some(DeskPiece::Stopped(why)) => why,
            other => panic!("it did not say why it ended: {other:?}"),
        }
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        if matches!(self.keeper.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            self.keeper.wait().unwrap();
        }
    }
}

impl Picture {
    pub(crate) fn of(pieces: &[DeskPiece]) -> Self {
        let mut pieces = pieces.iter();
        let Some(DeskPiece::Picture(is)) = pieces.next() else { panic!("no picture") };
        let mut bytes = Vec::new();
        for piece in pieces {
            let DeskPiece::PictureBytes(more) = piece else { panic!("{piece:?} in a picture") };
            bytes.extend_from_slice(more);
        }
        assert_eq!(bytes.len() as u64, is.bytes);
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgb).unwrap();
        assert_eq!((info.width, info.height), (is.size.width, is.size.height));
        Self { is: *is, rgb }
    }

    pub(crate) fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        let start = (y * self.is.size.width + x) as usize * 3;
        self.rgb[start..start + 3].try_into().unwrap()
    }

    /// How many pixels have this colour.
    pub(crate) fn count(&self, colour: [u8; 3]) -> usize {
        self.rgb.chunks(3).filter(|pixel| *pixel == colour).count()
    }
}

/// The next thing that a keeper says.
fn next(keeper: &mut Child, decoder: &mut RecordDecoder) -> Option<DeskPiece> {
    let stdout = keeper.stdout.as_mut().unwrap();
    loop {
        if let Some(piece) = decoder.next_record().unwrap() {
            return Some(piece);
        }
        let mut bytes = [0; 4096];
        match stdout.read(&mut bytes).unwrap() {
            0 => return None,
            length => decoder.push(&bytes[..length]),
        }
    }
}

/// A graphical program that says on its stdout what happens to it.
pub(crate) struct Talker {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Talker {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, heard) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                heard.lock().unwrap().push(line);
            }
        });
        Self { child, said }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it says something that begins so, and gives the rest of it.
    pub(crate) fn says(&self, beginning: &str) -> String {
        let find = || {
            let said = self.said();
            said.iter().find_map(|line| Some(line.strip_prefix(beginning)?.trim().to_owned()))
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = find() {
                return found;
            }
            assert!(Instant::now() < deadline, "never said: {beginning}, only {:?}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Forgets what it has said.
    pub(crate) fn forget(&self) {
        self.said.lock().unwrap().clear();
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // It may have ended by itself.
        kill_process_group(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::KILL)
            .ok();
        self.child.wait().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "the aide and what it shows are under test")]
pub(crate) fn program(path: &str) -> Command {
    Command::new(path)
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that belong to a desktop with this directory.
pub(crate) fn processes_of(directory: &Path) -> Vec<String> {
    let mark = format!("COFFERDAM_DESK={}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
            found.push(fs::read_to_string(entry.path().join("comm")).unwrap_or_default());
        }
    }
    found
}
