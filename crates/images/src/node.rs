//! Packages of npm for an image: installed beside it, by this machine's npm with its own settings.
//! They are nothing but files, and none of their scripts is run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::definition::{Definition, Kit};
use crate::error::ImageError;

/// Where packages are in an image, seen from its `/usr/local/bin`.
const FROM_BIN: &str = "../lib/cofferdam";

/// Something that npm is to install in a directory of its own.
pub(crate) struct Project {
    pub(crate) name: &'static str,
    /// Its `package.json`, and a lock file if every version is fixed.
    files: Vec<(&'static str, String)>,
    /// A program in a package that says of none that it has it.
    program: Option<(String, &'static str)>,
}

/// What npm has to install for a definition.
pub(crate) fn projects(definition: &Definition) -> Result<Vec<Project>, ImageError> {
    let mut projects = Vec::new();
    if definition.parts.contains(&Kit::TypeScript) {
        let recipe = Kit::TypeScript.recipe()?;
        let program = recipe.needs().first().map(|package| (package.clone(), "deno"));
        projects.push(Project { name: "typescript", files: recipe.files().to_vec(), program });
    }
    if !definition.npm.is_empty() {
        let versions: serde_json::Map<String, serde_json::Value> =
            definition.npm.iter().map(|word| split(word)).collect();
        let package = serde_json::json!({ "private": true, "dependencies": versions });
        let files = vec![("package.json", package.to_string())];
        projects.push(Project { name: "packages", files, program: None });
    }
    Ok(projects)
}

/// `@scope/name@version` as a dependency.
fn split(word: &str) -> (String, serde_json::Value) {
    let at = word.char_indices().skip(1).find(|(_, letter)| *letter == '@').map(|(at, _)| at);
    let (name, version) = at.map_or((word, ""), |at| word.split_at(at));
    let version = version.strip_prefix('@').unwrap_or("*");
    (name.to_owned(), version.into())
}

impl Project {
    /// The files that say what is to be installed.
    pub(crate) fn files(&self) -> &[(&'static str, String)] {
        &self.files
    }

    /// A program in a package that says of none that it has it.
    pub(crate) fn program(&self) -> Option<(&str, &'static str)> {
        self.program.as_ref().map(|(package, program)| (package.as_str(), *program))
    }

    /// Makes its directory in `node`.
    pub(crate) fn prepare(&self, node: &Path) -> Result<PathBuf, ImageError> {
        let place = node.join(self.name);
        fs::create_dir_all(&place).map_err(ImageError::system("make", &place))?;
        for (name, text) in &self.files {
            let path = place.join(name);
            fs::write(&path, text).map_err(ImageError::system("write", &path))?;
        }
        Ok(place)
    }

    /// What npm is told.
    pub(crate) fn arguments(&self) -> Vec<&'static str> {
        let verb = if self.files.len() > 1 { "ci" } else { "install" };
        vec![
            verb,
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--no-progress",
            // Where packages came from is this machine's affair, and npm notes it in the image.
            "--omit-lockfile-registry-resolved",
            "--fetch-retries=2",
            "--fetch-retry-mintimeout=1000",
            "--fetch-retry-maxtimeout=5000",
        ]
    }

    /// Makes links in `bin` to the programs that were installed.
    pub(crate) fn link(&self, node: &Path, bin: &Path) -> Result<(), ImageError> {
        let modules = node.join(self.name).join("node_modules");
        let inside = Path::new(FROM_BIN).join(self.name).join("node_modules");
        let mut links = Vec::new();
        if let Some((package, program)) = &self.program {
            links.push(((*program).to_owned(), inside.join(package).join(program)));
        }
        for entry in modules.join(".bin").read_dir().into_iter().flatten().flatten() {
            let text = fs::read_link(entry.path()).ok();
            let text = text.as_deref().and_then(|text| text.strip_prefix("..").ok());
            if let (Ok(name), Some(text)) = (entry.file_name().into_string(), text) {
                links.push((name, inside.join(text)));
            }
        }
        fs::create_dir_all(bin).map_err(ImageError::system("make", bin))?;
        for (name, target) in links {
            let path = bin.join(name);
            // A program of two packages is the first one's.
            if path.symlink_metadata().is_err() {
                symlink(target, &path).map_err(ImageError::system("make", &path))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A registry with one package, for as long as somebody asks.
    fn registry() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut header = tar::Header::new_gnu();
        let about = br#"{"name":"tiny","version":"1.0.0"}"#;
        header.set_size(about.len() as u64);
        header.set_mode(0o644);
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(gzip);
        builder.append_data(&mut header, "package/package.json", &about[..]).unwrap();
        let archive = builder.into_inner().unwrap().finish().unwrap();
        let tarball = format!("{address}/tiny/-/tiny-1.0.0.tgz");
        let version = serde_json::json!({ "name": "tiny", "version": "1.0.0", "dist": { "tarball": tarball } });
        let package = serde_json::json!({
            "name": "tiny", "dist-tags": { "latest": "1.0.0" }, "versions": { "1.0.0": version },
        });
        let package = package.to_string().into_bytes();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = String::new();
                BufReader::new(&stream).read_line(&mut asked).unwrap();
                let body = if asked.contains(".tgz ") { &archive } else { &package };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                std::io::copy(&mut stream.take(1 << 20), &mut std::io::sink()).ok();
            }
        });
        address
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests start programs on the host")]
    fn where_packages_came_from_is_not_noted() {
        let place = tempfile::tempdir().unwrap();
        let registry = registry();
        let install = |project: &Project, node: &str| {
            let directory = project.prepare(&place.path().join(node)).unwrap();
            let ran = std::process::Command::new("npm")
                .args(project.arguments())
                .current_dir(&directory)
                .env("NPM_CONFIG_USERCONFIG", "/dev/null")
                .env("npm_config_registry", &registry)
                .env("npm_config_cache", place.path().join("cache"))
                .env("no_proxy", "127.0.0.1")
                .output()
                .unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            assert!(directory.join("node_modules/tiny/package.json").exists());
            let locks = ["package-lock.json", "node_modules/.package-lock.json"];
            locks.map(|name| fs::read_to_string(directory.join(name)).unwrap())
        };
        let npm = vec!["tiny".to_owned()];
        let definition = Definition { npm, parts: Vec::new(), ..Definition::agent().unwrap() };
        let mut project = projects(&definition).unwrap().remove(0);
        let locks = install(&project, "first");
        project.files.push(("package-lock.json", locks[0].clone()));
        let again = install(&project, "second");
        for text in locks.iter().chain(&again) {
            assert!(text.contains("node_modules/tiny"), "{text}");
            assert!(!text.contains("resolved") && !text.contains("127.0.0.1"), "{text}");
        }
    }

    #[test]
    fn a_package_may_have_a_scope_and_a_version() {
        for (word, name, version) in [
            ("tsx", "tsx", "*"),
            ("tsx@4.19.2", "tsx", "4.19.2"),
            ("@types/node", "@types/node", "*"),
            ("@types/node@^22", "@types/node", "^22"),
        ] {
            assert_eq!(split(word), (name.to_owned(), version.into()), "{word}");
        }
    }

    #[test]
    fn programs_are_linked_as_the_image_will_see_them() {
        let place = tempfile::tempdir().unwrap();
        let definition = Definition {
            npm: vec!["tool@1".to_owned()],
            parts: vec![Kit::TypeScript],
            ..Definition::agent().unwrap()
        };
        let projects = projects(&definition).unwrap();
        let names: Vec<_> = projects.iter().map(|project| project.arguments()[0]).collect();
        assert_eq!(names, ["ci", "install"]);
        let (node, bin) = (place.path().join("node"), place.path().join("bin"));
        for project in &projects {
            let made = project.prepare(&node).unwrap();
            fs::create_dir_all(made.join("node_modules/.bin")).unwrap();
        }
        symlink("../tool/cli.js", node.join("packages/node_modules/.bin/tool")).unwrap();
        symlink("/etc/passwd", node.join("packages/node_modules/.bin/odd")).unwrap();
        for project in &projects {
            project.link(&node, &bin).unwrap();
        }
        let tool = fs::read_link(bin.join("tool")).unwrap();
        assert_eq!(tool, Path::new("../lib/cofferdam/packages/node_modules/tool/cli.js"));
        let deno = fs::read_link(bin.join("deno")).unwrap();
        assert!(deno.starts_with("../lib/cofferdam/typescript/node_modules/@deno"), "{deno:?}");
        assert!(bin.join("odd").symlink_metadata().is_err());
    }
}
